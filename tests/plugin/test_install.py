"""faber as a Python package: what pip, pipx and uvx install from a checkout works without the checkout."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.git_environment import COMMITTER

ROOT = Path(__file__).resolve().parents[2]
BASE_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
READ_BY_FABER = ("agents", "workflows", "examples/demo")

Installed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, needed: Callable[[str | None, str], str]) -> Path:
    """An environment into which pip installed the checkout, with what it depends on."""
    from importlib.util import find_spec

    needed("ensurepip" if find_spec("ensurepip") else None, "this Python has no ensurepip")
    made = tmp_path_factory.mktemp("installed") / "environment"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for command in ([BASE_PYTHON, "-I", "-m", "venv", made], [made / "bin/pip", "install", "--quiet", ROOT]):
        done = subprocess.run(command, cwd=made.parent, env=plain, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
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


def test_an_installed_faber_has_the_built_in_workflows(installed: Installed) -> None:
    """A run of the default workflow begins, and `faber workflow validate` finds nothing wrong with what came along."""
    begun = installed("run", "begin", "Export the report")
    assert begun.returncode == 0, begun.stdout + begun.stderr
    assert json.loads(begun.stdout)["workflow_id"] == "default"
    assert json.loads(installed("workflow", "validate", "default").stdout)["valid"] is True
    assert "Export the report" in installed("status").stdout


@pytest.mark.parametrize("options", [[], ["--heal"]], ids=["killed", "healed"])
def test_an_installed_faber_shows_its_demos(installed: Installed, options: list[str]) -> None:
    """Both demos run from what was installed, and name commands that exist there."""
    shown = installed("demo", *options, "--directory", "sample")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "bin/faber" not in shown.stdout
    assert "  faber event list " in shown.stdout


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
