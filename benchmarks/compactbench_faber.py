"""faber's brief as a compactor of CompactBench (`pip install compactbench==0.1.0`), beside its built-in ones.

Without a model, for what of a conversation is still there after each of several compactions:

    python3 benchmarks/compactbench_faber.py [--templates DIR] [--cycles 2] [--cases 3] [--json]

With a model, in CompactBench's own program, where the built-in ones are `built-in:hybrid-ledger` and so on:

    compactbench run --method benchmarks/compactbench_faber.py:FaberBrief --suite starter --benchmarks-dir DIR …

CompactBench asks a model three times: to compact (each built-in method), to answer questions from what is left, and to
say something between two compactions. Only the first is not needed here: faber keeps what was recorded. So without a
model the built-in methods have no figures, no answer is scored, and questions for what an answer must *not* contain are
left out. What is measured is whether the words that an answer needs are in what the method hands on: by CompactBench's
own checks, the most that a model could score. The methods:

- `faber-brief`: what a new session is told before it does anything;
- `faber-context`: what `faber context` then shows, within the size that CompactBench allows (8,000 characters);
- `tail`: the end of the conversation in as many characters as the brief of the same case has;
- `whole`: the end of the conversation in 8,000 characters.

faber records what an agent hands in, not what is said. Here every line of the user is handed in as a decision, small
talk included, because choosing would take a model: `FaberBrief` with a model has it choose.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path(__file__).resolve().with_name("compactions")
LIMIT = 8_000  # characters of an artifact's text
LONGEST = 500  # of a decision
INSTALL = "CompactBench is not installed: pip install compactbench==0.1.0"
ANSWERED = "Understood."  # what is said between two compactions, where no model is
SEED = "faber"
_CHOOSE = (
    "Of these turns of a conversation, hand in what must still be known when it has been forgotten: decisions, rules, "
    "what is ruled out, names, amounts, dates, open tasks. One sentence each, in the words that were used. Answer with "
    "a JSON array of strings and nothing else.\n\n{turns}"
)
_ASKED = ("contains_normalized", "set_match")  # checks that quoting can meet
Turns = Sequence[tuple[str, str]]  # who says it, and what


class Notebook:
    """A run of faber in a project of its own, into which an agent hands what it was told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run_id = ""
        self.turns = 0  # of the conversation that were looked at
        kept = {name: os.environ[name] for name in ("PATH", "FABER_VENV", "XDG_DATA_HOME") if name in os.environ}
        home = os.environ.get("HOME", os.devnull)  # faber's environment lies there
        self._environment = {**kept, "HOME": home, "CLAUDE_PROJECT_DIR": str(directory)}
        subprocess.run(["git", "init", "-q", "-b", "main", str(directory)], check=True, env=self._environment)

    def hand_in(self, texts: Sequence[str]) -> None:
        """Record each text as a decision; the first of all is what the run is about."""
        for text in filter(None, (" ".join(each.split()) for each in texts)):
            if self.run_id:
                self._faber("event", "emit", self.run_id, "--type", "decision_point", "--message", text[:LONGEST])
            else:
                self.run_id = str(json.loads(self._faber("run", "begin", text))["run_id"])

    def brief(self) -> str:
        """What a session is told when it begins."""
        given = json.dumps({"session_id": "next", "source": "startup", "cwd": str(self.directory)})
        said = json.loads(self._faber("hook", "session-start", given=given))
        return str(said["hookSpecificOutput"]["additionalContext"])

    def context(self) -> str:
        """What a session loads then."""
        return self._faber("context", self.run_id, "--no-fetch", "--max-chars", str(LIMIT))

    def _faber(self, *arguments: str, given: str = "") -> str:
        command = [str(ROOT / "bin" / "faber"), *arguments]
        done = subprocess.run(
            command, cwd=self.directory, env=self._environment, input=given, capture_output=True, text=True, check=True
        )
        return done.stdout


def users_lines(turns: Turns) -> list[str]:
    """What the user said."""
    return [text for role, text in turns if role == "user"]


def tail(turns: Turns, size: int) -> str:
    """The end of the conversation, at most `size` characters."""
    return "\n".join(f"{role.upper()}: {text}" for role, text in turns)[-size:]


def methods(turns: Turns, notebook: Notebook) -> dict[str, str]:
    """What each method hands on of a conversation; the notebook has what was said before."""
    notebook.hand_in(users_lines(turns[notebook.turns :]))
    notebook.turns = len(turns)
    brief = notebook.brief()[:LIMIT]
    return {
        "faber-brief": brief,
        "faber-context": notebook.context()[:LIMIT],
        "tail": tail(turns, len(brief)),
        "whole": tail(turns, LIMIT),
    }


def _cases(templates: Path, count: int, difficulty: str) -> Iterator[Any]:
    dsl, engine = importlib.import_module("compactbench.dsl"), importlib.import_module("compactbench.engine")
    for template in dsl.load_suite(templates):
        dsl.validate_template(template)
        for slot in range(count):
            seed = engine.derive_case_seed(f"{template.key}@{template.version}", SEED, slot)
            yield engine.generate_case(template, seed, dsl.DifficultyLevel(difficulty))


def _measured(case: Any, cycles: int, check: Callable[[dict[str, Any], str], float]) -> Iterator[dict[str, Any]]:
    """A line for each method and cycle of a case: the weighted share of what answers need, and the size."""
    prompt = importlib.import_module("compactbench.runner.continuation").select_continuation_prompt
    weights = importlib.import_module("compactbench.scoring.scorer").WEIGHTS
    asked = [
        item for item in case.evaluation_items if item.expected.get("check") in ("contains_normalized", "set_match")
    ]
    turns = [(turn.role.value, turn.content) for turn in case.transcript.turns]
    with tempfile.TemporaryDirectory() as directory:
        notebook = Notebook(Path(directory))
        for cycle in range(cycles + 1):
            turns += [("user", prompt(case.seed, cycle)), ("assistant", ANSWERED)] if cycle else []
            for method, handed_on in methods(turns, notebook).items():
                scores = [(weights[item.item_type], check(item.expected, handed_on)) for item in asked]
                total = sum(weight for weight, _ in scores)
                yield {
                    "case": case.case_id,
                    "method": method,
                    "cycle": cycle,
                    "retained": sum(weight * score for weight, score in scores) / total if total else None,
                    "left_out": len(case.evaluation_items) - len(asked),
                    "characters": len(handed_on),
                    "of": sum(len(text) for _, text in turns),
                }


def _table(lines: Sequence[dict[str, Any]]) -> str:
    found: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for each in lines:
        found[each["method"], each["cycle"]].append(each)
    rows = [f"{'method':16}{'cycle':>6}{'retained':>10}{'characters':>12}{'of':>8}"]
    for (method, cycle), cell in sorted(found.items()):
        shares = [each["retained"] for each in cell if each["retained"] is not None]
        size, whole = (statistics.median(each[name] for each in cell) for name in ("characters", "of"))
        rows.append(f"{method:16}{cycle:>6}{statistics.fmean(shares) if shares else 0:>10.2f}{size:>12g}{whole:>8g}")
    left_out = sum(each["left_out"] for each in lines if each["method"] == "whole" and each["cycle"] == 0)
    cases = len({each["case"] for each in lines})
    rows.append(f"{cases} cases, no model: no answers, no scores, no built-in method. {left_out} questions left out")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each method retains."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--templates", type=Path, default=TEMPLATES, metavar="DIR", help="a suite of CompactBench")
    words.add_argument("--difficulty", default="hard", choices=["easy", "medium", "hard", "elite"])
    words.add_argument("--cycles", type=int, default=2, metavar="N", help="compactions after the first")
    words.add_argument("--cases", type=int, default=3, metavar="N", help="of each template")
    words.add_argument("--json", action="store_true", help="for a program")
    given = words.parse_args(arguments)
    try:
        check = importlib.import_module("compactbench.scoring.checks").run_check
    except ImportError:
        print(INSTALL, file=sys.stderr)
        return 1
    cases = _cases(given.templates, given.cases, given.difficulty)
    lines = [line for case in cases for line in _measured(case, given.cycles, check)]
    print(json.dumps(lines, indent=2) if given.json else _table(lines))
    return 0


try:
    from compactbench.compactors import Compactor  # type: ignore[import-not-found,unused-ignore]
    from compactbench.contracts import CompactionArtifact  # type: ignore[import-not-found,unused-ignore]
    from compactbench.providers import CompletionRequest  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    pass
else:

    class FaberBrief(Compactor):  # type: ignore[misc,unused-ignore]
        """The brief of a run into which the model handed in what it chose from the new turns."""

        name = "faber-brief"
        version = "1.0.0"
        shows = staticmethod(Notebook.brief)

        async def compact(
            self, transcript: Any, config: dict[str, Any] | None = None, previous_artifact: Any = None
        ) -> Any:
            """One call of the model for the turns since the last compaction; the run keeps the others."""
            if not hasattr(self, "_notebook"):
                self._directory = tempfile.TemporaryDirectory()
                self._notebook = Notebook(Path(self._directory.name))
            notebook, warnings = self._notebook, []
            turns = [(turn.role.value, turn.content) for turn in transcript.turns]
            if not notebook.turns:
                notebook.hand_in(users_lines(turns)[:1])  # what the run is about
            shown = "\n\n".join(f"{role.upper()}: {text}" for role, text in turns[notebook.turns :])
            answer = await self.provider.complete(
                CompletionRequest(model=self.model, prompt=_CHOOSE.format(turns=shown))
            )
            notebook.turns = len(turns)
            try:
                chosen = json.loads(answer.text)
            except ValueError:
                chosen = None
            if isinstance(chosen, list):
                notebook.hand_in([str(each) for each in chosen])
            else:
                warnings.append("the answer was no JSON array: nothing was handed in")
            return CompactionArtifact(
                summaryText=self.shows(notebook)[:LIMIT],
                selectedSourceTurnIds=[turn.id for turn in transcript.turns],
                warnings=warnings,
                methodMetadata={"method": self.name, "version": self.version, "model": self.model, "calls": 1},
            )

    class FaberContext(FaberBrief):
        """The same with what `faber context` shows."""

        name = "faber-context"
        shows = staticmethod(Notebook.context)


if __name__ == "__main__":
    sys.exit(main())
