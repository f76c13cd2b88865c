"""The documents say what is so."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from faber.cli.app import COMMANDS, faber
from faber.context.questions import QUESTIONS
from faber.model.eventtypes import known_types

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_cli_reference_is_current() -> None:
    """docs/cli.md is what `--help` prints."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/cli_reference.py", "--check"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link in a document names a file that is there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_named_exist(document: Path) -> None:
    """Every `faber …` command that a document names is one."""
    text = document.read_text()
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`(faber [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    lines = [line.strip().removeprefix("bin/") for block in fenced for line in block.splitlines()] + inline
    for first, second in re.findall(r"^faber ([a-z]+)(?: ([a-z]+))?", "\n".join(lines), re.MULTILINE):
        assert first in COMMANDS, f"faber {first}"
        command = faber.get_command(click.Context(faber), first)
        if isinstance(command, click.Group) and second:
            assert second in command.commands, f"faber {first} {second}"


@pytest.mark.parametrize("document", ["ARCHITECTURE.md"])
def test_paths_named_exist(document: str) -> None:
    """Every source path that the map names is there."""
    for path in re.findall(
        r"`((?:model|store|sources|context|cli|tests|scripts)/[\w/.-]+)`", (ROOT / document).read_text()
    ):
        assert (ROOT / path).exists() or (ROOT / "scripts/faber" / path).exists(), path


def test_every_code_of_the_context_is_documented() -> None:
    """docs/context.md explains every notice that a context can carry."""
    text = (ROOT / "docs/context.md").read_text()
    package = ROOT / "scripts/faber"
    sources = [p for folder in ("sources", "context") for p in (package / folder).glob("*.py")]
    sources += [package / "store/sessions.py", package / "store/foreign.py", package / "cli/context.py"]
    found = set()
    for path in sources:
        found |= set(re.findall(r"(?:Notice|warning|_problem|_warn|_warning)\(\s*\"([a-z_]+)\"", path.read_text()))
    assert len(found) > 15
    assert {code for code in found | set(QUESTIONS) if f"`{code}`" not in text} == set()


def test_the_readme_names_no_unknown_event_type() -> None:
    """Event types in the README are registered."""
    for kind in re.findall(r"--type ([a-z_]+)", (ROOT / "README.md").read_text()):
        assert kind in known_types()
