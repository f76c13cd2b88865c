"""A nebula in a process of its own that dies at a moment a test names.

    ROOT MOMENT [resume] [PLAY]

Its four phases hold everything that can happen: b is reviewed twice, c fails its filter once, and both change one
line, so that whoever is merged second has a conflict to resolve. What the agents do depends only on the tree and the
prompt: where an earlier process died does not matter. Everyone who is asked is noted in `asked`, beside the project.

A moment is a kind and a number: `event-7` dies when the seventh event was written, `before-event-7` just before, and so
on for `checkpoint` and `git` (calls that change something). `-` dies nowhere. What is printed says how many of each
there were. A play is one of `healing_hands`, for other phases than these.
"""

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

PHASES: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
FILTER = '[[filter]]\nname = "whole"\ncommand = "! grep -q broken *.txt"\n'
KILLED = 77
KINDS = ("event", "before-event", "checkpoint", "before-checkpoint", "git", "before-git")
_READING = {
    "rev-parse", "diff", "status", "log", "merge-base", "for-each-ref", "rev-list", "cat-file", "ls-files", "version",
    "config", "merge-tree", "var", "ls-tree", "check-ignore",
}  # fmt: skip


def main(root: str, moment: str, *options: str) -> int:
    """Apply the nebula in `root`; the exit status is faber's, or `KILLED`."""
    from support.healing_agents import PLAYS, HealingHands
    from support.nebulas import Project

    counted = _die_at(moment)
    project, asked = Project(Path(root)), Path(root).parent / "asked"
    play = next((each for each in options if each in PLAYS), None)
    hands: Any = HealingHands(asked, play) if play else Hands(asked)
    applied = project.apply(hands, max_workers=2, resume="resume" in options)
    print(json.dumps({"report": applied.report, "counted": counted, "said": project.said}))
    return int(applied.exit_code)


def _die_at(moment: str) -> Counter[str]:
    from faber.git.programs import Git
    from faber.nebula.run import phase_worker
    from faber.nebula.run.recorder import Journal

    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def passes(kind: str) -> None:
        with lock:
            counted[kind] += 1
            if f"{kind}-{counted[kind]}" == moment:
                os._exit(KILLED)

    def watched(kind: str, call: Callable[..., Any], counts: Callable[..., bool] = lambda *given: True) -> Any:
        def around(*given: Any, **named: Any) -> Any:
            if not counts(*given):
                return call(*given, **named)
            passes(f"before-{kind}")
            try:
                return call(*given, **named)
            finally:
                passes(kind)

        return around

    Journal._commit = watched("event", Journal._commit)  # type: ignore[method-assign]
    phase_worker.save = watched("checkpoint", phase_worker.save)  # type: ignore[attr-defined]
    Git.run = watched("git", Git.run, lambda git, *words: words[0] not in _READING)  # type: ignore[method-assign]
    return counted


class Hands:
    """Coders and reviewers without a memory."""

    def __init__(self, asked: Path) -> None:
        self.asked = asked
        self.asked.touch()

    def crew(self, run_id: str, label: str) -> Any:
        """What makes those of a run; nothing has to be healed."""
        from faber.nebula.run.apply import Crew

        def nobody(spec: Any, budget: float) -> Any:
            raise AssertionError("no phase fails")

        return Crew(lambda spec, directory, cancel: _Member(self.asked, spec.id, Path(directory)), nobody)


class _Member:
    def __init__(self, asked: Path, phase: str, path: Path) -> None:
        self.asked = asked
        self.phase = phase
        self.path = path

    def coder(self, prompt: str, budget: float) -> Any:
        from faber.agents.outcome import Outcome, TurnResult

        self._note("coder")
        self._code(prompt)
        return TurnResult(Outcome.COMPLETED, f"Write {self.phase}.", cost_usd=0.1, turns=1)

    def _code(self, prompt: str) -> None:
        phase, path = self.phase, self.path
        if phase in "bc":
            # Both begin before either is merged, so that they meet.
            other, end = f"coder {'c' if phase == 'b' else 'b'}", time.monotonic() + 20
            while other not in self.asked.read_text().split("\n") and time.monotonic() < end:
                time.sleep(0.005)
            lines = set(re.findall(r"^[a-z]+$", (path / "README.md").read_text(), re.MULTILINE))
            (path / "README.md").write_text("".join(f"{line}\n" for line in sorted({*lines, phase} - {"begin"})))
        if "conflict markers" in prompt:
            return
        word = {"b": " better" * ("## Open findings" in prompt), "c": " broken" * ("must pass" not in prompt)}
        (path / f"{phase}.txt").write_text(f"{phase}{word.get(phase, '')}\n")

    def reviewer(self, prompt: str, budget: float) -> Any:
        from faber.nebula.phase.agents import ReviewTurn
        from support.scripted_agents import objects, tree_in

        self._note("reviewer")
        listed = prompt.partition("## Earlier findings")[2].partition("## Answer")[0]
        earlier = re.findall(r"^- (f-[0-9a-f]{12}) ", listed, re.MULTILINE)
        poor = self.phase == "b" and "better" not in (self.path / "b.txt").read_text()
        said = objects("It could be better.") if poor else {"verdict": "approved", "findings": []}
        said["earlier"] = [{"id": each, "status": "still_present" if poor else "fixed"} for each in earlier]
        answer = {"tree": tree_in(prompt), "summary": f"{self.phase} was read.", **said}
        return ReviewTurn(answer, json.dumps(answer), cost_usd=0.1)

    def _note(self, role: str) -> None:
        with self.asked.open("a") as file:
            file.write(f"{role} {self.phase}\n")


def command_line() -> int:
    """`main` with what the process was given."""
    return main(*sys.argv[1:])
