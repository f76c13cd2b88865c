"""Write docs/cli.md, the reference of every command, from what `--help` prints.

Usage:
    python scripts/cli_reference.py            write the file
    python scripts/cli_reference.py --check    exit 1 if the file is not what would be written

Needs faber's own environment (click). Writes nothing else.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "cli.md"
HEAD = """# Command line

Generated from `--help` by `scripts/cli_reference.py`; a test keeps it current.

"""


def sections() -> Iterator[tuple[str, str]]:
    """(command, help text) of the program, its groups and their commands, in order."""
    sys.path.insert(0, str(ROOT / "scripts"))
    os.environ["COLUMNS"] = "100"
    import click

    from faber.cli.app import faber

    def walk(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
        context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
        yield context.command_path, command.get_help(context)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                if found is not None:
                    yield from walk(found, inner, context)

    yield from walk(faber, "faber", None)


def reference() -> str:
    """The whole file."""
    return HEAD + "\n".join(f"## {name}\n\n```text\n{text}\n```\n" for name, text in sections())


def main() -> int:
    """Write or check; answers the exit status."""
    text = reference()
    if "--check" in sys.argv[1:]:
        current = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        if current != text:
            print("docs/cli.md is not current: run python scripts/cli_reference.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
