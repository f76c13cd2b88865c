"""`faber demo --heal`: a sample nebula in which a phase really fails its check, and is healed.

Scripted agents replace the models, and the demo says so. Everything else is what `faber nebula apply` does: worktrees,
the check, the diagnosis, the validation of the architect's answer, the insertion, the merges.
"""

import json
import os
import subprocess
import sys
import threading
from textwrap import wrap

from faber.agents.outcome import Outcome, TurnResult
from faber.demo.sample import LAUNCHER, announce, commit_all, copy_sample, git, run_faber, sample
from faber.errors import FaberError
from faber.nebula.phase.agents import Agents, ReviewTurn
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.run.apply import Application, Caller, Crew
from faber.nebula.run.apply_options import Wanted
from faber.nebula.view.display import PlainDisplay
from faber.processes.stdout import write
from faber.responses.llm import Completion
from faber.store.layout import Layout

WIDTH = 80
RUN_ID = "sample/csv-export/demo"
SAMPLE = "healing"


def show_healing(project: str) -> None:
    """Create the sample in `project`, run its nebula, and say what happened."""
    announce(f"Creating a sample nebula in {project}")
    directory = _nebula(project)
    announce("Its agents are scripted: no model is used. Everything else is real.")
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
    announce("Landed on main with the work of both attempts; the failed test passes there.")
    write(
        f"\nExplore further:\n"
        f"  cd {project}\n"
        f"  cat plan/heal-quote.md                       # what the architect wrote\n"
        f"  git log --graph --oneline                    # both attempts\n"
        f"  {LAUNCHER} event list {RUN_ID} --type healing_start\n"
    )


def _nebula(project: str) -> str:
    git(project, "init", "-q", "-b", "main")
    git(project, "config", "user.name", "faber demo")
    git(project, "config", "user.email", "demo@example.invalid")
    git(project, "config", "commit.gpgsign", "false")
    copy_sample(project, SAMPLE, "project")
    directory = os.path.join(project, "plan")
    manifest = os.path.join(directory, "nebula.toml")
    with open(manifest, encoding="utf-8") as file:
        text = file.read()
    with open(manifest, "w", encoding="utf-8") as file:
        file.write(text.replace('"PYTHON"', json.dumps(sys.executable)))
    commit_all(project, "A plan")
    return directory


def _isolate() -> None:
    """Remove what points git to another repository."""
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
    return _Scripted(spec.id, directory)


class _Scripted:
    """A coder that writes the sample's files of its phase and cycle, and a reviewer that approves."""

    def __init__(self, phase: str, directory: str) -> None:
        self._phase, self._directory = phase, directory
        self._cycle = 0

    def coder(self, prompt: str, budget: float) -> TurnResult:
        self._cycle += 1
        files = copy_sample(self._directory, SAMPLE, "coder", self._phase, str(self._cycle))
        return TurnResult(Outcome.COMPLETED, f"Wrote {', '.join(files)}.", cost_usd=0.0, turns=1)

    def reviewer(self, prompt: str, budget: float) -> ReviewTurn:
        tree = prompt.partition('"tree": "')[2].partition('"')[0]
        answer = {
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
        return Completion(json.dumps({"phase_file": sample(SAMPLE, "architect", "heal-quote.md")}), "end_turn", 0.0)
