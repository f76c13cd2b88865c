"""The checkpoint files of a run's phases: what a phase resumes from, and what becomes of the files of ended phases."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from faber.model.nebula_documents import NebulaPhase
from faber.nebula.phase.checkpoint import load, park, remove, validate
from faber.nebula.phase.phase_errors import InvalidCheckpoint
from faber.nebula.phase.start import Start


class PhaseCheckpoints(NamedTuple):
    """`directory` holds the files of phases in progress, `parked` those that were set aside."""

    directory: str
    parked: str

    def resume(self, phase: str, start: Start, invalid: Callable[[str], None]) -> Start:
        """`start` with the checkpoint of a phase in progress. A checkpoint that cannot be used is parked and reported
        to `invalid`; the phase then starts over."""
        try:
            checkpoint = load(self.directory, phase)
            if checkpoint is not None:
                # Whether it fits the phase's branch is judged when the worktree is open: see `PhaseWork`.
                validate(checkpoint, checkpoint.git_sha)
        except InvalidCheckpoint as error:
            invalid(f"{error.message} It is kept at {self.park(phase)}; {phase} starts over.")
            return replace(start, why="Its checkpoint could not be read.")
        if checkpoint is None:
            return replace(start, why="It was interrupted before its first cycle was committed.", unsaved=True)
        return replace(start, why="Its checkpoint no longer matched its branch.", checkpoint=checkpoint)

    def park(self, phase: str) -> str | None:
        """Set the checkpoint of a phase aside; returns its new path, None if there is none."""
        return park(self.directory, phase, self.parked)

    def remove(self, phase: str) -> None:
        """Remove the checkpoint of a phase that is done."""
        remove(self.directory, phase)

    def clean_up(self, phases: Mapping[str, NebulaPhase]) -> None:
        """Remove the stale checkpoints of phases that are done, and park those of failed ones."""
        for phase, known in phases.items():
            if known["status"] in ("done", "skipped", "decomposed"):
                self.remove(phase)
            elif known["status"] == "failed":
                self.park(phase)
