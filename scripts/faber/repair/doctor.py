"""Finds what is wrong with a run or a store, without changing it."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from faber.errors import FaberError, Notice, Severity
from faber.events.event_types import RUN_ADOPTED, known_types
from faber.model.documents import CLOSED, State
from faber.model.reducer import REDUCER_VERSION
from faber.store import index, log, strict_json
from faber.store.cache import PARSED
from faber.store.config import load_config
from faber.store.files import MAX_STATE, is_temporary, read_bytes
from faber.store.index import RECORDS
from faber.store.layout import (
    EVENTS,
    KEYS,
    LOCK,
    METADATA,
    PARKED,
    PLAN,
    STATE,
    SUMMARIES,
    UNFINISHED_PREFIX,
    WORK_ITEM,
    Layout,
)
from faber.store.load import Reader, Run, look, read_frame, refold
from faber.store.lock import holder
from faber.store.schema import problems
from faber.store.sessions import is_summary_name, unsafe_summary
from faber.text.safe_text import has_secret

REPAIR = "Run `faber repair {}`."


def examine_run(layout: Layout, run_id: str, read: Reader) -> list[Notice]:
    """Every finding about one run, most severe kinds first within each check. Linear in its log.

    `read` reads any run, whoever made it.
    """
    directory = None
    try:
        directory = layout.find_run_dir(run_id)
        run = read(layout, run_id)
    except FaberError as error:
        findings = [Notice(error.code, Severity.CRITICAL, error.message, error.recovery, run_id)]
        try:
            return findings + (
                [*_log(directory, run_id), *_leftovers(leftovers(directory), run_id)] if directory else []
            )
        except FaberError:
            return findings  # the log's directory itself is damaged
    findings = list(run.notices)
    if run.foreign:
        findings.append(
            Notice(
                "foreign_run",
                Severity.INFO,
                "The run was made by another tool and is read-only.",
                f"Run `faber run adopt {run_id}` to continue it here.",
                run_id,
            )
        )
    else:
        findings += _log(run.directory, run_id)
        findings += _fold(run.directory, run_id, run.folded)
        findings += _schemas(run.directory, run_id, "adopted_from" in run.state["relationships"])
        findings += _summaries(run.directory, run_id, run.state)
        findings += _keys(run.directory)
    findings += _leftovers(leftovers(run.directory), run_id)
    findings += _lock(run.directory, run_id)
    findings += _secrets(run.directory)
    return findings


def examine_store(layout: Layout) -> list[Notice]:
    """Findings about the whole store: configuration, index, leftovers of unfinished creations."""
    findings: list[Notice] = []
    try:
        load_config(layout)
    except FaberError as error:
        findings.append(Notice(error.code, Severity.ERROR, error.message, error.recovery, layout.config))
    if not layout.exists():
        return findings
    try:
        names = os.listdir(layout.runs)
    except OSError:
        names = []
    findings += [
        Notice(
            "leftover",
            Severity.WARNING,
            f"An unfinished run creation was left behind: {name}.",
            "Run `faber repair --store`; nothing of it was acknowledged.",
            os.path.join(layout.runs, name),
        )
        for name in sorted(names)
        if name.startswith(UNFINISHED_PREFIX)
    ]
    findings += _leftovers(store_leftovers(layout), "--store")
    run_ids = layout.run_ids()
    for lowered, count in Counter(run_id.lower() for run_id in run_ids).items():
        if count > 1:
            alike = [run_id for run_id in run_ids if run_id.lower() == lowered]
            findings.append(
                Notice(
                    "case_collision",
                    Severity.WARNING,
                    f"Run ids differ only in case: {', '.join(alike)}.",
                    "They collide on a case-insensitive file system.",
                )
            )
    return [*findings, *_index(layout, run_ids)]


def _log(directory: str, run_id: str) -> Iterator[Notice]:
    entries = log.listing(directory)
    adopted = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].type == RUN_ADOPTED), None)
    own = entries if adopted is None else entries[adopted:]
    expected = 1 if adopted is None else own[0].event_id
    counted = Counter(entry.event_id for entry in own)
    for event_id, count in counted.items():
        if count > 1:
            yield _critical("duplicate_event", f"Event {event_id} exists {count} times.", run_id)
    for event_id in sorted(counted):
        if event_id > expected:
            gap = f"{expected}" if event_id == expected + 1 else f"{expected} to {event_id - 1}"
            yield _critical("event_gap", f"Event {gap} is missing from the log.", run_id)
        expected = event_id + 1
    known = set(known_types())
    for entry in own:
        path = os.path.join(directory, EVENTS, entry.file)
        if entry.type not in known:
            yield Notice(
                "unknown_event_type",
                Severity.WARNING,
                f"{entry.file} has an unknown event type.",
                "Update faber.",
                path,
            )
        try:
            event = log.read_own_event(directory, entry.file, entry.event_id, entry.type)
        except FaberError as error:
            yield _critical("event_unreadable", error.message, path)
            continue
        if event.get("run_id") != run_id:
            yield _critical("event_of_other_run", f"{entry.file} belongs to run {event.get('run_id')!a:.150}.", path)
        for problem in problems("event", event)[:3]:
            where = problem.path or "the event"
            yield Notice("schema_violation", Severity.ERROR, f"{entry.file}: {where}: {problem.message}", "", path)


def _critical(code: str, message: str, source: str) -> Notice:
    return Notice(code, Severity.CRITICAL, message, "Restore the file from a backup or another clone.", source)


def _fold(directory: str, run_id: str, behind: int) -> Iterator[Notice]:
    raw = strict_json.loads(read_bytes(os.path.join(directory, STATE), MAX_STATE))
    if behind:
        yield Notice(
            "state_behind",
            Severity.INFO,
            f"state.json lacks the last {behind} event(s): a writer was interrupted.",
            "The next command folds them in.",
            run_id,
        )
    if raw.get("reducer_version") != REDUCER_VERSION or raw["last_event_id"] != _count(directory) - behind:
        return
    try:
        truth = _upto(directory, run_id, raw["last_event_id"])
    except (FaberError, KeyError, TypeError):
        return  # reported by the checks of the log
    different = sorted(key for key in {*truth, *raw} if truth.get(key) != raw.get(key))
    if different:
        yield Notice(
            "state_differs",
            Severity.ERROR,
            f"state.json differs from the fold of its events in: {', '.join(different)}.",
            REPAIR.format(run_id),
            os.path.join(directory, STATE),
        )


def _count(directory: str) -> int:
    entries = log.listing(directory)
    return entries[-1].event_id if entries else 0


def _upto(directory: str, run_id: str, last: int) -> dict[str, Any]:
    metadata, plan = read_frame(directory, run_id)
    return dict(refold(directory, metadata, plan, last=last))


def _schemas(directory: str, run_id: str, adopted: bool) -> Iterator[Notice]:
    for name, kind in ((STATE, "state"), (METADATA, "metadata"), (PLAN, "plan")):
        try:
            value = strict_json.loads(read_bytes(os.path.join(directory, name), MAX_STATE))
        except (OSError, FaberError, strict_json.InvalidJSON):
            continue  # `load` would have raised
        if kind == "metadata" and adopted:
            continue  # the other tool's format, kept
        if kind == "state" and value.get("reducer_version") != REDUCER_VERSION:
            continue  # another version's form; whoever reads it folds the events again
        for problem in problems(kind, value)[:3]:
            where = problem.path or "the document"
            yield Notice("schema_violation", Severity.ERROR, f"{name}: {where}: {problem.message}", "", run_id)


def _summaries(directory: str, run_id: str, state: State) -> Iterator[Notice]:
    latest = state["session_summaries"]["latest_file"]
    if latest is None:
        return
    if not is_summary_name(latest):
        yield unsafe_summary(latest, state["session_summaries"]["latest_event"])
    elif not os.path.lexists(os.path.join(directory, SUMMARIES, latest)):
        yield Notice(
            "summary_missing",
            Severity.WARNING,
            f"Session summary {latest} is recorded in the log but is not on disk.",
            REPAIR.format(run_id),
            latest,
        )


def _keys(directory: str) -> Iterator[Notice]:
    path = os.path.join(directory, KEYS)
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in sorted(names):
        try:
            claim = strict_json.loads(read_bytes(os.path.join(path, name), MAX_STATE))
            dangling = log.find_key(directory, claim["key"]) is None
        except (OSError, FaberError, strict_json.InvalidJSON, KeyError, TypeError):
            dangling = not is_temporary(name)
        if dangling:
            yield Notice(
                "dangling_key",
                Severity.INFO,
                f"Key file {name[:20]} has no event: its writer was interrupted before recording it.",
                "Harmless; the key can be used again.",
                os.path.join(path, name),
            )


def leftovers(directory: str) -> list[str]:
    """Temporary files of writers that were killed, as paths."""
    return _temporary(os.path.join(directory, inner) for inner in ("", EVENTS, KEYS, SUMMARIES, PARKED))


def store_leftovers(layout: Layout) -> list[str]:
    """The same, outside the runs' directories."""
    return _temporary((layout.store, os.path.join(layout.index, PARSED), os.path.join(layout.index, RECORDS)))


def _temporary(directories: Iterable[str]) -> list[str]:
    found = []
    for path in directories:
        try:
            found += [os.path.join(path, name) for name in os.listdir(path) if is_temporary(name)]
        except OSError:
            continue
    return sorted(found)


def _leftovers(paths: list[str], of: str) -> Iterator[Notice]:
    for path in paths:
        yield Notice(
            "leftover",
            Severity.WARNING,
            f"A killed writer left {os.path.basename(path)} behind.",
            f"`faber repair {of}` sets it aside; nothing of it was acknowledged.",
            path,
        )


def _lock(directory: str, run_id: str) -> Iterator[Notice]:
    found = holder(os.path.join(directory, LOCK))
    if found is not None:
        yield Notice(
            "locked",
            Severity.WARNING,
            f"The run is locked by process {found.get('pid', 'unknown')} ({found.get('command', 'unknown')}).",
            "It is released when that process ends.",
            run_id,
        )


def _secrets(directory: str) -> Iterator[Notice]:
    places = [os.path.join(directory, name) for name in (STATE, METADATA, PLAN, WORK_ITEM)]
    for inner in (EVENTS, SUMMARIES):
        base = os.path.join(directory, inner)
        if os.path.isdir(base):
            places += [os.path.join(base, name) for name in sorted(os.listdir(base)) if name.endswith(".json")]
    for path in places:
        try:
            text = read_bytes(path, MAX_STATE).decode("utf-8", "replace")
        except (OSError, FaberError):
            continue
        if has_secret(text):
            yield Notice(
                "secret_in_store",
                Severity.WARNING,
                f"{os.path.relpath(path, directory)} contains what looks like a credential.",
                "Revoke it; the file is kept as it is.",
                path,
            )


def _index(layout: Layout, run_ids: list[str]) -> Iterator[Notice]:
    listed = {binding.run_id for binding in index.active(layout) or []}
    alive = set()
    for run_id in run_ids:
        try:
            run = look(layout, run_id)
        except FaberError as error:
            yield Notice(error.code, Severity.CRITICAL, error.message, error.recovery, run_id)
            listed.discard(run_id)
            continue
        if isinstance(run, Run) and run.state["status"] not in CLOSED:
            alive.add(run_id)
    wrong = sorted(listed ^ alive)
    if wrong:
        yield Notice(
            "stale_index",
            Severity.WARNING,
            f"The index is wrong about {len(wrong)} run(s): {', '.join(wrong[:5])}.",
            "Run `faber repair --store` to rebuild it.",
            layout.index,
        )
