"""Healing in the real client: its architect alone, and whole runs in which a phase fails."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import Reply, text, tool
from e2e.request import Request
from faber.nebula.phase.checkpoint import Checkpoint, save
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.findings import make_finding
from faber.nebula.plan.phase_file import parse_phase
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord, StateWriter
from support.nebulas import nebula_files
from support.repositories import commit, git, repository

GOOD = (
    '+++\nid = "heal-a"\ntitle = "Write it properly"\nmax_review_cycles = 1\nscope = ["**"]\n+++\n\nThe cause is X.\n'
)


@pytest.fixture
def faber(tmp_path: Path, api: MessagesApi, claude_binary: str) -> Faber:
    """A nebula whose phase `a` failed after a cycle."""
    root = repository(tmp_path / "p", {"README.md": "begin\n", **nebula_files({"a": [], "b": ["a"]})})
    base = git(root, "rev-parse", "HEAD")
    head = commit(root, {"a.txt": "half\n"}, "a/cycle-1: half")
    finding = make_finding("major", "Only half is there", file="a.txt")
    state = CycleState(
        "A", 1, phase=Stage.REVIEW_COMPLETE, cycle=1, total_cost_usd=0.1, coder_output="Half is done.",
        base_commit_sha=base, cycle_commits=(head,), findings=(finding,), all_findings=(finding,),
    )  # fmt: skip
    directory = str(root / "plan")
    save(directory, Checkpoint("a", "plan", "", head, 0, state))
    failed = PhaseRecord("failed", cycle=1, cost_usd=0.1, reason="It was not approved in 1 cycles.")
    StateWriter().save(directory, NebulaFile("plan", phases={"a": failed}))
    return Faber(root, tmp_path / "home", api, claude_binary)


def test_an_architect_plans_in_the_real_client(faber: Faber, api: MessagesApi) -> None:
    """The client takes the agent from the plugin; what it tries to write is refused; a file that is not valid is sent
    back once in the same conversation; the answer is narrowed, and the tree is as it was."""
    seen: list[str] = []

    def architect(request: Request) -> Reply:
        said = "\n".join(request.texts)
        if "in your answer is invalid" in said:
            return text(json.dumps({"phase_file": GOOD}))
        if request.results:
            seen.append("\n".join(map(str, request.results)))
            return text(json.dumps({"phase_file": "no header"}))
        assert "Only half is there" in said
        assert "You write one phase file" in request.system
        return tool("Write", file_path=str(faber.root / "evil.txt"), content="x")

    api.script.always(architect)
    before = git(faber.root, "status", "--porcelain")
    answer = faber.run("heal", "plan", "plan", "a")
    assert (answer["remediation"], answer["corrections"]) == ("heal-a", 1)
    spec, _ = parse_phase("heal-a.md", answer["phase_file"], [])
    original, _ = parse_phase("a.md", (faber.root / "plan/a.md").read_text(), [])
    assert spec is not None
    assert original is not None
    assert (spec.title, spec.scope, spec.max_review_cycles) == ("Write it properly", original.scope, 1)
    assert "- a.txt" in spec.body
    assert len(seen) == 1
    assert not (faber.root / "evil.txt").exists()
    assert git(faber.root, "status", "--porcelain") == before
    assert faber.left() == []


# --- whole runs ------------------------------------------------------------------------------------

HEALS = "[execution]\nhealing = true\nmax_review_cycles = 1\nmax_budget_usd = 50.0\nmax_workers = 2\n"
FILTER = (
    '[[filter]]\nname = "whole"\n'
    'command = "test ! -e half.txt || test -e heal-b.txt || { echo half is missing; false; }"\n'
)
WHOLE = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
PAIR = {"b": [], "d": ["b"]}
WRONG = {"verdict": "not_approved", "earlier": []} | {
    "findings": [{"severity": "major", "description": "Only half is there", "file": "b.txt", "line": 1}]
}
KINDS = ("max_cycles", "budget_exceeded", "filter_failure", "merge_conflict")


def failing(kind: str) -> Model:
    """A model whose b fails so, and whose remediation puts it right."""
    model = Model()
    if kind == "max_cycles":
        model.verdicts["b"] = [WRONG]
    elif kind == "budget_exceeded":
        model.verdicts["b"], model.spent["b"] = [WRONG], 240_000
    elif kind == "filter_failure":
        model.deeds["b"] = [{"b.txt": "b\n", "half.txt": "half\n"}]
    else:
        both = threading.Barrier(2)
        for name in "bc":
            model.deeds[name] = [{f"{name}.txt": f"{name}\n", "both.txt": f"{name}\n"}, {}]
            model.deeds[f"heal-{name}"] = [{"both.txt": "b and c\n", f"heal-{name}.txt": "mended\n"}]

        def meet(role: str, phase: str, request: Request) -> None:
            if role == "coder" and phase in "bc" and model.asked.count((role, phase)) == 1 and not request.results:
                both.wait(60)

        model.moment = meet
    return model


def applied(
    tmp_path: Path,
    api: MessagesApi,
    binary: str,
    model: Model,
    phases: Mapping[str, list[str]],
    manifest: str,
    status: int,
) -> tuple[Faber, dict[str, Any]]:
    """`faber nebula apply` in the real client."""
    limit: dict[str, Any] = {"b": {"max_budget_usd": 5.0}} if "b" in model.spent else {}
    files = {"README.md": "begin\n", ".gitignore": "/.fractary/\n", **nebula_files(phases, manifest, **limit)}
    faber = Faber(repository(tmp_path / "p", files), tmp_path / "home", api, binary)
    api.script.always(model)
    answer = faber.run("nebula", "apply", "plan", status=status, timeout=300)
    assert faber.left() == []
    return faber, answer


def heals(tmp_path: Path, api: MessagesApi, binary: str, kind: str, phases: Mapping[str, list[str]]) -> None:
    """b fails by `kind`, is healed, and what waits for it runs after."""
    model = failing(kind)
    manifest = HEALS.replace("cycles = 1", "cycles = 3") if kind == "budget_exceeded" else HEALS
    manifest += FILTER if kind == "filter_failure" else ""
    faber, answer = applied(tmp_path, api, binary, model, phases, manifest, 0)
    (failed,) = [name for name, phase in answer["phases"].items() if phase["status"] == "failed"]
    remedy = f"heal-{failed}"
    assert answer["phases"][failed]["remediation"] == remedy
    assert {phase["status"] for name, phase in answer["phases"].items() if name != failed} == {"done"}
    assert failed == "b" or kind == "merge_conflict"
    assert model.asked.count(("architect", failed)) == 1
    order = [name for role, name in model.asked if role == "coder"]
    assert order.index(failed) < order.index(remedy) < order.index("d")
    branch = answer["branch"]
    names = git(faber.root, "ls-tree", "-r", "--name-only", branch).split()
    assert {f"{failed}.txt", f"{remedy}.txt", "d.txt"} <= set(names)
    assert f'healing {failed} ({kind}) → {remedy}: "Finish {failed}"' in faber.stderr
    assert f"{failed} ({kind}) → {remedy}" in answer["healing"]
    if kind == "merge_conflict":
        assert git(faber.root, "show", f"{branch}:both.txt") == "b and c"
    if kind == "filter_failure":
        assert "half.txt" in names
    said = faber.run("nebula", "status", "plan")
    assert said["healing"] == answer["healing"]


@pytest.mark.parametrize(
    ("kind", "phases"),
    [("max_cycles", PAIR), ("budget_exceeded", PAIR), ("filter_failure", PAIR), ("merge_conflict", WHOLE)],
    ids=KINDS,
)
def test_a_phase_that_failed_heals_in_the_real_client(
    tmp_path: Path, api: MessagesApi, claude_binary: str, kind: str, phases: Mapping[str, list[str]]
) -> None:
    """By cycles, money, a filter, a conflict in a diamond: the remediation is planned, done and merged, d runs after
    it, and the final tree has both attempts' work."""
    heals(tmp_path, api, claude_binary, kind, phases)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_diamond_heals_in_the_real_client(tmp_path: Path, api: MessagesApi, claude_binary: str, kind: str) -> None:
    """The same of a diamond for every kind."""
    heals(tmp_path, api, claude_binary, kind, WHOLE)


def test_with_healing_off_d_is_skipped(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """The architect is not called."""
    model = failing("max_cycles")
    _, answer = applied(tmp_path, api, claude_binary, model, PAIR, HEALS.replace("true", "false"), 5)
    assert {name: phase["status"] for name, phase in answer["phases"].items()} == {"b": "failed", "d": "skipped"}
    assert model.asked == [("coder", "b"), ("reviewer", "b")]


def test_an_architect_that_answers_garbage_disturbs_nothing(
    tmp_path: Path, api: MessagesApi, claude_binary: str
) -> None:
    """b stays failed with the reason, d is skipped, e is done; no phase file was written."""
    model = failing("max_cycles")
    model.plans["b"] = ["no header", "still none"]
    faber, answer = applied(tmp_path, api, claude_binary, model, {**PAIR, "e": []}, HEALS, 5)
    states = {name: phase["status"] for name, phase in answer["phases"].items()}
    assert states == {"b": "failed", "d": "skipped", "e": "done"}
    assert "phase file is invalid" in answer["healing"]
    assert sorted(path.name for path in (faber.root / "plan").glob("*.md")) == ["b.md", "d.md", "e.md"]
    assert git(faber.root, "show", f"{answer['branch']}:e.txt") == "e"
