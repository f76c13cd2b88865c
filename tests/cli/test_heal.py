"""`faber heal …`: a failed phase of a nebula and a failed step of a run, diagnosed and planned by hand."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faber.nebula.phase.checkpoint import Checkpoint, save
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.findings import make_finding
from faber.nebula.plan.phase_file import parse_phase
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord, StateWriter
from support.repositories import commit, head, of_directory, repository

Faber = Callable[..., Any]
EXAMPLE = Path(__file__).parents[2] / "examples/nebula"
PHASE = "reader"


def git(where: Path, *arguments: str) -> str:
    """The output of git."""
    return subprocess.run(["git", *arguments], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


class Failed:
    """A nebula of which the phase `reader` failed after two cycles, in a repository with their commits."""

    def __init__(self, project: Path) -> None:
        self.project, self.directory = project, project / "neb"
        self.base = head(repository(project, of_directory(EXAMPLE, "neb")))
        self.head = commit(project, {"todo.py": "print(1)\n"}, "reader/cycle-1: x")
        git(project, "reset", "-q", "--hard", self.base)
        self.state = CycleState(
            "Read",
            2,
            phase=Stage.REVIEW_COMPLETE,
            cycle=2,
            total_cost_usd=0.4,
            coder_output="I read it.",
            review_output="Not good.",
            base_commit_sha=self.base,
            cycle_commits=(self.head,),
            findings=(make_finding("major", "An empty list crashes", file="todo.py"),),
        )
        self.write(self.state)

    def write(self, state: CycleState, **record: Any) -> None:
        """The checkpoint and the state file of the failure."""
        save(str(self.directory), Checkpoint(PHASE, "todo-tool", "", self.head, 0, state))
        known = PhaseRecord("failed", cycle=state.cycle, cost_usd=0.4, reason="It was not approved in 2 cycles.")
        StateWriter().save(str(self.directory), NebulaFile("todo-tool", phases={PHASE: replace(known, **record)}))


@pytest.fixture
def failed(project: Path) -> Failed:
    """The failed nebula."""
    return Failed(project)


def test_a_failed_phase_is_diagnosed_from_its_files(faber: Faber, failed: Failed) -> None:
    """Kind, cycles, money, findings, commits and files, and the prompt that an architect would get."""
    answer = faber("heal", "diagnose", "neb", PHASE)
    assert answer.status == 0
    found = answer.json["diagnosis"]
    assert (found["kind"], found["healable"], found["cycles_used"], found["budget_spent"]) == (
        "max_cycles", True, 2, 0.4,
    )  # fmt: skip
    assert found["summary"] == "It was not approved in 2 cycles."
    assert found["findings"] == ["[major] todo.py: An empty list crashes"]
    work = found["partial_work"]
    assert (work["commit_shas"], work["base_commit_sha"]) == ([failed.head], failed.base)
    assert work["files_touched"] == ["todo.py"]
    assert "### Partial Work from Failed Phase" in answer.json["prompt"]
    assert 'id = "heal-reader"' in answer.json["prompt"]
    assert (answer.json["attempts"], answer.json["heals"], answer.json["why_not"]) == (0, False, "policy_disabled")
    assert answer.json["what_to_do"].startswith("healing is off. `faber nebula apply neb --resume --heal` heals it now")
    assert "\nNot healed: healing is off. " in faber("heal", "diagnose", "neb", PHASE, "--format", "text").out


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"filter_check_name": "tests", "filter_output": "E 1"}, "filter_failure"),
        ({"total_cost_usd": 1.0, "max_budget_usd": 1.0}, "budget_exceeded"),
        ({"phase": Stage.APPROVED, "cycle": 1}, "merge_conflict"),
        ({"cycle": 1}, "unhealable"),
    ],
)
def test_without_a_log_the_state_says_what_failed(
    faber: Faber, failed: Failed, changes: dict[str, Any], kind: str
) -> None:
    """Of another tool's files: a filter, the money, an approval without a merge; what fits nothing is not healed."""
    failed.write(replace(failed.state, **changes))
    assert faber("heal", "diagnose", "neb", PHASE).json["diagnosis"]["kind"] == kind


def test_a_second_attempt_has_the_next_id(faber: Faber, failed: Failed) -> None:
    """The attempts in the state file count, and the policy says that they are used up."""
    manifest = failed.directory / "nebula.toml"
    manifest.write_text(manifest.read_text().replace("[execution]", "[execution]\nhealing = true", 1))
    failed.write(failed.state, heal_attempts=1)
    answer = faber("heal", "diagnose", "neb", PHASE).json
    assert (answer["attempts"], answer["why_not"]) == (1, "max_attempts")
    assert 'id = "heal-2-reader"' in answer["prompt"]


def test_commits_that_are_gone_leave_the_rest(faber: Faber, failed: Failed) -> None:
    """If git does not know the commits, the files are missing and a warning says so."""
    failed.write(replace(failed.state, cycle_commits=("e" * 40,)))
    answer = faber("heal", "diagnose", "neb", PHASE).json
    assert answer["diagnosis"]["partial_work"]["files_touched"] == []
    assert [each["code"] for each in answer["warnings"]] == ["git_failed"]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["neb", "nobody"], 1, "unknown_phase"),
        (["neb", "writer"], 2, "invalid_input"),
        (["neb"], 2, "invalid_input"),
        (["nowhere"], 1, "run_not_found"),
    ],
)
def test_what_cannot_be_diagnosed(faber: Faber, failed: Failed, arguments: list[str], status: int, code: str) -> None:
    """An unknown phase, one that did not fail, none at all, an unknown run."""
    answer = faber("heal", "diagnose", *arguments)
    assert (answer.status, answer.code) == (status, code)


def test_without_a_checkpoint_nobody_knows(faber: Faber, failed: Failed) -> None:
    """A failed phase without any recorded cycle is reported as such."""
    os.unlink(failed.directory / f"checkpoint.{PHASE}.toml")
    assert faber("heal", "diagnose", "neb", PHASE).code == "invalid_checkpoint"


def test_the_diagnosis_as_text_ends_with_the_prompt(faber: Faber, failed: Failed) -> None:
    """For a person: what failed in two lines, what is kept, then the prompt."""
    out = faber("heal", "diagnose", "neb", PHASE, "--format", "text").out
    assert out.startswith("reader: max_cycles. It was not approved in 2 cycles.\n2 cycles, 0.40 US dollars")
    assert "Kept: 1 commits, 1 files" in out
    assert "# Remediation of phase reader" in out


def test_the_prompt_alone(faber: Faber, failed: Failed) -> None:
    """`--prompt-only` prints it and asks nobody."""
    prompt = faber("heal", "diagnose", "neb", PHASE).json["prompt"]
    assert faber("heal", "plan", "neb", PHASE, "--prompt-only").out == prompt


CLIENT = """#!{python}
import json, sys
prompt = sys.stdin.read()
assert "--agent" in sys.argv and "faber:architect" in sys.argv, sys.argv
assert "Remediation of phase" in prompt
text = json.dumps({{"phase_file": {file!r}}})
message = {{"id": "m1", "role": "assistant", "content": [{{"type": "text", "text": text}}], "stop_reason": "end_turn"}}
for event in (
    {{"type": "system", "subtype": "init", "session_id": "s1"}},
    {{"type": "assistant", "session_id": "s1", "message": message}},
    {{"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "session_id": "s1",
      "total_cost_usd": 0.05, "result": text, "stop_reason": "end_turn"}},
):
    print(json.dumps(event), flush=True)
"""
FILE = '+++\nid = "heal-reader"\ntitle = "Empty lists"\nmax_review_cycles = 1\nscope = ["**"]\n+++\n\nHandle them.\n'


def test_an_architect_is_asked(faber: Faber, failed: Failed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is started as the architect; its phase file comes back narrowed, and nothing in the nebula changed."""
    client = tmp_path / "claude"
    client.write_text(CLIENT.format(python=sys.executable, file=FILE))
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FABER_CLAUDE", str(client))
    before = sorted(os.listdir(failed.directory))
    answer = faber("heal", "plan", "neb", PHASE)
    assert answer.status == 0, answer.out
    assert (answer.json["remediation"], answer.json["title"]) == ("heal-reader", "Empty lists")
    assert answer.json["architect_cost"] == pytest.approx(0.05)
    spec, _ = parse_phase("x.md", answer.json["phase_file"], [])
    original, _ = parse_phase("y.md", (failed.directory / "02-reader.md").read_text(), [])
    assert spec is not None
    assert original is not None
    assert (spec.scope, spec.max_review_cycles) == (original.scope, 1)
    assert "## Partial Work" in spec.body
    assert "auto-healing" in (spec.labels or ())
    assert sorted(os.listdir(failed.directory)) == before


# --- a workflow's run ------------------------------------------------------------------------------


@pytest.fixture
def run(faber: Faber, project: Path) -> str:
    """A run whose step `build:implement` is about to begin, on a branch of its own."""
    git(project, "init", "-q", "-b", "work")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    run_id = str(faber("run", "init", "--target", "A calculator", "--run-id", "calculator").json["run_id"])
    faber("context", run_id, "--record")
    for step in ("frame:fetch-work", "frame:classify", "frame:setup-branch", "architect:write-spec"):
        assert faber("step", "start", run_id, step).status == 0
        assert faber("step", "complete", run_id, step).status == 0
    return run_id


def test_a_failed_step_is_diagnosed_from_its_log(faber: Faber, project: Path, run: str) -> None:
    """Each attempt is a cycle; errors that came back are recurring; the commits since its start are its work."""
    place = "build:implement"
    for number in range(2):
        assert faber("step", "start", run, place).status == 0
        (project / f"f{number}.py").write_text("x")
        git(project, "add", "-A")
        git(project, "commit", "-qm", "work")
        assert faber("step", "fail", run, place, "--error", f"Test {number} of the parser fails").status == 0
    answer = faber("heal", "diagnose", run).json
    found = answer["diagnosis"]
    assert (answer["phase"], found["kind"], found["healable"], found["cycles_used"]) == (
        "build-implement", "max_cycles", True, 2,
    )  # fmt: skip
    assert found["summary"] == "Test 1 of the parser fails."
    assert len(found["recurring"]) == 1
    assert found["recurring"][0].endswith("(in 2 cycles)")
    assert len(found["partial_work"]["commit_shas"]) == 2
    assert found["partial_work"]["files_touched"] == ["f0.py", "f1.py"]
    assert "A calculator" in answer["prompt"]
    assert "Implement the specification" in answer["prompt"]
    named = faber("heal", "diagnose", run, place).json
    assert named["diagnosis"] == found
    assert faber("heal", "diagnose", run, "implement").json["diagnosis"] == found


def test_tests_that_failed_are_the_filter(faber: Faber, run: str) -> None:
    """The recorded failed test run is the one that has to pass."""
    faber("step", "start", run, "build:implement")
    faber("event", "emit", run, "--type", "test_run", "--status", "failed", "--message", "E   assert 1 == 2")
    faber("step", "fail", run, "build:implement", "--error", "The tests fail")
    found = faber("heal", "diagnose", run).json["diagnosis"]
    assert (found["kind"], found["filter_name"], found["filter_output"]) == (
        "filter_failure", "test_run", "E   assert 1 == 2",
    )  # fmt: skip


def test_a_run_without_a_failure_has_nothing_to_heal(faber: Faber, run: str) -> None:
    """A run that continues, and a step that is done, are refused with a way to look."""
    assert faber("heal", "diagnose", run).code == "invalid_input"
    assert faber("heal", "plan", run, "frame:classify", "--prompt-only").code == "invalid_input"
