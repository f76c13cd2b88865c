"""Checks events from another machine: they are folded before anything here is replaced, and refused if invalid."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from faber.errors import FaberError, InvalidInput
from faber.events.drafts import Event
from faber.events.event_types import SESSION_END, SNAPSHOTS, check_required, known_types
from faber.model.acceptance import SUMMARY_FILE
from faber.model.documents import SCHEMA_VERSION, Metadata, Plan, State
from faber.model.model_errors import StateCorrupt
from faber.model.reducer import event_file, fold, initial_state
from faber.model.validation import check_metadata, check_places, check_plan, check_state
from faber.store import log, strict_json
from faber.store.files import MAX_STATE
from faber.store.layout import EVENTS, METADATA, PLAN, SUMMARIES
from faber.store.load import plan_digest
from faber.store.log import LogEntry
from faber.sync.sync_errors import RemoteRunInvalid
from faber.sync.sync_git import SyncGit
from faber.sync.trees import Tree, own_from, read_blobs


class Constants(NamedTuple):
    """What never changes about a run."""

    metadata: Metadata
    plan: Plan


def read_events(git: SyncGit, tree: Tree, after: int) -> list[tuple[LogEntry, bytes]]:
    """The events of the commit from number `after` on (0: all), each with its file's content.

    Whoever takes them reads the documents next, of a new run the summaries, too: they come along.
    """
    wanted = tree.events[after:]
    others = [
        path
        for path in tree.files
        if not path.startswith(f"{EVENTS}/" if after == 0 else (f"{EVENTS}/", f"{SUMMARIES}/"))
    ]
    paths = [*(f"{EVENTS}/{entry.file}" for entry in wanted), *others]
    contents = read_blobs(git, tree, (tree.files[path].oid for path in paths)) if wanted else tree.contents
    return [(entry, contents[tree.files[f"{EVENTS}/{entry.file}"].oid]) for entry in wanted]


def check_run(run_id: str, git: SyncGit, tree: Tree, entries: Sequence[tuple[LogEntry, bytes]]) -> State:
    """The fold of all events of a run that is not here yet; raises `RemoteRunInvalid`."""
    contents = read_blobs(git, tree, (tree.files[name].oid for name in (METADATA, PLAN)))
    metadata = _loaded(contents[tree.files[METADATA].oid], METADATA, run_id)
    plan = _loaded(contents[tree.files[PLAN].oid], PLAN, run_id)
    try:
        adopted = own_from(tree.events)
        first = _event(*entries[adopted], run_id) if entries else {}
        if tree.events and tree.events[adopted].type in SNAPSHOTS:
            # Another tool's own metadata.json stays as it is; the event says what it means.
            metadata = first["metadata"].get("metadata", metadata)
        constants = Constants(check_metadata(metadata, run_id), check_plan(plan, run_id))
        if first.get("plan_digest", plan_digest(constants.plan)) != plan_digest(constants.plan):
            raise invalid(run_id, "its plan.json is not the one that the run began with")
    except RemoteRunInvalid:
        raise
    except (FaberError, LookupError, TypeError, AttributeError) as error:
        raise invalid(run_id, f"{error}") from None
    return check_events(run_id, constants, initial_state(*constants), entries)[1]


def check_events(
    run_id: str, constants: Constants, state: State, entries: Sequence[tuple[LogEntry, bytes]]
) -> tuple[list[Event], State]:
    """These events and `state` after them; raises `RemoteRunInvalid` naming the first that is not valid.

    Each must match its file name, belong to this run, be of a known type with the fields that the type requires, and
    conform to the schema; their fold must be a state that can be stored. Events of another tool, before an adoption,
    are kept as they are and not folded.
    """
    own = own_from([entry for entry, _ in entries])
    events = []
    for number, (entry, data) in enumerate(entries):
        event = _event(entry, data, run_id)
        if number >= own:
            _check_event(run_id, entry, event)
            events.append(event)
    try:
        after = check_state(fold(state, events), run_id)
        check_places(after, constants.plan, run_id)
    except (LookupError, TypeError, ValueError, AttributeError, StateCorrupt) as error:
        raise invalid(run_id, f"its events cannot be folded ({type(error).__name__}: {error})") from None
    if len(strict_json.dumps(after)) > MAX_STATE:
        raise invalid(run_id, f"its state would be larger than {MAX_STATE} bytes")
    return events, after


def _check_event(run_id: str, entry: LogEntry, event: Any) -> None:
    where = f"event file {entry.file}"
    if event.get("event_id") != entry.event_id or event.get("type") != entry.type:
        raise invalid(run_id, f"{where} does not match its name")
    if event.get("run_id") != run_id:
        raise invalid(run_id, f"{where} is of another run")
    version = event.get("schema_version")
    if entry.type not in known_types() or not isinstance(version, int) or version > SCHEMA_VERSION:
        raise invalid(run_id, f"{where} was written by a newer faber: update this one")
    if entry.file != event_file(entry.event_id, entry.type):
        raise invalid(run_id, f"{where} is not spelled as faber spells it")
    problem = next(_validator().iter_errors(event), None)
    if problem is not None:
        at = ".".join(str(part) for part in problem.absolute_path)
        raise invalid(run_id, f"{where}: {at or 'top level'}: {problem.message[:200]}")
    try:
        check_required(entry.type, event)
    except InvalidInput as error:
        raise invalid(run_id, f"{where}: {error.message.rstrip('.')}") from None
    summary_file = event.get("metadata", {}).get("summary_file")
    if entry.type == SESSION_END and summary_file is not None:
        name_ok = isinstance(summary_file, str) and SUMMARY_FILE.fullmatch(summary_file)
        if not name_ok or not isinstance(event["metadata"].get("summary"), dict):
            raise invalid(run_id, f"{where} names a session summary in a way that faber never does")


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    from faber.store.schema import schema

    # The registry knows what each type requires: as forty conditionals of the schema it takes forty times as long.
    shape = {key: value for key, value in schema("event").items() if key != "allOf"}
    return Draft202012Validator(shape)


def _event(entry: LogEntry, data: bytes, run_id: str) -> Any:
    return _loaded(data, entry.file, run_id, log.decode)


def _loaded(data: bytes, name: str, run_id: str, read: Callable[[bytes], Any] = strict_json.loads) -> Any:
    try:
        value = read(data)
    except (strict_json.InvalidJSON, UnicodeDecodeError) as error:
        raise invalid(run_id, f"{name} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise invalid(run_id, f"{name} is not a JSON object")
    return value


def invalid(run_id: str, why: str) -> RemoteRunInvalid:
    """The error for a run `run_id` at the remote that is not valid."""
    return RemoteRunInvalid(f"The remote's run {run_id} is not valid: {why}.", run_id=run_id, reason=why)
