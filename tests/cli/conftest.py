"""A project in a temporary directory, and faber called on it as from a shell."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.agents.known_clients import SIGNS
from faber.cli import main
from faber.store import index
from faber.store.layout import Layout
from faber.workflows import definitions
from support.copies import copy_tree
from support.git_environment import COMMITTER

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


class Answer(NamedTuple):
    """The output and the exit status of one call."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, which must be exactly one JSON object."""
        return json.loads(self.out)

    @property
    def code(self) -> str:
        """The code of the error printed."""
        return str(self.json["error"]["code"])


Faber = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run as a person in a plain terminal, whoever started them."""
    for name in (*SIGNS, "GITHUB_ACTIONS", "FABER_ROOT", "FABER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CLAUDE_CODE_EXECPATH", raising=False)
    monkeypatch.setenv("FABER_CLAUDE", os.devnull + "/claude")  # no client, whatever is on PATH
    for name in [key for key in os.environ if key.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in COMMITTER.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def _plain_workflow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default workflow without its conditions, where a test is not about them."""
    if "built_in" not in request.keywords:
        monkeypatch.setattr(definitions, "BUILT_IN", str(Path(__file__).parents[1] / "fixtures" / "workflows"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is the current one and the root."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's project, made once for all workers the way a benchmark makes it; tests work on copies."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "demo"
    place.mkdir(exist_ok=True)
    made = place / "project"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            code = (
                "import sys; sys.path.insert(0, sys.argv.pop(1)); place = sys.argv.pop(1); import samples, argparse; "
            )
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    f"{code}samples.project(place, argparse.Namespace(project=None))",
                    BENCHMARKS,
                    place,
                ],
                env=os.environ | {"FABER_VENV": sys.prefix},
                check=True,
            )
    return made


@pytest.fixture
def faber(project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Faber:
    """`faber("step", "start", …)` in the project."""

    def call(*arguments: str, given: str | bytes | None = None) -> Answer:
        capfd.readouterr()
        if given is None:
            status = main(list(arguments))
        else:
            piped = project.parent / "stdin"
            piped.write_bytes(given.encode() if isinstance(given, str) else given)
            with piped.open() as stdin, monkeypatch.context() as patched:
                patched.setattr("sys.stdin", stdin)
                status = main(list(arguments))
        printed = capfd.readouterr()
        return Answer(status, printed.out, printed.err)

    return call


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """`session("a")` makes what follows happen in that session, `session(None)` in a plain terminal."""

    def enter(name: str | None) -> None:
        if name is None:
            monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
        else:
            monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", name)

    return enter


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit on main, for copying."""
    made = tmp_path_factory.mktemp("repository")
    (made / "README.md").write_text("# sample\n")
    for words in (["init", "-q", "--template=", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=made, env=os.environ | COMMITTER, check=True, capture_output=True)
    return made


@pytest.fixture
def git(project: Path, repository: Path) -> Callable[..., str]:
    """`git("commit", …)` in the project, which becomes a repository with one commit on main."""
    empty = not any(project.iterdir())
    copy_tree(repository, project)

    def call(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    if not empty:
        call("add", "--all")
        call("commit", "-q", "--amend", "-m", "Begin")
    return call


@pytest.fixture
def run_dir(project: Path) -> Callable[[str], Path]:
    """The directory of a run."""
    return lambda run_id: project / ".fractary" / "faber" / "runs" / run_id


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[object, Path]]:
    """Where stores are kept that `faber run init` made in an empty project, and in which surroundings it made them."""
    return tmp_path_factory.mktemp("begun"), {}


@pytest.fixture
def run(faber: Faber, project: Path, begun: tuple[Path, dict[object, Path]]) -> str:
    """A run `demo/one/run` for work item 7, pending; a copy, where the command made one in the same surroundings."""
    place, made = begun
    variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    surroundings = definitions.BUILT_IN, frozenset(variables.items())
    empty = not any(project.iterdir())
    if not empty or surroundings not in made:
        assert faber("run", "init", "--run-id", "demo/one/run", "--work-id", "7").status == 0
        if empty:
            made[surroundings] = copy_tree(project, place / str(len(made)))
            shutil.rmtree(Layout(str(made[surroundings])).index + "/" + index.WORKTREES)
    else:
        copy_tree(made[surroundings], project)
        index.bind(Layout(str(project)), index.WORKTREES, str(project), "demo/one/run")
    return "demo/one/run"


STEPS = (
    "frame:fetch-work",
    "frame:classify",
    "frame:setup-branch",
    "architect:write-spec",
    "build:implement",
    "build:commit",
    "evaluate:test",
    "evaluate:review",
    "release:document",
    "release:open-pr",
)


@pytest.fixture
def advance(faber: Faber) -> Callable[[str, str], None]:
    """Complete every step of a default run before the one named."""

    def to(run_id: str, until: str) -> None:
        for step in STEPS[: STEPS.index(until) if until != "end" else None]:
            started = faber("step", "start", run_id, step)
            while started.status == 3 and started.code == "gate_closed":
                opened = faber(*started.json["error"]["gate"].split()[1:])
                assert opened.status == 0
                assert faber("feedback", "respond", run_id, "approve").status == 0
                started = faber("step", "start", run_id, step)
            assert started.status == 0, started.out
            assert faber("step", "complete", run_id, step).status == 0

    return to
