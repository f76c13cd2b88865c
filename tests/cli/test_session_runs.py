"""The run of a session: what a command means that names no run, or `latest`, inside one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.hooks.hook_call import Call
from faber.hooks.start import session_start
from faber.store.layout import Layout

Faber = Callable[..., Any]
Enter = Callable[[str | None], None]


@pytest.fixture
def two(faber: Faber, session: Enter) -> None:
    """Run `r-10` of session b, then run `r-11` of session a, which is the most recently active one."""
    for name, run_id in (("b", "r-10"), ("a", "r-11")):
        session(name)
        assert faber("run", "init", "--run-id", run_id).status == 0
    assert faber("step", "start", "r-11", "frame:fetch-work").status == 0


def began(project: Path, name: str) -> None:
    """The client starts the session in the project's directory."""
    session_start(Call({"source": "startup"}, name, Layout(str(project)), str(project), "/bin/faber"))


def test_latest_is_the_session_s_own_run(faber: Faber, two: None, session: Enter) -> None:
    """When session a works on run 11, what session b saves under `latest` lands in b's run 10."""
    session("b")
    saved = faber("session", "save", "latest", "--accomplished", "Wrote the plan").json
    assert saved["run_id"] == "r-10"


def test_outside_a_session_latest_is_the_most_recently_active_run(faber: Faber, two: None, session: Enter) -> None:
    """A person in a plain terminal gets the run that was active last."""
    session(None)
    assert faber("next", "latest").json["run_id"] == "r-11"
    assert faber("next").json["run_id"] == "r-11"


def test_a_run_that_a_session_was_briefed_about_is_its_own(
    faber: Faber, project: Path, git: Callable[..., str], session: Enter
) -> None:
    """A session that recorded nothing yet means the run of its brief, though another was created here since."""
    faber("run", "init", "--run-id", "r-10")
    began(project, "b")
    faber("run", "init", "--run-id", "r-11")
    session("b")
    assert faber("run", "show").json["run_id"] == "r-10"
    faber("event", "emit", "r-11", "--type", "checkpoint")
    assert faber("run", "show").json["run_id"] == "r-11"  # the run it recorded an event in comes first
    faber("event", "emit", "r-10", "--type", "checkpoint")
    faber("run", "cancel", "r-10", "--reason", "not needed")
    assert faber("run", "show").json["run_id"] == "r-10"


def test_a_session_without_a_run_means_the_one_of_its_place(
    faber: Faber, project: Path, git: Callable[..., str], session: Enter
) -> None:
    """A session that no hook has briefed means the one run of the branch checked out here."""
    git("switch", "-q", "-c", "feat/10")
    faber("run", "init", "--run-id", "r-10")
    faber("event", "emit", "r-10", "--type", "branch_create", "--metadata", '{"branch": "feat/10"}')
    faber("run", "init", "--run-id", "r-11")
    faber("event", "emit", "r-11", "--type", "branch_create", "--metadata", '{"branch": "feat/11"}')
    session("c")
    assert faber("run", "show", "latest").json["run_id"] == "r-10"
    git("switch", "-q", "main")
    answer = faber("run", "show")  # both were started here: which one, a person says
    assert (answer.code, sorted(answer.json["error"]["candidates"])) == ("ambiguous_run", ["r-10", "r-11"])


NAMELESS = [
    ["context"],
    ["context", "--record"],
    ["next"],
    ["run", "show"],
    ["run", "resume"],
    ["phase", "start", "frame"],
    ["step", "start", "frame:fetch-work"],
    ["step", "complete", "frame:fetch-work", "--message", "done"],
    ["event", "emit", "--type", "checkpoint"],
    ["event", "list"],
    ["session", "list"],
    ["session", "save", "--accomplished", "a step"],
    ["feedback", "show"],
    ["feedback", "history"],
    ["step", "start", "frame:classify"],
    ["step", "fail", "frame:classify", "--error", "red"],
    ["run", "fail", "--error", "red"],
    ["feedback", "request", "--type", "confirmation", "--prompt", "Again?"],
]


def test_every_command_does_without_run(faber: Faber, two: None, session: Enter) -> None:
    """In a session each command that takes RUN may leave it out: it means the session's run, as `latest` does."""
    session("b")
    for arguments in NAMELESS:
        answer = faber(*arguments)
        assert (answer.status, answer.json["run_id"]) == (0, "r-10"), arguments


def test_one_argument_of_two_is_not_the_run(faber: Faber, two: None, session: Enter) -> None:
    """`step start PHASE:STEP` names the step, with RUN before it the run; without either it is an error of usage."""
    session("b")
    assert faber("step", "start", "frame:fetch-work").json["run_id"] == "r-10"
    assert faber("step", "complete", "latest", "frame:fetch-work").json["run_id"] == "r-10"
    assert faber("step", "start", "r-10", "frame:classify").json["run_id"] == "r-10"
    assert (faber("step", "start").status, faber("step", "start", "a", "b", "c").status) == (2, 2)
    answer = faber("step", "start", "r-10")
    assert answer.status == 2
    assert "PHASE:STEP" in answer.json["error"]["message"]


def test_a_run_that_is_over_is_still_the_session_s(faber: Faber, two: None, session: Enter) -> None:
    """A session whose run is over means that run, not a stranger's, until it begins another."""
    session("b")
    faber("run", "cancel", "r-10", "--reason", "not needed")
    assert (faber("next").json["run_id"], faber("next").json["action"]) == ("r-10", "done")
    before = faber("run", "show", "r-11").json["state"]["last_event_id"]
    for command in (["session", "save", "--accomplished", "all of it"], ["run", "fail", "--error", "red"]):
        assert faber(*command).code == "illegal_transition"
    assert faber("run", "show", "r-11").json["state"]["last_event_id"] == before
    faber("run", "begin", "Another task")
    assert faber("context").json["target"] == "Another task"


@pytest.mark.parametrize("command", [["context", "--record"], ["next"], ["session", "save", "--accomplished", "x"]])
def test_a_session_never_chooses(faber: Faber, two: None, session: Enter, command: list[str]) -> None:
    """Where SessionStart would ask a person which run to continue, a command without RUN names the candidates."""
    session("c")
    answer = faber(*command)
    assert (answer.status, answer.code) == (2, "ambiguous_run")
    assert sorted(answer.json["error"]["candidates"]) == ["r-10", "r-11"]
    assert "Ask the person" in answer.json["error"]["recovery"]


def test_a_session_elsewhere_never_chooses(
    faber: Faber, two: None, session: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session in whose place no run is open means the one open run of the store; of several it names none."""
    monkeypatch.setattr("faber.hooks.run_lookup.index.WORKTREES", "elsewhere")
    session("c")
    assert sorted(faber("next").json["error"]["candidates"]) == ["r-10", "r-11"]
    faber("run", "cancel", "r-10", "--reason", "not needed")
    session("d")
    assert faber("run", "show").json["run_id"] == "r-11"


def test_only_the_holder_fails_a_run(faber: Faber, two: None, session: Enter) -> None:
    """`run fail` is work on the run: in another session than its holder's it is refused."""
    session("b")
    assert faber("run", "fail", "r-11", "--error", "red").code == "held_elsewhere"
    session("a")
    assert faber("run", "fail", "--error", "red").json["run_id"] == "r-11"


ENDING = [
    ["run", "complete"],
    ["run", "fail", "--error", "oops"],
    ["run", "cancel", "--reason", "oops"],
    ["run", "takeover"],
    ["run", "adopt"],
    ["phase", "skip", "frame"],
    ["step", "skip", "frame:classify"],
]


@pytest.mark.parametrize("command", ENDING, ids=lambda command: " ".join(command[:2]))
def test_a_person_names_the_run_that_ends(faber: Faber, two: None, session: Enter, command: list[str]) -> None:
    """In a plain terminal what ends or overrides something takes no run where several are open."""
    session(None)
    answer = faber(*command)
    assert (answer.status, answer.code) == (2, "ambiguous_run")
    assert answer.json["error"]["candidates"] == ["r-11", "r-10"]
    assert faber("run", "show", "r-11").json["state"]["status"] == "in_progress"


def test_the_only_open_run_needs_no_name(faber: Faber, two: None, session: Enter) -> None:
    """With one open run, and for `latest`, a person need not name the run that ends; with none there is none."""
    session(None)
    assert faber("run", "cancel", "latest", "--reason", "oops").json["run_id"] == "r-11"
    assert faber("run", "cancel", "--reason", "oops").json["run_id"] == "r-10"
    assert faber("run", "cancel", "--reason", "oops").code == "run_not_found"


def test_without_a_run_there_is_none(faber: Faber, session: Enter) -> None:
    """Where no run is open, a command without RUN says so, in a session or not."""
    for name in ("s", None):
        session(name)
        assert faber("next").code == "run_not_found"


# --- the task --------------------------------------------------------------------------------------

TASK = "Add a CSV export"


def test_the_words_that_began_a_run_reach_whoever_works_on_it(faber: Faber, project: Path) -> None:
    """The task of a run created from words is in its context (JSON and text), its next step and its status."""
    run = faber("run", "begin", TASK).json["run_id"]
    assert faber("context", run).json["target"] == TASK
    assert TASK in faber("context", run, "--format", "text").out
    assert faber("next", run).json["target"] == TASK
    assert f"Task    {TASK}" in faber("status", run).out


def test_a_long_task_is_shortened(faber: Faber) -> None:
    """`next` has 300 characters of the task, one line of inert text; the context has all of it."""
    words = "Export \x1b[31mred\u202e rows " + "and more " * 100
    run = faber("run", "begin", words).json["run_id"]
    shown = faber("next", run).json["target"]
    assert len(shown) == 300
    assert "\x1b" not in shown + faber("context", run, "--format", "text").out
    assert "\u202e" not in shown
    assert faber("context", run).json["target"].startswith("Export [31mred rows and more")
    assert faber("context", run).json["target"].count("and more") == 100
