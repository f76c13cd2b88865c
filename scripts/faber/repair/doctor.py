"""Finds what is wrong with a run or a store, without changing it."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from faber.errors import FaberError, Notice, Severity
from faber.model.documents import CLOSED
from faber.model.reducer import REDUCER_VERSION
from faber.notify.allowed import NotAllowed, command_to_run
from faber.notify.delivery import failures
from faber.repair.log_check import LogReport, Progress, check_log, critical
from faber.repair.summaries import summary_problems
from faber.repair.traces import claims, frame_of
from faber.store import index, strict_json
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
from faber.store.load import Reader, Run, look
from faber.store.lock import holder, obstacle
from faber.store.schema import problems
from faber.text.safe_text import has_secret

REPAIR = "Run `faber repair {}`."
NOTIFIER = "Check the command of `notify` with `faber notify test`."


def examine_run(layout: Layout, run_id: str, read: Reader, progress: Progress | None = None) -> list[Notice]:
    """Every finding about one run, most severe kinds first within each check. Linear in its log.

    `read` reads any run, whoever made it. `progress` is told how many of its events were read.
    """
    directory = None
    run = None
    try:
        directory = layout.find_run_dir(run_id)
        run = read(layout, run_id)
        findings = list(run.notices)
    except FaberError as error:
        findings = [Notice(error.code, Severity.CRITICAL, error.message, error.recovery, run_id)]
    if directory is None:
        return findings
    report = LogReport()
    if run is not None and run.foreign:
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
        try:
            report = check_log(directory, run_id, frame_of(directory, run_id), claims(directory), progress=progress)
        except OSError as error:  # the log's directory itself is damaged
            findings.append(critical("event_unreadable", f"The log cannot be listed: {error.strerror}.", run_id))
    findings += report.findings
    if run is not None and not run.foreign:
        adopted = "adopted_from" in run.state["relationships"]
        findings += _state(directory, run_id, run, report)
        findings += _schemas(directory, run_id, adopted)
        findings += _keys(directory, report.keys)
        findings += summary_problems(directory, run_id, report.summaries, adopted=adopted)
    findings += _leftovers(leftovers(directory), run_id)
    findings += _lock(os.path.join(directory, LOCK), run_id)
    findings += _secrets(directory, report.read, report.secrets)
    findings += [
        Notice("not_told", Severity.WARNING, f"Nobody was told about event {number}: {why}.", NOTIFIER, run_id)
        for number, why in failures(directory)
    ]
    return findings


def examine_store(layout: Layout) -> list[Notice]:
    """Findings about the whole store: configuration, index, leftovers of unfinished creations."""
    findings: list[Notice] = []
    try:
        if load_config(layout).at("notify") is not None:
            command_to_run(layout, os.environ)
    except NotAllowed as error:
        findings.append(Notice(error.code, Severity.WARNING, error.message, error.recovery, layout.config))
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
    for path in (layout.lock, layout.beginning):
        findings += _lock(path, path)
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


def _state(directory: str, run_id: str, run: Run, report: LogReport) -> Iterator[Notice]:
    raw = strict_json.loads(read_bytes(os.path.join(directory, STATE), MAX_STATE))
    if run.folded:
        yield Notice(
            "state_behind",
            Severity.INFO,
            f"state.json lacks the last {run.folded} event(s): a writer was interrupted.",
            "The next command folds them in.",
            run_id,
        )
    truth = report.counted
    if raw.get("reducer_version") != REDUCER_VERSION or truth is None:
        return
    different = sorted(key for key in {*truth, *raw} if truth.get(key) != raw.get(key))
    if different:
        yield Notice(
            "state_differs",
            Severity.ERROR,
            f"state.json differs from the fold of its events in: {', '.join(different)}.",
            REPAIR.format(run_id),
            os.path.join(directory, STATE),
        )


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


def _keys(directory: str, recorded: Mapping[str, int]) -> Iterator[Notice]:
    path = os.path.join(directory, KEYS)
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in sorted(names):
        try:
            claim = strict_json.loads(read_bytes(os.path.join(path, name), MAX_STATE))
            dangling = recorded.get(claim["key"]) != claim["event_id"]
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


def _lock(path: str, of: str) -> Iterator[Notice]:
    problem = obstacle(path)
    if problem is not None:
        yield Notice("lock_unusable", Severity.ERROR, problem.message, problem.recovery, path)
    found = holder(path)
    if found is not None:
        yield Notice(
            "locked",
            Severity.WARNING,
            f"The run is locked by process {found.get('pid', 'unknown')} ({found.get('command', 'unknown')}).",
            "It is released when that process ends.",
            of,
        )


def _secrets(directory: str, checked: frozenset[str], found: Sequence[str]) -> Iterator[Notice]:
    """Credentials in the run's files. Those of the log that were `checked` are not read again; `found` have one."""
    places = [os.path.join(directory, name) for name in (STATE, METADATA, PLAN, WORK_ITEM)]
    for inner, skipped in ((EVENTS, checked), (SUMMARIES, frozenset())):
        base = os.path.join(directory, inner)
        if os.path.isdir(base):
            names = {name for name in os.listdir(base) if name.endswith(".json")} - skipped
            places += [os.path.join(base, name) for name in sorted(names)]
    for path in [*filter(_has_secret, places), *found]:
        yield Notice(
            "secret_in_store",
            Severity.WARNING,
            f"{os.path.relpath(path, directory)} contains what looks like a credential.",
            "Revoke it; the file is kept as it is.",
            path,
        )


def _has_secret(path: str) -> bool:
    try:
        return has_secret(read_bytes(path, MAX_STATE).decode("utf-8", "replace"))
    except (OSError, FaberError):
        return False


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
