"""What each command loads: imports are most of what a short command costs, so they are part of its contract."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ROOT / "scripts" / "faber" / "__main__.py"
RUN = "sample/report-tool/demo"  # what `faber demo` makes

# Third-party packages, and what of the standard library takes long and is rarely needed.
HEAVY = frozenset(
    {
        "asyncio",
        "concurrent",
        "dataclasses",
        "distributed",
        "email",
        "gettext",
        "git",
        "http",
        "hypothesis",
        "importlib.metadata",
        "importlib.resources",
        "inspect",
        "jsonschema",
        "locale",
        "logging",
        "markdown_it",
        "multiprocessing",
        "pathlib",
        "referencing",
        "rich",
        "shutil",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "tomli_w",
        "tomllib",
        "urllib",
        "uuid",
        "yaml",
    }
)


# Forks for each line it reads: what every command loads is loaded once. A child answers on stderr, its parent after it.
FORKING = """
import os, sys
entry = sys.argv[1]
sys.path.insert(0, os.path.dirname(os.path.dirname(entry)))
import faber.cli.app
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        sys.argv = [entry, *line.rstrip("\\n").split("\\t")]
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = faber.cli.app.main()
        os.write(2, ("\\nLOADED " + " ".join(sys.modules) + "\\n").encode())
        os._exit(status)
    os.write(2, b"ENDED %d\\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


class Loader:
    """A Python, started as bin/faber starts it, that has loaded what every command loads, in a project."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self._python = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", FORKING, ENTRY],
            cwd=project,
            env={name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "CLAUDE_"))},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def modules(self, *arguments: str) -> set[str]:
        """What `faber ARGUMENTS` loads; the command must succeed."""
        assert self._python.stdin
        assert self._python.stderr
        self._python.stdin.write("\t".join(arguments) + "\n")
        self._python.stdin.flush()
        loaded: set[str] = set()
        said = ""
        for line in self._python.stderr:
            word, _, rest = line.partition(" ")
            if word == "LOADED":
                loaded = set(rest.split())
            if word == "ENDED":
                assert int(rest) == 0, said
                assert "faber.cli.app" in loaded
                return loaded
            said += line
        raise AssertionError(said)

    def heavy(self, *arguments: str) -> set[str]:
        """Those of `HEAVY` that `faber ARGUMENTS` loads, or loads a part of."""
        loaded = self.modules(*arguments)
        return {name for name in HEAVY if name in loaded or any(module.startswith(f"{name}.") for module in loaded)}

    def end(self) -> None:
        """End it."""
        self._python.communicate()


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory, demo: Path) -> Iterator[Loader]:
    """A loader in the demo's project, whose context was read once, so that what can be remembered is."""
    root = shutil.copytree(demo, tmp_path_factory.mktemp("imports") / "project")
    (root / ".fractary" / "faber" / "config.yaml").write_text("context:\n  max_chars: 20000\n")
    (root / "response.txt").write_text('{"a": [1,')
    made = Loader(root)
    made.heavy("context", RUN)
    yield made
    made.end()


# In this order, on one run.
LIGHT = [
    ["--version"],
    ["status"],
    ["status", "--format", "json"],
    ["status", "--line"],
    ["status", RUN],
    ["run", "list"],
    ["run", "show", RUN],
    ["event", "list", RUN],
    ["event", "list", "latest", "--last", "5"],
    ["session", "list", RUN],
    ["config", "show"],
    ["response", "check", "response.txt"],
    ["response", "prompt", "response.txt"],
    ["next", RUN, "--peek"],
    ["next", RUN],
    ["step", "complete", RUN, "build:implement", "--message", "done", "--artifact", "report=report.py", "--next"],
    ["step", "start", RUN, "build:commit"],
    ["step", "start", "latest", "build:commit"],
    ["event", "emit", RUN, "--type", "checkpoint", "--message", "here", "--metadata", '{"a": 1}'],
    ["event", "emit", RUN, "--type", "test_run", "--status", "passed", "--key", "once"],
    ["event", "emit", RUN, "--type", "test_run", "--status", "passed", "--key", "once"],
    ["step", "fail", RUN, "build:commit", "--error", "disk full"],
    ["run", "resume", RUN],
    ["run", "fail", RUN, "--error", "disk full"],
    ["feedback", "request", RUN, "--type", "error_resolution", "--prompt", "Again?"],
    ["feedback", "show", RUN, "--format", "text"],
    ["feedback", "respond", RUN, "retry"],
    ["feedback", "history", RUN],
]


def test_the_entry_point_loads_no_more(loader: Loader) -> None:
    """What bin/faber starts loads what the loader says, and nothing else."""
    command = [sys.executable, "-I", "-X", "utf8", "-X", "importtime", ENTRY, "--version"]
    done = subprocess.run(command, cwd=loader.project, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "faber.cli.app" in loaded
    # The last one is imported by the sitecustomize of some systems.
    of_python = {"imported package", "_frozen_importlib_external", "sitecustomize", "apport_python_hook"}
    assert loaded - loader.modules("--version") <= {"gc", *of_python}


def test_light_commands_load_nothing_heavy(loader: Loader) -> None:
    """Recording and showing load click and the standard library's light parts, and nothing else."""
    assert [(arguments, loaded) for arguments in LIGHT if (loaded := loader.heavy(*arguments))] == []


def test_help_loads_no_command(loader: Loader) -> None:
    """The list of commands is printed without loading one."""
    commands = {f"faber.cli.{name}" for name in ("config", "context", "event", "places", "run", "session", "status")}
    assert not loader.modules("--help") & commands


def test_a_comment_without_a_command_loads_nothing_heavy(loader: Loader) -> None:
    """Most comments are no command: they are passed over before anything is asked or loaded for it."""
    from github.comments import examples, write_event

    path = write_event(loader.project.parent, examples()[0])
    assert loader.heavy("feedback", "from-event", "--event-path", path) == set()


@pytest.mark.parametrize("options", [[], ["--no-fetch"], ["--format", "text"], ["--full"], ["--record"]], ids=" ".join)
def test_a_context_loads_nothing_heavy(loader: Loader, options: list[str]) -> None:
    """A context on a warm cache loads nothing heavy, though it reads a specification and asks git."""
    assert loader.heavy("context", RUN, *options) == set()


def test_github_is_loaded_only_to_ask_it(loader: Loader) -> None:
    """Nothing of GitHub's is loaded but by a context that fetches an issue from there."""

    def loaded(*options: str) -> set[str]:
        return {name for name in loader.modules("context", RUN, *options) if name.startswith("faber.github.issues")}

    assert loaded() == set()
    settings = loader.project / ".fractary" / "faber" / "config.yaml"
    before = settings.read_text()
    settings.write_text("work_items: {provider: github}\n")
    loader.modules("context", RUN, "--no-fetch")
    assert loaded("--no-fetch") == set()
    assert loader.heavy("context", RUN, "--no-fetch") == set()
    assert "faber.github.issues" in loaded()  # there is no remote: it ends with a notice
    settings.write_text(before)


def test_an_unknown_specification_is_parsed_once(loader: Loader) -> None:
    """A specification that was never seen loads the Markdown parser; the next context does not."""
    with (loader.project / "specs" / "csv-export.md").open("a") as file:
        file.write("\n## Risks\nNone.\n")
    assert "markdown_it" in loader.heavy("context", RUN)
    assert "markdown_it" not in loader.heavy("context", RUN)


def test_changed_settings_are_checked_once(loader: Loader) -> None:
    """New settings load YAML and its schema's checker; the next command does not."""
    (loader.project / ".fractary" / "faber" / "config.yaml").write_text("context:\n  max_chars: 21000\n")
    assert {"yaml", "jsonschema"} <= loader.heavy("context", RUN)
    assert loader.heavy("context", RUN) == set()


def test_a_nebula_is_planned_without_anything_heavy_of_others(loader: Loader) -> None:
    """Reading and ordering a nebula loads the reader of TOML and dataclasses, and no third-party package."""
    example = str(ROOT / "examples/nebula")
    # `shutil`, which looks for the filters' programs, brings what it compresses with, `dataclasses` brings `inspect`.
    assert loader.heavy("nebula", "plan", example) <= {"dataclasses", "inspect", "tomllib", "shutil"}


def test_a_cluster_is_loaded_only_where_one_is_asked_for() -> None:
    """What `nebula apply` needs on one machine loads nothing of Dask, nor what speaks with it."""
    code = (
        "import sys; import faber.nebula.commands.apply_command; "
        "print([name for name in sys.modules if name.partition('.')[0] in ('distributed', 'dask', 'tornado')"
        " or name.startswith('faber.nebula.cluster.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "scripts", capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["run", "init"], ["session", "save", RUN, "--notes", "x"], ["doctor"]])
def test_no_command_loads_a_library_to_read_git(loader: Loader, arguments: list[str]) -> None:
    """What only reads git starts git itself: GitPython takes as long to load as a whole context. What came with faber
    is not checked against a schema again."""
    loaded = loader.heavy(*arguments)
    assert not loaded & {"git", "rich", "asyncio"}
    assert not loaded & {"jsonschema", "dataclasses"} or arguments != ["run", "init"]
