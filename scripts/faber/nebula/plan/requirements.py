"""What a nebula requires before it may run: other nebulas and another tool's work items (`[dependencies]`)."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from faber.errors import Severity
from faber.nebula.plan.parse import MANIFEST, Parsed
from faber.nebula.plan.plan_errors import NebulaStateUnreadable, RequirementsUnmet
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import Nebula
from faber.nebula.plan.state_file import is_finished, load_state
from faber.processes.runner import Program, run
from faber.store.external_files import Unreadable, read_text
from faber.store.strict_json import InvalidJSON, loads

NEBULAE, BEADS = "requires_nebulae", "requires_beads"
SECONDS = 20.0
MAX_EXPORT = 64_000_000
# Where beads keeps its work items as lines of JSON, for those who have not its program.
EXPORTS = (".beads/issues.jsonl", ".beads/beads.jsonl", ".beads/backup/issues.jsonl")
_PROGRAMS = ("bd", "beads")


class Unmet(NamedTuple):
    """A requirement that is not met: the key and the name in `[dependencies]`, and why. `missing`: nothing has that
    name."""

    key: str
    name: str
    why: str
    missing: bool = False

    @property
    def shown(self) -> str:
        """The requirement as a sentence."""
        return f"{self.key} names {self.name[:80]!a}: {self.why}."


def unmet(nebula: Nebula, root: str) -> list[Unmet]:
    """The requirements of `nebula` that are not met now, in the project at `root`."""
    needed = nebula.dependencies
    found = [each for name in needed.requires_nebulae if (each := _nebula(nebula.directory, name))]
    return found + [each for name in needed.requires_beads if (each := _bead(root, name))]


def requirement_problems(parsed: Parsed, root: str) -> Iterator[NebulaProblem]:
    """Each unmet requirement as a problem: a warning, unless nothing has that name."""
    source = parsed.sources[MANIFEST]
    for each in unmet(parsed.nebula, root):
        line = source.line(("dependencies", each.key))
        severity = Severity.ERROR if each.missing else Severity.WARNING
        fix = "Correct or remove the name." if each.missing else "Finish it before `faber nebula apply`."
        yield NebulaProblem("unmet_requirement", severity, MANIFEST, line, each.shown, fix)


def require_met(nebula: Nebula, root: str) -> None:
    """Raise `RequirementsUnmet` if a requirement of `nebula` is not met."""
    found = unmet(nebula, root)
    if found:
        raise RequirementsUnmet(
            " ".join(each.shown for each in found[:10]),
            directory=nebula.directory,
            requirements=[each._asdict() for each in found[:100]],
        )


# --- nebulas ---------------------------------------------------------------------------------------


def _nebula(directory: str, name: str) -> Unmet | None:
    """Why the nebula in the directory `name` next to `directory` is not finished; None if it is.

    As for the tool that the key comes from, it is finished if its state file lists phases and all of them are.
    """
    parent, own = os.path.split(os.path.abspath(directory))
    place = os.path.join(parent, name)
    if name in ("", ".", "..", own) or os.path.basename(name) != name or not os.path.isdir(place):
        return Unmet(NEBULAE, name, "there is no other nebula of that name next to this one", missing=True)
    try:
        state, _ = load_state(place)
    except NebulaStateUnreadable as error:
        return Unmet(NEBULAE, name, error.message.removesuffix("."))
    if state is None or not state.phases:
        return Unmet(NEBULAE, name, "it has not been run")
    left = [
        f"{phase} is {record.status}" for phase, record in state.phases.items() if not is_finished(state.phases, phase)
    ]
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        return Unmet(NEBULAE, name, f"it is not finished: {', '.join(left[:5])}{more}")
    return None


# --- work items ------------------------------------------------------------------------------------


def _bead(root: str, name: str) -> Unmet | None:
    """Why the work item `name` is not closed; None if it is."""
    status = _asked(root, name) or _exported(root, name)
    if status is None:
        return Unmet(BEADS, name, "its status is unknown: neither the program bd nor .beads/issues.jsonl is here")
    if not status:
        return Unmet(BEADS, name, "there is no such work item", missing=True)
    return Unmet(BEADS, name, f"it is {status[:40]}, not closed") if status != "closed" else None


def _asked(root: str, name: str) -> str | None:
    """The status of a work item as its program says; None if it does not know the item, or is not here."""
    for program in _PROGRAMS if not name.startswith("-") else ():
        line = 'cd -- "$1" && exec "$2" show "$3" --json'
        done = run(Program(["/bin/sh", "-c", line, "sh", root, program, name], os.environ), seconds=SECONDS)
        try:
            items = loads(done.data) if done.ok and not done.cut else None
        except InvalidJSON:
            continue
        for item in items if isinstance(items, list) else [items]:
            if isinstance(item, dict) and isinstance(item.get("status"), str):
                return str(item["status"])
    return None


def _exported(root: str, name: str) -> str | None:
    """The status of a work item in the files that its program exports: empty if they lack it, None without files."""
    found = None
    for export in EXPORTS:
        try:
            text = read_text(os.path.join(root, export), MAX_EXPORT)
        except (OSError, Unreadable):
            continue
        found = ""
        for line in text.split("\n"):
            try:
                item = loads(line) if name in line else None
            except InvalidJSON:
                continue
            if isinstance(item, dict) and item.get("id") == name:
                return str(item.get("status") or "without a status")
    return found
