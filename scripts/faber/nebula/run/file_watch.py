"""Whether a nebula's files are edited while it runs: what runs keeps what it began with, and new files wait."""

import hashlib
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from faber.errors import FaberError, Notice, Severity
from faber.nebula.plan.load import load_nebula
from faber.nebula.plan.parse import MANIFEST
from faber.nebula.plan.specs import Nebula

LOOKS = 2.0  # seconds between looks


class Edits:
    """Tells `notice` once of each file that is not as `nebula` was read from `directory`.

    `placed` names the files that the run itself wrote there (remediations).
    """

    def __init__(
        self,
        directory: str,
        nebula: Nebula,
        notice: Callable[[Notice], None],
        placed: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._directory = directory
        self._notice = notice
        self._placed = placed
        self._begun = _files(nebula)
        self._told: set[str] = set()
        self._looked = 0.0

    def look(self) -> None:
        """Look, unless that was done a moment ago."""
        if time.monotonic() - self._looked < LOOKS:
            return
        self._looked = time.monotonic()
        try:
            now = _files(load_nebula(self._directory).nebula)
        except FaberError:
            now = {}  # the directory is gone
        changed = [file for file in sorted({*now, *self._begun}) if now.get(file) != self._begun.get(file)]
        for file in changed:
            if file in self._told or file in self._placed():
                continue
            self._told.add(file)
            what = "is new" if file not in self._begun else "changed" if file in now else "is gone"
            text = f"{file} {what}; the run goes on with the files as they were when it began."
            recovery = f"Stop it, then `faber nebula apply {self._directory} --resume` takes it in."
            self._notice(Notice("nebula_edited", Severity.WARNING, text, recovery, file))


def _files(nebula: Nebula) -> dict[str, str]:
    """Each file, and a digest of what was read from it."""
    head = hashlib.sha256(repr(replace(nebula, phases=())).encode("utf-8", "surrogatepass")).hexdigest()
    return {MANIFEST: head} | {spec.file: spec.digest for spec in nebula.phases}
