"""Print a report."""

ROWS = [("January", 10), ("February", 12)]


def main() -> None:
    for name, value in ROWS:
        print(name, value)


def export() -> None:
    print("month,value")
    for name, value in ROWS:
        print(f"{name},{value}")
