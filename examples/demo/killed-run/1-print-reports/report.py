"""Print a report."""

ROWS = [("January", 10), ("February", 12)]


def main() -> None:
    for name, value in ROWS:
        print(name, value)
