"""The gates of a nebula: requests to people about phases, and their answers."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from faber.errors import FaberError
from faber.model.state_parts import StepAnswer
from faber.nebula.phase.outcomes import TaskResult
from faber.nebula.phase.reviews import NO_REVIEWER
from faber.nebula.run.recorder import Journal
from faber.text.safe_text import shorten

ASKING = frozenset({"review", "approve"})
LOOKS = 2.0  # seconds between checks for answers
_REPORT = 1_200


class Rejected(FaberError):
    """A person rejected a phase's work."""

    code = "rejected"
    recovery = "`faber nebula apply DIR --resume --retry-failed` runs the phase again."


class Waiting(NamedTuple):
    """A phase that waits at its gate, and the request that a person has to answer."""

    phase: str
    request_id: str


class Gates:
    """Phases that wait for a person, without occupying a worker. Answers may arrive while no process runs."""

    def __init__(self, journal: Journal, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._monotonic = monotonic
        self._open: dict[str, str] = {}
        self._heard: set[str] = set()
        self._looked: float | None = None

    def ask(self, phase: str, result: TaskResult) -> str:
        """Ask about an approved phase, unless an earlier process did; returns the request's id."""
        request_id = self._journal.open_requests().get(phase) or self._answered(phase, result)
        if request_id is None:
            context = {"commit": result.commit, "base": result.base_commit, "why": summary(phase, result)}
            context["diff"] = f"git diff {result.base_commit[:12]} {result.commit[:12]}"
            who = "The filters" if result.report == NO_REVIEWER else "The reviewer"
            prompt = f"{who} approved phase {phase}. Merge it?"
            request_id = self._journal.ask("review", prompt, phase=phase, context=context)
        return self._wait(phase, request_id)

    def ask_to_begin(self, phase: str, prompt: str, context: dict[str, str]) -> StepAnswer | str:
        """Ask whether a phase may start; returns a person's answer if there is one, else the request's id."""
        request_id = self._journal.open_requests().get(phase)
        if request_id is None:
            asked = self._journal.phases.get(phase, {"status": "pending"}).get("asked")
            answer = self._journal.answer_to(asked) if asked else None
            if answer is not None:
                return answer
            request_id = self._journal.ask("approval", prompt, phase=phase, context=context)
        return self._wait(phase, request_id)

    def heard(self) -> Iterator[tuple[str, StepAnswer]]:
        """New answers. While a phase waits for one, the store is read every two seconds."""
        now = self._monotonic()
        if not self._open or (self._looked is not None and now - self._looked < LOOKS):
            return
        self._looked = now
        self._journal.refresh()
        for phase, request_id in list(self._open.items()):
            answer = self._journal.answer_to(request_id)
            if answer is not None:
                del self._open[phase]
                self._heard.add(request_id)
                yield phase, answer

    def waiting(self) -> list[Waiting]:
        """The phases that still wait."""
        return [Waiting(phase, asked) for phase, asked in sorted(self._open.items())]

    def _wait(self, phase: str, request_id: str) -> str:
        self._open[phase] = request_id
        self._looked = None
        return request_id

    def _answered(self, phase: str, result: TaskResult) -> str | None:
        """The request about this very commit that was answered while no process ran. What this process acted on is
        asked again: a coder that changed nothing for a person would work for ever."""
        known = self._journal.phases.get(phase, {"status": "pending"})
        asked = known.get("asked") if known.get("asked_commit") == result.commit else None
        return None if asked in self._heard else asked


def summary(phase: str, result: TaskResult) -> str:
    """What a person needs to know about an approved phase."""
    report = shorten(result.report, _REPORT) or "no report"
    return f"{phase}: {result.base_commit[:12]}..{result.commit[:12]}, {result.cycles} cycles. {report}"
