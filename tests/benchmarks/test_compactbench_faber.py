"""What faber keeps of a conversation, measured without CompactBench and without a model."""

import sys
from pathlib import Path

import pytest
from compactbench_faber import INSTALL, LIMIT, Notebook, main, methods

RULE = "One: do not trust the X-Forwarded-For header."


def test_what_was_handed_in_is_in_the_brief_and_in_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each compaction both have what the user said before it, and nothing is handed in twice; the tail has
    the brief's size."""
    monkeypatch.setenv("FABER_VENV", sys.prefix)
    notebook = Notebook(tmp_path)
    turns = [("user", "We begin."), ("assistant", "Which rules?"), ("user", RULE), *[("assistant", "x" * 400)] * 9]
    first = methods(turns, notebook)
    second = methods([*turns, ("user", "And now?")], notebook)
    for found in (first, second):
        assert [name for name in ("faber-brief", "faber-context", "whole") if RULE not in found[name]] == []
        assert RULE not in found["tail"]
        assert len(found["tail"]) == len(found["faber-brief"]) < len(found["faber-context"]) <= LIMIT
    assert second["faber-brief"].count(RULE) == 1


def test_without_compactbench_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where CompactBench is not installed the script ends with 1 and the command that installs it."""
    monkeypatch.setitem(sys.modules, "compactbench", None)
    assert main([]) == 1
    assert capsys.readouterr().err.strip() == INSTALL
