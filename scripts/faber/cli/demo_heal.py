"""`faber demo --heal`: a sample nebula of which a phase really fails its check, and heals.

The agents are played by functions of this module, which is also said; everything else is what `faber nebula apply`
does: worktrees, the check, the diagnosis, the architect's answer and its validation, the insertion, the merges.
"""

import json
import os
import subprocess
import sys
import threading
from textwrap import wrap
from typing import Any

from faber.agents.outcome import Outcome, TurnResult
from faber.cli.output import write
from faber.cli.sample import announce, commit_all, git, launcher, put, run_faber
from faber.errors import FaberError
from faber.nebula.phase.agents import Agents, ReviewTurn
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.apply import Application, Caller, Crew, Wanted
from faber.nebula.run.display import PlainDisplay
from faber.responses.llm import Completion
from faber.store.layout import Layout

WIDTH = 80
RUN_ID = "sample/csv-export/demo"

MANIFEST = """[nebula]
name = "csv-export"

[execution]
max_workers = 2
max_review_cycles = 2
healing = true

[[filter]]
name = "round-trip"
command = [{python}, "-c", '''
import os, runpy
if os.path.exists("test_export.py"):
    runpy.run_path("test_export.py")
''']
"""

PHASES = {
    "header": ("Rows as lines", [], "Write `export(rows)` in export.py: a line for each row."),
    "quote": ("Values survive a round trip", ["header"], "Quote what needs it, and test that csv reads it back."),
    "totals": ("Totals below the rows", ["header"], "Write totals.py: the sum of each column of numbers."),
    "manual": ("Say how to use it", ["quote", "totals"], "Write EXPORT.md."),
}

NAIVE = """def export(rows):
    return "".join(",".join(row) + "\\n" for row in rows)
"""
WRAPPED = """def export(rows):
    return "".join(",".join(f'"{value}"' for value in row) + "\\n" for row in rows)
"""
REPLACED = """def quoted(value):
    return '"' + value.replace('"', "'") + '"'


def export(rows):
    return "".join(",".join(map(quoted, row)) + "\\n" for row in rows)
"""
LIBRARY = """import csv
import io


def export(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
"""
TEST = """import csv
import io

from export import export

ROWS = [["a, b", 'say "hi"'], ["two\\nlines", ""]]
FOUND = list(csv.reader(io.StringIO(export(ROWS), newline="")))
assert FOUND == ROWS, f"written {ROWS}, read {FOUND}"
"""
# What the coder of each phase writes, cycle by cycle.
DEEDS: dict[str, list[dict[str, str]]] = {
    "header": [{"export.py": NAIVE}],
    "quote": [{"export.py": WRAPPED, "test_export.py": TEST}, {"export.py": REPLACED}],
    "heal-quote": [{"export.py": LIBRARY}],
    "totals": [{"totals.py": "def totals(rows):\n    return [sum(column) for column in zip(*rows)]\n"}],
    "manual": [{"EXPORT.md": "# Export\n\n`export(rows)` answers CSV that any spreadsheet reads.\n"}],
}
PLAN = """+++
id = "heal-quote"
title = "Let the csv module quote"
max_review_cycles = 1
+++

Quoting by hand fails on values that hold quotes themselves. Replace it in export.py by the csv module of the standard
library; test_export.py stays as it is and passes.

## Partial Work

The round-trip test is committed and right. It stays.
"""


def show_healing(project: str) -> None:
    """Make the sample in `project`, work through it, and say what happened."""
    announce(f"Making a sample nebula in {project}")
    directory = _nebula(project)
    announce("Its agents are scripted: no model is asked. Everything else is real.")
    announce("The same as `faber nebula apply plan`:\n")
    _isolate()
    report = (
        Application(
            Layout(project),
            load_nebula(directory).nebula,
            directory,
            Wanted(),
            Caller(lambda: RUN_ID, "demo", PlainDisplay(_line), threading.Event()),
        )
        .run(lambda run_id, label: Crew(_agents, _architect))
        .report
    )
    if report["status"] != "done":
        raise FaberError(f"The sample ended as {report['status']}; that is a bug in faber.")
    write("\n")
    announce("`faber nebula status plan` now:\n")
    _lines(run_faber(project, ["nebula", "status", "plan", "--format", "text"]))
    run_faber(project, ["nebula", "land", "plan"])
    subprocess.run([sys.executable, "test_export.py"], cwd=project, check=True)
    write("\n")
    announce("Landed on main; the test that failed there passes, with both attempts' work.")
    write(
        f"\nGo on exploring:\n"
        f"  cd {project}\n"
        f"  cat plan/heal-quote.md                       # what the architect wrote\n"
        f"  git log --graph --oneline                    # both attempts\n"
        f"  {launcher()} event list {RUN_ID} --type healing_start\n"
    )


def _nebula(project: str) -> str:
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "faber demo")
    git(project, "config", "user.email", "demo@example.invalid")
    git(project, "config", "commit.gpgsign", "false")
    put(project, ".gitignore", "__pycache__/\n/.fractary/\n/plan/nebula.state.toml\n")
    put(project, "plan/nebula.toml", MANIFEST.format(python=json.dumps(sys.executable)))
    for name, (title, needed, body) in PHASES.items():
        header = f"id = {json.dumps(name)}\ntitle = {json.dumps(title)}\ndepends_on = {json.dumps(needed)}\n"
        put(project, f"plan/{name}.md", f"+++\n{header}+++\n\n{body}\n")
    commit_all(project, "A plan")
    return os.path.join(project, "plan")


def _isolate() -> None:
    """Nothing in the environment says where another repository or another run is."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]


def _line(text: str) -> None:
    _lines(text.removeprefix("faber: "))


def _lines(text: str) -> None:
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 6)
        wrapped = wrap("  " + line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
        write("\n".join(wrapped) + "\n")
    sys.stdout.flush()


# --- the agents ------------------------------------------------------------------------------------


def _agents(spec: PhaseSpec, directory: str, cancel: threading.Event) -> Agents:
    return _Played(spec.id, directory)


class _Played:
    """A coder that writes what `DEEDS` says, and a reviewer that approves what passed the check."""

    def __init__(self, phase: str, directory: str) -> None:
        self._left = list(DEEDS[phase])
        self._directory = directory

    def coder(self, prompt: str, budget: float) -> TurnResult:
        files = self._left.pop(0) if self._left else {}
        for name, text in files.items():
            put(self._directory, name, text)
        return TurnResult(Outcome.COMPLETED, f"Wrote {', '.join(files)}.", cost_usd=0.0, turns=1)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        tree = prompt.partition('"tree": "')[2].partition('"')[0]
        answer: dict[str, Any] = {
            "tree": tree,
            "verdict": "approved",
            "summary": "It does what was asked.",
            "findings": [],
            "earlier": [],
        }
        return ReviewTurn(answer, json.dumps(answer), cost_usd=0.0)


def _architect(spec: PhaseSpec, budget: float) -> "_Planner":
    return _Planner()


class _Planner:
    def complete(self, prompt: str) -> Completion:
        return Completion(json.dumps({"phase_file": PLAN}), "end_turn", 0.0)
