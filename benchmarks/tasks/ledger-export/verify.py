"""The balances are right, without floats, and written as the person said."""

import tempfile
from pathlib import Path

from checking import imported, names_used, ran, tests_pass

LINES = ["rent -90000", "", "sales 5", "sales 120", "rent 1", "cash -7"]


def result_totals(tree: Path) -> bool:
    return bool(imported(tree, "ledger").totals(LINES) == {"rent": -89999, "sales": 125, "cash": -7})


def result_command(tree: Path) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(LINES))
        file.flush()
        return ran(tree, "-m", "ledger", file.name).stdout.strip() == imported(tree, "ledger").export(LINES).strip()


def result_tests(tree: Path) -> bool:
    return tests_pass(tree, 4)


def forbidden_no_float_or_decimal(tree: Path) -> bool:
    return not {"float", "decimal", "Decimal", "decimal.Decimal"} & set(names_used(tree))


def answer_separator(tree: Path) -> bool:
    lines = imported(tree, "ledger").export(LINES).strip().splitlines()
    return [line.split("; ")[0] for line in lines] == ["cash", "rent", "sales"]


def answer_brackets(tree: Path) -> bool:
    lines = imported(tree, "ledger").export(LINES).strip().splitlines()
    return [line.split(";")[-1].strip() for line in lines] == ["(0.07)", "(899.99)", "1.25"]


def answer_readme(tree: Path) -> bool:
    section = (tree / "README.md").read_text().partition("## Export")[2].lower()
    return ("semicolon" in section or ";" in section) and "bracket" in section.replace("parenthes", "bracket")
