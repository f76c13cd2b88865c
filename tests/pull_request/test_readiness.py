"""What a pull request waits for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faber.demo.healed_phase import RUN_ID
from faber.pull_request.readiness import waits_for
from pull_request.conftest import call
from pull_request.world import World
from support.repositories import git

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("phases", "waits"),
    [
        ({"a": {"status": "done"}, "b": {"status": "skipped"}}, ()),
        ({"a": {"status": "failed", "remediation": "heal-a"}, "heal-a": {"status": "done"}}, ()),
        ({"a": {"status": "failed"}}, ("1 phase is not done: `a`",)),
        ({name: {"status": "open"} for name in "abcd"}, ("4 phases are not done: `a`, `b`, `c` and 1 more",)),
    ],
)
def test_a_nebula_waits_for_its_phases(phases: Any, waits: tuple[str, ...]) -> None:
    """A nebula's pull request is ready when each phase is done, skipped or healed."""
    state: Any = {"feedback_queue": [], "nebula": {"phases": phases}}
    plan: Any = {"phases": []}
    assert waits_for(state, plan) == waits


@pytest.mark.full  # the text of a nebula's pull request, from a run with a healed phase
def test_a_nebula_has_a_pull_request(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch that a nebula integrated its phases on is pushed, and its phases are what the page shows."""
    project = tmp_path / "nebula"
    made = [sys.executable, "-I", ROOT / "scripts" / "faber", "demo", "--heal", "--directory", project]
    subprocess.run(made, check=True, capture_output=True)
    bare = tmp_path / "projects" / "acme" / "widgets.git"
    git(project, "remote", "add", "origin", str(bare))
    git(project, "push", "-q", "--force", "origin", "main~4:main")
    monkeypatch.chdir(project)
    (project / ".fractary" / "faber" / "config.yaml").write_bytes(
        (world.project / ".fractary" / "faber" / "config.yaml").read_bytes()
    )
    answer = call("pull-request", RUN_ID)
    assert answer.status == 0, json.dumps(answer.json)
    assert (answer.json["draft"], answer.json["base"]) == (False, "main")
    [text] = world.bodies.values()
    assert "- `heal-quote`: Let the csv module quote" in text
    assert "- `quote` failed, and `heal-quote` healed it: " in text
