"""What tests need from the machine: where CI=true, lacking it is a failure; elsewhere, a skip that says why."""

import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.git_environment import CONFIGURATION
from support.terminals import need_controlling_terminal

if TYPE_CHECKING:
    from github.fake import FakeGitHub

# How long an example takes says more about the machine than about the code. Seeds differ: many runs try many examples.
settings.register_profile(
    "faber", max_examples=examples(25, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("faber")

HERE = Path(__file__).parent
# What starts processes by nature: clients, clusters, nebulas, killed commands, installers.
SLOW = (
    "e2e/", "faults/", "plugin/", "sync/", "nebula/cluster/", "nebula/run/", "nebula/view/", "nebula/worktrees/",
    "cli/test_benchmarks", "cli/test_from_event", "cli/test_imports", "cli/test_launcher", "cli/test_nebula_runs",
    "cli/test_watch",
    "git/", "github/", "hooks/test_typed_answer", "nebula/phase/", "responses/test_branches",
    "store/test_command_sequences",
)  # fmt: skip
A_WHILE = 0.05  # seconds: seven tests in ten are faster
_RECORD = "faber/seconds"
_WORKER = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


class Durations:
    """How long each test took when it last ran here, kept in pytest's cache."""

    def __init__(self, config: pytest.Config) -> None:
        self.cache = config.cache if config.pluginmanager.hasplugin("cacheprovider") else None
        self.seconds: dict[str, float] = dict(self.cache.get(_RECORD, {})) if self.cache else {}
        self.now: dict[str, float] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Mark what is slow, and begin with the files that have the longest tests."""
        longest: dict[Path, float] = {}
        for item in items:
            directory = item.path.relative_to(HERE).as_posix().startswith(SLOW)
            took = self.seconds.get(item.nodeid, A_WHILE if directory else 0.0)
            longest[item.path] = max(longest.get(item.path, 0.0), took)
            if took >= A_WHILE:
                item.add_marker("slow")
        # By file: the tests of one share its fixtures.
        items.sort(key=lambda item: (-longest[item.path], item.path))

    def pytest_collection_finish(self) -> None:
        """What was collected stays to the end: the garbage collector need not look at it again and again."""
        gc.freeze()
        gc.set_threshold(10_000)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up setup, call and teardown."""
        self.now[report.nodeid] = self.now.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep what was measured beside what was known."""
        if self.cache and self.now and "PYTEST_XDIST_WORKER" not in os.environ:
            self.cache.set(_RECORD, self.seconds | {name: round(took, 2) for name, took in self.now.items()})


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """While the workers collect, work out and keep what Hypothesis asks of Unicode: each of them would."""
    if session.config.getoption("numprocesses", None):
        settings(max_examples=1, database=None)(given(st.text())(lambda _: None))()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Nobody reads the keywords of a test that passed: without them its three reports reach the controller sooner."""
    report = yield
    if report.passed:
        report.keywords = {}
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker begins with another directory, and so compiles other tests: the rest it finds compiled."""
    report = yield
    if isinstance(collector, pytest.Directory) and collector.path == HERE:
        worker, workers = (int(os.environ.get(name, "0").removeprefix("gw")) for name in _WORKER)
        begin = len(report.result) * worker // max(workers, 1)
        report.result = report.result[begin:] + report.result[:begin]
    return report


def pytest_configure(config: pytest.Config) -> None:
    """Durations are recorded by the process that all reports come to, and read by every worker."""
    config.pluginmanager.register(Durations(config), "faber-durations")
    need_controlling_terminal()  # tests act for a person


def _needed(found: str | None, what: str) -> str:
    if found:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} (never skipped where CI=true)")
    pytest.skip(what)


@pytest.fixture(scope="session")
def needed() -> Callable[[str | None, str], str]:
    """`needed(found, what)`: what was found, or the failure or skip that says what is lacking."""
    return _needed


@pytest.fixture(scope="session")
def claude_binary() -> str:
    """The path of the newest supported Claude Code client; tests/run fetches it."""
    return _needed(
        os.environ.get("FABER_TEST_CLAUDE"), "FABER_TEST_CLAUDE names no Claude Code client; tests/run sets it"
    )


@pytest.fixture(scope="session")
def codex_binary() -> str:
    """The path of the pinned Codex; tests/run fetches it with --clients and where CI=true."""
    return _needed(os.environ.get("FABER_TEST_CODEX"), "FABER_TEST_CODEX names no Codex; tests/run --clients sets it")


@pytest.fixture(scope="session")
def opencode_binary() -> str:
    """The path of the pinned OpenCode; tests/run fetches it with --clients and where CI=true."""
    return _needed(
        os.environ.get("FABER_TEST_OPENCODE"), "FABER_TEST_OPENCODE names no OpenCode; tests/run --clients sets it"
    )


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of strace."""
    return _needed(shutil.which("strace"), "strace is not installed")


@pytest.fixture(scope="session")
def jq() -> str:
    """The path of jq."""
    return _needed(shutil.which("jq"), "jq is not installed")


@pytest.fixture(scope="session")
def git_configuration(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a configuration of git that names a person and nothing else."""
    path = tmp_path_factory.getbasetemp() / "gitconfig"
    path.write_text(CONFIGURATION)
    return str(path)


@pytest.fixture
def git_user(monkeypatch: pytest.MonkeyPatch, git_configuration: str) -> None:
    """git, here and in what a test starts, knows this person and nothing else of the machine."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", git_configuration)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def github() -> "Iterator[FakeGitHub]":
    """A GitHub on loopback with issue #7; what it was asked and what it answered is as GitHub describes it."""
    from github.fake import FakeGitHub

    with FakeGitHub() as made:
        made.add_issue(7)
        yield made
    assert made.violations == []
