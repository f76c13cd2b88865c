"""One run: the person's script, the interruptions, the verdict."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from trials.schedule import Planned
from trials.session import Session, Setup, answer_as_a_person
from trials.tally import Tally
from trials.tasks import lay, verify

CONTINUE = "continue"
AGAIN = "This was started in an earlier session; continue with what is left. What I said first: "
LAST = "If anything of WORK_ITEM.md is left, do it now."


@dataclass
class Reached:
    """An interruption, and whether the run lived to see it."""

    kind: str
    after: int
    reached: bool = False
    happened: bool = True  # False for a compaction that the client had nothing to do for


@dataclass
class Run:
    """A run in progress, in a directory of its own."""

    planned: Planned
    setup: Setup
    directory: Path
    tally: Tally = field(init=False)
    ended: str = "done"

    def __post_init__(self) -> None:
        self.project, self.home = self.directory / "project", self.directory / "home"
        self.tally = Tally(self.setup.start_usd)
        self.points = [Reached(point.kind, point.after) for point in self.planned.points]
        self.answers: list[str] = []
        self._deadline = time.monotonic() + self.setup.minutes * 60
        self._session: Session | None = None

    def conduct(self) -> dict[str, Any]:
        """Do the run; what it came to, for the results."""
        task, arm = self.planned.task, self.planned.arm
        began = time.monotonic()
        self.home.mkdir(parents=True)
        lay(task, self.project, with_faber=arm.faber)
        self._start(str(uuid4()), resume=False)
        try:
            for number, words in enumerate((*task.says, LAST)):
                if number and arm.faber:
                    self._answered(words)
                first = f"/faber:run {words}" if arm.faber and number == 0 else words
                if not self._turn(first):
                    break
        finally:
            self._end(kill=self.ended != "done")
        findings = verify(task, self.project)
        tally = self.tally
        return {
            "solved": all(each.holds for each in findings) and not tally.peeked,
            "findings": [asdict(each) for each in findings],
            "points": [asdict(each) for each in self.points],
            "ended": self.ended,
            # An endpoint may name the key that it refuses.
            "void": tally.refused.replace(self.setup.key, "[key]")[:300] or self._silent(),
            "answers": self.answers,
            "work_calls": tally.work_calls,
            "faber_calls": tally.faber_calls,
            "repeated_calls": tally.repeated,
            "responses": len(tally.responses),
            "denied": tally.denied,
            "peeked": tally.peeked,
            "turns": tally.turns,
            "unpriced_turns": tally.unpriced_turns,
            "cost_usd": round(tally.cost_usd, 6),
            "charged_usd": round(tally.charged_usd, 6),
            "seconds": round(time.monotonic() - began, 1),
        }

    def _silent(self) -> str:
        """Why the run says nothing about its arm, although nobody refused; empty if it does."""
        if self.ended == "ended":
            return "the client ended by itself"
        if self.ended == "late" and self.tally.refusing:
            return f"the endpoint refused until the time was up: {self.tally.refusing}"
        return "" if self.tally.responses else "the endpoint never answered"

    def _turn(self, words: str) -> bool:
        """Say `words` and let the agent work until it stops, through every interruption; False if the run is over."""
        heard = self._say(words)
        while heard == "point":
            heard = self._interrupted(next(each for each in self.points if not each.reached))
        self.ended = self.tally.stopped or heard
        if self.ended != "result":
            return False
        self.ended = "done"
        return not self.tally.refused

    def _say(self, words: str) -> str:
        assert self._session is not None
        self.tally.begin_turn()
        self._session.say(words)
        return self._session.hear(self._take, self._deadline)

    def _take(self, event: Mapping[str, Any]) -> bool:
        """Count an event; true where the next interruption is due."""
        due = next((each for each in self.points if not each.reached), None)
        return self.tally.take(event) and due is not None and self.tally.work_calls >= due.after

    def _interrupted(self, point: Reached) -> str:
        """Interrupt the agent; what is heard of it afterwards."""
        assert self._session is not None
        point.reached = True
        if point.kind == "kill":
            session = self._session.id
            self._end(kill=True)
            self._start(session, resume=True)
            return self._say(CONTINUE)
        if (heard := self._session.interrupt(self.tally.take)) != "result":
            return heard
        if point.kind == "compact":
            boundaries: list[str] = []

            def noted(event: Mapping[str, Any]) -> bool:
                boundaries.append(str(event.get("subtype")))
                self.tally.take(event)
                return False

            self.tally.begin_turn()
            self._session.say("/compact")
            heard = self._session.hear(noted, self._deadline)
            point.happened = "compact_boundary" in boundaries
            return self._say(CONTINUE) if heard == "result" else heard
        self._end(kill=False)
        self._start(str(uuid4()), resume=False)
        return self._say(AGAIN + self.planned.task.says[0])

    def _start(self, session_id: str, *, resume: bool) -> None:
        self.tally.begin_process(self._total if resume else None)
        self._session = Session(
            self.setup, self.project, self.home, session_id, resume=resume, faber=self.planned.arm.faber
        )

    def _end(self, *, kill: bool) -> None:
        assert self._session is not None
        (self._session.kill if kill else self._session.close)()
        self._total = self.tally.end_process()

    _total: float | None = None

    def _answered(self, words: str) -> None:
        """In a terminal the person answers what faber has asked for, with the words that they then say."""
        environment = self.setup.environment(self.home, uuid4().hex)
        self.answers.append(answer_as_a_person(self.setup.plugin / "bin" / "faber", self.project, words, environment))


def conduct(planned: Planned, setup: Setup, directory: Path) -> dict[str, Any]:
    """Do a run in `directory`, which must not exist; it is left there with the project and the transcripts."""
    return Run(planned, setup, directory).conduct()
