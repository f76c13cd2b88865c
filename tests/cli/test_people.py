"""The command line as people use it: help, errors, `--format`, names mistyped."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from faber.cli.app import COMMANDS, TEXT_ONLY
from faber.cli.app import faber as program
from faber.console.plain import plain
from support.terminals import on_terminal

Faber = Callable[..., Any]


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Every command but the groups, by its words."""
    context = click.Context(program)
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in command.commands.items())
        else:
            yield name, command


GROUPS = [
    "",
    *(name for name in COMMANDS if isinstance(program.get_command(click.Context(program), name), click.Group)),
]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_shows_its_help_once(faber: Faber, project: Path, group: str) -> None:
    """Without a command, faber and its groups print their help once, on stderr, and exit with 2."""
    answer = faber(*group.split())
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"Usage: {f'faber {group}'.strip()} ")
    assert answer.err.count("Usage: ") == 1
    assert "\nCommands:\n" in answer.err
    assert "\\n" not in answer.err


def test_an_error_on_a_terminal_is_shown_once(project: Path) -> None:
    """On a terminal an error is its message and, on a line of its own, its recovery, without JSON."""
    seen = on_terminal(project, "run", "show", "nothing")
    assert seen.status == 1
    assert seen.text == (
        f"faber: Run directory not found: {project}/.fractary/faber/runs/nothing.\n"
        "  Run `faber run list` to list the known runs, or `faber run init` to start a new one.\n"
    )


def test_what_an_error_lists_is_shown_on_a_terminal(faber: Faber, project: Path) -> None:
    """The lists of an error, here the runs that could be meant, are readable on a terminal too."""
    for run in ("a/b/one", "a/b/other"):
        faber("run", "init", "--run-id", run)
    seen = on_terminal(project, "run", "show", "a/b/o")
    assert seen.status == 2
    assert "  candidates:\n    - a/b/one\n    - a/b/other\n" in seen.text
    assert "{" not in seen.text


def test_every_answer_has_a_readable_form() -> None:
    """Every command that prints an answer takes `--format json|text`."""
    lacking = [
        name
        for name, command in _commands()
        if name not in TEXT_ONLY
        and not any(
            isinstance(option.type, click.Choice) and {"json", "text"} <= set(option.type.choices)
            for option in command.params
            if "--format" in option.opts
        )
    ]
    assert lacking == []


def test_the_default_is_json_but_where_people_read() -> None:
    """JSON is the default of `--format`, whoever reads, but in six commands that print what a person asked to see."""
    defaults = {
        name: option.default for name, command in _commands() for option in command.params if "--format" in option.opts
    }
    assert {name for name, default in defaults.items() if default != "json"} == {
        *("status", "why", "protocol", "setup"),
        *("nebula log", "nebula attach"),
    }


def test_an_answer_in_text(faber: Faber, run: str) -> None:
    """`--format text` prints the same answer in lines, for commands without a layout of their own too."""
    answer = faber("run", "list", "--format", "text")
    assert answer.status == 0
    assert f"- run_id: {run}\n" in answer.out
    assert "    work_id: 7\n" in answer.out
    assert answer.out.startswith("runs:\n")
    recorded = faber("step", "start", run, "frame:fetch-work", "--format", "text").out
    assert "status: in_progress\n" in recorded
    assert f"next_command: faber step complete {run} frame:fetch-work --next\n" in recorded
    assert faber("run", "list", "--format", "json").json["runs"][0]["run_id"] == run


def test_text_is_inert(faber: Faber, project: Path) -> None:
    """Text from outside cannot move the cursor, or pass for another key of the answer."""
    faber("run", "init", "--run-id", "r", "--target", "one\nstatus: done\x1b[2J\u202e")
    out = faber("run", "list", "--format", "text").out
    assert not set(out) & set("\x1b\u202e")
    assert "target:\n" in out
    assert "\nstatus:" not in out
    assert "\n      status: done[2J\n" in out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": None, "c": [], "d": {}, "e": ""}, "a: 1\nb: -\nc: -\nd: -\ne: -\n"),
        ({"a": True, "b": False, "c": 1.5}, "a: yes\nb: no\nc: 1.5\n"),
        ({"a": {"b": {"c": "d"}}}, "a:\n  b:\n    c: d\n"),
        ({"a": ["x", {"b": 1, "c": [2, 3]}, []]}, "a:\n  - x\n  - b: 1\n    c:\n      - 2\n      - 3\n  - -\n"),
        ({"a": "x\ny\n", "b": ["x\ny"]}, "a:\n  x\n  y\nb:\n  -\n    x\n    y\n"),
    ],
)
def test_every_value_has_a_plain_form(value: object, text: str) -> None:
    """Lists and objects are indented; what is empty is a dash, and text of several lines stands below its key."""
    assert plain(value) == text


@pytest.mark.parametrize(
    ("given", "meant"),
    [(["rum"], "run"), (["contxt", "latest"], "context"), (["nebla", "plan"], "nebula"), (["run", "lst"], "list")],
)
def test_a_mistyped_command_names_the_nearest(faber: Faber, project: Path, given: list[str], meant: str) -> None:
    """An unknown command, at any level, is exit 2 with the one that was meant."""
    answer = faber(*given)
    assert (answer.status, answer.code) == (2, "usage")
    assert re.search(f"Did you mean (one of: )?'{meant}'[,?]", answer.json["error"]["message"])


LONG = "organisation/project-with-a-name/3f2504e0-4f89-11d3-9a0c-0305e82c3301"
BRANCH = "feat/PROJECT-12345-export-the-yearly-report-as-comma-separated-values"


def test_status_shows_what_can_be_pasted(faber: Faber, project: Path) -> None:
    """Every id and branch stands whole and alone in its line or between separators, within 80 columns."""
    faber("run", "init", "--run-id", LONG, "--work-id", "PROJECT-12345")
    faber("step", "start", LONG, "frame:fetch-work")
    faber("event", "emit", LONG, "--type", "branch_create", "--metadata", f'{{"branch": "{BRANCH}"}}')
    faber("run", "init", "--run-id", "two", "--target", "Export the report " + "as CSV " * 20)
    faber("run", "init", "--run-id", "three")
    faber("run", "cancel", "three", "--reason", "x")
    lines = re.sub(r"\d:\d\d", "0:00", faber("status").out).splitlines()
    assert lines == [
        "two",
        "  pending",
        lines[2],
        LONG,
        "  in_progress at frame:fetch-work · 0 of 10 steps · 0:00",
        "  work item PROJECT-12345",
        f"  branch {BRANCH}",
        "(1 completed or cancelled; --all shows them)",
    ]
    assert lines[2].startswith("  Export the report as CSV as CSV")
    assert all(len(line) <= 80 for line in lines)
    assert len(faber("status", "--all", "--format", "json").json["runs"]) == 3


def test_status_shows_what_a_run_waits_for(faber: Faber, run: str) -> None:
    """A run that waits for a person shows the question and its options, in the list and alone, as text and JSON."""
    faber("step", "start", run, "frame:fetch-work")
    faber("feedback", "request", run, "--prompt", "Ship it?", "--option", "yes", "--option", "later")
    assert "  waits for a person: Ship it? (yes, later)\n" in faber("status").out
    (row,) = faber("status", "--format", "json").json["runs"]
    assert (row["waits_for"]["prompt"], row["waits_for"]["options"]) == ("Ship it?", ["yes", "later"])
    alone = faber("status", run).out
    assert "Ship it?" in alone
    assert f"faber feedback respond {run}\n" in alone


def test_status_of_one_run_shows_its_branch(faber: Faber, run: str) -> None:
    """`faber status RUN` names the branch, so that it can be checked out."""
    faber("event", "emit", run, "--type", "branch_create", "--metadata", '{"branch": "feat/7-csv"}')
    assert "Branch  feat/7-csv\n" in faber("status", run).out
    assert faber("status", run, "--format", "json").json["branch"] == "feat/7-csv"


def test_status_names_a_damaged_run_and_what_to_do(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """A run that cannot be read stands with its whole id, what is wrong, and the command that diagnoses it."""
    (run_dir(run) / "state.json").write_text("{")
    (run_dir(run) / "plan.json").write_text("{")
    assert f"{run}\n  damaged: " in faber("status").out
    assert f"`faber doctor {run}`" in faber("status").out
