"""A failed check of the run's pull request: which ones re-open the run, with what, and how often."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from github.comments import PERSON, ended, environment, remote, settings, write_event
from github.fake import FakeGitHub

Faber = Callable[..., Any]
RUN = "demo/one/run"
FIRST, SECOND = "a" * 40, "b" * 40


class World(NamedTuple):
    """A completed run with a pull request, and how a check's end arrives."""

    github: FakeGitHub
    faber: Faber
    project: Path
    events: Path

    def arrive(self, kind: str, number: int, **more: Any) -> Any:
        path = write_event(self.project.parent, ended(self.github, kind, number, **more))
        return self.faber("feedback", "from-event", "--event-path", path)

    def log(self) -> list[str]:
        return sorted(file.name for file in self.events.iterdir())

    def must(self, *arguments: str) -> Any:
        done = self.faber(*arguments)
        assert done.status == 0, done.out
        return done.json


@pytest.fixture
def world(
    project: Path,
    faber: Faber,
    git: Callable[..., str],
    run_dir: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """A completed run of a small workflow, whose pull request #9 is at the commit `FIRST`."""
    for name in [name for name in os.environ if name.startswith(("GH_", "GITHUB_"))]:
        monkeypatch.delenv(name)
    workflows = project / ".fractary" / "faber" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "short.yaml").write_text(WORKFLOW)
    with FakeGitHub() as github:
        github.add_issue(7)
        github.add_issue(9)
        github.permissions = {PERSON: ("write", "write")}
        for name, value in environment(github).items():
            monkeypatch.setenv(name, value)
        git("remote", "add", "origin", remote(github))
        git("switch", "-qc", "work/seven")
        made = World(github, faber, project, run_dir(RUN) / "events")
        (project / ".fractary" / "faber" / "config.yaml").write_text(settings(github))
        made.must("run", "init", "--run-id", RUN, "--work-id", "7", "--workflow", "short", "--autonomy", "autonomous")
        made.must("next", RUN)
        made.must("step", "complete", RUN, "frame:classify", "--artifact", "branch_name=work/seven", "--next")
        made.must("step", "complete", RUN, "build:implement", "--next")
        made.must("step", "complete", RUN, "evaluate:test", "--next")
        pushed(made, FIRST)
        made.must("step", "complete", RUN, "release:open-pr", "--next")
        yield made
        assert github.violations == []


WORKFLOW = """
id: short
phases:
  - {id: frame, name: Frame, steps: [{id: classify, name: Classify}]}
  - {id: build, name: Build, steps: [{id: implement, name: Implement}]}
  - id: evaluate
    name: Evaluate
    on_failure: {return_to: build, max_retries: 3}
    steps: [{id: test, name: Test}]
  - {id: release, name: Release, steps: [{id: open-pr, name: Open, pull_request: true}]}
"""


def pushed(world: World, commit: str, number: int = 9) -> None:
    """faber has pushed the commit to the run's pull request."""
    url = f"https://127.0.0.1/{world.github.slug}/pull/{number}"
    world.must("event", "emit", RUN, "--type", "pr_create", "--set", f"url={url}", "--set", f"commit={commit}")
    world.github.checks.pull(number, "work/seven", commit)


def test_a_failed_check_reopens_the_run(world: World) -> None:
    """A completed run is sent back to where its workflow sends failures, and the step shows what failed."""
    world.github.checks.check(31, "lint", FIRST, summary="E501 line too long")
    told = world.arrive("check_run", 31)
    assert (told.status, told.json["result"], told.json["reason"], told.json["resume"]) == (
        0,
        "recorded",
        "reopened",
        True,
    )
    action = world.must("next", RUN)
    assert (action["phase"], action["step"], action["mode"]) == ("build", "implement", "retry")
    assert action["failure"]["evidence"] == [
        {
            "kind": "check",
            "name": "lint",
            "conclusion": "failure",
            "url": f"https://github.com/{world.github.slug}/runs/31",
            "output": "E501 line too long",
            "untrusted": True,
        }
    ]
    assert "lint" in action["failure"]["error"]
