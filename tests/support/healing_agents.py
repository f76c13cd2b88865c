"""Agents without a memory for a nebula in which a phase fails and is healed; see `killed_nebula`.

In the play `cycles` the reviewer of b never approves; in `conflict` b and c change one line, and whoever is merged
second does not solve it. What each does depends only on the tree and the prompt.
"""

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

PLAYS: dict[str, dict[str, list[str]]] = {
    "cycles": {"b": [], "d": ["b"]},
    "conflict": {"b": [], "c": [], "d": ["b", "c"]},
}
MANIFEST = "[execution]\nhealing = true\nmax_review_cycles = 1\nmax_budget_usd = 10.0\n"
PLAN = '+++\nid = "x"\ntitle = "Finish it"\n+++\n\nDo what is missing.\n'


class HealingHands:
    """Coders, reviewers and an architect. Everyone who is asked is noted in `asked`."""

    def __init__(self, asked: Path, play: str) -> None:
        self.asked = asked
        self.play = play
        self.asked.touch()

    def crew(self, run_id: str, label: str) -> Any:
        """What makes those of a run."""
        from faber.nebula.run.apply import Crew

        def agents(spec: Any, directory: str, cancel: threading.Event) -> Any:
            return _Member(self, spec.id, Path(directory))

        return Crew(agents, lambda spec, budget: _Architect(self, spec.id))

    def note(self, role: str, phase: str) -> None:
        """Remember who was asked."""
        with self.asked.open("a") as file:
            file.write(f"{role} {phase}\n")

    def meet(self, role: str, phase: str) -> None:
        """Wait until that one was asked too."""
        end = time.monotonic() + 20
        while f"{role} {phase}" not in self.asked.read_text().split("\n") and time.monotonic() < end:
            time.sleep(0.005)


class _Architect:
    def __init__(self, hands: HealingHands, phase: str) -> None:
        self.hands = hands
        self.phase = phase

    def complete(self, prompt: str) -> Any:
        from faber.responses.llm import Completion

        self.hands.note("architect", self.phase)
        return Completion(json.dumps({"phase_file": PLAN}), "end_turn", 0.1, "s")


class _Member:
    def __init__(self, hands: HealingHands, phase: str, path: Path) -> None:
        self.hands = hands
        self.phase = phase
        self.path = path

    def coder(self, prompt: str, budget: float) -> Any:
        from faber.agents.outcome import Outcome, TurnResult

        self.hands.note("coder", self.phase)
        self._code(prompt)
        return TurnResult(Outcome.COMPLETED, f"Write {self.phase}.", cost_usd=0.1, turns=1)

    def _code(self, prompt: str) -> None:
        phase, readme = self.phase, self.path / "README.md"
        heals = phase.startswith("heal-")
        if self.hands.play == "conflict" and (heals or phase in "bc"):
            if "conflict markers" in prompt and not heals:
                return  # it cannot
            if not heals:
                self.hands.meet("coder", "c" if phase == "b" else "b")
            lines = set(re.findall(r"^[a-z]+$", readme.read_text(), re.MULTILINE)) - {"begin"}
            readme.write_text("".join(f"{line}\n" for line in sorted(lines if heals else {*lines, phase})))
        (self.path / ("mended.txt" if heals else f"{phase}.txt")).write_text("done\n")

    def reviewer(self, prompt: str, budget: float) -> Any:
        from faber.nebula.phase.agents import ReviewTurn
        from support.scripted_agents import objects, tree_in

        self.hands.note("reviewer", self.phase)
        listed = prompt.partition("## Earlier findings")[2].partition("## Answer")[0]
        earlier = re.findall(r"^- (f-[0-9a-f]{12}) ", listed, re.MULTILINE)
        poor = self.hands.play == "cycles" and self.phase == "b"
        said = objects("It could be better.") if poor else {"verdict": "approved", "findings": []}
        said["earlier"] = [{"id": each, "status": "still_present" if poor else "fixed"} for each in earlier]
        answer = {"tree": tree_in(prompt), "summary": f"{self.phase} was read.", **said}
        return ReviewTurn(answer, json.dumps(answer), cost_usd=0.1)
