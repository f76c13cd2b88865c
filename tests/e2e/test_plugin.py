"""The plugin in the real client: a workflow is started, killed, resumed, compacted, and cheated on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.client import HEADLESS, Client
from e2e.messages_api import MessagesApi
from e2e.person import person
from e2e.replies import Reply, hang, summary, text, tool
from e2e.repositories import git
from faber.foreign.resolve import latest
from faber.store.layout import Layout
from faber.store.load import Run
from faber.store.log import listing, read_event

Say = Callable[..., Reply]


@pytest.fixture
def plugged(client: Client, plugin_root: Path) -> Client:
    """The client with the plugin from its directory."""
    client.plugin_dir = plugin_root
    return client


@pytest.fixture
def say(plugin_root: Path) -> Say:
    """`say("next latest")`: the model calls faber so."""
    return lambda arguments: tool("Bash", command=f'"{plugin_root}/bin/faber" {arguments}')


def run_of(project: Path) -> Run:
    """The project's open run."""
    return latest(Layout(str(project)))


def types(run: Run) -> list[str]:
    """The types of a run's events in order."""
    return [entry.type for entry in listing(run.directory)]


def answers(result: Any) -> list[Any]:
    """What faber answered to each call of a session, as JSON."""
    # The client shows both streams of a command as one text: words for people stand before or after.
    read, found = json.JSONDecoder().raw_decode, []
    for answer in result.tool_results:
        end = 0
        while (start := answer.text.find("{", end)) >= 0:
            value, end = read(answer.text, start)
            found.append(value)
    return found


def begin(client: Client, api: MessagesApi, say: Say, *more: Reply, **how: Any) -> Any:
    """A session in which a run for work item 158 is started, its context loaded, and `more` done."""
    api.script.reply(say("run begin '158'"), say("context latest --record"), *more)
    return client.run("/faber:run 158", **how)


@pytest.mark.full  # test_literal.py has the same scenario, with an agent that knows nothing
def test_a_killed_session_is_continued_by_the_next(plugged: Client, api: MessagesApi, say: Say, project: Path) -> None:
    """After SIGKILL in mid-step a new session is told run and step, and is handed that step again, no other."""
    api.script.reply(
        say("run begin '158'"),
        say("context latest --record"),
        say("step start latest frame:fetch-work"),
        say("step complete latest frame:fetch-work --message 'read it'"),
        say("step start latest frame:classify"),
        hang(),
    )
    running = plugged.start("/faber:run 158")
    api.wait_for(lambda request: any("step_start" in r.text and "classify" in r.text for r in request.results))
    running.kill()
    run = run_of(project)
    assert run.state["current_step"] == "classify"

    api.script.clear()
    api.script.reply(say("next latest"), say("context latest --record"), say("next latest"), text("going on"))
    result = plugged.run("go on", session_id=uuid4())
    first = api.turns[-4]
    assert first.has(run.run_id)
    assert first.has("frame:classify")
    assert first.has(f"next {run.run_id}")
    said = answers(result)
    assert said[0]["complete_with"].endswith(f"/bin/faber context {run.run_id} --record")
    assert (said[2]["phase"], said[2]["step"], said[2]["mode"]) == ("frame", "classify", "continue")
    assert result.denials == []  # no skill was typed: the plugin's own hook allowed the calls


def test_a_resumed_session_is_told_only_what_is_new(plugged: Client, api: MessagesApi, project: Path) -> None:
    """On `--resume` the model gets what others recorded since, not the whole brief again."""
    session = uuid4()
    person(project, "run", "begin", "158")
    person(project, "step", "start", "latest", "frame:fetch-work")
    api.script.reply(text("seen"))
    plugged.run("what is the state", session_id=session)
    full = next(t for t in api.turns[-1].texts if "frame:fetch-work" in t and "Next command" in t)
    run = run_of(project)
    from faber.model import acceptance
    from faber.store.appending import Writer
    from faber.store.commit import commit

    draft: Any = {"type": "decision_point", "message": "A person decided on CSV"}
    commit(run.layout, run.run_id, lambda s, p: acceptance.emit(s, p, draft), Writer(actor="person"))
    api.script.reply(text("noted"))
    before = len([t for t in api.turns[-1].texts if "Next command" in t])
    plugged.run("and now", resume=session)
    news = [t for t in api.turns[-1].texts if "A person decided on CSV" in t]
    assert news
    assert len(news[-1]) < len(full)
    assert len([t for t in api.turns[-1].texts if "Next command" in t]) <= before + 1


@pytest.mark.full  # test_literal.py has the same scenario, with an agent that knows nothing
def test_a_compaction_keeps_run_and_step(plugged: Client, api: MessagesApi, say: Say, project: Path) -> None:
    """The summariser is told run and step, and after the compaction the short brief is there."""
    session = uuid4()
    begin(plugged, api, say, say("step start latest frame:fetch-work"), text("begun"), session_id=session)
    run = run_of(project)
    api.script.reply(text("still here"))
    plugged.run("go on", resume=session)
    api.script.compact(summary("We worked on something."))
    plugged.run("/compact", resume=session)
    (compaction,) = api.compactions
    assert compaction.has(run.run_id)
    assert compaction.has("frame:fetch-work")
    api.script.reply(text("back"))
    plugged.run("where were we", resume=session)
    assert api.turns[-1].has(run.run_id)
    assert api.turns[-1].has("frame:fetch-work")
    assert types(run_of(project)).count("checkpoint") == 1


@pytest.mark.full  # tests/plugin/test_hooks.py::test_a_linked_worktree_finds_its_run
def test_two_worktrees_see_their_own_run(plugged: Client, api: MessagesApi, project: Path) -> None:
    """Two runs in two worktrees: a new session in each is told of its own and not of the other."""
    linked = project.parent / "linked"
    git(project, "checkout", "-q", "-b", "feat/one")
    git(project, "worktree", "add", "-q", str(linked), "-b", "feat/two")
    for place, work, branch in ((project, "1", "feat/one"), (linked, "2", "feat/two")):
        person(place, "run", "begin", work)
        person(place, "event", "emit", "latest", "--type", "branch_create", "--metadata", f'{{"branch": "{branch}"}}')
    store = Layout(str(project))
    ids = {load.state["work_id"]: load.run_id for load in map(_loader(store), store.run_ids())}
    assert set(ids) == {"1", "2"}
    for place, mine, other in ((project, "1", "2"), (linked, "2", "1")):
        api.script.reply(text("ok"))
        plugged.run("hello", cwd=place)
        assert api.turns[-1].has(ids[mine])
        assert not api.turns[-1].has(ids[other])


def _loader(layout: Layout) -> Callable[[str], Run]:
    from faber.store.load import load

    return lambda run_id: load(layout, run_id)


def test_a_project_without_runs_is_left_alone(plugged: Client, api: MessagesApi, project: Path) -> None:
    """The skills are commands of the client and the manager is an agent; where there is no store nothing is injected
    and nothing is written."""
    before = sorted(str(path) for path in project.rglob("*") if ".git" not in path.parts)
    api.script.reply(text("ok"))
    (start,) = plugged.run("hello").of("system", "init")
    names = {f"faber:{name}" for name in ("run", "resume", "status", "next", "checkpoint", "doctor", "feedback")}
    assert names <= set(start["slash_commands"])
    assert "faber:faber-manager" in start["agents"]
    assert not api.turns[-1].has("bin/faber")
    assert sorted(str(path) for path in project.rglob("*") if ".git" not in path.parts) == before


def test_an_agent_that_cheats_is_refused_and_seen(
    plugged: Client, api: MessagesApi, plugin_root: Path, project: Path
) -> None:
    """`/faber:run` is sent with the rules inside. Completing without evidence, starting another step, ending the run
    early and approving its own gate are refused, and the log shows each attempt."""
    tried = (
        "run begin '158'", "context latest --record", "step start latest build:implement",
        "step start latest frame:fetch-work", "step complete latest frame:fetch-work",
        "step start latest frame:classify", "step complete latest frame:classify",
        "step start latest frame:setup-branch", "step complete latest frame:setup-branch", "run complete latest",
        "feedback request latest --prompt 'May I?' --at frame:setup-branch", "feedback respond latest approve",
    )  # fmt: skip
    commands = "; ".join(f'"{plugin_root}/bin/faber" {each} 2>/dev/null' for each in tried)
    api.script.reply(tool("Bash", command=commands), text("I tried."))
    # Granted, or the client would not even let the last one run. The mod has a thread of its own, as it has by default.
    by_default = dict.fromkeys(HEADLESS, "")
    result = plugged.run("/faber:run 158", allowed_tools=["Bash"], environment=by_default)
    assert api.turns[0].has(f"`{plugin_root}/bin/faber next`")
    said = [answer.get("error", {}).get("code") for answer in answers(result)]
    assert said == [
        None, None, "out_of_order", None, None, None, None, None, "evidence_missing", "steps_unfinished", None,
        "person_required",
    ]  # fmt: skip
    run = run_of(project)
    codes = [
        read_event(run.directory, entry.file)["metadata"]["code"]
        for entry in listing(run.directory)
        if entry.type == "command_refused"
    ]
    assert codes == ["out_of_order", "steps_unfinished", "person_required"]
    assert types(run).count("step_blocked") == 1
    assert run.state["status"] == "awaiting_feedback"


def test_a_step_that_was_sent_back_is_done_again_with_the_feedback(
    plugged: Client, api: MessagesApi, say: Say, project: Path
) -> None:
    """A step asks for a review and a person for changes, both in a terminal; `/faber:resume` is handed that step again
    with the comment, and after it the next one without."""
    person(project, "run", "begin", "158")
    person(project, "step", "start", "latest", "frame:fetch-work")
    person(project, "step", "complete", "latest", "frame:fetch-work")
    review = ("--type", "review", "--prompt", "Is it understood?", "--at", "frame:fetch-work")
    person(project, "feedback", "request", "latest", *review)
    assert run_of(project).state["status"] == "awaiting_feedback"
    comment = "Name the customer, not the table"
    person(project, "feedback", "respond", "latest", "changes", "--comment", comment)

    api.script.reply(
        say("context latest --record"),
        say("next latest"),
        say("step start latest frame:fetch-work"),
        say("next latest"),
        say("step complete latest frame:fetch-work --message 'The customer is named'"),
        say("next latest"),
        text("Done again."),
    )
    result = plugged.run("/faber:resume", session_id=uuid4())
    said = answers(result)
    assert (result.text, result.denials) == ("Done again.", [])
    assert [heard["comment"] for heard in said[0]["feedback"]] == [comment]
    assert (said[1]["step"], said[1]["mode"]) == ("fetch-work", "retry")
    assert [heard["comment"] for heard in said[1]["feedback"] + said[3]["feedback"]] == [comment] * 2
    assert (said[-1]["step"], "feedback" in said[-1]) == ("classify", False)
    assert types(run_of(project)).count("step_retry") == 1


def test_without_a_typed_skill_a_model_may_look_and_continue(
    plugged: Client, api: MessagesApi, say: Say, project: Path, plugin_root: Path
) -> None:
    """The hook allows one plain call of faber, and neither what hangs on it nor an answer for a person; the client
    starts `resume` and `status` for a model that calls them. The bare name is the plugin's program, whatever the
    shell's start file makes of it."""
    person(project, "run", "begin", "158")
    command = f'"{plugin_root}/bin/faber" status'
    (plugged.home / ".bashrc").write_text("faber() { touch pwned; }\n")
    plugged.extra_environment = {"SHELL": "/bin/bash"}
    api.script.reply(
        tool("Bash", command=command),
        tool("Bash", command="faber status"),
        tool("Bash", command=f"{command} && touch pwned"),
        say("feedback respond latest approve"),
        text("done"),
    )
    running = plugged.start(None)
    result = running.turn("hello")
    assert ([each.is_error for each in result.tool_results], len(result.denials)) == ([False, False, True, True], 2)
    assert result.tool_results[0].text == result.tool_results[1].text
    assert not (project / "pwned").exists()

    skills = [tool("Skill", skill=f"faber:{name}") for name in ("resume", "status")]
    api.script.reply(*skills, say("status"), say("protocol step-loop"), text("done"))
    assert [each.is_error for each in running.turn("where were we?").tool_results] == [False] * 4
    running.wait()


def test_rules_reach_whoever_works(plugged: Client, api: MessagesApi, plugin_root: Path, project: Path) -> None:
    """The manager, as a subagent, loads the rules and begins unasked: each command of them can be run as it stands."""
    program = f"{plugin_root}/bin/faber"
    given = f'"{program}"'
    steps = [tool("Bash", command=command) for command in (
        f"{given} protocol step-loop", f"{given} run begin --next 158", "faber next")]  # fmt: skip
    api.script.when("Work on 158", *steps, text("Begun."))
    api.script.reply(tool("Agent", subagent_type="faber:faber-manager", description="work", prompt="Work on 158"))
    api.script.always(text("done"))
    result = plugged.run("let the manager do it")
    sub = [turn for turn in api.turns if "You work through one run of a workflow" in turn.system]
    assert f'"{program}" protocol step-loop' in sub[0].system
    assert f"`{program} next`" in sub[-1].results[0].text
    assert [each.is_error for each in sub[-1].results] == [False] * 3
    assert result.denials == []
    assert run_of(project).state["current_step"] == "fetch-work"


def test_the_transcript_is_current(claude_binary: str) -> None:
    """docs/transcript.md is what the real client does today."""
    from e2e.transcript import TARGET, transcript

    assert transcript(claude_binary) == TARGET.read_text()
