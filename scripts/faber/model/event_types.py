"""The registry of event types: what each must carry, and who may record it.

A later part of faber adds its types with `register`; the store, the command line and the doctor
know them from then on.
"""

from typing import NamedTuple

from faber.errors import InvalidInput
from faber.model.model_errors import UnknownEventType


class EventType(NamedTuple):
    """One kind of fact.

    `required` are dotted paths into the event that must be there and not empty. `command` is the
    command that alone may record it (`None`: `faber event emit` may). `person` marks the types that
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


def register(*types: EventType) -> None:
    """Make event types known; a second registration under the same name is a programming error."""
    for event_type in types:
        if event_type.name in _REGISTRY:
            raise ValueError(f"event type {event_type.name} is registered twice")
        _REGISTRY[event_type.name] = event_type


def known_types() -> tuple[str, ...]:
    """All registered names."""
    return tuple(_REGISTRY)


def worker_types() -> frozenset[str]:
    """The names of the types that a cluster's worker may report."""
    return frozenset(name for name, kind in _REGISTRY.items() if kind.worker)


def event_type(name: str) -> EventType:
    """The registered type; raises `UnknownEventType` with the nearest names."""
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


_PLACE = ("phase", "step")
register(
    EventType("workflow_start", command="faber run resume"),
    EventType("workflow_complete", command="faber run complete"),
    EventType("workflow_error", ("error.message",), command="faber run fail", notable=True),
    EventType("workflow_cancelled", ("message",), command="faber run cancel", notable=True),
    EventType("workflow_resumed", command="faber run resume", notable=True),
    EventType("workflow_rerun", ("metadata.rerun_of",), command="faber run rerun", notable=True),
    EventType("run_adopted", ("metadata.state", "metadata.plan"), command="faber run adopt"),
    EventType("context_loaded", command="faber context --record"),
    EventType("phase_start", ("phase",), command="faber phase start", worker=True),
    EventType("phase_skip", ("phase",), command="faber phase skip", person=True, notable=True),
    EventType("phase_complete", ("phase",), command="faber phase complete", notable=True),
    EventType("phase_error", ("phase", "error.message"), command="faber phase fail", notable=True),
    EventType("step_start", _PLACE, command="faber step start"),
    EventType("step_complete", _PLACE, command="faber step complete"),
    EventType("step_error", (*_PLACE, "error.message"), command="faber step fail", notable=True),
    EventType("step_blocked", (*_PLACE, "metadata.missing"), command="faber step complete", notable=True),
    EventType("step_retry", _PLACE, command="faber step start", notable=True),
    EventType("step_skip", _PLACE, command="faber step skip", person=True, notable=True),
    EventType(
        "feedback_request",
        ("metadata.request_id", "metadata.prompt"),
        command="faber feedback request",
        notable=True,
    ),
    EventType(
        "feedback_received",
        ("metadata.request_id", "metadata.response"),
        command="faber feedback respond",
        person=True,
        notable=True,
    ),
    # Where people were told, outside the terminal: the comment of a request, and the one of a run's progress.
    EventType(
        "feedback_notified",
        ("metadata.request_id", "metadata.comment_id"),
        command="faber feedback request --post",
    ),
    EventType("progress_notified", ("metadata.comment_id",), command="faber feedback post"),
    # An answer that came second, from another copy of the run: shown in the history, and without effect.
    EventType(
        "feedback_superseded",
        ("metadata.request_id", "metadata.response"),
        command="faber sync pull",
        person=True,
        notable=True,
    ),
    EventType("decision_point", ("message",), notable=True),
    EventType("approval_request", ("message",), notable=True),
    EventType("approval_granted", person=True, notable=True),
    EventType("approval_denied", person=True, notable=True),
    EventType("retry_loop_enter", ("phase", "metadata.return_to"), notable=True),
    EventType("retry_loop_exit", ("phase",), notable=True),
    EventType("artifact_create", ("artifacts",)),
    EventType("artifact_modify", ("artifacts",)),
    EventType("commit_create", ("metadata.sha",)),
    EventType("branch_create", ("metadata.branch",)),
    EventType("pr_create", ("metadata.url",)),
    EventType("pr_merge", ("metadata.url",)),
    EventType("spec_generate", ("metadata.path",)),
    EventType("spec_validate", ("status",)),
    EventType("test_run", ("status",)),
    EventType("docs_update"),
    EventType("checkpoint"),
    EventType("session_start"),
    EventType("session_end"),
    EventType("skill_invoke", ("metadata.skill",)),
    EventType("agent_invoke", ("metadata.agent",)),
    EventType("command_refused", ("message", "metadata.code"), command="a refused command", notable=True),
    EventType("hook_execute", ("metadata.hook",)),
    EventType(
        "response_recovered",
        ("status", "metadata.task_id", "metadata.final_status"),
        command="the recovery of a cut response",
        worker=True,
    ),
)

# A nebula's run. Its phases also begin, end and are skipped with the `phase_*` events above, which mean for it
# what `model/nebula_rules.py` says: one failed phase does not stop the others.
_APPLY = "faber nebula apply"
register(
    EventType("nebula_start", ("metadata.nebula", "metadata.phases"), command=_APPLY, notable=True),
    EventType("nebula_land", ("metadata.commit",), command="faber nebula land", notable=True),
    EventType("phase_reset", ("phase", "message"), command=_APPLY, notable=True),
    EventType("phase_merge", ("phase", "metadata.commit"), command=_APPLY, notable=True),
    EventType("checkpoint_verdict", ("phase", "metadata.verdict"), command=_APPLY, worker=True),
    EventType("cycle_start", ("phase", "metadata.cycle"), command=_APPLY, worker=True),
    EventType("cycle_commit", ("phase", "metadata.cycle", "metadata.commit"), command=_APPLY, worker=True),
    EventType("cycle_complete", ("phase", "metadata.cycle"), command=_APPLY, worker=True),
    EventType("agent_turn", ("phase", "metadata.role"), command=_APPLY, worker=True),
    EventType("filter_run", ("phase", "metadata.filter", "status"), command=_APPLY, worker=True),
    EventType("review", ("phase", "status"), command=_APPLY, worker=True),
    EventType("healing_start", ("phase", "metadata.kind"), command=_APPLY, notable=True),
    EventType("healing_skipped", ("phase", "metadata.reason"), command=_APPLY, notable=True),
    EventType("healing_plan", ("phase", "metadata.remediation"), command=_APPLY),
    EventType("healing_insert", ("phase", "metadata.remediation"), command=_APPLY, notable=True),
    EventType("healing_done", ("phase", "status"), command=_APPLY, notable=True),
)
