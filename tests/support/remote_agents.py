"""Agents for the workers of a cluster, in whatever process they run: a directory says what they do, and holds what
they did.

`FABER_TEST_SCRIPT` names the directory. `cycles-<phase>` says how many cycles a phase takes (else one),
`text-<phase>` what it writes into which file. While `hold-<role>-<phase>-<cycle>` is there, that turn waits; of
`die-…` it dies. With `limit-<phase>` its reviews are refused, with `missing-<phase>` there is no client for them. With
`recover-<phase>` it records a recovery first.
In `asked`, a line a turn: role, phase, cycle, process; in `ended` the same with how it ended.
"""

import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from faber.agents.outcome import Outcome, TurnResult
from faber.agents.pipeline import Record
from faber.nebula.phase.agents import Agents, ReviewTurn
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.run.workshop import MakeAgents
from faber.responses.recovery_log import Recovery
from support.scripted_agents import tree_in

COST = 0.1  # of a turn, where the file `cost` says nothing else


def make(nebula: Nebula, label: str, record: Record) -> MakeAgents:
    """What a job names as the maker of its agents."""

    def agents(spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
        if (Path(os.environ["FABER_TEST_SCRIPT"]) / f"recover-{spec.id}").exists():
            record(Recovery(spec.id, 1, 90, 100, 1, "RESOLVED"))
        return _Remote(Path(os.environ["FABER_TEST_SCRIPT"]), spec.id, Path(directory), cancel)

    return agents


REFUSED = (
    ("limit", Outcome.LIMITED, "The limit is reached."),
    ("missing", Outcome.CLIENT_MISSING, "No Claude Code client was found."),
)


class Died(BaseException):
    """Stands for a worker that is gone, where workers are threads."""


class _Remote:
    def __init__(self, script: Path, phase: str, path: Path, cancel: threading.Event) -> None:
        self.script = script
        self.phase = phase
        self.path = path
        self.cancel = cancel

    def _commits(self) -> int:
        subjects = subprocess.run(
            ["git", "log", "--format=%s"], cwd=self.path, capture_output=True, text=True, check=True
        ).stdout
        return len(re.findall(rf"^{self.phase}/cycle-", subjects, re.MULTILINE))

    def _cost(self, budget: float) -> float:
        given = self.script / "cost"
        return min(float(given.read_text()) if given.exists() else COST, budget)

    def _note(self, file: str, *words: object) -> None:
        with open(self.script / file, "a", encoding="utf-8") as log:
            log.write(" ".join(map(str, words)) + "\n")

    def _turn(self, role: str, cycle: int) -> bool:
        """False if the turn was stopped."""
        self._note("asked", role, self.phase, cycle, os.getpid())
        die = self.script / f"die-{role}-{self.phase}-{cycle}"
        if die.exists():
            die.unlink()
            raise Died
        hold = self.script / f"hold-{role}-{self.phase}-{cycle}"
        while hold.exists() and not self.cancel.is_set():
            time.sleep(0.05)
        self._note("ended", role, self.phase, cycle, os.getpid(), "stopped" if self.cancel.is_set() else "done")
        return not self.cancel.is_set()

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """Writes the phase's file."""
        cycle = self._commits() + 1
        if not self._turn("coder", cycle):
            return TurnResult(Outcome.CANCELLED, cost_usd=0.0)
        texts = self.script / f"text-{self.phase}"
        files: dict[str, Any] = json.loads(texts.read_text()) if texts.exists() else {f"{self.phase}.txt": self.phase}
        for name, text in files.items():
            (self.path / name).write_text(f"{text} {cycle}\n")
        return TurnResult(Outcome.COMPLETED, f"Write {self.phase}.", cost_usd=self._cost(budget), turns=1)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """Approves when there were cycles enough."""
        cycle = self._commits()
        if not self._turn("reviewer", cycle):
            return ReviewTurn(None, "", Outcome.CANCELLED, cost_usd=0.0)
        for name, outcome, said in REFUSED:
            if (self.script / f"{name}-{self.phase}").exists():
                return ReviewTurn(None, "", outcome, cost_usd=0.0, error=said)
        wanted = self.script / f"cycles-{self.phase}"
        approved = cycle >= (int(wanted.read_text()) if wanted.exists() else 1)
        listed = prompt.partition("## Earlier findings")[2].partition("## Answer")[0]
        earlier = [
            {"id": each, "status": "fixed"} for each in re.findall(r"^- (f-[0-9a-f]{12}) ", listed, re.MULTILINE)
        ]
        findings = [] if approved else [{"severity": "major", "description": f"Not yet, after {'i' * cycle}."}]
        answer = {
            "tree": tree_in(prompt),
            "verdict": "approved" if approved else "not_approved",
            "summary": "Looked.",
            "findings": findings,
            "earlier": earlier,
        }
        return ReviewTurn(answer, json.dumps(answer), cost_usd=self._cost(budget))
