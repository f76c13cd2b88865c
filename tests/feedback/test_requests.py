"""Asking and answering: what each answer makes of a run, without a disk."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.context.resume import resume_point
from faber.errors import FaberError, InvalidInput
from faber.events.drafts import Draft
from faber.feedback.feedback_history import history
from faber.feedback.requests import MAX_ARTIFACTS, NewRequest, open_request, respond
from faber.model import commands as c
from faber.model.acceptance import Repeated, accept
from faber.model.answers import DEFAULT_OPTIONS, Responder
from faber.model.consequences import consequences
from faber.model.documents import Metadata, Plan, State
from faber.model.feedback_rules import KEPT_ANSWERS, KEPT_FEEDBACK
from faber.model.model_errors import AlreadyAnswered, IllegalTransition
from faber.model.next import next_action
from faber.model.reducer import fold, initial_state
from faber.store.schema import problems
from faber.text.safe_text import redact_json
from support.examples import examples

METADATA: Metadata = {
    "schema_version": 1,
    "run_id": "r",
    "work_id": None,
    "target": None,
    "workflow_id": "w",
    "autonomy": "autonomous",
    "created_at": "2026-01-01T00:00:00.000Z",
    "created_by": "test",
    "relationships": {},
}
ADA: Responder = {"name": "Ada", "source": "terminal", "url": None, "comment_id": None}
PLACES = ("a:s1", "a:s2", "b:t1")


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
    """A run in memory, written to as a commit writes."""

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan or plan_of(a="s1 s2", b="t1")
        self.state: State = initial_state(METADATA, self.plan)
        self.log: list[Any] = []
        self.asked = 0

    def append(self, drafts: list[Draft]) -> None:
        """Fold `drafts` and what follows from them."""
        while drafts:
            for draft in drafts:
                number = len(self.log) + 1
                event = {"schema_version": 1, "event_id": number, "run_id": "r", "timestamp": stamp(number), **draft}
                self.log.append(event)
                self.state = fold(self.state, [event])  # type: ignore[list-item]
            drafts = consequences(self.state, self.plan)

    def do(self, decision: Any) -> None:
        """Append what was decided."""
        if not isinstance(decision, Repeated):
            self.append(decision)

    def start(self, place: str) -> None:
        """Begin a step."""
        self.do(c.start_step(self.state, self.plan, *place.split(":")))

    def step(self, *places: str) -> None:
        """Start and complete steps."""
        for place in places:
            self.start(place)
            self.do(c.complete_step(self.state, self.plan, *place.split(":"), None, []))

    def fail(self, place: str) -> None:
        """Let a step fail."""
        self.start(place)
        self.do(c.fail_step(self.state, self.plan, *place.split(":"), "red"))

    def ask(self, kind: str = "approval", at: str | None = None, **more: Any) -> str:
        """Open a request and answer its id."""
        self.asked += 1
        name = f"fr-{self.asked}"
        where: Any = tuple(at.split(":")) if at else None
        given: Any = {"prompt": "Well?", "options": [], **more}
        self.do(open_request(self.state, self.plan, NewRequest(name, kind, place=where, **given)))
        return name

    def answer(
        self, said: str, comment: str | None = None, name: str | None = None, by: Responder | None = ADA
    ) -> None:
        """Answer the oldest request, or the one named."""
        self.do(respond(self.state, self.plan, request_id=name, response=said, comment=comment, responder=by))

    @property
    def next(self) -> Any:
        """What `faber next` answers."""
        return next_action(self.state, self.plan)

    @property
    def place(self) -> str | None:
        """The step that is handed out."""
        action = self.next
        return f"{action['phase']}:{action['step']}" if action["action"] == "step" else None

    def status_of(self, place: str) -> str:
        """What the state says of a step."""
        phase, step = place.split(":")
        return self.state["phases"][phase]["steps"][step]["status"]


def stamp(number: int) -> str:
    """A time."""
    return f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"


@pytest.fixture
def bench() -> Bench:
    """A pending run of two phases with two steps and one."""
    return Bench()


# --- asking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in DEFAULT_OPTIONS if kind != "selection"])
def test_every_type_has_its_own_options(bench: Bench, kind: str) -> None:
    """A request without options offers those of its type."""
    bench.ask(kind)
    asked = bench.state["feedback_request"]
    assert asked is not None
    assert (asked["type"], tuple(asked["options"])) == (kind, DEFAULT_OPTIONS[kind])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("selection", []), ("clarification", ["a"]), ("vote", ["a"]),
        ("selection", ["a", "A"]), ("selection", ["a\nb"]), ("selection", ["a\u2028b"]), ("selection", [""]),
        ("selection", [" a"]), ("selection", ["a\u200b"]), ("selection", ["x" * 201]),
        ("selection", [str(n) for n in range(21)]),
    ],
)  # fmt: skip
def test_unfit_options_are_refused(bench: Bench, kind: str, options: list[str]) -> None:
    """A selection needs options, a clarification has none; they are few, short, different, visible lines."""
    with pytest.raises(InvalidInput):
        bench.ask(kind, options=options)
    assert bench.log == []


def test_a_prompt_has_a_limit(bench: Bench) -> None:
    """2,000 characters are taken, one more is not, and none at all is refused."""
    bench.ask(prompt="x" * 2_000)
    for wrong in ("x" * 2_001, "", None):
        with pytest.raises(InvalidInput):
            bench.ask(prompt=wrong)


def test_artifacts_are_inside_the_repository(bench: Bench) -> None:
    """Paths to look at go into the request's context; those that lead out of the project are refused."""
    bench.ask("review", artifacts=["specs/7.md", "src/a b.py"])
    asked = bench.state["feedback_request"]
    assert asked is not None
    assert asked["context"] == {"artifacts": ["specs/7.md", "src/a b.py"]}
    for wrong in (["/etc/passwd"], ["../x"], ["a/../../x"], ["~/x"], ["a\x1b[2J"], ["a\u202eb"], ["x" * 301]):
        with pytest.raises(InvalidInput):
            bench.ask("review", artifacts=wrong)
    with pytest.raises(InvalidInput):
        bench.ask("review", artifacts=["a"] * (MAX_ARTIFACTS + 1))


def test_a_request_always_knows_its_step(bench: Bench) -> None:
    """Without a place it is asked at the step in progress, else at the next, else at the last."""
    places = []
    for act in (lambda: None, lambda: bench.start("a:s1"), lambda: bench.do(_complete(bench, "a:s1"))):
        act()
        places.append(_asked_at(bench))
    bench.step("a:s2", "b:t1")
    places.append(_asked_at(bench))
    assert places == ["a:s1", "a:s1", "a:s2", "b:t1"]


def _complete(bench: Bench, place: str) -> Any:
    return c.complete_step(bench.state, bench.plan, *place.split(":"), None, [])


def _asked_at(bench: Bench) -> str:
    bench.ask()
    asked = bench.state["feedback_request"]
    assert asked is not None
    bench.answer("approve")
    return f"{asked['resume_point']['phase']}:{asked['resume_point']['step']}"


# --- answering -------------------------------------------------------------------------------------


def test_continue_goes_on_after_a_complete_step(bench: Bench) -> None:
    """Approved after it was completed, the asking step stays complete and the next one is handed out."""
    bench.step("a:s1")
    bench.ask(at="a:s1")
    bench.answer("lgtm")
    assert (bench.place, bench.next["mode"]) == ("a:s2", "start")


def test_continue_never_passes_a_step_that_is_not_complete(bench: Bench) -> None:
    """Approved while it is in progress, the asking step continues, and is told the answer."""
    bench.start("a:s1")
    bench.ask("selection", options=["one", "two"])
    bench.answer("two", "it is faster")
    assert (bench.place, bench.next["mode"]) == ("a:s1", "continue")
    assert [(h["response"], h["comment"]) for h in bench.next["feedback"]] == [("two", "it is faster")]


def test_an_answer_to_a_complete_step_is_told_to_the_next(bench: Bench) -> None:
    """A choice made after a step is part of the feedback until another step ends."""
    bench.step("a:s1")
    bench.ask("clarification", at="a:s1")
    bench.answer("Port 8080, please")
    assert [heard["response"] for heard in bench.next["feedback"]] == ["Port 8080, please"]
    bench.step("a:s2")
    assert bench.next["feedback"] == []


@pytest.mark.parametrize("complete", [True, False])
def test_revise_hands_out_the_same_step_with_the_comment(bench: Bench, complete: bool) -> None:
    """Changes requested: the asking step again, complete or not, with the comment until it is completed."""
    (bench.step if complete else bench.start)("a:s1")
    bench.ask("review", at="a:s1")
    bench.answer("changes", "handle the empty file")
    assert (bench.place, bench.next["mode"]) == ("a:s1", "retry" if complete else "continue")
    assert "asked for changes" in bench.next["why"]
    assert [heard["comment"] for heard in bench.next["feedback"]] == ["handle the empty file"]
    assert resume_point(bench.state, bench.plan).why == bench.next["why"]
    bench.start("a:s1")
    assert [heard["comment"] for heard in bench.next["feedback"]] == ["handle the empty file"]
    bench.do(_complete(bench, "a:s1"))
    assert (bench.place, bench.next["feedback"]) == ("a:s2", [])


def test_a_revised_phase_is_open_again_and_ends_again(bench: Bench) -> None:
    """Revising the last step of a complete phase reopens the phase; completing the step completes it once more."""
    bench.step("a:s1", "a:s2")
    assert bench.state["phases"]["a"]["status"] == "completed"
    bench.ask("review", at="a:s2")
    bench.answer("request_changes", "again")
    assert bench.state["phases"]["a"]["status"] == "in_progress"
    assert bench.state["phases"]["a"]["ended_event"] is None
    bench.step("a:s2")
    assert bench.state["phases"]["a"]["status"] == "completed"
    assert [event["type"] for event in bench.log].count("phase_complete") == 2


def test_revising_closes_the_gates_that_rest_on_it() -> None:
    """What was approved of a step's result, or after its phase, is asked again once the step was revised."""
    plan = plan_of(a="s1", b="t1")
    plan["phases"][0]["gates"] = [{"when": "before", "prompt": "Begin?"}, {"when": "after", "prompt": "Go on?"}]
    plan["phases"][0]["steps"][0]["on_success"] = "prompt"
    bench = Bench(plan)

    def gates() -> list[str]:
        met = []
        while bench.next["action"] == "gate":
            gate = bench.next["complete_with"].split("--gate ")[1]
            met.append(gate)
            bench.ask(at=None, gate_id=gate)
            bench.answer("approve")
        return met

    assert gates() == ["before:a:0"]
    bench.step("a:s1")
    assert gates() == ["result:a:s1", "after:a:1"]
    bench.ask("review", at="a:s1")
    bench.answer("changes", "x")
    bench.step("a:s1")
    assert gates() == ["result:a:s1", "after:a:1"]


def test_evidence_counts_anew_after_a_revision(bench: Bench) -> None:
    """A step that is sent back has to leave new evidence: what it left before does not count."""
    bench.step("a:s1")
    first = bench.state["phases"]["a"]["steps"]["s1"]["first_event"]
    bench.ask("review", at="a:s1")
    bench.answer("changes", "x")
    bench.start("a:s1")
    assert (bench.state["phases"]["a"]["steps"]["s1"]["first_event"] or 0) > (first or 0)


def test_retry_lets_a_failed_run_go_on(bench: Bench) -> None:
    """Asked about a failure, `retry` hands the failed step out again without another command."""
    bench.fail("a:s1")
    bench.ask("error_resolution", at="a:s1")
    assert bench.next["action"] == "wait"
    bench.answer("retry")
    assert (bench.state["status"], bench.place, bench.next["mode"]) == ("in_progress", "a:s1", "retry")


def test_retry_goes_on_though_the_run_failed_meanwhile(bench: Bench) -> None:
    """A run that failed while it was asked continues with `retry`; with an approval it stays failed."""
    for said, status in (("again", "in_progress"), ("continue", "failed")):
        run = Bench()
        run.start("a:s1")
        run.ask("error_resolution", options=["retry", "continue"])
        run.do(c.fail_run(run.state, run.plan, "out of tokens"))
        run.answer(said)
        assert run.state["status"] == status


def test_skip_settles_the_step_by_that_person(bench: Bench) -> None:
    """`skip` settles the failed step with the name of who said so, and the next one is handed out."""
    bench.fail("a:s1")
    bench.ask("error_resolution", at="a:s1")
    bench.answer("skip", "covered elsewhere")
    known = bench.state["phases"]["a"]["steps"]["s1"]
    assert (known["status"], known["message"]) == ("skipped", "Skipped by Ada: covered elsewhere")
    assert (bench.state["status"], bench.place, bench.state["errors"]) == ("in_progress", "a:s2", [])
    assert [heard["comment"] for heard in bench.next["feedback"]] == ["covered elsewhere"]


def test_skipping_the_last_step_completes_its_phase(bench: Bench) -> None:
    """A phase whose last open step is skipped by an answer is complete."""
    bench.step("a:s1")
    bench.start("a:s2")
    bench.ask("error_resolution")
    bench.answer("skip")
    assert (bench.state["phases"]["a"]["status"], bench.place) == ("completed", "b:t1")


def test_what_is_complete_is_not_skipped(bench: Bench) -> None:
    """`skip` about a complete step leaves it complete and continues."""
    bench.step("a:s1")
    bench.ask("error_resolution", at="a:s1")
    bench.answer("skip")
    assert (bench.status_of("a:s1"), bench.place) == ("completed", "a:s2")


@pytest.mark.parametrize(
    ("kind", "said"),
    [("approval", "reject"), ("confirmation", "cancel"), ("review", "reject"), ("error_resolution", "abort")],
)
def test_abort_cancels_the_run(bench: Bench, kind: str, said: str) -> None:
    """The options that reject the whole run end it for good, even with other requests open."""
    bench.start("a:s1")
    bench.ask(kind)
    bench.ask()
    bench.answer(said)
    assert (bench.state["status"], bench.next["action"]) == ("cancelled", "done")
    assert bench.state["feedback_queue"] == []


def test_a_choice_called_abort_is_only_a_choice(bench: Bench) -> None:
    """The options of a selection end nothing."""
    bench.start("a:s1")
    bench.ask("selection", options=["abort", "retry"])
    bench.answer("abort")
    assert (bench.state["status"], bench.place) == ("in_progress", "a:s1")


def test_a_rejected_gate_stops_and_is_asked_again() -> None:
    """A gate's `reject` fails the run, which is resumed and asks again: it is not cancelled."""
    plan = plan_of(a="s1")
    plan["phases"][0]["steps"][0]["destructive"] = True
    bench = Bench(plan)
    bench.ask(gate_id="step:a:s1", options=["yes", "no"])
    asked = bench.state["feedback_request"]
    assert asked is not None
    assert asked["options"] == ["approve", "reject"]
    bench.answer("no", "not today")
    assert bench.state["status"] == "failed"
    bench.do(c.resume_run(bench.state, bench.plan))
    assert bench.next["action"] == "gate"


def test_an_answer_to_a_question_settles_it(bench: Bench) -> None:
    """The answer to a question about the context is kept under its code, and skips no step."""
    bench.start("a:s1")
    question = {"question": {"code": "spec_unreadable", "subject": "specs/7.md"}}
    bench.ask("selection", options=["skip", "regenerate", "abort"], context=question)
    bench.answer("skip")
    settled = bench.state["settled_questions"]["spec_unreadable"]
    assert (settled["option"], settled["subject"]) == ("skip", "specs/7.md")
    assert (bench.place, bench.status_of("a:s1")) == ("a:s1", "in_progress")


def test_who_answered_is_recorded(bench: Bench) -> None:
    """Event and state name the option as the request spells it, the action, the comment and the person."""
    bench.ask("review")
    bench.answer(" LGTM ", "\x1b[31mfine\u202e ")
    given = bench.log[-1]["metadata"]
    assert given == {
        "request_id": "fr-1",
        "response": "approve",
        "action": "continue",
        "comment": "[31mfine",
        "responder": ADA,
    }
    assert bench.state["answers"][-1]["responder"] == ADA
    assert problems("state", bench.state) == []


@pytest.mark.parametrize("name", [None, "fr-1"])
def test_answering_again_says_who_already_did(bench: Bench, name: str | None) -> None:
    """The second answer is refused with the name, the time and the place of the first."""
    bench.ask()
    bench.answer("approve")
    with pytest.raises(AlreadyAnswered) as caught:
        bench.answer("reject", name=name)
    assert "'approve' by Ada (terminal) at 2026-01-01T00:00:02" in caught.value.message
    assert caught.value.fields["responder"] == ADA
    assert caught.value.exit_code == 4


def test_a_second_answer_to_a_cancelled_run_is_answered_too(bench: Bench) -> None:
    """Also after `abort` it is said who answered, not only that the run is over."""
    bench.ask("error_resolution")
    bench.answer("abort")
    with pytest.raises(AlreadyAnswered):
        bench.answer("retry", name="fr-1")


@pytest.mark.parametrize(
    ("kind", "said", "again"),
    [
        ("review", "changes", "request_changes"),
        ("clarification", "Port 80", " Port 80"),
        ("error_resolution", "abort", "ABORT"),
    ],
)
def test_the_same_answer_once_more_is_a_repetition(bench: Bench, kind: str, said: str, again: str) -> None:
    """The same person repeating the same command is answered with the event of the first; anything else is refused."""
    bench.ask(kind)
    secret = "because ghp_" + "a" * 36
    answer: Any = {"response": said, "comment": secret, "responder": ADA}
    given: Any = respond(bench.state, bench.plan, request_id=None, **answer)
    bench.append([redact_json(draft) for draft in given])
    number = bench.log[-1]["event_id"]
    for name in (None, "fr-1"):
        repeated = respond(bench.state, bench.plan, request_id=name, **{**answer, "response": again})
        assert repeated == Repeated(number)
    bo = {**ADA, "name": "Bo"}
    for other in ({"response": "something else"}, {"comment": "other"}, {"responder": bo}, {"responder": None}):
        with pytest.raises(AlreadyAnswered):
            respond(bench.state, bench.plan, request_id=None, **{**answer, **other})


def test_nothing_asked_is_nothing_to_answer(bench: Bench) -> None:
    """Without any request, and for an unknown id, the refusal names what is open."""
    with pytest.raises(IllegalTransition):
        bench.answer("approve")
    bench.ask()
    with pytest.raises(IllegalTransition) as caught:
        bench.answer("approve", name="fr-9")
    assert caught.value.fields["open_requests"] == ["fr-1"]


def test_requests_queue_and_each_has_its_own_answer(bench: Bench) -> None:
    """The oldest is asked first, any may be answered, and the run waits for all."""
    bench.start("a:s1")
    names = [bench.ask("review"), bench.ask("clarification"), bench.ask("error_resolution")]
    bench.answer("In words", name=names[1])
    assert bench.state["feedback_request"]["request_id"] == names[0]  # type: ignore[index]
    bench.answer("changes", "shorter")
    assert bench.next["action"] == "wait"
    bench.answer("retry")
    assert bench.place == "a:s1"
    assert [heard["response"] for heard in bench.next["feedback"]] == ["In words", "request_changes", "retry"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"comment": 7}, {"comment": "x" * 2_001}, {"response": "x" * 2_001},
        {"response": ["approve"]}, {"responder": "Ada"}, {"responder": {"name": "Ada"}},
        {"responder": {**ADA, "name": "A\nB"}}, {"responder": {**ADA, "name": "\u202eadA"}},
        {"responder": {**ADA, "source": None}}, {"responder": {**ADA, "url": "u" * 501}},
        {"responder": {**ADA, "comment_id": "7"}}, {"responder": {**ADA, "comment_id": True}},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["feedback_received", "feedback_superseded"])
def test_the_log_takes_only_whole_answers(bench: Bench, kind: str, metadata: dict[str, Any]) -> None:
    """Whoever appends an answer: unknown actions, long texts and half or disguised responders are refused."""
    bench.ask()
    given = {"request_id": "fr-1", "response": "approve", **metadata}
    with pytest.raises(InvalidInput):
        accept(bench.state, bench.plan, {"type": kind, "metadata": given})


@pytest.mark.parametrize("action", ["explode", 7, None, ["abort"]])
def test_the_log_takes_only_known_actions(bench: Bench, action: Any) -> None:
    """An action other than the five is refused."""
    bench.ask()
    given = {"request_id": "fr-1", "response": "approve", "action": action}
    with pytest.raises(InvalidInput):
        accept(bench.state, bench.plan, {"type": "feedback_received", "metadata": given})


def test_a_late_answer_changes_nothing_and_is_shown(bench: Bench) -> None:
    """`feedback_superseded` leaves the state as it was; the history shows it as not counted."""
    bench.ask()
    bench.answer("approve", "go")
    before = {**bench.state}
    late = {"request_id": "fr-1", "response": "reject", "responder": {**ADA, "name": "Bo"}, "origin_id": 2}
    bench.append(accept(bench.state, bench.plan, {"type": "feedback_superseded", "metadata": late}))  # type: ignore[arg-type]
    changed = {key for key in before if before[key] != bench.state[key]}  # type: ignore[literal-required]
    assert changed == {"recent_events", "last_event_id", "updated_at"}
    (entry,) = history(bench.log)
    assert [(a["response"], a["counted"], a["responder"]["name"]) for a in entry["answers"]] == [
        ("approve", True, "Ada"),
        ("reject", False, "Bo"),
    ]
    assert entry["answers"][1]["origin_id"] == 2


def test_what_is_remembered_is_bounded(bench: Bench) -> None:
    """The state keeps the newest answers only, of the run and of each step."""
    bench.start("a:s1")
    for number in range(KEPT_ANSWERS + 5):
        bench.ask("clarification", prompt="p" * 2_000)
        bench.answer(f"{number}" + "x" * 1_000, "y" * 2_000)
    assert [len(bench.state["answers"]), len(bench.next["feedback"])] == [KEPT_ANSWERS, KEPT_FEEDBACK]
    assert bench.state["answers"][-1]["response"].startswith(f"{KEPT_ANSWERS + 4}")
    assert problems("state", bench.state) == []


def test_feedback_outlives_a_retry_loop(bench: Bench) -> None:
    """A step that was sent back keeps what people said about it when its phase is tried again."""
    bench.start("a:s1")
    bench.ask("review")
    bench.answer("changes", "shorter")
    loop: Draft = {"type": "retry_loop_enter", "phase": "a", "metadata": {"return_to": "a"}}
    bench.append([loop])
    assert [heard["comment"] for heard in bench.next["feedback"]] == ["shorter"]


@pytest.mark.parametrize(
    ("said", "status"), [("approve", "in_progress"), ("reject", "in_progress"), ("abort", "cancelled")]
)
def test_older_answers_do_what_they_did(bench: Bench, said: str, status: str) -> None:
    """An answer without action and responder folds as when it was given: only `abort` ended a run."""
    bench.start("a:s1")
    bench.ask()
    bench.append([{"type": "feedback_received", "metadata": {"request_id": "fr-1", "response": said}}])
    assert bench.state["status"] == status
    assert bench.state["answers"][-1]["responder"] is None
    assert problems("state", bench.state) == []


def test_a_state_adopted_before_folds(bench: Bench) -> None:
    """A run that an earlier faber adopted carries a state without answers; it is completed."""
    state: Any = {**initial_state(METADATA, bench.plan)}
    del state["answers"]
    for phase in state["phases"].values():
        for step in phase["steps"].values():
            del step["feedback"]
    metadata = {"state": state, "plan": bench.plan, "metadata": METADATA}
    bench.append([{"type": "run_adopted", "metadata": metadata}])
    bench.ask("review")
    bench.answer("changes", "x")
    assert problems("state", bench.state) == []


# --- any sequence ----------------------------------------------------------------------------------

MOVES = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(list(DEFAULT_OPTIONS)), st.sampled_from(PLACES)),
    st.tuples(st.just("answer"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("work"), st.sampled_from(["complete", "complete", "fail", "begin"]), st.just(0)),
    st.tuples(st.just("run"), st.sampled_from(["fail", "resume"]), st.just(0)),
)


@given(st.lists(MOVES, max_size=30))
@settings(max_examples=examples(25, 150), deadline=None)
def test_after_any_answers_the_next_step_is_the_first_unfinished(moves: list[Any]) -> None:
    """After any requests, answers and failures, `next` returns no complete step and skips no unfinished one."""
    bench = Bench()
    for what, one, two in moves:
        before = len(bench.log)
        try:
            _move(bench, what, one, two)
        except FaberError:
            assert len(bench.log) == before
            continue
        done = [place for place in PLACES if bench.status_of(place) in ("completed", "skipped")]
        left = [place for place in PLACES if place not in done]
        action = bench.next
        if action["action"] == "step":
            assert bench.place == left[0]
        elif action["action"] == "done" and bench.state["status"] != "cancelled":
            assert left == []
        assert (action["action"] == "wait") == bool(bench.state["feedback_queue"])
        assert (bench.state["status"] == "awaiting_feedback") <= bool(bench.state["feedback_queue"])
        assert all(bench.state["phases"][p.split(":")[0]]["steps"][p.split(":")[1]]["feedback"] == [] for p in done)
        for name, phase in bench.state["phases"].items():
            if phase["status"] == "completed":
                assert not [place for place in left if place.startswith(f"{name}:")]
    assert problems("state", bench.state) == []


def _move(bench: Bench, what: str, one: Any, two: Any) -> None:
    if what == "ask":
        bench.ask(one, two, options=["left", "right"] if one == "selection" else [])
    elif what == "answer" and bench.state["feedback_queue"]:
        asked = bench.state["feedback_queue"][one % len(bench.state["feedback_queue"])]
        options = [o for o in asked["options"] if o not in ("reject", "cancel", "abort")] or ["my own words"]
        said = asked["options"][-1] if two == 3 and asked["options"] else options[two % len(options)]
        bench.answer(said, "because" if two % 2 else None, asked["request_id"])
    elif what == "work" and bench.place is not None:
        bench.start(bench.place)
        if one == "complete":
            bench.do(_complete(bench, bench.place))
        elif one == "fail":
            bench.do(c.fail_step(bench.state, bench.plan, *bench.place.split(":"), "red"))
    elif what == "run":
        act = c.resume_run(bench.state, bench.plan) if one == "resume" else c.fail_run(bench.state, bench.plan, "x")
        bench.do(act)
