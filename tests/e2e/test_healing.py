"""An architect in the real client: it reads, it answers, and what it wrote is made fit to be inserted."""

import json
from pathlib import Path

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber
from e2e.replies import Reply, text, tool
from e2e.request import Request
from faber.loop.checkpoint import Checkpoint, save
from faber.loop.cyclestate import CycleState, Stage
from faber.loop.findings import make_finding
from faber.nebula.parse import parse_phase
from faber.nebula.statefile import NebulaFile, PhaseRecord, StateWriter
from nebulas import nebula_files
from trees import commit, git, repository

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
        if "is not valid" in said:
            return text(json.dumps({"phase_file": GOOD}))
        if request.results:
            seen.append("\n".join(map(str, request.results)))
            return text(json.dumps({"phase_file": "no header"}))
        assert "Only half is there" in said
        assert "You write the file of one phase" in request.system
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
