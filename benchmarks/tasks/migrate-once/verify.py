"""The migration ran once, and both numbers lead to a member."""

import json
from pathlib import Path

from checking import imported, ran, tests_pass

NAMES = {3: "Noor", 1: "Ada", 2: "Mio"}


def once_the_migration_ran_once(tree: Path) -> bool:
    return (tree / "data" / "journal.txt").read_text().splitlines() == ["migrated 3 members"]


def result_the_numbers_are_new(tree: Path) -> bool:
    found = json.loads((tree / "data" / "members.json").read_text())
    return {each["number"]: each["name"] for each in found} == {10 * old + 1: name for old, name in NAMES.items()}


def result_the_copy_is_from_before(tree: Path) -> bool:
    found = json.loads((tree / "data" / "before.json").read_text())
    return {each["number"]: each["name"] for each in found} == NAMES


def result_both_numbers_are_found(tree: Path) -> bool:
    find = imported(tree, "members").find
    both = all(find(old)["name"] == name == find(10 * old + 1)["name"] for old, name in NAMES.items())
    return both and find(99) is None


def result_tests(tree: Path) -> bool:
    return tests_pass(tree, 3)


def _lines(tree: Path) -> list[str]:
    return ran(tree, "-m", "report").stdout.strip().splitlines()


def answer_the_report_is_sorted_by_name(tree: Path) -> bool:
    return [line.split()[-1] for line in _lines(tree)] == ["Ada", "Mio", "Noor"]


def answer_a_line_begins_with_the_new_number(tree: Path) -> bool:
    return _lines(tree)[0].replace(" ", "") == "11<-1Ada"
