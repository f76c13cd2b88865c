"""The event types: one constant each, with what an event of the type must carry and who may record it.

The functions that make events of these types are in the modules beside this one.
"""

from typing import NamedTuple

from faber.errors import InvalidInput, UsageError


class UnknownEventType(UsageError):
    """An event type that faber does not have."""

    code = "unknown_event_type"
    recovery = "Use one of the known types."


class EventType(NamedTuple):
    """One kind of fact.

    `required` are dotted paths into the event that must be there and not empty. `command` is the only
    command that may record it (`None`: `faber event emit` may). `person` marks the types that
    speak for a person and are refused to agents. `notable` marks those a summary should show. `worker`
    marks those that a cluster's worker may report about its phase.
    """

    name: str
    required: tuple[str, ...] = ()
    command: str | None = None
    person: bool = False
    notable: bool = False
    worker: bool = False


_REGISTRY: dict[str, EventType] = {}


def _type(
    name: str,
    required: tuple[str, ...] = (),
    *,
    command: str | None = None,
    person: bool = False,
    notable: bool = False,
    worker: bool = False,
) -> str:
    """Add an event type to the registry; its name."""
    _REGISTRY[name] = EventType(name, required, command, person, notable, worker)
    return name


def known_types() -> tuple[str, ...]:
    """The names of all event types."""
    return tuple(_REGISTRY)


def worker_types() -> frozenset[str]:
    """The names of the types that a cluster's worker may report."""
    return frozenset(name for name, kind in _REGISTRY.items() if kind.worker)


def event_type(name: str) -> EventType:
    """The type of that name; raises `UnknownEventType` with the nearest names."""
    try:
        return _REGISTRY[name]
    except KeyError:
        from difflib import get_close_matches

        near = get_close_matches(name, _REGISTRY, 3, 0.5)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UnknownEventType(
            f"Unknown event type {name[:60]!a}.{hint}", known=sorted(_REGISTRY), nearest=near
        ) from None


def check_required(name: str, event: dict[str, object]) -> None:
    """Raise `InvalidInput` unless `event` carries all that its type requires."""
    missing = [path for path in event_type(name).required if not _at(event, path)]
    if missing:
        raise InvalidInput(
            f"An event of type {name} needs {', '.join(missing)}.",
            type=name,
            missing=missing,
            recovery=f"Give {', '.join(_option(path) for path in missing)}.",
        )


def _at(value: object, path: str) -> object:
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _option(path: str) -> str:
    head, _, rest = path.partition(".")
    option = "--artifact" if head == "artifacts" else f"--{head}"
    return f"{option} '{{\"{rest}\": …}}'" if rest else option


# --- runs, phases and steps ------------------------------------------------------------------------

_PLACE = ("phase", "step")
WORKFLOW_START = _type("workflow_start", command="faber run resume")
WORKFLOW_COMPLETE = _type("workflow_complete", command="faber run complete")
WORKFLOW_ERROR = _type("workflow_error", ("error.message",), command="faber run fail", notable=True)
WORKFLOW_CANCELLED = _type("workflow_cancelled", ("message",), command="faber run cancel", notable=True)
WORKFLOW_RESUMED = _type("workflow_resumed", command="faber run resume", notable=True)
# A failed check of the run's pull request, or a review of it that requests changes: there is work again.
RUN_REOPENED = _type(
    "run_reopened",
    ("phase", "message", "metadata.return_to", "metadata.source", "metadata.commit"),
    command="faber feedback from-event",
    person=True,
    notable=True,
)
WORKFLOW_RERUN = _type("workflow_rerun", ("metadata.rerun_of",), command="faber run rerun", notable=True)
RUN_ADOPTED = _type("run_adopted", ("metadata.state", "metadata.plan"), command="faber run adopt")
# A person accepts that events are lost: what state.json knew is the state from here on.
LOSS_ACCEPTED = _type(
    "loss_accepted",
    ("metadata.state", "metadata.metadata"),
    command="faber repair --accept-loss",
    person=True,
    notable=True,
)
# These contain the whole state: a fold starts at the newest of them.
SNAPSHOTS = frozenset({RUN_ADOPTED, LOSS_ACCEPTED})
# Another session works on the step in progress from now on; a person releases the run for that.
RUN_HELD = _type("run_held", command="faber next", notable=True)
RUN_RELEASED = _type("run_released", command="faber run takeover", person=True, notable=True)
CONTEXT_LOADED = _type("context_loaded", command="faber context --record")
PHASE_START = _type("phase_start", ("phase",), command="faber phase start", worker=True)
PHASE_SKIP = _type("phase_skip", ("phase",), command="faber phase skip", person=True, notable=True)
PHASE_COMPLETE = _type("phase_complete", ("phase",), command="faber phase complete", notable=True)
PHASE_ERROR = _type("phase_error", ("phase", "error.message"), command="faber phase fail", notable=True)
STEP_START = _type("step_start", _PLACE, command="faber step start")
STEP_COMPLETE = _type("step_complete", _PLACE, command="faber step complete")
STEP_ERROR = _type("step_error", (*_PLACE, "error.message"), command="faber step fail", notable=True)
STEP_BLOCKED = _type("step_blocked", (*_PLACE, "metadata.missing"), command="faber step complete", notable=True)
STEP_RETRY = _type("step_retry", _PLACE, command="faber step start", notable=True)
STEP_SKIP = _type("step_skip", _PLACE, command="faber step skip", person=True, notable=True)
RETRY_LOOP_ENTER = _type("retry_loop_enter", ("phase", "metadata.return_to"), person=True, notable=True)
RETRY_LOOP_EXIT = _type("retry_loop_exit", ("phase",), notable=True)

# --- people ----------------------------------------------------------------------------------------

FEEDBACK_REQUEST = _type(
    "feedback_request", ("metadata.request_id", "metadata.prompt"), command="faber feedback request", notable=True
)
FEEDBACK_RECEIVED = _type(
    "feedback_received",
    ("metadata.request_id", "metadata.response"),
    command="faber feedback respond",
    person=True,
    notable=True,
)
# Where people were notified outside the terminal: the comment of a request, and that of a run's progress.
FEEDBACK_NOTIFIED = _type(
    "feedback_notified", ("metadata.request_id", "metadata.comment_id"), command="faber feedback request --post"
)
PROGRESS_NOTIFIED = _type("progress_notified", ("metadata.comment_id",), command="faber feedback post")
# An answer that came second, from another copy of the run: shown in the history, without effect.
FEEDBACK_SUPERSEDED = _type(
    "feedback_superseded",
    ("metadata.request_id", "metadata.response"),
    command="faber sync pull",
    person=True,
    notable=True,
)
DECISION_POINT = _type("decision_point", ("message",), notable=True)
APPROVAL_REQUEST = _type("approval_request", ("message",), notable=True)
APPROVAL_GRANTED = _type("approval_granted", person=True, notable=True)
APPROVAL_DENIED = _type("approval_denied", person=True, notable=True)

# --- records ---------------------------------------------------------------------------------------

ARTIFACT_CREATE = _type("artifact_create", ("artifacts",))
ARTIFACT_MODIFY = _type("artifact_modify", ("artifacts",))
COMMIT_CREATE = _type("commit_create", ("metadata.sha",))
BRANCH_CREATE = _type("branch_create", ("metadata.branch",))
PR_CREATE = _type("pr_create", ("metadata.url",))
# Another commit was pushed to the pull request, or it became a draft or ready: `faber pull-request` alone knows.
PR_UPDATE = _type("pr_update", ("metadata.url", "metadata.commit"), command="faber pull-request")
PR_MERGE = _type("pr_merge", ("metadata.url",))
PR_CLOSE = _type("pr_close", ("metadata.url",), command="faber feedback from-event")
SPEC_GENERATE = _type("spec_generate", ("metadata.path",))
SPEC_VALIDATE = _type("spec_validate", ("status",))
TEST_RUN = _type("test_run", ("status",))
DOCS_UPDATE = _type("docs_update")
CHECKPOINT = _type("checkpoint")
SESSION_START = _type("session_start")
SESSION_END = _type("session_end")
SKILL_INVOKE = _type("skill_invoke", ("metadata.skill",))
AGENT_INVOKE = _type("agent_invoke", ("metadata.agent",))
COMMAND_REFUSED = _type("command_refused", ("message", "metadata.code"), command="a refused command", notable=True)
HOOK_EXECUTE = _type("hook_execute", ("metadata.hook",))
RESPONSE_RECOVERED = _type(
    "response_recovered",
    ("status", "metadata.task_id", "metadata.final_status"),
    command="the recovery of a cut response",
    worker=True,
)

# --- nebulas ---------------------------------------------------------------------------------------
# A nebula's phases also start, end and are skipped with the `phase_*` events above; `model/nebula_rules.py` says what
# those mean for a nebula: one failed phase does not stop the others.

_APPLY = "faber nebula apply"

NEBULA_START = _type("nebula_start", ("metadata.nebula", "metadata.phases"), command=_APPLY, notable=True)
NEBULA_LAND = _type("nebula_land", ("metadata.commit",), command="faber nebula land", notable=True)
# No turn can begin, until the time that is named or until a person did something; and turns come through again.
TURNS_REFUSED = _type("turns_refused", ("message", "metadata.reason"), command=_APPLY, notable=True)
TURNS_RESUMED = _type("turns_resumed", command=_APPLY, notable=True)
PHASE_RESET = _type("phase_reset", ("phase", "message"), command=_APPLY, notable=True)
PHASE_MERGE = _type("phase_merge", ("phase", "metadata.commit"), command=_APPLY, notable=True)
CHECKPOINT_VERDICT = _type("checkpoint_verdict", ("phase", "metadata.verdict"), command=_APPLY, worker=True)
CYCLE_START = _type("cycle_start", ("phase", "metadata.cycle"), command=_APPLY, worker=True)
CYCLE_COMMIT = _type("cycle_commit", ("phase", "metadata.cycle", "metadata.commit"), command=_APPLY, worker=True)
CYCLE_COMPLETE = _type("cycle_complete", ("phase", "metadata.cycle"), command=_APPLY, worker=True)
AGENT_TURN = _type("agent_turn", ("phase", "metadata.role"), command=_APPLY, worker=True)
FILTER_RUN = _type("filter_run", ("phase", "metadata.filter", "status"), command=_APPLY, worker=True)
REVIEW = _type("review", ("phase", "status"), command=_APPLY, worker=True)
HEALING_START = _type("healing_start", ("phase", "metadata.kind"), command=_APPLY, notable=True)
HEALING_SKIPPED = _type("healing_skipped", ("phase", "metadata.reason"), command=_APPLY, notable=True)
HEALING_PLAN = _type("healing_plan", ("phase", "metadata.remediation"), command=_APPLY)
HEALING_INSERT = _type("healing_insert", ("phase", "metadata.remediation"), command=_APPLY, notable=True)
HEALING_DONE = _type("healing_done", ("phase", "status"), command=_APPLY, notable=True)
