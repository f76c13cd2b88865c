"""nebula.state.toml: the status of a nebula's phases, in a file next to them for people and other tools.

For faber's own runs it is a projection of the run's events and never decides anything. A file written by another tool
is read leniently, and what it holds is preserved when it is rewritten, in the types that the other tool loads: times as
TOML's own, a report as a table.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, time
from typing import Any

from faber.errors import Notice, Severity, UnsafeFile
from faber.model.documents import State, nebula_of
from faber.model.nebula_documents import NEBULA_STATUSES, NebulaPhase, NebulaStatus
from faber.nebula.plan.plan_errors import NebulaStateUnreadable
from faber.nebula.plan.toml_text import toml_text
from faber.store.files import is_temporary, read_bytes, write_atomic
from faber.store.strict import Malformed, toml_value

STATE_FILE = "nebula.state.toml"
VERSION = 1
FINISHED = ("done", "decomposed")
MAX_STATE_FILE = 16 * 1024 * 1024


@dataclass(frozen=True)
class PhaseRecord:
    """One phase's entry. Times are ISO 8601; `cost_usd` in US dollars; `commit` is the head of its branch, `merged` its
    merge commit. `report` is a reviewer's text, or another tool's table. `extra` holds unknown keys (such as another
    tool's `bead_id`)."""

    status: NebulaStatus = "pending"
    created_at: str = ""
    updated_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    cycle: int = 0
    cost_usd: float = 0.0
    branch: str = ""
    commit: str = ""
    merged: str = ""
    findings: int = 0
    heal_attempts: int = 0
    failure: str = ""
    healing: str = ""
    remediation: str = ""
    remedies: str = ""
    reason: str = ""
    report: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NebulaFile:
    """The whole file. `run_id` and `last_event_id` say which run it projects, and up to which event. Of
    `total_cost_usd`, `earlier_cost_usd` was spent before that run, perhaps by another tool."""

    nebula_name: str = ""
    run_id: str = ""
    last_event_id: int = 0
    total_cost_usd: float = 0.0
    phases: Mapping[str, PhaseRecord] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    earlier_cost_usd: float = 0.0


def is_finished(records: Mapping[str, PhaseRecord], name: str) -> bool:
    """True if nothing is left to do of the phase `name`: it is done, or the phase that remedies it is."""
    found = records.get(name, PhaseRecord())
    remedy = records.get(found.remediation, PhaseRecord())
    return found.status in FINISHED or remedy.status in FINISHED


# --- reading ---------------------------------------------------------------------------------------


def load_state(directory: str) -> tuple[NebulaFile | None, list[Notice]]:
    """The state file of the nebula in `directory` (None if there is none), and notices about invalid values in it.

    Raises `NebulaStateUnreadable` if the file exists and is not TOML; it is left unchanged.
    """
    path = os.path.join(directory, STATE_FILE)
    try:
        text = read_bytes(path, MAX_STATE_FILE).decode("utf-8-sig")
        return parse_state(text)
    except (FileNotFoundError, NotADirectoryError):
        return None, []
    except (OSError, UnsafeFile, UnicodeDecodeError, Malformed) as error:
        raise NebulaStateUnreadable(f"{path} cannot be read: {error}.", path=path) from None


def parse_state(text: str) -> tuple[NebulaFile, list[Notice]]:
    """Parse leniently: an invalid value becomes its default and a notice. Raises `Malformed`."""
    table = toml_value(text, MAX_STATE_FILE, times=True)
    notices: list[Notice] = []
    if table.get("version", VERSION) != VERSION:
        _note(notices, "nebula_state_version", f"Unknown version {str(table['version'])[:40]}; read as version 1.")
    phases = table.get("phases")
    if not phases and isinstance(table.get("tasks"), dict):
        _note(notices, "nebula_state_legacy", "It uses `tasks` instead of `phases`; they are read as phases.")
        phases = table["tasks"]
        table = {key: value for key, value in table.items() if key != "tasks"}
    if phases is not None and not isinstance(phases, dict):
        _note(notices, "nebula_state_odd", "`phases` is not a table; no phase is read.")
        phases = None
    records = {name: _record(name, entry, notices) for name, entry in (phases or {}).items()}
    known = ("version", "nebula_name", "run_id", "last_event_id", "total_cost_usd", "earlier_cost_usd", "phases")
    return (
        NebulaFile(
            nebula_name=_as(table, "nebula_name", str, "", notices),
            run_id=_as(table, "run_id", str, "", notices),
            last_event_id=_as(table, "last_event_id", int, 0, notices),
            total_cost_usd=_as(table, "total_cost_usd", float, 0.0, notices),
            earlier_cost_usd=_as(table, "earlier_cost_usd", float, 0.0, notices),
            phases=records,
            extra={key: value for key, value in table.items() if key not in known},
        ),
        notices,
    )


# The keys of an entry, in the file's order, with the value that each has if it is left out.
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(PhaseRecord) if each.name != "extra"}
_CHECKED = {key: default for key, default in _DEFAULTS.items() if key not in ("status", "report")}


def _record(name: str, entry: Any, notices: list[Notice]) -> PhaseRecord:
    if not isinstance(entry, dict):
        _note(notices, "nebula_state_odd", f"The entry of {name[:60]!a} is not a table; it counts as pending.")
        return PhaseRecord()
    status = entry.get("status", "pending")
    if status not in NEBULA_STATUSES:
        _note(notices, "nebula_state_odd", f"{name[:60]!a} has the status {str(status)[:40]!a}; it counts as pending.")
        status = "pending"
    values = {key: _as(entry, key, type(default), default, notices) for key, default in _CHECKED.items()}
    extra = {key: value for key, value in entry.items() if key not in _DEFAULTS}
    report = entry.get("report")
    if isinstance(report, dict) and report.keys() == {"summary"}:
        report = report["summary"]
    return PhaseRecord(status=status, report=report, extra=extra, **values)


def _as(table: Mapping[str, Any], key: str, kind: type, default: Any, notices: list[Notice]) -> Any:
    value = table.get(key, default)
    if kind is str and isinstance(value, (date, time)):
        value = _text_of(value)
    fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
    if not fits:
        _note(notices, "nebula_state_odd", f"{key} has the wrong type; it is ignored.")
        return default
    return float(value) if kind is float else value


def _text_of(value: date | time) -> str:
    """A date or time as text; a point in time as the events have it, finer if it is."""
    if not isinstance(value, datetime):
        return value.isoformat()
    text = value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _note(notices: list[Notice], code: str, message: str) -> None:
    if len(notices) < 50:
        notices.append(Notice(code, Severity.INFO, message, "", STATE_FILE))


# --- writing ---------------------------------------------------------------------------------------


class StateWriter:
    """Writes the state file repeatedly. Only changed phases are formatted again, so that with thousands of phases a
    change costs little more than replacing the file."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[PhaseRecord, str]] = {}

    def text(self, state: NebulaFile) -> str:
        """The file's text; parsing it returns an equal `state`."""
        head = {
            "version": VERSION,
            "nebula_name": state.nebula_name,
            "run_id": state.run_id or None,
            "last_event_id": state.last_event_id or None,
            "total_cost_usd": state.total_cost_usd,
            "earlier_cost_usd": state.earlier_cost_usd or None,
        }
        parts = [toml_text(head | {key: value for key, value in state.extra.items() if key not in head})]
        for name, record in state.phases.items():
            known = self._texts.get(name)
            if known is None or (known[0] is not record and known[0] != record):
                known = self._texts[name] = (record, _phase_text(name, record))
            parts.append(known[1])
        return "".join(parts)

    def save(self, directory: str, state: NebulaFile) -> str:
        """Write the file into `directory` atomically; returns its path. Raises `StoreUnwritable`.

        It can be regenerated from the run's events, so it is not synced to disk.
        """
        path = os.path.join(directory, STATE_FILE)
        write_atomic(path, self.text(state).encode(), durable=False)
        return path


_TIMES = ("created_at", "updated_at", "started_at", "ended_at")


class _Moment(datetime):
    """A point in time that TOML shows with a T."""

    __str__ = datetime.isoformat


def _moment(text: str) -> datetime | str:
    try:
        moment = _Moment.fromisoformat(text)
    except ValueError:
        return text
    return moment if _text_of(moment) == text else text


def _phase_text(name: str, record: PhaseRecord) -> str:
    known = {key: value for key in _DEFAULTS if (value := getattr(record, key)) not in ("", 0, None)}
    known |= {key: _moment(known[key]) for key in _TIMES if key in known}
    if isinstance(record.report, str):
        known["report"] = {"summary": record.report}
    return "\n" + toml_text({"phases": {name: known | {k: v for k, v in record.extra.items() if k not in _DEFAULTS}}})


def remove_unfinished(directory: str) -> None:
    """Remove temporary files of this file and of checkpoints that a killed faber left in `directory`. Only safe while
    nobody else writes there."""
    for name in os.listdir(directory):
        if is_temporary(name) and name.startswith((f".{STATE_FILE}.", ".checkpoint.")):
            os.unlink(os.path.join(directory, name))


# --- the projection --------------------------------------------------------------------------------


def project(state: State, before: NebulaFile | None = None) -> NebulaFile:
    """The file for the state of a nebula's run. Pure.

    `before` is the existing file: its unknown keys and what it says was spent are kept, and so are phases that the run
    does not have. A run without a nebula gives an empty file.
    """
    old = before or NebulaFile()
    nebula = nebula_of(state)
    if nebula is None:
        return replace(old, run_id=state["run_id"], last_event_id=state["last_event_id"])
    phases = dict(old.phases)
    for name, phase in nebula["phases"].items():
        phases[name] = _projected(phase, phases.get(name, PhaseRecord()), state["created_at"])
    earlier = old.earlier_cost_usd if old.run_id == state["run_id"] else old.total_cost_usd
    spent = nebula["spent"]["cost"]
    return NebulaFile(
        nebula_name=nebula["name"],
        run_id=state["run_id"],
        last_event_id=state["last_event_id"],
        total_cost_usd=round(earlier + spent, 9) if spent else earlier,
        earlier_cost_usd=earlier,
        phases=phases,
        extra=old.extra,
    )


def _projected(phase: NebulaPhase, old: PhaseRecord, created_at: str) -> PhaseRecord:
    started, ended = phase.get("started_at", ""), phase.get("ended_at", "")
    same: dict[str, Any] = {key: phase[key] for key in _CHECKED if key in phase}  # type: ignore[literal-required]
    if phase["status"] == "done" and not started and old.status in FINISHED:
        return replace(old, created_at=old.created_at or created_at, merged=phase.get("merged", old.merged))
    return PhaseRecord(
        status=phase["status"],
        created_at=old.created_at or created_at,
        updated_at=ended or started or old.updated_at or created_at,
        cost_usd=phase.get("cost", 0.0),
        report=phase.get("report", old.report),
        extra=old.extra,
        **same,
    )
