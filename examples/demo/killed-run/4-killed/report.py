"""Print a report."""

import csv

ROWS = [("January", 10), ("February", 12)]


def main() -> None:
    for name, value in ROWS:
        print(name, value)


def quote(value: str) -> str:
    return '"' + value.repl