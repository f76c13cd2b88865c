"""Runs a task's verifier on a tree and prints its findings, and has what verifiers share.

Usage:
    checking.py VERIFIER TREE

Standard library only: it runs as a script, apart from the trial, because it imports what an agent wrote.
A verifier has functions `result_…`, `decision_…`, `forbidden_…`, `answer_…` and `once_…`: what a finding is about.
Each gets the tree and returns whether it holds; an exception means that it does not.
"""

import ast
import contextlib
import importlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAMED = re.compile(r"(result|decision|forbidden|answer|once)_(\w+)")


def imported(tree: Path, name: str) -> Any:
    """A module of the tree."""
    if str(tree) not in sys.path:
        sys.path.insert(0, str(tree))
    return importlib.import_module(name)


def ran(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python program of the tree: `ran(tree, "-m", "unittest")`."""
    command = [sys.executable, "-B", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=20, check=False)


def sources(tree: Path) -> dict[str, ast.Module]:
    """The Python files of the tree by their path, parsed, without its tests."""
    found = {}
    for path in sorted(tree.rglob("*.py")):
        name = path.relative_to(tree).as_posix()
        if not name.startswith((".", "tests/")) and not path.name.startswith("test_"):
            found[name] = ast.parse(path.read_text())
    return found


def names_used(tree: Path) -> Iterator[str]:
    """What the program's code uses or imports, spelled as it is there: `float`, `time.sleep`, `threading`."""
    for module in sources(tree).values():
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module or ""
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Attribute):
                yield ast.unparse(node)
            elif isinstance(node, ast.Name):
                yield node.id


def tests_pass(tree: Path, fewest: int) -> bool:
    """Whether the tree's own tests are at least `fewest` and pass."""
    done = ran(tree, "-m", "unittest", "discover", "-s", "tests")
    counted = re.search(r"^Ran (\d+) tests?", done.stderr, re.MULTILINE)
    return done.returncode == 0 and counted is not None and int(counted[1]) >= fewest


def findings(verifier: Path, tree: Path) -> list[dict[str, object]]:
    """What the verifier finds."""
    found = []
    for name, check in runpy.run_path(str(verifier)).items():
        if named := NAMED.fullmatch(name):
            found.append({"name": named[2].replace("_", " "), "about": named[1], "holds": _holds(check, tree)})
    return found


def _holds(check: Callable[[Path], object], tree: Path) -> bool:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return bool(check(tree))
    except (Exception, SystemExit):  # noqa: BLE001 - whatever an agent's code raises
        return False


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.modules["checking"] = sys.modules["__main__"]
    print(json.dumps(findings(Path(sys.argv[1]), Path(sys.argv[2]).resolve())))
