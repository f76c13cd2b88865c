"""The project is made once, and copied for every test."""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from faber.agents.known_clients import SIGNS
from faber.cli import main
from github.comments import PERSON, environment
from github.fake import FakeGitHub
from pull_request.world import Answer, World, copied, make
from support.git_environment import COMMITTER


@pytest.fixture(autouse=True)
def _person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run as a person's script, whoever started them."""
    clean(monkeypatch)


def clean(patch: pytest.MonkeyPatch) -> None:
    """No client, no credential and no repository but the test's."""
    for name in [key for key in os.environ if key.startswith(("GIT_", "GH_", "GITHUB_", "FABER_", "CLAUDE"))]:
        patch.delenv(name)
    for name in SIGNS:
        patch.delenv(name, raising=False)
    for name, value in COMMITTER.items():
        patch.setenv(name, value)
    patch.setattr("faber.github.api_calls.WRITE_SPACING", 0)
    patch.setattr("faber.console.invocation.Invocation.is_person", property(lambda self: not self.is_agent))


def call(*arguments: str) -> Answer:
    """faber, in the current directory."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        status = main(list(arguments))
    return Answer(status, json.loads(printed.getvalue() or "null"))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project and its remote, made once."""
    place = tmp_path_factory.mktemp("world")
    (place / "project").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        clean(patch)
        patch.chdir(place / "project")
        make(place, call)
    return place


@pytest.fixture
def world(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A run for issue #7 whose last step, which opens the pull request, has not started: its gate is closed."""
    project = copied(made, tmp_path)
    monkeypatch.chdir(project)
    with FakeGitHub() as github:
        github.projects = tmp_path / "projects"
        github.add_issue(7)
        github.permissions = {PERSON: ("write", "write")}
        for name, value in (environment(github) | {"GH_REPO": f"127.0.0.1/{github.slug}"}).items():
            monkeypatch.setenv(name, value)
        one = World(project, github, call)
        one.configure()
        yield one
        assert github.violations == []
