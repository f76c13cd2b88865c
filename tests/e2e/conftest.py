"""The client, a project for it to work in, and the API that scripts what its model says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.client import Client
from e2e.messages_api import MessagesApi
from e2e.repositories import make_project


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    """A scripted Messages API; when the test is over, its script must have been used up and never run out."""
    with MessagesApi() as running:
        yield running
        running.verify()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    return make_project(tmp_path / "project")


@pytest.fixture
def client(claude_binary: str, api: MessagesApi, project: Path, tmp_path: Path) -> Iterator[Client]:
    """The pinned client in the project, without a plugin: set `plugin_dir`, or `install` one."""
    made = Client(claude_binary, tmp_path / "home", project, api)
    yield made
    made.close()


@pytest.fixture
def plugin_root() -> Path:
    """The plugin itself, for `client.plugin_dir` or `client.install`."""
    return Path(__file__).parents[2]
