"""Watch for edits of a nebula's files during a run, which keeps using the files as they were when it started."""

import hashlib
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from faber.errors import FaberError, Notice, Severity
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.parse import MANIFEST
from faber.nebula.plan.specs import Nebula

LOOKS = 2.0  # seconds between checks


class Edits:
    """Tells `notice` once about each file in `directory` that differs from what `nebula` was read from.

    `placed` returns the files that the run itself wrote there (remediations); `read` makes of what is written what the
    run works with.
    """

    def __init__(
        self,
        directory: str,
        nebula: Nebula,
        notice: Callable[[Notice], None],
        placed: Callable[[], Collection[str]] = tuple,
        read: Callable[[Nebula], Nebula] = lambda written: written,
    ) -> None:
        self._directory = directory
        self._read = read
        self._notice = notice
        self._placed = placed
        self._original = _files(nebula)
        self._reported: set[str] = set()
        self._looked = 0.0

    def look(self) -> None:
        """Look for edits, at most every two seconds."""
        if time.monotonic() - self._looked < LOOKS:
            return
        self._looked = time.monotonic()
        try:
            now = _files(self._read(load_nebula(self._directory).nebula))
        except FaberError:
            now = {}  # the directory is gone
        changed = [file for file in sorted({*now, *self._original}) if now.get(file) != self._original.get(file)]
        for file in changed:
            if file in self._reported or file in self._placed():
                continue
            self._reported.add(file)
            what = "is new" if file not in self._original else "changed" if file in now else "is gone"
            text = f"{file} {what}; the run continues with the files as they were when it started."
            recovery = f"To use the change, stop the run, then `faber nebula apply {self._directory} --resume`."
            self._notice(Notice("nebula_edited", Severity.WARNING, text, recovery, file))


def _files(nebula: Nebula) -> dict[str, str]:
    """A digest of what was read from each file."""
    head = hashlib.sha256(repr(replace(nebula, phases=())).encode("utf-8", "surrogatepass")).hexdigest()
    return {MANIFEST: head} | {spec.file: spec.digest for spec in nebula.phases}
