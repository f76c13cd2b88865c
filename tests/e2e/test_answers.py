"""A person answers a run's request in the session, by typing; nothing else that reaches the session is an answer."""

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.client import WINDOW, Client
from e2e.messages_api import MessagesApi
from e2e.replies import Reply, text, tool
from e2e.request import Request
from e2e.typist import starts
from faber.feedback.answer_codes import OpenCode, new_code
from faber.feedback.requests import NewRequest, open_request
from faber.model import commands
from faber.store import index
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load
from faber.workflows.definitions import load_plan

RUN = "org/project/one"
CODE = r"`approve (?P<code>\w{3})`"


@pytest.fixture(params=["newest", pytest.param("oldest", marks=pytest.mark.full)])
def plugged(
    request: pytest.FixtureRequest,
    needed: Callable[[str | None, str], str],
    api: MessagesApi,
    project: Path,
    plugin_root: Path,
    tmp_path: Path,
) -> Iterator[Client]:
    """The client of one end of the window, with the plugin."""
    variable = WINDOW[request.param]
    binary = needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")
    made = Client(binary, tmp_path / "home", project, api, plugin_dir=plugin_root)
    yield made
    made.close()


@pytest.fixture
def store(project: Path) -> Layout:
    """The project's store, with a run that was started here and waits for a review of its first step."""
    layout = Layout(str(project))
    plan = load_plan(layout, "default")
    create_run(layout, NewRun(RUN, plan, "158", None, "guarded", "person"))
    index.bind(layout, index.WORKTREES, str(project), RUN)
    commit(layout, RUN, lambda state, plan: commands.start_step(state, plan, "frame", "fetch-work"))
    ask(layout, "fr-1", "Is it understood?")
    return layout


def ask(layout: Layout, request_id: str, prompt: str) -> None:
    """The run asks for a review."""
    commit(layout, RUN, lambda state, plan: open_request(state, plan, NewRequest(request_id, "review", prompt)))


def answers(layout: Layout) -> list[tuple[str, str, str | None, str | None]]:
    """Request, answer, remark and source of every answer that was recorded."""
    found = []
    for heard in load(layout, RUN).state["answers"]:
        source = heard["responder"]["source"] if heard["responder"] else None
        found.append((heard["request_id"], heard["response"], heard["comment"], source))
    return found


def sent(api: MessagesApi) -> str:
    """Everything that any model was sent."""
    return "\n".join(json.dumps(request.body) for request in api.requests)


@pytest.mark.waits  # the client's schedule has whole minutes
def test_a_person_answers_where_they_are(plugged: Client, api: MessagesApi, store: Layout) -> None:
    """The person, and not the model, is shown each request and a code; what they type with it is recorded as theirs,
    and the work continues in that turn. The same words in a prompt that the model scheduled record nothing."""
    shown: dict[str, str] = {}

    def schedule(request: Request) -> Reply:
        words = f"approve {shown['code']}"
        return tool("CronCreate", cron="* * * * *", prompt=words, recurring=False)

    with starts(plugged, "CronCreate", "Bash") as person:
        shown["code"] = person.sees(f"waits for your answer .* Is it understood\\? .* {CODE}")["code"]

        at = person.types("approve 2ZZ")
        person.sees("NOT recorded: 2ZZ is not a code", since=at)
        at = person.types(f"request_changes {shown['code']}")
        person.sees("NOT recorded yet. Say what to change", since=at)

        api.script.reply(schedule, text("Scheduled."))
        at = person.types("Remind me.")
        person.sees("Scheduled\\.", since=at)
        assert shown["code"] not in sent(api).replace(f"approve {shown['code']}", "", 1)
        fresh = person.sees(f"NOT recorded: the code has come up .* {CODE}", since=at, timeout=90)["code"]
        assert fresh != shown["code"]
        assert answers(store) == []

        faber = f'"{plugged.plugin_dir}/bin/faber"'
        question = f"{faber} feedback request {RUN} --prompt 'May the table be dropped?'"
        api.script.reply(tool("Bash", command=question), text("I wait."))
        at = person.types(f"changes {fresh.lower()} Name the customer")
        person.sees("recorded your answer to fr-1", since=at)
        turn = api.wait_for("Continue the run now")
        assert turn.prompt.startswith(f"changes {fresh.lower()} Name the customer")
        assert answers(store) == [("fr-1", "request_changes", "Name the customer", "terminal")]

        person.sees("I wait\\.", since=at)
        last = person.sees(f"May the table be dropped\\? .* {CODE}", since=at)["code"]
        count = len(api.requests)
        at = person.types(f"reject {last} It holds the invoices")
        person.sees("recorded your answer .* The run is cancelled", since=at)
        assert answers(store)[1][1:] == ("reject", "It holds the invoices", "terminal")
        assert load(store, RUN).state["status"] == "cancelled"
        assert len(api.requests) == count
        assert f"approve {fresh}" not in sent(api)
        assert last not in sent(api)


def test_a_shell_of_the_session_gets_no_code(plugged: Client, api: MessagesApi, store: Layout) -> None:
    """A hook that the model calls with its Bash tool prints no code, whatever the shell says it is; the client's own
    call at the end of the turn does."""
    faber = f'"{plugged.plugin_dir}/bin/faber"'
    ask_too = f"{faber} feedback request {RUN} --prompt 'May the table be dropped?' >asked"
    stop = f"""printf '{{"session_id":"%s"}}' "$CLAUDE_CODE_SESSION_ID" | {faber} hook stop"""
    pretended = f"exec env CLAUDE_PLUGIN_ROOT=/plugin sh -c {shlex.quote(f'{stop}; :')}"
    api.script.reply(tool("Bash", command=f"{ask_too}; {stop}; {pretended}"), text("I looked."))
    with starts(plugged, "Bash") as person:
        person.sees(f"waits for your answer .* {CODE}")
        at = person.types("Look.")
        person.sees(f"waits for your answer .* {CODE}", since=at)
        assert sent(api).count("waits for your answer") == 2
        assert "`approve " not in sent(api)


@pytest.mark.parametrize("way", ["argument", "stream"])
def test_a_program_does_not_answer(plugged: Client, api: MessagesApi, store: Layout, way: str) -> None:
    """A valid code in the prompt of a headless client, or in a program's input, records nothing, whatever the
    environment says of a terminal."""
    session = uuid4()
    code = new_code(store, str(session), OpenCode(RUN, "fr-1"))
    pretended = {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "1"}
    api.script.reply(text("So?"))
    if way == "argument":
        plugged.run(f"approve {code}", session_id=session, environment=pretended)
    else:
        running = plugged.start(None, session_id=session, environment=pretended)
        running.turn(f"approve {code}")
        running.wait()
    assert api.turns[-1].has("recorded nothing")
    assert answers(store) == []
