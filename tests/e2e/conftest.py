"""The client, a project for it to work in, and the API that scripts what its model says."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.bench import Bench, Setting, opened
from e2e.client import WINDOW, Client
from e2e.codex import Codex
from e2e.messages_api import MessagesApi
from e2e.repositories import make_project


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    """A scripted Messages API; when the test is over, its script must have been used up and never run out."""
    with MessagesApi() as running:
        yield running
        running.verify()


@pytest.fixture(scope="session")
def on_disk() -> Iterator[Path]:
    """A directory that is certainly not below /dev, of which Codex's sandbox has one of its own."""
    with tempfile.TemporaryDirectory(prefix="faber-tests-") as directory:
        yield Path(directory).resolve()


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
def codex(codex_binary: str, api: MessagesApi, project: Path, tmp_path: Path) -> Iterator[Codex]:
    """The pinned Codex in the project, without a plugin: `install` it."""
    made = Codex(codex_binary, tmp_path / "home", project, api)
    yield made
    made.close()


@pytest.fixture
def plugin_root() -> Path:
    """The plugin itself, for `client.plugin_dir` or `client.install`."""
    return Path(__file__).parents[2]


@pytest.fixture
def bench(
    request: pytest.FixtureRequest, needed: Callable[[str | None, str], str], tmp_path: Path, plugin_root: Path
) -> Iterator[Bench]:
    """A bench for a literal agent, in a setting or with one end of the window of clients."""
    setting = request.param if isinstance(request.param, Setting) else Setting(request.param)
    variable = WINDOW[setting.version]
    binary = needed(os.environ.get(variable), f"{variable} names no Claude Code client; tests/run sets it")
    with opened(setting, binary, tmp_path, plugin_root) as made:
        yield made
