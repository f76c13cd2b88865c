"""A hostile agent in job work of the example workflows: what it leaves behind gains it nothing in job land."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.client import Client
from e2e.github_project import GitHubProject, github_project
from github.actions import Failed
from github.comments import NUMBER, event
from sync.clones import Clone

HOSTILE = Path(__file__).parents[1] / "fixtures" / "hostile" / "agent.sh"
FLOW = """
phases:
  - id: plan
    steps:
      - {id: outline, instruction: Say in one sentence how the export is made.}
"""


@pytest.fixture
def place(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubProject]:
    """A project at GitHub with a small workflow."""
    with github_project(client, tmp_path, monkeypatch, FLOW) as made:
        yield made


def test_a_hostile_agent_gains_nothing(place: GitHubProject, tmp_path: Path) -> None:
    """Nothing that an agent plants on its machine reaches a token, or anything at the remote but its own branch."""
    github, a, run_job = place.github, place.a, place.run_job
    run = a.must("run", "init", "--work-id", str(NUMBER))["run_id"]
    a.git("switch", "-q", "-c", "feat/7")
    a.commit("notes.txt")
    a.must("event", "emit", run, "--type", "branch_create", "--metadata", '{"branch": "feat/7"}')
    a.must("sync", "push", run)
    before = refs(a)
    agent = tmp_path / "programs" / "claude"
    agent.unlink()
    agent.write_text(HOSTILE.read_text("utf-8").replace("PLACE", str(tmp_path)))
    agent.chmod(0o755)

    payload = event(github, "@faber resume")
    decided = {"resume": "true", "run_id": run}
    with pytest.raises(Failed) as caught:  # the job fails as its agent did, and what it left is kept
        run_job("work", payload, decided)
    shown = caught.value.ran.out.splitlines()
    assert shown[0].startswith("::stop-commands::"), shown
    assert shown[-1] == f"::{shown[0].removeprefix('::stop-commands::')}::"
    assert (tmp_path / "sprung").exists()  # the traps work
    assert refs(a) == before

    _, land = run_job("land", payload, decided)
    after = refs(a)
    assert {ref for ref in before | after if before.get(ref) != after.get(ref)} == {"refs/heads/feat/7"}
    assert not (tmp_path / "canary").exists()
    loot = (tmp_path / "loot").read_text(errors="replace")
    secret = base64.b64encode(f"x-access-token:{github.token}".encode()).decode()
    assert "ANTHROPIC_API_KEY=dummy" in loot
    assert not any(word in loot for word in (github.token, secret, "extraheader"))
    (told,) = land.ran[-1:]
    assert '"result":"equal"' in told.out  # it recorded nothing in the run
    assert github.token not in told.out + told.err


def refs(clone: Clone) -> dict[str, str]:
    """The remote's refs."""
    lines = (line.split("\t") for line in clone.git("ls-remote", "origin").splitlines())
    return {ref: oid for oid, ref in lines}
