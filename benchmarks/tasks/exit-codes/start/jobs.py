"""A queue in a file."""

import os
import sys


def read(path):
    """The jobs, oldest first."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return file.read().splitlines()


def write(path, jobs):
    """Replace the queue."""
    with open(path + ".new", "w") as file:
        file.write("".join(job + "\n" for job in jobs))
    os.replace(path + ".new", path)


def main(arguments):
    """Run a command; returns the exit status."""
    path, command, *words = arguments
    if command == "add":
        write(path, [*read(path), " ".join(words)])
        return 0
    print(f"unknown command: {command}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
