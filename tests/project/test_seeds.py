"""docs/seeds.md maps every acceptance criterion to tests that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/seeds.md").read_text()
# How many acceptance criteria each seed has: of 003 the boxes of its checklist, of 004 steps, rows and principles.
CRITERIA = {"000": 8, "001": 6, "002": 8, "003": 35, "004": 29}
_SECTION = re.compile(r"^## Seed (\d{3}):.*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (?!criterion|---)(.+?) \| (.+) \|$", re.MULTILINE)


def rows(page: str) -> list[tuple[str, str, str]]:
    """Seed, criterion and what shows it, of every row."""
    return [(seed, *found) for seed, text in _SECTION.findall(page) for found in _ROW.findall(text)]


def missing(shown: str) -> list[str]:
    """Those of the tests named that are not there; every word that is not a test is one too."""
    names = [name.strip().strip("`") for name in shown.split(",")]
    return [name for name in names if name != "tests/run" and not _is_test(name)]


def _is_test(name: str) -> bool:
    file, _, function = name.partition("::")
    path = ROOT / file
    if not file.startswith("tests/") or not path.is_file() or not function.startswith("test_"):
        return False
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in nodes)


def test_every_criterion_has_its_row() -> None:
    """Each seed has as many rows as it has acceptance criteria."""
    counted = {seed: sum(1 for row in rows(PAGE) if row[0] == seed) for seed in CRITERIA}
    assert counted == CRITERIA


@pytest.mark.parametrize("row", rows(PAGE), ids=lambda row: f"{row[0]}-{row[1][:40]}")
def test_every_test_that_is_named_exists(row: tuple[str, str, str]) -> None:
    """A criterion is shown by functions that are in the files named, or by the whole suite."""
    assert missing(row[2]) == []


@pytest.mark.parametrize(
    "shown",
    [
        "`tests/project/test_seeds.py::test_gone`",
        "`tests/project/gone.py::test_x`",
        "`tests/project/test_seeds.py::rows`",
        "looked at",
        "",
    ],
)
def test_a_test_that_is_not_there_would_be_found(shown: str) -> None:
    """A renamed test, another file, a function that is not a test, or words: each is named."""
    assert missing(shown) != []
    assert missing("`tests/run`, `tests/project/test_seeds.py::test_every_criterion_has_its_row`") == []
