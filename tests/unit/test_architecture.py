"""The import direction between packages, and the one owner of the store's paths, read from the source's syntax tree."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "scripts" / "faber"

# A package imports only from those before it. `__init__` and `__main__` stand outside: nothing, and everything.
ORDER = (
    "errors",
    "model",
    "store",
    "sources",
    "sync",
    "responses",
    "agents",
    "feedback",
    "context",
    "loop",
    "nebula",
    "hooks",
    "cli",
)
FREE = {"__version__"}


def sources() -> list[tuple[str, Path]]:
    """Every module as (its dotted name inside faber, its file)."""
    files = sorted(PACKAGE.rglob("*.py"))
    return [(".".join(file.relative_to(PACKAGE).with_suffix("").parts), file) for file in files]


def imported(module: str, tree: ast.AST) -> Iterator[str]:
    """The packages of faber that `module` reaches for: by an import anywhere, or by a dotted name in a string."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["faber", *module.split(".")][: -node.level]
                base = ".".join([*above, *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = re.match(r"faber\.(\w+)(?:\.\w+)*(?:$|:\w)", node.value)
            names = [dotted[0]] if dotted and dotted[1] in ORDER else []  # faber.db is a file
        for name in names:
            parts = name.split(".")
            if parts[0] == "faber" and len(parts) > 1 and parts[1] not in FREE:
                yield parts[1]


def misdirected(module: str, source: str) -> list[str]:
    """The imports of `module` that go against the order."""
    own = module.split(".")[0]
    if own == "__main__":
        return []
    allowed = ORDER[: ORDER.index(own) + 1] if own in ORDER else ()
    return [f"{module} imports faber.{name}" for name in imported(module, ast.parse(source)) if name not in allowed]


def paths_spelled(source: str) -> list[str]:
    """String literals that are paths into the store; a sentence that mentions one, or a docstring, is none."""
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"\S*\.fractary\S*", node.value)
    ]


def test_every_import_points_to_a_package_above() -> None:
    """A package imports only from the packages before it in the order."""
    assert [wrong for module, file in sources() for wrong in misdirected(module, file.read_text("utf-8"))] == []


def test_every_package_has_a_place_in_the_order() -> None:
    """No package stands outside the order, and none of the source is left unread."""
    tops = {module.split(".")[0] for module, _ in sources()}
    assert tops - {"__init__", "__main__"} <= set(ORDER)
    assert {"errors", "model"} <= tops


@pytest.mark.parametrize(
    ("module", "source", "names"),
    [
        ("store.files", "from faber.cli import main", ["cli"]),
        ("store.files", "import faber.sources.git", ["sources"]),
        ("store.files", "import os, faber.sources.git as g", ["sources"]),
        ("store.files", "from faber import context, errors", ["context"]),
        ("store.files", "from ..loop import filters", ["loop"]),
        ("store.files", "from .. import loop", ["loop"]),
        ("store.__init__", "from ..loop import filters", ["loop"]),
        ("store.deep.files", "from ...loop import filters", ["loop"]),
        ("store.files", "def f():\n    if True:\n        from faber.nebula.dag import surgery", ["nebula"]),
        ("store.files", "importlib.import_module('faber.agents.claude')", ["agents"]),
        ("store.files", "COMMANDS = {'run': 'faber.cli.run:command'}", ["cli"]),
        ("store.files", "from faber.unheard_of import x", ["unheard_of"]),
        ("errors", "from faber.model import Phase", ["model"]),
        ("__init__", "from faber.errors import FaberError", ["errors"]),
        ("store.files", "from faber import __version__\nfrom faber.model import Phase\nfrom . import layout", []),
        ("store.files", "from .layout import Layout\nfrom ..errors import Locked\nimport os.path", []),
        ("cli.run", "from faber.store import layout\nfrom faber.cli.output import show", []),
        ("store.files", "'faber is a plugin.'\nsay('faber.cli: see there')\nopen('faber.db')", []),
        ("__main__", "from faber.cli import main", []),
    ],
)
def test_the_import_check_sees(module: str, source: str, names: list[str]) -> None:
    """An import against the order is found in every spelling of one, and nothing else is."""
    assert misdirected(module, source) == [f"{module} imports faber.{name}" for name in names]


def test_only_the_layout_spells_the_stores_paths() -> None:
    """Paths into the store are written in store/layout.py, and nowhere else."""
    spelling = {module for module, file in sources() if paths_spelled(file.read_text("utf-8"))}
    assert spelling == {"store.layout"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("root / '.fractary' / 'faber'", [".fractary"]),
        ("open('.fractary/faber/config.yaml')", [".fractary/faber/config.yaml"]),
        ("f'{root}/.fractary/runs'", ["/.fractary/runs"]),
        ("'''.fractary/faber is where runs live.'''", []),
        ("say('Correct .fractary/faber/config.yaml first.')", []),
    ],
)
def test_the_path_check_sees(source: str, found: list[str]) -> None:
    """A literal that is a path into the store is found, a sentence about one is not."""
    assert paths_spelled(source) == found
