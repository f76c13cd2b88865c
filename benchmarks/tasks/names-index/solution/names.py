"""An index of names."""

import sys


def key(name):
    """What a name is sorted by."""
    return " ".join(name.casefold().split())


def groups(names):
    """The names by their first letter."""
    found = {}
    for name in sorted((each for each in dict.fromkeys(names) if key(each)), key=key):
        found.setdefault(key(name)[0].title(), []).append(name)
    return found


def index(names):
    """The text."""
    parts = ["\n".join([letter, *(f"  {name}" for name in group)]) for letter, group in groups(names).items()]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(index(file.read().splitlines()), end="")
