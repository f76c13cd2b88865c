"""Healing in the real client: its architect alone, and whole runs in which a phase fails."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from e2e.replies import STRUCTURED, Reply, call, tool
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
            return call(STRUCTURED, {"phase_file": GOOD})
        if request.results:
            seen.append("\n".join(map(str, request.results)))
            return call(STRUCTURED, {"phase_file": "no header"})
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
    'command = "test ! -e half.txt || test -e heal-NAME.txt || { echo half is missing; false; }"\n'
)
WHOLE = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
PAIR = {"b": [], "d": ["b"]}
WRONG = {"verdict": "not_approved", "earlier": []} | {
    "findings": [{"severity": "major", "description": "Only half is there", "file": "b.txt", "line": 1}]
}
KINDS = ("max_cycles", "budget_exceeded", "filter_failure", "merge_conflict")


def fails(model: Model, kind: str, name: str, other: str = "c") -> dict[str, Any]:
    """Let a phase fail so (by a conflict: it or the other one), and its remediation put it right; what its file says
    to that end."""
    if kind == "max_cycles":
        model.verdicts[name] = [WRONG]
    elif kind == "budget_exceeded":
        model.verdicts[name], model.spent[name] = [WRONG], 240_000
        return {"max_budget_usd": 5.0, "max_review_cycles": 3}
    elif kind == "filter_failure":
        model.deeds[name] = [{f"{name}.txt": f"{name}\n", "half.txt": "half\n"}]
    else:
        both, pair = threading.Barrier(2), (name, other)
        for each in pair:
            model.deeds[each] = [{f"{each}.txt": f"{each}\n", "both.txt": f"{each}\n"}, {}]
            model.deeds[f"heal-{each}"] = [{"both.txt": "b and c\n", f"heal-{each}.txt": "mended\n"}]

        def meet(role: str, phase: str, request: Request) -> None:
            if role == "coder" and phase in pair and model.asked.count((role, phase)) == 1 and not request.results:
                both.wait(60)

        model.moment = meet
        return {"priority": 1}  # they are at work at the same time
    return {}


def applied(
    tmp_path: Path, api: MessagesApi, binary: str, model: Model, files: Mapping[str, str | bytes], status: int
) -> tuple[Faber, dict[str, Any]]:
    """`faber nebula apply` in the real client."""
    files = {"README.md": "begin\n", ".gitignore": "/.fractary/\n", **files}
    faber = Faber(repository(tmp_path / "p", files), tmp_path / "home", api, binary)
    api.script.always(model)
    answer = faber.run("nebula", "apply", "plan", status=status, timeout=300)
    assert faber.left() == []
    return faber, answer


def heals(
    tmp_path: Path, api: MessagesApi, binary: str, phases: Mapping[str, list[str]], kinds: Mapping[str, str]
) -> None:
    """The phases fail, each by its kind, are healed, and d, which waits for them, runs after."""
    model, manifest = Model(), HEALS
    extra: dict[str, dict[str, Any]] = {name: fails(model, kind, name) for name, kind in kinds.items()}
    for name, kind in kinds.items():
        if kind == "filter_failure":
            manifest += FILTER.replace("NAME", name)
        if kind == "merge_conflict":
            extra["c"] = extra[name]
    faber, answer = applied(tmp_path, api, binary, model, nebula_files(phases, manifest, **extra), 0)
    failed = [name for name, phase in answer["phases"].items() if phase["status"] == "failed"]
    assert len(failed) == len(kinds)
    assert {phase["status"] for name, phase in answer["phases"].items() if name not in failed} == {"done"}
    order = [name for role, name in model.asked if role == "coder"]
    branch = answer["branch"]
    names = git(faber.root, "ls-tree", "-r", "--name-only", branch).split()
    assert "d.txt" in names
    for name in failed:
        kind, remedy = kinds.get(name, "merge_conflict"), f"heal-{name}"
        assert kind in kinds.values()
        assert answer["phases"][name]["remediation"] == remedy
        assert model.asked.count(("architect", name)) == 1
        assert order.index(name) < order.index(remedy) < order.index("d")
        assert {f"{name}.txt", f"{remedy}.txt"} <= set(names)
        assert f'healing {name} ({kind}) → {remedy}: "Finish {name}"' in faber.stderr
        assert f"{name} ({kind}) → {remedy}" in answer["healing"]
        if kind == "merge_conflict":
            assert git(faber.root, "show", f"{branch}:both.txt") == "b and c"
        if kind == "filter_failure":
            assert "half.txt" in names
    said = faber.run("nebula", "status", "plan")
    assert said["healing"] == answer["healing"]


ONE = {"f": "filter_failure"}  # tests/nebula/run/test_healing.py has each kind with scripted agents
FOUR = {**ONE, "s": "budget_exceeded", "m": "max_cycles", "b": "merge_conflict"}


@pytest.mark.full
@pytest.mark.parametrize("kinds", [ONE, FOUR], ids=["one", "four"])
def test_phases_that_failed_heal_in_the_real_client(
    tmp_path: Path, api: MessagesApi, claude_binary: str, kinds: Mapping[str, str]
) -> None:
    """By a filter, and by money, cycles and a conflict: each remediation is planned, done and merged, d runs after
    them, and the final tree has both attempts' work."""
    names = [*kinds, *("c" for kind in kinds.values() if kind == "merge_conflict")]
    heals(tmp_path, api, claude_binary, {**{name: [] for name in names}, "d": names}, kinds)


@pytest.mark.full
@pytest.mark.parametrize("phases", [PAIR, WHOLE], ids=["pair", "diamond"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_heals_in_the_real_client(
    tmp_path: Path, api: MessagesApi, claude_binary: str, kind: str, phases: Mapping[str, list[str]]
) -> None:
    """The same of each kind alone, also in a diamond."""
    if kind == "merge_conflict" and "c" not in phases:
        phases = {"b": [], "c": [], "d": ["b", "c"]}
    heals(tmp_path, api, claude_binary, phases, {"b": kind})


@pytest.mark.full  # tests/nebula/run/test_healing.py has it with scripted agents
def test_with_healing_off_d_is_skipped(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """The architect is not called."""
    model = Model()
    fails(model, "max_cycles", "b")
    files = nebula_files(PAIR, HEALS.replace("true", "false"))
    _, answer = applied(tmp_path, api, claude_binary, model, files, 5)
    assert {name: phase["status"] for name, phase in answer["phases"].items()} == {"b": "failed", "d": "skipped"}
    assert model.asked == [("coder", "b"), ("reviewer", "b")]
