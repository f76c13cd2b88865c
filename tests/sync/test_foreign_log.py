"""What a machine on which only an agent worked may add to a run's log, event by event."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from faber.events.event_types import event_type, known_types
from faber.feedback.requests import NewRequest, open_request
from faber.model import commands
from faber.model.acceptance import Decision
from faber.model.consequences import consequences
from faber.model.documents import State
from faber.model.reducer import fold, initial_state
from faber.sync.foreign_log import ALLOWED, ContextQuestion, Terms, check_foreign
from faber.sync.sync_errors import ForeignEvent

ASKED = {"spec_unreadable": ContextQuestion("Which specification?", ["skip", "abort"])}
TERMS = Terms(datetime(2026, 1, 1, 12, tzinfo=UTC), ASKED)
AT = "2026-01-01T12:00:00Z"
REQUEST = "fr-20260101-0a1b2c3d"
PLAN: Any = {
    "schema_version": 1,
    "workflow_id": "export",
    "phases": [
        {
            "id": "build",
            "name": "Build",
            "steps": [
                {"id": "write", "name": "Write", "evidence": [{"kind": "file", "value": "export.txt"}]},
                {"id": "commit", "name": "Commit", "evidence": [{"kind": "commit", "value": None}]},
            ],
            "on_failure": {"return_to": "build", "max_retries": 1},
        },
        {
            "id": "release",
            "name": "Release",
            "gates": [{"when": "before", "prompt": "Release it?"}],
            "steps": [
                {"id": "notes", "name": "Notes"},
                {"id": "open-pr", "name": "Open it", "pull_request": True},
            ],
        },
    ],
}
META: Any = {
    "schema_version": 1,
    "run_id": "acme/shop/one",
    "work_id": "7",
    "target": None,
    "workflow_id": "export",
    "autonomy": "guarded",
    "created_at": AT,
    "created_by": "agent",
    "relationships": {},
}
PLAN["phases"][1]["gates"] = [{"when": "before", "prompt": "Release it?"}]
FOUND = [{"kind": "file", "value": "export.txt", "met": True, "detail": "It is there."}]
COMMITTED = [{"kind": "commit", "value": None, "met": True, "detail": "One commit."}]


class Log:
    """A log as an agent's own commands write it."""

    def __init__(self) -> None:
        self.state: State = initial_state(META, PLAN)
        self.events: list[Any] = []

    def take(self, drafts: Decision, **more: Any) -> "Log":
        assert isinstance(drafts, list)
        for draft in drafts:
            self._add({**draft, **more})
        while following := consequences(self.state, PLAN):
            for draft in following:
                self._add(dict(draft))
        return self

    def _add(self, draft: Any) -> None:
        number = self.state["last_event_id"] + 1
        frame = {"schema_version": 1, "event_id": number, "timestamp": AT, "run_id": "acme/shop/one"}
        event = copy.deepcopy({**frame, "actor": "agent", "session_id": "s", **draft})
        self.events.append(event)
        self.state = fold(self.state, [event])

    def note(self, type: str, **fields: Any) -> "Log":
        return self.take([{"type": type, **fields}])  # type: ignore[typeddict-item]

    def start(self, phase: str, step: str) -> "Log":
        return self.take(commands.start_step(self.state, PLAN, phase, step))

    def complete(self, phase: str, step: str, evidence: list[Any] | None = None) -> "Log":
        return self.note(
            "step_complete", phase=phase, step=step, status="success", metadata={"evidence": evidence or []}
        )

    def ask(self, **more: Any) -> "Log":
        asked = {"request_id": REQUEST, "kind": "approval", "prompt": "Is this right?", **more}
        return self.take(open_request(self.state, PLAN, NewRequest(**asked)))


def begun() -> Log:
    """The run as the remote has it: its first step is in progress."""
    return Log().start("build", "write")


def built() -> Log:
    """The run with its first phase done."""
    return begun().complete("build", "write", FOUND).start("build", "commit").complete("build", "commit", COMMITTED)


def failed() -> Log:
    """The run after more failures than its plan retries."""
    made = begun()
    for _ in range(2):
        made.take(commands.fail_step(made.state, PLAN, "build", "write", "No"))
        if made.state["status"] != "failed":
            made.start("build", "write")
    assert made.state["status"] == "failed"
    return made


def check(before: Log, after: Log) -> State:
    """The state after what `after` has in addition."""
    return check_foreign(before.state, PLAN, after.events[len(before.events) :], TERMS)


def test_an_agents_own_work_may_be_added() -> None:
    """Steps, notes, a refusal, a retry loop and a gate's question, as its own commands record them."""
    done = built().ask(gate_id="before:release:0")
    assert done.state["status"] == "awaiting_feedback"
    for honest in (
        done,
        failed(),
        begun().note("decision_point", message="CSV").note("spec_generate", metadata={"path": "spec.md"}),
        begun().note("run_held").note("session_start").note("hook_execute", metadata={"hook": "Stop"}, actor="hook"),
        begun().ask(options=["yes", "no"], artifacts=["notes.txt"]),
        question(),
        begun().note("workflow_resumed"),
    ):
        assert check(begun(), honest) == honest.state
    assert check(Log(), done) == done.state


def test_a_third_refusal_asks_for_a_waiver() -> None:
    """The request that follows from missing evidence is taken, with any new id; without it there is none."""
    missing = [{"kind": "file", "value": "export.txt", "met": False, "detail": "No file export.txt."}]
    made = begun()
    for _ in range(3):
        made.take(commands.block_step(made.state, PLAN, "build", "write", missing, REQUEST))
    assert check(begun(), made) == made.state
    alone = begun().note(**made.events[-1])
    refused(begun(), alone, "more than a request has")


def refused(before: Log, after: Log, why: str) -> None:
    """What `after` has in addition may not be added."""
    with pytest.raises(ForeignEvent) as caught:
        check(before, after)
    assert why in caught.value.fields["reason"], caught.value.fields["reason"]


def question(prompt: str = "Which specification? (spec.md)", code: str = "spec_unreadable") -> Log:
    """A question about the run's context."""
    about = {"question": {"code": code, "subject": "spec.md"}}
    return begun().ask(kind="error_resolution", prompt=prompt, options=["skip", "abort"], context=about)


class Forged(NamedTuple):
    """Events that follow a log, and a part of why they are refused."""

    before: Callable[[], Log]
    add: Callable[[Log], Log]
    why: str


def answer(made: Log, **more: Any) -> Log:
    """A person's answer."""
    given = {"request_id": REQUEST, "response": "approve", "action": "continue", **more}
    return made.note("feedback_received", metadata=given)


def request(made: Log, **changes: Any) -> Log:
    """A request that is not as faber would ask it."""
    asked = begun().ask().events[-1] if made.state["status"] == "in_progress" else made.events[-1]
    context = changes.pop("context", {})
    given = {**asked["metadata"], **changes}
    return made.note(
        "feedback_request", phase="build", step="write", message=given["prompt"], metadata=given | {"context": context}
    )


def opened() -> Log:
    """The run in its last step, with every gate approved by a person."""
    made = built()
    for number, gate in enumerate(("phase:release", "before:release:0")):
        asked = f"fr-20260101-0000000{number}"
        made.ask(request_id=asked, gate_id=gate)
        answer(made, request_id=asked)
    return made.start("release", "notes").complete("release", "notes").start("release", "open-pr")


FORGED = {
    "an approval": Forged(lambda: begun().ask(), answer, "no agent records this type"),
    "an approval that arrived second": Forged(
        begun,
        lambda m: m.note("feedback_superseded", metadata={"request_id": REQUEST, "response": "approve"}),
        "no agent records",
    ),
    "an approval that somebody granted": Forged(begun, lambda m: m.note("approval_granted"), "no agent records"),
    "a skipped step": Forged(begun, lambda m: m.note("step_skip", phase="build", step="write"), "no agent records"),
    "a skipped phase": Forged(begun, lambda m: m.note("phase_skip", phase="build"), "no agent records"),
    "a cancelled run": Forged(begun, lambda m: m.note("workflow_cancelled", message="No"), "no agent records"),
    "a takeover": Forged(begun, lambda m: m.note("run_released", message="Mine"), "no agent records"),
    "a retry loop": Forged(
        begun, lambda m: m.note("retry_loop_enter", phase="build", metadata={"return_to": "build"}), "no agent records"
    ),
    "a run that failed, resumed": Forged(failed, lambda m: m.note("workflow_resumed"), "nothing of the kind"),
    "a step of a run that failed": Forged(
        failed, lambda m: m.note("step_retry", phase="build", step="write"), "a person decides"
    ),
    "a step behind a gate": Forged(
        built, lambda m: m.note("step_start", phase="release", step="notes"), "must approve"
    ),
    "a phase behind a gate": Forged(built, lambda m: m.note("phase_start", phase="release"), "must approve"),
    "a step out of order": Forged(begun, lambda m: m.complete("build", "commit", COMMITTED), "not in progress"),
    "a run that is complete": Forged(built, lambda m: m.note("workflow_complete"), "not complete"),
    "a phase that is complete": Forged(begun, lambda m: m.note("phase_complete", phase="build"), "not complete"),
    "work while a person is asked": Forged(
        lambda: begun().ask(), lambda m: m.complete("build", "write", FOUND), "waits"
    ),
    "a step without its evidence": Forged(begun, lambda m: m.complete("build", "write"), "no evidence"),
    "a step with other evidence": Forged(begun, lambda m: m.complete("build", "write", COMMITTED), "no evidence"),
    "evidence that was waived": Forged(
        begun, lambda m: m.complete("build", "write", [{"kind": "waived", "value": "x", "met": True}]), "nobody waived"
    ),
    "a question that was settled": Forged(
        begun,
        lambda m: m.note("decision_point", message="Skip", metadata={"question": "spec_missing", "option": "skip"}),
        "only a person",
    ),
    "a gate asked in other words": Forged(
        built, lambda m: request(m, prompt="Fix a typo?", context={"gate": "before:release:0"}), "other words"
    ),
    "a request that was posted": Forged(
        begun, lambda m: request(m, notification_sent={"issue_comment": True, "comment_id": 5}), "other words"
    ),
    "a request for a waiver": Forged(begun, lambda m: request(m, context={"waive": "build:write"}), "more than"),
    "a question in other words": Forged(begun, lambda m: question("Is the README fine?"), "not one that faber asks"),
    "a question that faber does not ask": Forged(begun, lambda m: question(code="sudo"), "not one that faber asks"),
    "a nebula's request": Forged(begun, lambda m: request(m, context={"nebula_phase": "x"}), "more than"),
    "a request about another step": Forged(
        begun, lambda m: request(m, resume_point={"phase": "release", "step": "open-pr"}), "other words"
    ),
    "a request with an odd id": Forged(begun, lambda m: request(m, request_id="@all"), "not a new one"),
    "a pull request": Forged(begun, lambda m: m.note("pr_create", metadata={"url": "https://x/pull/1"}), "no agent"),
    "a pull request as an artifact": Forged(
        begun, lambda m: m.note("artifact_create", artifacts=[{"name": "pr_url", "value": "https://x"}]), "pull request"
    ),
    "a comment of its progress": Forged(
        begun, lambda m: m.note("progress_notified", metadata={"comment_id": 5}), "no agent records"
    ),
    "a nebula": Forged(begun, lambda m: m.note("nebula_start", metadata={"nebula": "x", "phases": {}}), "no agent"),
    "an event of a person": Forged(begun, lambda m: m.note("decision_point", message="x", actor="person"), "actor"),
    "an event that names a plan": Forged(
        begun, lambda m: m.note("checkpoint", plan_digest="sha256:" + "0" * 64), "another plan"
    ),
    "a repetition": Forged(begun, lambda m: m.note("checkpoint", metadata={"origin_id": "1-0"}), "repeat"),
    "the key of a comment": Forged(begun, lambda m: m.note("checkpoint", key="comment-5000"), "faber's own"),
    "an event of last year": Forged(begun, lambda m: m.note("checkpoint", timestamp="2025-01-01T12:00:00Z"), "time"),
    "an event of next year": Forged(begun, lambda m: m.note("checkpoint", timestamp="2027-01-01T12:00:00Z"), "time"),
    "a place that is not in the plan": Forged(
        begun, lambda m: m.note("decision_point", message="x", phase="secret"), "secret"
    ),
    "the step that opens the pull request": Forged(opened, lambda m: m.complete("release", "open-pr"), "faber itself"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_an_agent_may_not_add_is_refused(name: str) -> None:
    """Each forged event is refused, and named, with the reason that belongs to it."""
    before, add, why = FORGED[name]
    refused(before(), add(before()), why)


def test_every_type_that_speaks_for_a_person_is_refused() -> None:
    """The list of what is allowed is positive, and has nothing that a person or GitHub's answers record."""
    assert set(known_types()) > ALLOWED
    assert not any(event_type(name).person for name in ALLOWED)
    assert not {name for name in ALLOWED if name.startswith(("feedback_", "workflow_c", "pr_"))} - {
        "feedback_request",
        "workflow_complete",
    }


def test_ten_thousand_events_are_too_many() -> None:
    """A flood of events ends at a limit."""
    made = begun()
    event = begun().note("checkpoint").events[-1]
    flood = [{**event, "event_id": event["event_id"] + number} for number in range(5_001)]
    with pytest.raises(ForeignEvent, match="more than 5000"):
        check_foreign(made.state, PLAN, flood, TERMS)
