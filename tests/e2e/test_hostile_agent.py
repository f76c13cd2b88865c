"""A hostile agent in job work of the example workflows: what it leaves behind gains it nothing in job land."""

import base64
import re
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
  - id: build
    steps:
      - {id: write, instruction: Write the export.}
  - id: release
    steps:
      - {id: open-pr, instruction: Open it., pull_request: true}
"""


@pytest.fixture
def place(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubProject]:
    """A project at GitHub whose workflow ends with a pull request, which job land opens."""
    with github_project(client, tmp_path, monkeypatch, FLOW) as made:
        yield made


def test_a_hostile_agent_gains_nothing(place: GitHubProject, tmp_path: Path) -> None:
    """Nothing that an agent plants on its machine reaches a token, or anything at the remote but its own branch."""
    github, a, run_job = place.github, place.a, place.run_job
    run = a.must("run", "init", "--work-id", str(NUMBER))["run_id"]
    a.git("switch", "-q", "-c", "feat/7")
    a.commit("notes.txt")
    a.must("event", "emit", run, "--type", "branch_create", "--metadata", '{"branch": "feat/7"}')
    a.must("step", "start", run, "build:write")
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
    changed = {ref for ref in before | after if before.get(ref) != after.get(ref)}
    assert changed == {"refs/heads/feat/7", f"refs/faber/runs/{run}"}
    opened = github.pulls.found[max(github.pulls.found)]
    assert (opened["head"], opened["base"]) == ("feat/7", "main")
    assert "everyone" in opened["body"]  # what it said is shown, and reaches nobody
    posted = "".join([opened["body"], opened["title"], *github.bodies(NUMBER)])
    assert not re.search(r"(?<![`\w])@everyone|<img|<script|Closes #1\b", posted)
    assert not (tmp_path / "canary").exists()
    loot = (tmp_path / "loot").read_text(errors="replace")
    secret = base64.b64encode(f"x-access-token:{github.token}".encode()).decode()
    assert "ANTHROPIC_API_KEY=dummy" in loot
    assert not any(word in loot for word in (github.token, secret, "extraheader"))
    (told,) = land.ran[-1:]
    assert '"result":"imported"' in told.out
    assert github.token not in told.out + told.err


def refs(clone: Clone) -> dict[str, str]:
    """The remote's refs."""
    lines = (line.split("\t") for line in clone.git("ls-remote", "origin").splitlines())
    return {ref: oid for oid, ref in lines}
