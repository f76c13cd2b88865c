"""Names are compared and printed as the person said at two stops."""

import tempfile
from pathlib import Path

from checking import imported, names_used, ran, tests_pass

NAMES = ["Strasse", "bo  b", "Anna", "Straße", "", "anna", "Bo B", "Anna"]


def answer_compared_by_casefold(tree: Path) -> bool:
    key = imported(tree, "names").key
    return bool(key("Straße") == key("STRASSE") and key(" Bo  B ") == key("bo b"))


def forbidden_no_lower_upper_or_locale(tree: Path) -> bool:
    """Capitals for the letter of a group are asked for; nothing is compared in them."""
    used = {name.rpartition(".")[2] for name in names_used(tree)}
    return (tree / "names.py").exists() and not {"lower", "locale", "strcoll", "strxfrm"} & used


def result_groups(tree: Path) -> bool:
    found = imported(tree, "names").groups(["Cleo", "ann", "Abe", " "])
    return {letter: list(group) for letter, group in found.items()} == {"A": ["Abe", "ann"], "C": ["Cleo"]}


def answer_same_key_in_order_and_once(tree: Path) -> bool:
    text = imported(tree, "names").index(NAMES)
    return [line.strip() for line in text.splitlines() if line.startswith("  ")] == [
        "Anna", "anna", "bo  b", "Bo B", "Strasse", "Straße",
    ]  # fmt: skip


def answer_an_empty_line_between_groups(tree: Path) -> bool:
    return bool(imported(tree, "names").index(["b", "a"]).strip() == "A\n  a\n\nB\n  b")


def result_command(tree: Path) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("b\na\n")
        file.flush()
        return ran(tree, "-m", "names", file.name).stdout.split() == ["A", "a", "B", "b"]


def result_tests(tree: Path) -> bool:
    return tests_pass(tree, 5)
