"""The bundle as bin/faber finds it, with a stub in faber's place."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
BASE_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"

STUB = """\
import json, os, sys
if sys.argv[1:] == ["import"]:
    import click, jsonschema, markdown_it, rich, tomli_w, yaml
flags = [sys.flags.isolated, sys.flags.utf8_mode]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
print(json.dumps({"argv": sys.argv[1:], "root": root, "python": sys.executable, "flags": flags, "cwd": os.getcwd()}))
"""

Ran = subprocess.CompletedProcess[str]


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"faber_script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


environment = _script("environment")
lock = _script("lock")


class Bundle:
    """A copy of the bundle in which faber is a stub that tells how it was started, and a data directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "the plugin's root"  # a name that has to be quoted everywhere
        self.data = directory / "some data" / "faber"
        self.launcher = self.root / "bin" / "faber"
        (self.root / "scripts" / "faber").mkdir(parents=True)
        (self.root / "scripts" / "faber" / "__main__.py").write_text(STUB)
        shutil.copytree(ROOT / "bin", self.root / "bin")
        for name in ("scripts/find-python.sh", "scripts/environment.py", "requirements.lock"):
            shutil.copy(ROOT / name, self.root / name)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FABER_", "XDG_"))}
        self.environment = inherited | {"XDG_DATA_HOME": str(self.data.parent), "FABER_PYTHON": BASE_PYTHON}

    def need_little(self) -> None:
        """Lock one package of one line, which is here: a build takes a second and asks no index."""
        wheels = self.root.parent / "wheels"
        digest = _wheel(wheels)
        text = f"little==1.0 \\\n    --hash=sha256:{digest}\n"
        (self.root / "requirements.lock").write_text(lock.key_line(text) + text)
        self.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}

    def key(self) -> str:
        """The key in the lock's first line."""
        return (self.root / "requirements.lock").read_text().split()[2]

    def pretend(self, version: str = MINOR, *, data: Path | None = None, target: str = BASE_PYTHON) -> Path:
        """An environment that is in its place without having been built; returns its interpreter."""
        python = (data or self.data) / f"venv-{self.key()}-py{version}" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(target)
        return python

    def run(
        self, *arguments: str, command: Sequence[str] | None = None, cwd: Path | None = None, **changes: str | None
    ) -> Ran:
        """Run the launcher, or `command` in its place, with `changes` to the environment (None unsets)."""
        return subprocess.run(
            [*(command or [str(self.launcher)]), *arguments],
            cwd=cwd or self.root.parent,
            env=self._changed(changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self) -> "subprocess.Popen[str]":
        """Start the launcher and leave it running."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(self.launcher), "x"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            # A run in the background of a shell ignores SIGINT, and would pass that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def contents(self) -> list[str]:
        """What is in the data directory, but for the builders' lock."""
        return sorted(set(os.listdir(self.data)) - {".faber-build.lock"}) if self.data.exists() else []

    def _changed(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        merged: dict[str, str | None] = {**self.environment, **changes}
        return {name: value for name, value in merged.items() if value is not None}


def _wheel(directory: Path) -> str:
    """Make the package `little` in `directory`; its hash."""
    directory.mkdir(exist_ok=True)
    file = directory / "little-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("little.py", "HERE = True\n")
        packed.writestr("little-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: little\nVersion: 1.0\n")
        packed.writestr("little-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("little-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in packed.namelist()))
    return sha256(file.read_bytes()).hexdigest()
