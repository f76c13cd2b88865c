"""Runs inside the client's terminal: what the mod draws, and what the monitor tells the session."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.client import WINDOW, Client
from e2e.messages_api import MessagesApi
from e2e.replies import text
from e2e.typist import starts
from faber.feedback.requests import NewRequest, open_request, respond
from faber.model import commands
from faber.store import index
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.workflows.definitions import load_plan

RUN = "org/project/one"


@pytest.fixture
def store(project: Path) -> Layout:
    """The project's store, with a run that was started here and asks something."""
    layout = Layout(str(project))
    create_run(layout, NewRun(RUN, load_plan(layout, "default"), "158", None, "guarded", "person"))
    index.bind(layout, index.WORKTREES, str(project), RUN)
    commit(layout, RUN, lambda state, plan: commands.start_step(state, plan, "frame", "fetch-work"))
    ask(layout, "fr-1", "Is it understood?")
    return layout


def ask(layout: Layout, request_id: str, prompt: str) -> None:
    """The run asks for an approval."""
    commit(layout, RUN, lambda state, plan: open_request(state, plan, NewRequest(request_id, "approval", prompt)))


def answer(layout: Layout, request_id: str) -> None:
    """A person approves elsewhere."""
    commit(
        layout,
        RUN,
        lambda state, plan: respond(state, plan, request_id=request_id, response="approve", comment=None),
        Writer(None, "person"),
    )


@pytest.fixture(params=["newest", "oldest"])
def plugged(
    request: pytest.FixtureRequest,
    needed: Callable[[str | None, str], str],
    api: MessagesApi,
    project: Path,
    plugin_root: Path,
    tmp_path: Path,
) -> Iterator[Client]:
    """The client of one end of the window, with the plugin installed as people install it."""
    variable = WINDOW[request.param]
    binary = needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")
    made = Client(binary, tmp_path / "home", project, api)
    made.install(plugin_root)
    yield made
    made.close()


@pytest.mark.full
@pytest.mark.parametrize("plugged", ["newest"], indirect=True)
def test_the_client_shows_runs_and_hears_answers(plugged: Client, api: MessagesApi, store: Layout) -> None:
    """The status line and `/faber:status` show the run and a toast each new question, all without a request to the
    model. An answer from elsewhere wakes the session, once."""
    with starts(plugged) as person:
        person.sees("asks: Is it understood\\? · frame:fetch-work")
        at = person.types("/faber:status")
        person.sees("waits for a person: Is it understood\\?", since=at)
        at = person.types("/faber:watch")
        person.sees("The board of the open runs is in the pane", since=at)
        at = len(person.shown)
        ask(store, "fr-2", "And the tests?")
        answer(store, "fr-1")
        person.sees("asks: And the tests\\?", since=at, timeout=60)
        assert [each for each in api.turns if "faber: run" not in str(each.body)] == []
        api.script.reply(text("I continue."))
        answer(store, "fr-2")
        person.sees("I continue", since=at, timeout=60)
        assert sum("feedback_received" in str(each.body) for each in api.turns) == 1


@pytest.mark.full
@pytest.mark.parametrize("plugged", ["oldest"], indirect=True)
def test_an_older_client_ignores_both(plugged: Client, api: MessagesApi, store: Layout) -> None:
    """A client without mods and monitors starts with the plugin as before, and its skill answers."""
    with starts(plugged) as person:
        person.sees("waits for your answer")
        api.script.reply(text("The run waits."))
        at = person.types("/faber:status")
        person.sees("The run waits", since=at)
        assert len(api.turns) == 1
