"""What each command may append: decisions over a state and its plan, without I/O."""

from collections.abc import Callable
from typing import Any

import pytest

from faber.errors import InvalidInput
from faber.events.event_types import UnknownEventType
from faber.model import acceptance
from faber.model import commands as c
from faber.model.consequences import consequences
from faber.model.documents import Metadata, Plan, State
from faber.model.gates import closed_gate
from faber.model.model_errors import (
    AwaitingFeedback,
    HasOwnCommand,
    IllegalTransition,
    OutOfOrder,
    StepsUnfinished,
    UnknownPlace,
)
from faber.model.next import next_action
from faber.model.reducer import fold, initial_state

METADATA: Metadata = {
    "schema_version": 1,
    "run_id": "r",
    "work_id": None,
    "target": None,
    "workflow_id": "w",
    "autonomy": "guarded",
    "created_at": "2026-01-01T00:00:00.000Z",
    "created_by": "test",
    "relationships": {},
}


def plan_of(**phases: str) -> Plan:
    """A plan from `phase="step step"`."""
    return {
        "schema_version": 1,
        "workflow_id": "w",
        "phases": [
            {"id": phase, "name": phase, "steps": [{"id": step, "name": step} for step in steps.split()]}
            for phase, steps in phases.items()
        ],
    }


class Bench:
    """A run in memory: commands are decided, folded and followed by their consequences, as a commit does it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.state: State = initial_state(METADATA, plan)
        self.log: list[Any] = []

    def append(self, *drafts: Any) -> list[str]:
        """Fold `drafts` and answer their types."""
        for draft in drafts:
            event = {
                "schema_version": 1,
                "event_id": len(self.log) + 1,
                "timestamp": f"2026-01-01T00:00:{len(self.log) % 60:02d}.000Z",
                "run_id": "r",
                **draft,
            }
            self.log.append(event)
            self.state = fold(self.state, [event])
        return [draft["type"] for draft in drafts]

    def do(self, decide: Callable[..., Any], *arguments: Any, killed: bool = False) -> Any:
        """The types that were appended, or the id of the event that this repeats; `killed` ends before consequences."""
        decided = decide(self.state, self.plan, *arguments)
        if isinstance(decided, acceptance.Repeated):
            return decided.event_id
        made = self.append(*decided)
        return made if killed else made + self.append(*consequences(self.state, self.plan))

    def ask(self, name: str = "q") -> Any:
        """Open a request."""
        return self.do(
            acceptance.accept, {"type": "feedback_request", "metadata": {"request_id": name, "prompt": "Good?"}}
        )

    def answer(self, name: str = "q") -> Any:
        """Answer a request."""
        return self.do(
            acceptance.accept, {"type": "feedback_received", "metadata": {"request_id": name, "response": "yes"}}
        )

    def step(self, phase: str, step: str) -> None:
        """Start and complete a step."""
        self.do(c.start_step, phase, step)
        self.do(c.complete_step, phase, step, None, [])

    def loop(self, phase: str, return_to: str) -> Any:
        """Enter a retry loop."""
        return self.do(
            acceptance.emit, {"type": "retry_loop_enter", "phase": phase, "metadata": {"return_to": return_to}}
        )

    @property
    def statuses(self) -> dict[str, str]:
        """The status of every phase."""
        return {name: phase["status"] for name, phase in self.state["phases"].items()}


@pytest.fixture
def bench() -> Bench:
    """A pending run of two phases with two steps and one."""
    return Bench(plan_of(a="s1 s2", b="t1"))


# --- steps and phases ------------------------------------------------------------------------------


def test_the_first_step_starts_run_and_phase(bench: Bench) -> None:
    """Starting the first step of a pending run starts the run and the phase as well."""
    assert bench.do(c.start_step, "a", "s1") == ["workflow_start", "phase_start", "step_start"]


def test_the_last_step_of_a_phase_completes_it(bench: Bench) -> None:
    """A phase completes with its last step, without a separate command."""
    bench.step("a", "s1")
    bench.do(c.start_step, "a", "s2")
    assert bench.do(c.complete_step, "a", "s2", None, []) == ["step_complete", "phase_complete"]


@pytest.mark.parametrize(("phase", "step"), [("a", "s2"), ("b", "t1")])
def test_only_the_next_step_starts(bench: Bench, phase: str, step: str) -> None:
    """A step after the first unfinished one is refused, and the refusal names the right one."""
    with pytest.raises(OutOfOrder) as caught:
        bench.do(c.start_step, phase, step)
    assert caught.value.fields["next"] == "a:s1"


def test_a_complete_step_is_not_done_again(bench: Bench) -> None:
    """Starting a completed step is refused, naming the event that ended it and what comes next."""
    bench.step("a", "s1")
    with pytest.raises(OutOfOrder) as caught:
        bench.do(c.start_step, "a", "s1")
    assert "event 4" in caught.value.message
    assert caught.value.fields["next"] == "a:s2"


def test_after_the_last_step_the_refusal_says_to_complete_the_run(bench: Bench) -> None:
    """When all steps are complete, starting one again points to `next`."""
    for place in (("a", "s1"), ("a", "s2"), ("b", "t1")):
        bench.step(*place)
    with pytest.raises(OutOfOrder) as caught:
        bench.do(c.start_step, "b", "t1")
    assert "faber next r" in caught.value.recovery


@pytest.mark.parametrize("ending", [c.complete_step, c.fail_step])
def test_a_step_that_was_not_started_does_not_end(bench: Bench, ending: Callable[..., Any]) -> None:
    """Completing or failing a pending step is refused."""
    bench.do(c.resume_run)
    with pytest.raises(IllegalTransition):
        bench.do(ending, "a", "s1", *((None, []) if ending is c.complete_step else ("x",)))


def test_a_failed_step_is_retried_by_starting_it(bench: Bench) -> None:
    """Starting a failed step records a retry and the run continues."""
    bench.do(c.start_step, "a", "s1")
    bench.do(c.fail_step, "a", "s1", "broke")
    assert bench.state["status"] == "failed"
    assert bench.do(c.start_step, "a", "s1") == ["step_retry"]
    assert bench.state["status"] == "in_progress"
    assert bench.state["phases"]["a"]["steps"]["s1"]["attempts"] == 2


REPEATABLE: list[tuple[str, list[Any], list[Any]]] = [
    ("start a step", [], [c.start_step, "a", "s1"]),
    ("complete a step", [[c.start_step, "a", "s1"]], [c.complete_step, "a", "s1", None, []]),
    ("fail a step", [[c.start_step, "a", "s1"]], [c.fail_step, "a", "s1", "broke"]),
    ("skip a step", [], [c.skip_step, "a", "s1", None]),
    ("start a phase", [], [c.start_phase, "a"]),
    ("fail a phase", [], [c.fail_phase, "a", "broke"]),
    ("skip a phase", [], [c.skip_phase, "a", None]),
    ("complete a phase", [[c.skip_step, "b", "t1", None]], [c.complete_phase, "b"]),
    ("fail a run", [], [c.fail_run, "broke"]),
    ("cancel a run", [], [c.cancel_run, "enough"]),
]


@pytest.mark.parametrize(("before", "command"), [r[1:] for r in REPEATABLE], ids=[r[0] for r in REPEATABLE])
def test_a_repeated_command_answers_its_event(bench: Bench, before: list[Any], command: list[Any]) -> None:
    """The same command twice records one fact; the second time names the event of the first."""
    for earlier in before:
        bench.do(*earlier)
    bench.do(*command)
    log = len(bench.log)
    answer = bench.do(*command)
    assert isinstance(answer, int)
    assert len(bench.log) == log
    assert bench.log[answer - 1]["event_id"] == answer


def test_a_completed_phase_is_neither_failed_nor_skipped(bench: Bench) -> None:
    """A completed step stays completed until a retry loop covers it."""
    bench.step("a", "s1")
    bench.step("a", "s2")
    for decide in (c.fail_phase, c.skip_phase):
        with pytest.raises(IllegalTransition):
            bench.do(decide, "a", "x")
    with pytest.raises(IllegalTransition):
        bench.do(c.skip_step, "a", "s1", None)


def test_a_phase_with_unfinished_steps_is_not_completed(bench: Bench) -> None:
    """Completing a phase too early is refused with the list of what is left."""
    bench.step("a", "s1")
    with pytest.raises(StepsUnfinished) as caught:
        bench.do(c.complete_phase, "a")
    assert caught.value.fields["unfinished"] == ["a:s2"]


def test_skipping_another_step_leaves_a_failure_open(bench: Bench) -> None:
    """A failed run of which a person skips some other step is still failed, and its error still unresolved."""
    bench.do(c.fail_run, "out of tokens")
    bench.do(c.skip_step, "a", "s1", None)
    assert bench.state["status"] == "failed"
    assert [error["message"] for error in bench.state["errors"]] == ["out of tokens"]


def test_skipping_every_step_of_a_phase_completes_it(bench: Bench) -> None:
    """A phase whose steps were skipped one by one is complete."""
    bench.do(c.skip_step, "a", "s1", None)
    assert bench.do(c.skip_step, "a", "s2", None) == ["step_skip", "phase_complete"]


def test_skipping_a_failed_step_lets_the_run_go_on(bench: Bench) -> None:
    """When a person skips the step that failed, the run is no longer failed and nothing of its error stays."""
    bench.do(c.start_step, "a", "s1")
    bench.do(c.fail_step, "a", "s1", "broke")
    bench.do(c.skip_step, "a", "s1", None)
    assert bench.state["status"] == "in_progress"
    assert bench.state["ended_event"] is None
    assert bench.state["errors"] == []
    assert bench.do(c.start_step, "a", "s2") == ["step_start"]


def test_a_phase_that_failed_between_steps_ends_when_they_are_skipped(bench: Bench) -> None:
    """A failed phase whose remaining steps a person skipped is completed when the run is resumed."""
    bench.step("a", "s1")
    bench.do(c.fail_phase, "a", "broke")
    bench.do(c.skip_step, "a", "s2", None)
    bench.do(c.resume_run)
    assert bench.statuses["a"] == "completed"


@pytest.mark.parametrize(("phase", "step"), [("c", "s1"), ("a", "t1"), ("", ""), ("a", "")])
def test_unknown_places_are_refused_with_the_known_ones(bench: Bench, phase: str, step: str) -> None:
    """A phase or step that the plan lacks is refused, and the refusal lists what it has."""
    with pytest.raises(UnknownPlace) as caught:
        bench.do(c.start_step, phase, step)
    assert caught.value.fields["known"]


# --- runs ------------------------------------------------------------------------------------------


def test_a_run_with_unfinished_steps_is_not_completed(bench: Bench) -> None:
    """Completing a run is refused while any step is unfinished."""
    bench.step("a", "s1")
    with pytest.raises(StepsUnfinished) as caught:
        bench.do(c.complete_run)
    assert caught.value.fields["unfinished"] == ["a:s2", "b:t1"]


def test_a_run_of_skips_is_not_completed(bench: Bench) -> None:
    """A run in which nothing was done is cancelled, not completed."""
    for phase in ("a", "b"):
        bench.do(c.skip_phase, phase, None)
    with pytest.raises(StepsUnfinished) as caught:
        bench.do(c.complete_run)
    assert "cancel" in caught.value.recovery


def test_a_completed_run_has_no_open_phase(bench: Bench) -> None:
    """Completing the run after a writer died before a phase's end completes that phase first."""
    bench.do(c.skip_phase, "a", None)
    bench.do(c.start_step, "b", "t1")
    bench.do(c.complete_step, "b", "t1", None, [], killed=True)
    assert bench.do(c.complete_run) == ["phase_complete", "workflow_complete"]
    assert bench.statuses == {"a": "skipped", "b": "completed"}


def test_a_failed_run_is_resumed_before_it_is_completed(bench: Bench) -> None:
    """A failed run whose steps are all complete is not completed until it is resumed."""
    for place in (("a", "s1"), ("a", "s2"), ("b", "t1")):
        bench.step(*place)
    bench.do(c.fail_run, "broke")
    with pytest.raises(IllegalTransition) as caught:
        bench.do(c.complete_run)
    assert "faber next r" in caught.value.recovery
    bench.do(c.resume_run)
    assert bench.do(c.complete_run) == ["workflow_complete"]


ALL: list[list[Any]] = [
    [c.resume_run],
    [c.start_phase, "a"],
    [c.fail_phase, "a", "x"],
    [c.skip_phase, "a", None],
    [c.start_step, "a", "s1"],
    [c.complete_step, "a", "s1", None, []],
    [c.fail_step, "a", "s1", "x"],
    [c.skip_step, "a", "s1", None],
    [acceptance.emit, {"type": "checkpoint"}],
]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command[0].__name__)
def test_a_cancelled_run_is_only_read(bench: Bench, command: list[Any]) -> None:
    """Every command on a cancelled run is refused and points to a rerun."""
    bench.do(c.cancel_run, "enough")
    with pytest.raises(IllegalTransition) as caught:
        bench.do(*command)
    assert "faber run rerun r" in caught.value.recovery


# --- people ----------------------------------------------------------------------------------------

WORK = [command for command in ALL if command[0] is not acceptance.emit]


@pytest.mark.parametrize("command", [*WORK, [c.complete_run]], ids=lambda command: command[0].__name__)
def test_an_open_request_stops_all_work(bench: Bench, command: list[Any]) -> None:
    """While a person is asked, work is refused with the request that is open."""
    bench.do(c.start_step, "a", "s1")
    bench.ask()
    with pytest.raises(AwaitingFeedback) as caught:
        bench.do(*command)
    assert caught.value.fields["request_id"] == "q"


@pytest.mark.parametrize("command", [w for w in WORK if w[0] is not c.resume_run], ids=lambda w: w[0].__name__)
def test_failing_does_not_open_a_gate(bench: Bench, command: list[Any]) -> None:
    """A run that fails while a person is asked still waits for the answer: its work is refused as before."""
    bench.do(c.start_step, "a", "s1")
    bench.ask()
    bench.do(c.fail_run, "out of tokens")
    with pytest.raises(AwaitingFeedback):
        bench.do(*command)


def test_a_run_that_failed_while_asking_waits_again_when_resumed(bench: Bench) -> None:
    """Resuming a run with an open request brings it back to awaiting the answer."""
    bench.ask()
    bench.do(c.fail_run, "out of tokens")
    bench.do(c.resume_run)
    assert bench.state["status"] == "awaiting_feedback"


def test_a_retry_loop_does_not_open_a_gate(bench: Bench) -> None:
    """A retry loop of a run that failed while a person is asked leads back to awaiting the answer."""
    bench.ask()
    bench.do(c.fail_run, "broke")
    bench.loop("a", "a")
    assert bench.state["status"] == "awaiting_feedback"


def test_an_answer_does_not_resume_a_failed_run(bench: Bench) -> None:
    """Answers to a failed run are taken, whichever is open, and it stays failed until it is resumed."""
    bench.ask("q1")
    bench.ask("q2")
    bench.do(c.fail_run, "out of tokens")
    for name in ("q1", "q2"):
        bench.answer(name)
        assert bench.state["status"] == "failed"
    bench.do(c.resume_run)
    assert bench.state["status"] == "in_progress"


def test_what_is_advised_after_failing_while_asking_is_not_refused(bench: Bench) -> None:
    """The next command of a run that failed while a person is asked is to answer."""
    bench.ask()
    bench.do(c.fail_run, "out of tokens")
    assert next_action(bench.state, bench.plan)["command"] == "faber feedback respond r"


def test_requests_queue(bench: Bench) -> None:
    """The oldest open request is the one shown, answers come in any order, and the last lets the run continue."""
    bench.do(c.resume_run)
    for name in ("q1", "q2", "q3"):
        bench.ask(name)
    bench.answer("q2")
    assert bench.state["feedback_request"]["request_id"] == "q1"  # type: ignore[index]
    bench.answer("q1")
    assert bench.state["feedback_request"]["request_id"] == "q3"  # type: ignore[index]
    bench.answer("q3")
    assert (bench.state["status"], bench.state["feedback_request"]) == ("in_progress", None)


def test_one_request_id_is_open_once(bench: Bench) -> None:
    """A second request under an open id is refused."""
    bench.ask()
    with pytest.raises(IllegalTransition):
        bench.ask()


@pytest.mark.parametrize("asked", [[], ["other"]])
def test_only_an_open_request_is_answered(bench: Bench, asked: list[str]) -> None:
    """An answer to nothing, or to a request that is closed, is refused with the open ones."""
    for name in asked:
        bench.ask(name)
    with pytest.raises(IllegalTransition) as caught:
        bench.answer("q")
    assert caught.value.fields["open_requests"] == asked


# --- retry loops -----------------------------------------------------------------------------------


def test_a_retry_loop_reopens_what_it_covers(bench: Bench) -> None:
    """Completed steps from the target to the failing phase are repeated, skipped ones are not."""
    bench.step("a", "s1")
    bench.do(c.skip_step, "a", "s2", None)
    bench.step("b", "t1")
    bench.loop("b", "a")
    assert {s: k["status"] for s, k in bench.state["phases"]["a"]["steps"].items()} == {
        "s1": "pending",
        "s2": "skipped",
    }
    assert bench.do(c.start_step, "a", "s1") == ["phase_start", "step_retry"]


def test_a_retry_loop_goes_back(bench: Bench) -> None:
    """A loop to a phase after the failing one is refused."""
    with pytest.raises(InvalidInput):
        bench.loop("a", "b")


def test_a_skipped_phase_stays_skipped_through_a_loop(bench: Bench) -> None:
    """A retry loop does not repeat steps that a person skipped."""
    bench.step("a", "s1")
    bench.do(c.skip_phase, "a", None)
    bench.step("b", "t1")
    bench.loop("b", "a")
    assert bench.statuses == {"a": "skipped", "b": "pending"}


# --- events ----------------------------------------------------------------------------------------


def test_consequences_do_not_guess_about_a_partial_plan() -> None:
    """In a partial plan no phase ends automatically, nor does an agent end it: a person does."""
    bench = Bench({**plan_of(a="s1", b="t1"), "partial": True})
    bench.do(c.start_step, "a", "s1")
    assert bench.do(c.complete_step, "a", "s1", None, []) == ["step_complete"]
    for close in (lambda: bench.do(c.complete_phase, "a"), lambda: bench.do(c.complete_run)):
        with pytest.raises(StepsUnfinished, match="Nobody knows"):
            close()
    assert bench.do(c.skip_phase, "a", None) == ["phase_skip"]


def test_no_gate_opens_behind_a_phase_without_steps() -> None:
    """Behind a phase whose steps nobody knows, no gate is reached and no step can start."""
    plan = plan_of(a="s1", b="", c="t1")
    plan["phases"][2]["gates"] = [{"when": "before", "prompt": "Start?"}, {"when": "after", "prompt": "Enough?"}]
    bench = Bench(plan)
    bench.do(c.start_step, "a", "s1")
    assert bench.do(c.complete_step, "a", "s1", None, []) == ["step_complete", "phase_complete"]
    assert closed_gate(bench.state, plan) is None
    with pytest.raises(StepsUnfinished):
        bench.do(c.start_step, "c", "t1")
    bench.do(c.skip_phase, "b", None)
    assert closed_gate(bench.state, plan) is not None


@pytest.mark.parametrize("kind", ["step_complete", "workflow_complete", "context_loaded", "run_adopted"])
def test_a_type_with_a_command_of_its_own_is_not_emitted(bench: Bench, kind: str) -> None:
    """`emit` refuses such a type and names its command."""
    with pytest.raises(HasOwnCommand) as caught:
        bench.do(acceptance.emit, {"type": kind})
    assert "faber " in caught.value.recovery


def test_an_unknown_type_is_refused_with_the_nearest(bench: Bench) -> None:
    """A mistyped event type is answered with the one that was meant."""
    with pytest.raises(UnknownEventType) as caught:
        bench.do(acceptance.emit, {"type": "decision_pont", "message": "x"})
    assert caught.value.fields["nearest"][0] == "decision_point"


@pytest.mark.parametrize(
    ("draft", "missing"),
    [
        ({"type": "decision_point"}, ["message"]),
        ({"type": "feedback_request", "metadata": {"prompt": "?"}}, ["metadata.request_id"]),
        ({"type": "retry_loop_enter", "metadata": {"return_to": "a"}}, ["phase"]),
        ({"type": "artifact_create", "artifacts": []}, ["artifacts"]),
    ],
)
def test_what_a_type_requires_is_named(bench: Bench, draft: dict[str, Any], missing: list[str]) -> None:
    """An event that lacks something is refused with exactly what it lacks."""
    with pytest.raises(InvalidInput) as caught:
        bench.do(acceptance.accept, draft)
    assert caught.value.fields["missing"] == missing


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ([c.fail_run], 2_000),
        ([c.cancel_run], 2_000),
        ([c.fail_phase, "a"], 2_000),
        ([c.skip_phase, "a"], 2_000),
        ([c.skip_step, "a", "s1"], 2_000),
    ],
    ids=lambda value: value[0].__name__ if isinstance(value, list) else None,
)
def test_texts_are_bounded_when_they_are_written(bench: Bench, command: list[Any], limit: int) -> None:
    """A text at its limit is recorded; a longer or blank one is refused."""
    for text in ("x" * (limit + 1), " \n"):
        with pytest.raises(InvalidInput):
            bench.do(*command, text)
    assert bench.do(*command, "x" * limit)


@pytest.mark.parametrize(("name", "limit"), [("decision_point", 500), ("approval_request", 2_000)])
def test_emitted_messages_are_bounded(bench: Bench, name: str, limit: int) -> None:
    """A decision has at most 500 characters, any other message 2,000."""
    with pytest.raises(InvalidInput):
        bench.do(acceptance.emit, {"type": name, "message": "x" * (limit + 1)})
    assert bench.do(acceptance.emit, {"type": name, "message": "x" * limit}) == [name]


def test_a_run_keeps_200_artifacts(bench: Bench) -> None:
    """The 201st artifact by name is refused, a new value of an old one is not."""
    artifacts = [{"name": f"n{number}", "value": "x"} for number in range(200)]
    bench.do(acceptance.emit, {"type": "artifact_create", "artifacts": artifacts})
    bench.do(acceptance.emit, {"type": "artifact_modify", "artifacts": [{"name": "n7", "value": "y"}]})
    with pytest.raises(InvalidInput):
        bench.do(acceptance.emit, {"type": "artifact_create", "artifacts": [{"name": "one more", "value": "x"}]})
