"""`faber workflow …`: the definitions that runs are created from."""

from typing import TypedDict

import click

from faber.console.arguments import format_option
from faber.console.invocation import Invocation
from faber.console.output import print_answer, print_json
from faber.errors import Exit, FaberError
from faber.text.safe_text import redact_json
from faber.workflows.definitions import find, known_workflows, load_plan, project_definitions, resolve, source
from faber.workflows.source_map import described
from faber.workflows.workflow_errors import InvalidDefinition


class DefinitionProblem(TypedDict):
    """A problem of a definition: where it is, and what is wrong."""

    file: str | None
    line: int | None
    path: str
    message: str


class DefinitionReport(TypedDict):
    """One checked definition; `source` is null if it was not found."""

    workflow: str | None
    source: str | None
    valid: bool
    problems: list[DefinitionProblem]


@click.group()
def workflow() -> None:
    """List, show and check workflow definitions."""


@workflow.command("list")
@click.pass_obj
def list_workflows(obj: Invocation) -> None:
    """List the workflows that `run init` knows by name.

    `source` is a file in the project, or built-in. An invalid one is listed with its first problem.
    """
    rows: list[dict[str, object]] = []
    for name in known_workflows(obj.layout):
        path = find(obj.layout, name)
        row: dict[str, object] = {"name": name, "source": source(obj.layout, path)}
        try:
            plan, extends = resolve(obj.layout, path)
        except InvalidDefinition as error:
            row |= {"valid": False, "description": None, "phases": None, "extends": None, "error": error.message}
        else:
            row |= {
                "valid": True,
                "description": plan.get("description"),
                "phases": len(plan["phases"]),
                "extends": extends,
            }
        rows.append(row)
    print_json({"workflows": redact_json(rows)})


@workflow.command("show")
@click.argument("workflow", metavar="NAME|FILE")
@click.pass_obj
def show(obj: Invocation, workflow: str) -> None:
    """Show the plan that a run of the workflow gets."""
    print_json(load_plan(obj.layout, workflow))


@workflow.command("validate")
@click.argument("workflows", metavar="[NAME|FILE]...", nargs=-1)
@format_option
@click.pass_obj
def validate(obj: Invocation, workflows: tuple[str, ...], form: str) -> int:
    """Check definitions and what they extend. Without NAME or FILE, check all of the project's.

    Exit status 2 if one is invalid: `problems` lists file, line, path and message.
    """
    if workflows:
        reports = [_report(obj, name, None) for name in workflows]
    else:
        reports = [_report(obj, None, path) for path in project_definitions(obj.layout)]
    valid = all(report["valid"] for report in reports)
    shown = redact_json(reports)
    nothing = "The project has no workflow definitions.\n"
    print_answer({"valid": valid, "workflows": shown}, form, lambda _: "".join(map(_lines, shown)) or nothing)
    return Exit.OK if valid else Exit.USAGE


def _report(obj: Invocation, name: str | None, path: str | None) -> DefinitionReport:
    """Check one definition, given by its name or its path."""
    where = None
    problems: list[DefinitionProblem] = []
    try:
        found = path or find(obj.layout, name or "")
        where = source(obj.layout, found)
        resolve(obj.layout, found)
    except InvalidDefinition as error:
        problems = error.fields["problems"]
    except FaberError as error:
        problems = [{"file": where, "line": None, "path": "", "message": error.message}]
    return {"workflow": name or where, "source": where, "valid": not problems, "problems": problems}


def _lines(report: DefinitionReport) -> str:
    if report["valid"]:
        return f"✓ {report['workflow']}\n"
    return "".join(f"✗ {described(problem)}\n" for problem in report["problems"])
