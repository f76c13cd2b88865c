"""faber as a Python package: what pip, pipx and uvx install from a checkout works without the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.bundles import BASE_PYTHON, MINOR, ROOT, Bundle, Ran
from support.git_environment import COMMITTER

READ_BY_FABER = ("agents", "workflows", "examples/demo")

Installed = Callable[..., "subprocess.CompletedProcess[str]"]


class Built(NamedTuple):
    """A bundle whose environment was built by its first call."""

    bundle: Bundle
    first: Ran

    @property
    def environment(self) -> Path:
        return self.bundle.data / f"venv-{self.bundle.key()}-py{MINOR}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A bundle after its first call, which installs every locked package."""
    bundle = Bundle(tmp_path_factory.mktemp("built").resolve())
    return Built(bundle, bundle.run("import", PIP_USER="1", PIP_TARGET="/nowhere", PYTHONPATH="/nowhere"))


@pytest.fixture(scope="module")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what is locked, into which pip installed the checkout and nothing else: the rest fits."""
    made = tmp_path_factory.mktemp("installed") / "environment"
    shutil.copytree(built.environment, made, symlinks=True)
    before = set(made.glob("lib/python*/site-packages/*"))
    python = str(made / "bin" / "python")
    # bin/faber leaves a pip in the environment only where the base has none.
    outside, inside = [BASE_PYTHON, "-I", "-m", "pip", "--python", python], [python, "-I", "-m", "pip"]
    pip = inside if list(made.glob("lib/python*/site-packages/pip")) else outside
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", ROOT],
        cwd=made.parent,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = set(made.glob("lib/python*/site-packages/*"))
    assert before <= after
    assert {path.name.split("-")[0] for path in after - before} == {"faber"}
    return made


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    """`installed("status")`: the installed faber, in an empty project and an empty home."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    path = os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])
    variables = {"HOME": str(tmp_path / "home"), "PATH": path, **COMMITTER}

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [environment / "bin" / "faber", *arguments],
            cwd=tmp_path / "project",
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_the_first_call_installs_what_faber_imports(built: Built) -> None:
    """The first call builds an environment with every locked dependency, says so on stderr only, and then runs."""
    bundle, result = built
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["python"].startswith(str(bundle.data))
    assert re.fullmatch(r"faber: preparing .+\n", result.stderr)
    assert bundle.contents() == [built.environment.name]
    again = bundle.run("import", FABER_PYTHON="/nowhere")
    assert (again.returncode, again.stderr, json.loads(again.stdout)["argv"]) == (0, "", ["import"])
    # What was moved must not name the place it was moved from, which another build may use.
    programs = list((built.environment / "bin").iterdir())
    assert not [file for file in programs if b".faber-build-" in file.read_bytes()]
    assert list((bundle.root / "scripts" / "faber").glob("__pycache__/*.pyc"))


def test_an_installed_faber_has_the_built_in_workflows(installed: Installed) -> None:
    """A run of the default workflow begins, and `faber workflow validate` finds nothing wrong with what came along."""
    begun = installed("run", "begin", "Export the report")
    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert json.loads(begun.stdout)["workflow_id"] == "default"
    assert json.loads(installed("workflow", "validate", "default").stdout)["valid"] is True
    assert "Export the report" in installed("status").stdout


def _demo(installed: Installed, *options: str) -> str:
    shown = installed("demo", *options, "--directory", "sample")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "bin/faber" not in shown.stdout
    assert "  faber event list " in shown.stdout
    return shown.stdout


@pytest.mark.full
def test_an_installed_faber_heals_in_its_demo(installed: Installed) -> None:
    """`faber demo --heal` runs from what was installed, and names commands that exist there."""
    assert "Healing: 1 failure, 1 healed" in _demo(installed, "--heal")


def test_the_demo_reconstitutes_a_killed_run(installed: Installed, tmp_path: Path) -> None:
    """`faber demo` kills a run in its build phase, shows its context, and leaves it to be explored with commands that
    exist where it was installed."""
    text = _demo(installed)
    assert "CONTEXT RECONSTITUTION COMPLETE" in text
    assert "Resume Point:  build:implement" in text
    assert str(tmp_path / "project" / "sample") in text
    context_lines = text.split("latest`:\n", 1)[1].split("Explore further", 1)[0].splitlines()
    assert context_lines
    assert all(len(line) <= 80 for line in context_lines)
    context = json.loads(installed("--root", "sample", "context", "latest").stdout)
    assert context["resume_point"] == {"phase": "build", "step": "implement", "mode": "continue"}
    assert [f["path"] for f in context["branch"]["dirty_files"]] == ["report.py"]
    assert json.loads(installed("--root", "sample", "doctor", "--all").stdout)["healthy"] is True


def test_an_installed_faber_has_all_that_it_reads(environment: Path) -> None:
    """Agents, workflows, protocols, samples and the manifest are installed as they are in the checkout."""
    code = "from faber.store.bundle import plugin_root; print(plugin_root())"
    python = environment / "bin" / "python"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    plugin = Path(done.stdout.strip())
    assert plugin.is_relative_to(environment)
    for directory in READ_BY_FABER:
        expected = [
            file for file in (ROOT / directory).rglob("*") if file.is_file() and "__pycache__" not in file.parts
        ]
        assert expected
        for file in expected:
            assert (plugin / file.relative_to(ROOT)).read_bytes() == file.read_bytes()
    manifest = ".claude-plugin/plugin.json"
    assert (plugin / manifest).read_bytes() == (ROOT / manifest).read_bytes()


@pytest.mark.full
def test_uvx_and_pipx_run_a_checkout(tmp_path: Path) -> None:
    """`uvx --from .` and `pipx run --spec .` build the package from a checkout and run it, with all that it reads."""
    python = tmp_path / "tools" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "tools"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv", "pipx"], check=True)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "PYTHON", "CLAUDE"))}
    bare |= {"HOME": str(tmp_path), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    for how in (["uvx", "--from", str(ROOT)], ["pipx", "run", "--spec", str(ROOT)]):
        command = [*how, "faber", "workflow", "validate", "default"]
        done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["valid"] is True
