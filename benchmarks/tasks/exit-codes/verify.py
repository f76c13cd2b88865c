"""The commands work, and an empty queue is what the person said in all of them."""

import ast
import tempfile
from pathlib import Path

from checking import names_used, ran, sources, tests_pass


def _used(tree: Path, *commands: str) -> list[tuple[int, str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        done = [ran(tree, "jobs.py", f"{directory}/queue", *command.split()) for command in commands]
    return [(each.returncode, each.stdout.strip(), each.stderr.strip()) for each in done]


def result_take_and_peek(tree: Path) -> bool:
    *_, peeked, taken, then = _used(tree, "add a b", "add c", "peek", "take", "peek")
    return [each[:2] for each in (peeked, taken, then)] == [(0, "a b"), (0, "a b"), (0, "c")]


def result_drain(tree: Path) -> bool:
    *_, drained, then = _used(tree, "add a", "add b", "drain", "take")
    return drained[:2] == (0, "a\nb") and then[0] != 0


def result_tests(tree: Path) -> bool:
    return tests_pass(tree, 4)


def answer_exit_status(tree: Path) -> bool:
    return [each[0] for each in _used(tree, "take", "peek", "drain")] == [75, 75, 75]


def answer_word(tree: Path) -> bool:
    return [each[1:] for each in _used(tree, "take", "peek", "drain")] == [("", "NOTHING")] * 3


def answer_readme(tree: Path) -> bool:
    text = (tree / "README.md").read_text()
    return "75" in text and all(name in text for name in ("take", "peek", "drain"))


def forbidden_no_writing_in_place(tree: Path) -> bool:
    """Every file that is opened for writing has a new name, and is moved with `os.replace`."""
    for module in sources(tree).values():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "open" and len(node.args) > 1:
                mode, path = ast.unparse(node.args[1]), ast.unparse(node.args[0])
                if any(letter in mode for letter in "wa+") and path == "path":
                    return False
    return "os.replace" in set(names_used(tree))
