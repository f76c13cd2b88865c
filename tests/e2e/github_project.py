"""A project at the GitHub of the tests, the machine on which its work began, and GitHub's machines: the jobs of the
example workflows, command by command."""

import base64
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from e2e.client import Client
from github.actions import Runner, called, jobs
from github.comments import NUMBER, PERSON, environment, remote, settings, write_event
from github.fake import FakeGitHub
from support.git_environment import COMMITTER
from sync.clones import Clone

ALLOWED = "Bash(git switch *),Bash(git add *),Bash(git commit *)"
Outputs = Mapping[str, str]


class GitHubProject:
    """The repository and its issue at GitHub, machine `a` with a clone of it, and the machines of jobs."""

    def __init__(self, github: FakeGitHub, a: Clone, client: Client, directory: Path, header: str) -> None:
        self.github = github
        self.a = a
        self.machines: list[Path] = []
        self._client = client
        self._directory = directory
        self._header = header
        self._plugin = Path(__file__).parents[2]
        self._numbers = count(1)
        self._programs = directory / "programs"
        self._programs.mkdir()
        (self._programs / "claude").symlink_to(client.binary)

    @property
    def bare(self) -> Path:
        """The repository at GitHub."""
        assert self.github.projects is not None
        return self.github.projects / f"{self.github.slug}.git"

    @property
    def newest(self) -> Path:
        """The clone on the machine that was started last."""
        return self.machines[-1] / "project"

    def run_job(
        self, name: str, payload: Any, decided: Outputs | None = None, event: str = "issue_comment"
    ) -> tuple[Any, Runner]:
        """A job of the workflows, on a machine of its own; `decided` are the outputs of job decide."""
        github, about = self.github, payload.get("repository")  # a schedule is about none
        contexts = {
            "github": {
                "token": github.token,
                "server_url": github.root,
                "repository": github.slug,
                "event_name": event,
                "event": payload | ({"repository": about | {"default_branch": "main"}} if about else {}),
                "_header": self._header,
            },
            "secrets": {"ANTHROPIC_API_KEY": "dummy"},
            "vars": {"FABER_ALLOWED_TOOLS": ALLOWED},
            "needs": {"decide": {"outputs": decided}},
        }
        plain = self._client.environment()
        given = plain | {
            "PATH": f"{self._programs}:{plain['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_SERVER_URL": github.root,
            "GITHUB_REPOSITORY": github.slug,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": write_event(self._directory, payload),
        }
        del given["ANTHROPIC_API_KEY"]  # the job's to give
        inner = contexts if decided is None else called(contexts)
        assert inner is not None, decided
        self.machines.append(self._directory / f"machine-{next(self._numbers)}")
        if name != "work":  # the client finds its own home ready
            (self.machines[-1] / "home").mkdir(parents=True)
            given["HOME"] = str(self.machines[-1] / "home")
        runner = Runner(
            self.machines[-1],
            inner,
            given,
            clone_from=remote(github),
            plugin=self._plugin,
            artifacts=self._directory / "artifacts",
        )
        return runner.job(jobs()[name]), runner

    def decide(self, event: str, payload: Any) -> Outputs:
        """Job decide at an event, which it has to hear; its outputs."""
        outputs, _ = self.run_job("decide", payload, event=event)
        assert outputs is not None, "the workflow leaves this event out"
        return dict(outputs)

    def happens(self, event: str, payload: Any) -> None:
        """All that the workflows do at an event that lets the run continue."""
        decided = self.decide(event, payload)
        assert decided["resume"] == "true"
        before = self.refs()
        self.run_job("work", payload, decided, event)
        assert self.refs() == before  # job work cannot push
        self.run_job("land", payload, decided, event)

    def refs(self) -> str:
        """All refs at GitHub."""
        return git(self.bare, "for-each-ref")

    def text(self, file: str = "export.txt", branch: str = "feat/7") -> str:
        """A file of a branch at GitHub."""
        return git(self.bare, "show", f"refs/heads/{branch}:{file}") + "\n"

    def head(self, branch: str = "feat/7") -> str:
        """The commit of a branch at GitHub."""
        return git(self.bare, "rev-parse", f"refs/heads/{branch}")

    def merge(self, number: int) -> str:
        """A person merges a pull request: the commit on `main`."""
        branch = self.github.pulls.found[number]["head"]
        tree = git(self.bare, "merge-tree", "--write-tree", "main", branch)
        parents = ("-p", "main", "-p", branch)
        made = git(self.bare, "commit-tree", tree, *parents, "-m", f"Merge pull request #{number}")
        git(self.bare, "update-ref", "refs/heads/main", made)
        self.github.pulls.merge(number, made)
        return made


@contextmanager
def github_project(
    client: Client, directory: Path, patch: pytest.MonkeyPatch, flow: str, **chosen: Any
) -> Iterator[GitHubProject]:
    """A project with the workflow `flow` and settings at GitHub, and machine A's clone of it."""
    for name in [key for key in os.environ if key.startswith(("GIT_", "GH_", "GITHUB_", "CLAUDE", "FABER_ROOT"))]:
        patch.delenv(name)
    for name, value in COMMITTER.items():
        patch.setenv(name, value)
    patch.setattr("faber.github.api_calls.WRITE_SPACING", 0)
    with FakeGitHub() as github:
        github.add_issue(NUMBER)
        github.permissions = {PERSON: ("write", "write")}
        github.projects = directory / "projects"
        for name, value in environment(github).items():
            patch.setenv(name, value)
        header = f"AUTHORIZATION: basic {base64.b64encode(f'x:{github.token}'.encode()).decode()}"
        _publish(client.project, github, flow, **chosen)
        a = Clone(directory / "a")
        git(directory, "-c", f"http.extraHeader={header}", "clone", "-q", remote(github), str(a.path))
        a.git("config", "http.extraHeader", header)
        yield GitHubProject(github, a, client, directory, header)
        assert github.violations == [], github.violations


def git(directory: Path, *arguments: str) -> str:
    """What git prints there."""
    return subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def _publish(seed: Path, github: FakeGitHub, flow: str, **chosen: Any) -> None:
    """Put the project at GitHub, as its people set it up for faber."""
    store = seed / ".fractary" / "faber"
    (store / "workflows").mkdir(parents=True)
    (store / "workflows" / "export.yaml").write_text(flow)
    (store / "config.yaml").write_text(f"workflow: export\n{settings(github, post='all', **chosen)}")
    git(seed, "add", "--all")
    git(seed, "commit", "-q", "-m", "Set up faber")
    assert github.projects is not None
    git(seed, "clone", "-q", "--bare", "--template=", str(seed), str(github.projects / f"{github.slug}.git"))
    shutil.rmtree(seed)
