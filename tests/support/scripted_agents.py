"""Agents that do what a test wrote down: functions for a coder, answers for a reviewer."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from faber.agents.outcome import Outcome, TurnResult
from faber.nebula.phase.agents import ReviewTurn

Coder = Callable[[Path, str], Any]


class Scripted:
    """`coders` are done in order in the tree: each may return its text, or a whole `TurnResult`. `reviews` are answers
    without their tree, which is taken from the prompt, or whole `ReviewTurn`s. What was asked is kept."""

    def __init__(self, path: Path, coders: list[Coder], reviews: list[Any], cost: float = 0.1) -> None:
        self.path = path
        self.coders = coders
        self.reviews = reviews
        self.cost = cost
        self.asked: list[tuple[str, str, float]] = []

    def coder(self, prompt: str, budget: float) -> TurnResult:
        """The next coder."""
        self.asked.append(("coder", prompt, budget))
        said = self.coders.pop(0)(self.path, prompt)
        if isinstance(said, TurnResult):
            return said
        return TurnResult(Outcome.COMPLETED, said or "Done.", cost_usd=self.cost, turns=1, session_id="s")

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        """The next review."""
        self.asked.append(("reviewer", prompt, budget))
        said = self.reviews.pop(0)
        if callable(said):
            said = said(self.path, prompt)
        if isinstance(said, ReviewTurn):
            return said
        answer = {"tree": tree_in(prompt), "summary": "Looked.", "findings": [], "earlier": []} | said
        return ReviewTurn(answer, json.dumps(answer), cost_usd=self.cost)

    @property
    def roles(self) -> list[str]:
        """Who was asked, in order."""
        return [role for role, _, _ in self.asked]


def tree_in(prompt: str) -> str:
    """The tree id that a reviewer is to copy."""
    return prompt.partition('"tree": "')[2].partition('"')[0]


def writes(files: Mapping[str, str], text: str = "Wrote it.") -> Coder:
    """A coder that writes these files."""

    def coder(path: Path, prompt: str) -> str:
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(content)
        return text

    return coder


def ends(result: TurnResult | None, text: str = "") -> Coder:
    """A coder that changes nothing and ends so."""
    return lambda path, prompt: result or text


def objects(*descriptions: str, severity: str = "major", earlier: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A review that does not approve."""
    return {
        "verdict": "not_approved",
        "findings": [{"severity": severity, "description": each, "file": "a.txt", "line": 1} for each in descriptions],
        "earlier": [{"id": key, "status": status} for key, status in (earlier or {}).items()],
    }


def approves(**earlier: str) -> dict[str, Any]:
    """A review that approves, with what it says of earlier findings by id (`f_…`)."""
    said = [{"id": key.replace("_", "-"), "status": status} for key, status in earlier.items()]
    return {"verdict": "approved", "earlier": said}
