"""Importing click without what a short command never uses of the standard library."""

import inspect
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from faber.console.light_click import cleandoc

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@given(st.text(st.sampled_from(" \t\n\fab'")))
def test_help_is_indented_as_the_library_does(text: str) -> None:
    """Any text loses the indentation that `inspect.cleandoc` takes away."""
    assert cleandoc(text) == inspect.cleandoc(text)


def test_what_stands_in_is_the_module_itself_where_it_is_used() -> None:
    """Types of options that need a module that was not loaded load it; whoever imports it gets the module."""
    code = """
import sys, types
import faber.cli, click
names = {"inspect", "uuid", "gettext"}
assert not names & set(sys.modules), names & set(sys.modules)
identifier = click.UUID.convert("12345678123456781234567812345678", None, None)
import inspect, uuid, gettext
assert isinstance(identifier, uuid.UUID)
assert isinstance(click.UUID.convert(identifier, None, None), uuid.UUID)
assert click.core.inspect.isfunction(print) is False and inspect.isfunction(inspect.isfunction)
assert all(type(module) is types.ModuleType for module in (inspect, uuid, gettext))
"""
    subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); {code}"], check=True
    )
