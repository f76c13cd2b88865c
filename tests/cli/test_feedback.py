"""`faber feedback`: asking, answering, and who said what, from the command line."""

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faber.model import acceptance
from faber.store.commit import commit
from faber.store.layout import Layout

Faber = Callable[..., Any]
MAIN = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"
# Ctrl-C does not end a read: as if it always arrived just before one.
LATE = "import runpy, signal; signal.siginterrupt(signal.SIGINT, False); "
LATE += f"runpy.run_path({str(MAIN)!r}, run_name='__main__')"
SECONDS = 60  # after which a child that says nothing is hung


@pytest.fixture
def begun(faber: Faber, run: str) -> str:
    """A run with its first step in progress."""
    faber("step", "start", run, "frame:fetch-work")
    return run


def ask(faber: Faber, run: str, *arguments: str) -> str:
    """Open a request and answer its id."""
    given = arguments if "--prompt" in arguments else (*arguments, "--prompt", "Well?")
    answer = faber("feedback", "request", run, *given)
    assert answer.status == 0, answer.out
    return str(faber("feedback", "show", run).json["open"][-1]["request_id"])


# --- asking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("--type", "selection"), 2, "invalid_input"),
        (("--type", "selection", "--option", "a", "--option", "A"), 2, "invalid_input"),
        (("--type", "clarification", "--option", "a"), 2, "invalid_input"),
        (("--type", "vote"), 2, "usage"),
        (("--artifact", "../../etc/passwd"), 2, "invalid_input"),
        (("--artifact", "/etc/passwd"), 2, "invalid_input"),
        (("--at", "frame:nothing"), 2, "unknown_step"),
        (("--prompt", "x" * 2_001), 2, "invalid_input"),
    ],
)
def test_unfit_requests_are_refused(
    faber: Faber, begun: str, arguments: tuple[str, ...], status: int, code: str
) -> None:
    """A request that nobody could answer is refused, and the run does not wait."""
    given = arguments if "--prompt" in arguments else (*arguments, "--prompt", "Well?")
    answer = faber("feedback", "request", begun, *given)
    assert (answer.status, answer.code) == (status, code)
    assert faber("run", "show", begun).json["state"]["status"] == "in_progress"


def test_a_request_is_shown_to_people(faber: Faber, begun: str) -> None:
    """As text: the question, the place, the artifacts, each option with what it does; nothing moves the cursor."""
    ask(faber, begun, "--type", "review", "--prompt", "Good \x1b[2Jenough?", "--artifact", "specs/7.md")
    shown = faber("feedback", "show", begun, "--format", "text").out
    for part in (
        "review at frame:fetch-work",
        "Good [2Jenough?",
        "see specs/7.md",
        "2. request_changes  (the step is repeated",
    ):
        assert part in shown
    assert "\x1b" not in shown
    ask(faber, begun, "--type", "clarification")
    assert "own words" in faber("feedback", "show", begun, "--format", "text").out


# --- answering -------------------------------------------------------------------------------------


def test_an_answer_names_the_person(faber: Faber, begun: str, git: Callable[..., str]) -> None:
    """The responder is git's user.name, made inert and bounded, else the login name; the source is the terminal."""
    git("config", "user.name", "Ada \x1b[31mExample\u202e " + "x" * 200)
    ask(faber, begun)
    faber("feedback", "respond", begun, "ok")
    name = faber("feedback", "show", begun).json["last_answer"]["responder"]["name"]
    assert name.startswith("Ada [31mExample x")
    assert len(name) == 100
    git("config", "--unset", "user.name")
    ask(faber, begun)
    faber("feedback", "respond", begun, "ok")
    answered = faber("feedback", "show", begun).json["last_answer"]["responder"]
    assert answered["source"] == "terminal"
    assert answered["name"] not in ("", name)


def test_next_shows_the_feedback_until_the_step_is_complete(faber: Faber, begun: str) -> None:
    """Changes requested on a complete step: `next` and `context` hand it out again with the comment, until done."""
    faber("step", "complete", begun, "frame:fetch-work")
    ask(faber, begun, "--type", "review", "--at", "frame:fetch-work")
    assert faber("next", begun, "--peek").json["action"] == "wait"
    answer = faber("feedback", "respond", begun, "changes", "--comment", "name the customer")
    assert answer.json["next_command"] == f"faber next {begun}"
    for _ in range(2):
        action, context = faber("next", begun, "--peek").json, faber("context", begun).json
        assert (action["phase"], action["step"]) == ("frame", "fetch-work")
        for shown in (action["feedback"], context["feedback"]):
            assert [(h["action"], h["comment"]) for h in shown] == [("revise", "name the customer")]
        faber("step", "start", begun, "frame:fetch-work")
    shown = faber("context", begun, "--format", "text").out
    assert "Answered: Well? → request_changes: name the customer" in shown
    faber("step", "complete", begun, "frame:fetch-work")
    assert faber("next", begun, "--peek").json["feedback"] == []
    assert [h["comment"] for h in faber("context", begun).json["answers"]] == ["name the customer"]


@pytest.mark.parametrize(
    ("kind", "said", "status", "action", "step"),
    [
        ("approval", "yes", "in_progress", "step", "fetch-work"),
        ("approval", "no", "cancelled", "done", None),
        ("review", "changes", "in_progress", "step", "fetch-work"),
        ("error_resolution", "retry", "in_progress", "step", "fetch-work"),
        ("error_resolution", "SKIP", "in_progress", "step", "classify"),
        ("error_resolution", "abort", "cancelled", "done", None),
        ("clarification", "abort", "in_progress", "step", "fetch-work"),
    ],
)
def test_every_answer_has_its_next(
    faber: Faber, begun: str, kind: str, said: str, status: str, action: str, step: str | None
) -> None:
    """After each type of answer `faber next` returns the documented action."""
    ask(faber, begun, "--type", kind)
    assert faber("feedback", "respond", begun, said).json["status"] == status
    following = faber("next", begun, "--peek").json
    assert (following["action"], following["step"]) == (action, step)


def test_anything_else_is_refused_with_the_options(faber: Faber, begun: str) -> None:
    """An answer that is not an option is refused, names the options, and nothing is recorded."""
    ask(faber, begun)
    answer = faber("feedback", "respond", begun, "perhaps")
    assert (answer.status, answer.code) == (2, "not_an_option")
    assert answer.json["error"]["options"] == ["approve", "reject"]
    assert faber("feedback", "show", begun).json["last_answer"] is None


@pytest.mark.parametrize("said", ["approve", "ok"])
def test_the_only_argument_may_be_the_answer(faber: Faber, begun: str, said: str) -> None:
    """`feedback respond approve` answers the one open run, if its request has that option; else it names a run."""
    ask(faber, begun)
    unknown = faber("feedback", "respond", "perhaps")
    assert (unknown.status, unknown.code) == (1, "run_not_found")
    answer = faber("feedback", "respond", said)
    assert (answer.json["run_id"], answer.json["recorded"][0]["type"]) == (begun, "feedback_received")


def test_an_answer_alone_needs_one_open_run(faber: Faber, begun: str) -> None:
    """Where several runs are open, an answer without RUN is for none of them."""
    ask(faber, begun)
    faber("run", "init", "--run-id", "another")
    answer = faber("feedback", "respond", "approve")
    assert (answer.status, answer.code) == (2, "ambiguous_run")
    assert len(faber("feedback", "show", begun).json["open"]) == 1


def test_words_alone_are_no_clarification(faber: Faber, begun: str) -> None:
    """A misspelt run id is not taken as the answer to a question that takes any words."""
    ask(faber, begun, "--type", "clarification")
    assert faber("feedback", "respond", "perhaps").code == "run_not_found"


def test_the_second_answer_is_told_of_the_first(faber: Faber, begun: str, git: Callable[..., str]) -> None:
    """Answering again names who answered, from where and when."""
    git("config", "user.name", "Ada")
    name = ask(faber, begun)
    faber("feedback", "respond", begun, "approve", "--request", name)
    answer = faber("feedback", "respond", begun, "reject", "--request", name)
    assert (answer.status, answer.code) == (4, "already_answered")
    assert "by Ada (terminal) at 20" in answer.json["error"]["message"]


def test_many_answers_at_once_are_one(faber: Faber, begun: str, project: Path) -> None:
    """Of several simultaneous answers exactly one is recorded, and the other people are told which."""
    ask(faber, begun, "--type", "review")
    command = [sys.executable, str(MAIN), "feedback", "respond", begun]
    said = [(response, f"said {number}") for number, response in enumerate(("approve", "changes", "lgtm", "approve"))]
    started = [
        subprocess.Popen([*command, response, "--comment", comment], cwd=project, stdout=subprocess.PIPE)
        for response, comment in said
    ]
    answers = [json.loads(process.communicate(timeout=SECONDS)[0]) for process in started]
    assert sorted(process.returncode for process in started) == [0, 4, 4, 4]
    ((answer,),) = [request["answers"] for request in faber("feedback", "history", begun).json["requests"]]
    assert {a["error"]["event_id"] for a in answers if "error" in a} == {answer["event_id"]}
    assert answer["comment"] == said[[process.returncode for process in started].index(0)][1]


def test_an_agent_answers_nothing(faber: Faber, begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a response, in an agent's session the command is refused before it asks anything."""
    ask(faber, begun)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s")
    for arguments in ((), ("approve",)):
        answer = faber("feedback", "respond", begun, *arguments)
        assert (answer.status, answer.code) == (4, "person_required")
    assert faber("feedback", "history", begun).json["requests"][0]["answers"] == []


def test_without_a_terminal_the_answer_is_an_argument(faber: Faber, begun: str) -> None:
    """No response and no terminal: a usage error that names the options."""
    ask(faber, begun)
    answer = faber("feedback", "respond", begun, given="approve\n")
    assert (answer.status, answer.code) == (2, "usage")
    assert answer.json["error"]["options"] == ["approve", "reject"]


# --- history ---------------------------------------------------------------------------------------


def test_the_history_tells_all(faber: Faber, begun: str, project: Path, git: Callable[..., str]) -> None:
    """All requests and answers, oldest first, with who, from where and when; late answers are shown as not counted."""
    git("config", "user.name", "Ada")
    first = ask(faber, begun, "--type", "review", "--artifact", "specs/7.md")
    faber("feedback", "respond", begun, "changes", "--comment", "shorter")
    second = ask(faber, begun, "--type", "selection", "--option", "left", "--option", "right")
    late = {
        "request_id": first,
        "response": "approve",
        "comment": "fine \x1b[31mby me",
        "origin_id": 9,
        "responder": {"name": "Bo", "source": "issue_comment", "url": "https://example.invalid/1", "comment_id": 1},
    }
    commit(
        Layout(str(project)),
        begun,
        lambda state, plan: acceptance.accept(state, plan, {"type": "feedback_superseded", "metadata": late}),
    )
    requests = faber("feedback", "history", begun).json["requests"]
    assert [(r["request_id"], r["type"]) for r in requests] == [(first, "review"), (second, "selection")]
    assert requests[0]["context"] == {"artifacts": ["specs/7.md"]}
    said = [(a["response"], a["action"], a["counted"], a["responder"]["name"]) for a in requests[0]["answers"]]
    assert said == [("request_changes", "revise", True, "Ada"), ("approve", "continue", False, "Bo")]
    assert all(a["at"].endswith("Z") for a in requests[0]["answers"])
    text = faber("feedback", "history", begun, "--format", "text").out
    assert "approve  (came later, does not count)  Bo, issue comment, https://example.invalid/1" in text
    assert "(no answer)" in text
    assert "\x1b" not in text
    assert faber("doctor", begun).status == 0


def test_a_late_answer_has_no_command_of_an_agents(faber: Faber, begun: str) -> None:
    """`event emit` takes no answer, late or not."""
    given = json.dumps({"request_id": "r", "response": "approve"})
    for kind in ("feedback_received", "feedback_superseded"):
        answer = faber("event", "emit", begun, "--type", kind, "--metadata", given)
        assert (answer.status, answer.code) == (4, "has_own_command")


def test_the_history_of_another_tools_run(faber: Faber, project: Path) -> None:
    """Another tool's request is shown as far as its log contains it."""
    directory = project / ".fractary/faber/runs/r1"
    (directory / "events").mkdir(parents=True)
    (directory / "state.json").write_text(json.dumps({"run_id": "r1", "status": "in_progress", "phases": {}}))
    (directory / "metadata.json").write_text(json.dumps({"run_id": "r1", "work_id": "9"}))
    events: list[dict[str, Any]] = [
        {"type": "feedback_request", "request_id": "fr-9", "message": "Ship?", "timestamp": "2026-01-01T00:00:00Z"},
        {"type": "feedback_received", "metadata": {"request_id": "fr-9", "response": "yes"}},
        {"type": "feedback_received", "metadata": ["odd"]},
        {"type": "feedback_request", "metadata": {"resume_point": 4, "options": "yes", "prompt": ["?"]}},
    ]
    for number, event in enumerate(events, 1):
        (directory / "events" / f"{number:03d}-{event['type']}.json").write_text(json.dumps(event))
    requests = faber("feedback", "history", "r1").json["requests"]
    assert (requests[0]["prompt"], [a["response"] for a in requests[0]["answers"]]) == ("Ship?", ["yes"])
    assert faber("feedback", "history", "r1", "--format", "text").status == 0


# --- questions of the context ----------------------------------------------------------------------


@pytest.fixture
def unreadable(faber: Faber, begun: str, project: Path) -> str:
    """A run whose specification cannot be read."""
    (project / "spec.md").write_bytes(b"\xff\xfe\x00")
    artifact = '{"name": "spec_path", "value": "spec.md"}'
    faber("event", "emit", begun, "--type", "artifact_create", "--artifact", artifact)
    return begun


def test_a_decision_of_the_context_is_asked_as_a_request(faber: Faber, unreadable: str) -> None:
    """`--record` puts an open decision to a person, once; the run waits, and the answer settles it."""
    for _ in range(2):
        answer = faber("context", unreadable, "--record")
        assert answer.status == 3
        (decision,) = answer.json["decisions"]
        (asked,) = faber("feedback", "show", unreadable).json["open"]
        assert decision["answer_with"] == f"faber feedback respond {unreadable} OPTION --request {asked['request_id']}"
        assert (answer.json["status"], answer.json["resume_point"]["mode"]) == ("awaiting_feedback", "after_feedback")
        assert answer.json["feedback_request"] == asked
    assert "Skip the specification" in faber("feedback", "show", unreadable, "--format", "text").out
    assert faber("next", unreadable, "--peek").json["action"] == "wait"
    assert faber("feedback", "respond", unreadable, "skip", "--request", asked["request_id"]).status == 0
    after = faber("context", unreadable)
    assert (after.status, after.json["decisions"]) == (0, [])
    assert faber("next", unreadable, "--peek").json["step"] == "fetch-work"


def test_deciding_answers_the_open_request(faber: Faber, unreadable: str) -> None:
    """`--decide` on a question that was put as a request is the answer to it, and nothing stays open."""
    faber("context", unreadable, "--record")
    assert faber("context", unreadable, "--decide", "spec_unreadable=skip").status == 0
    assert faber("feedback", "show", unreadable).json["open"] == []
    (request,) = faber("feedback", "history", unreadable).json["requests"]
    assert [(a["response"], a["responder"]["source"]) for a in request["answers"]] == [("skip", "terminal")]


def test_aborting_over_a_question_cancels(faber: Faber, unreadable: str) -> None:
    """`abort` is the end of the run, also as the answer to a question about the context."""
    faber("context", unreadable, "--record")
    assert faber("feedback", "respond", unreadable, "abort").json["status"] == "cancelled"


# --- in a terminal ---------------------------------------------------------------------------------


class Terminal:
    """`faber` in a terminal of its own: stdin and stderr are the terminal, stdout is read apart."""

    def __init__(self, project: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()

        def own() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job's is ignored
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-c", LATE, *arguments],
            cwd=project,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            preexec_fn=own,
        )
        os.close(slave)
        self.seen, self.read = "", 0

    def until(self, text: str) -> None:
        """Read until the child says `text`, after what was read before."""
        while text not in self.seen[self.read :]:
            ready, _, _ = select.select([self.master], [], [], SECONDS)
            assert ready, f"it says nothing more: {self.seen!r}"
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the child closed the terminal
                data = b""
            assert data, f"it ended: {self.seen!r}"
            self.seen += data.decode("utf-8", "replace")
        self.read = self.seen.index(text, self.read) + len(text)

    def type(self, text: str) -> None:
        """Type `text`."""
        os.write(self.master, text.encode())

    def ended(self) -> tuple[int, str]:
        """The exit status and what went to stdout."""
        out, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out.decode()


@pytest.fixture
def terminal(project: Path) -> Iterator[Callable[..., Terminal]]:
    """`terminal("feedback", "respond", …)`; what is left of it is ended."""
    opened: list[Terminal] = []

    def open_one(*arguments: str) -> Terminal:
        opened.append(Terminal(project, *arguments))
        return opened[-1]

    yield open_one
    for made in opened:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()
        os.close(made.master)


def test_a_terminal_asks(faber: Faber, begun: str, terminal: Callable[..., Terminal]) -> None:
    """Prompt, artifacts, numbered options are shown; empty and wrong input asks again; a revision needs a comment."""
    ask(faber, begun, "--type", "review", "--prompt", "Is the\nspec good?", "--artifact", "specs/7.md")
    ask(faber, begun)
    child = terminal("feedback", "respond", begun)
    child.until("Your answer: ")
    for part in ("Is the", "spec good?", "see specs/7.md", "1. approve", "2. request_changes", "3. reject", "1 more"):
        assert part in child.seen
    child.type("\n")
    child.until("Your answer: ")
    child.type("7\n")
    child.until("one of: approve, request_changes, reject")
    child.until("Your answer: ")
    child.type("2\n")
    child.until("What should be changed? ")
    child.type("  \n")
    child.until("What should be changed? ")
    child.type("Say who it is for: größer\n")
    status, out = child.ended()
    assert (status, json.loads(out)["recorded"][0]["type"]) == (0, "feedback_received")
    answer = faber("feedback", "show", begun).json["last_answer"]
    assert (answer["action"], answer["comment"]) == ("revise", "Say who it is for: größer")


@pytest.mark.parametrize(
    ("arguments", "typed", "response"),
    [
        (("--type", "confirmation"), "ok\n", "confirm"),
        (("--type", "selection", "--option", "2", "--option", "1"), "1\n", "1"),
        (("--type", "selection", "--option", "left", "--option", "right"), "2\n", "right"),
        (("--type", "clarification"), "1\n", "1"),
    ],
)
def test_a_terminal_takes_numbers_options_and_aliases(
    faber: Faber, begun: str, terminal: Callable[..., Terminal], arguments: tuple[str, ...], typed: str, response: str
) -> None:
    """A number is that option, unless an option is spelled so; to a clarification it is the answer."""
    ask(faber, begun, *arguments)
    child = terminal("feedback", "respond", begun)
    child.until("Your answer: ")
    child.type(typed)
    assert child.ended()[0] == 0
    assert faber("feedback", "show", begun).json["last_answer"]["response"] == response


@pytest.mark.parametrize(("typed", "status"), [("\x03", 130), ("\x04", 3)])
@pytest.mark.parametrize("late", [False, True])
def test_giving_up_records_nothing(
    faber: Faber, begun: str, terminal: Callable[..., Terminal], typed: str, status: int, late: bool
) -> None:
    """Ctrl-C and Ctrl-D, at the answer or at the comment, leave the request open and the log as it was."""
    ask(faber, begun, "--type", "review")
    before = faber("run", "show", begun).json["state"]
    child = terminal("feedback", "respond", begun)
    child.until("Your answer: ")
    if late:
        child.type("changes\n")
        child.until("What should be changed? ")
    child.type(typed)
    assert child.ended()[0] == status
    assert faber("run", "show", begun).json["state"] == before


def test_answered_elsewhere_meanwhile(faber: Faber, begun: str, terminal: Callable[..., Terminal]) -> None:
    """What was answered elsewhere while the terminal asked is said, and no other request is answered instead."""
    first = ask(faber, begun, "--type", "review")
    ask(faber, begun)
    child = terminal("feedback", "respond", begun)
    child.until("Your answer: ")
    assert faber("feedback", "respond", begun, "changes", "--request", first).status == 0
    child.type("approve\n")
    status, out = child.ended()
    assert (status, json.loads(out)["error"]["code"]) == (4, "already_answered")
    assert len(faber("feedback", "show", begun).json["open"]) == 1
