"""`faber workflow …`: the definitions that a run can be made from."""

from typing import Any

import click

from faber.cli.app import Invocation
from faber.cli.arguments import format_option
from faber.cli.output import print_json, write
from faber.errors import Exit, FaberError
from faber.model.text import inert, redact_json
from faber.workflows.workflow_errors import InvalidDefinition


@click.group()
def workflow() -> None:
    """List, show and check workflow definitions."""


@workflow.command("list")
@click.pass_obj
def list_workflows(obj: Invocation) -> None:
    """List the workflows that `run init` knows by name.

    `source` is a file of the project, or built-in. One that is not valid is listed by its first problem.
    """
    from faber.workflows.definitions import find, known_workflows, resolve, source

    rows: list[dict[str, Any]] = []
    for name in known_workflows(obj.layout):
        path = find(obj.layout, name)
        row: dict[str, Any] = {"name": name, "source": source(obj.layout, path)}
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
    """Show the plan that a run of the workflow would freeze."""
    from faber.workflows.definitions import load_plan

    print_json(load_plan(obj.layout, workflow))


@workflow.command("validate")
@click.argument("workflows", metavar="[NAME|FILE]...", nargs=-1)
@format_option
@click.pass_obj
def validate(obj: Invocation, workflows: tuple[str, ...], form: str) -> int:
    """Check definitions and what they extend; without NAME or FILE, all of the project's.

    Exit status 2 if one is not valid: `problems` holds file, line, path and message of each.
    """
    from faber.workflows.definitions import project_definitions

    if workflows:
        reports = [_report(obj, name, None) for name in workflows]
    else:
        reports = [_report(obj, None, path) for path in project_definitions(obj.layout)]
    valid = all(report["valid"] for report in reports)
    if form == "text":
        write("".join(_lines(report) for report in reports) or "The project has no workflow definitions.\n")
    else:
        print_json({"valid": valid, "workflows": redact_json(reports)})
    return Exit.OK if valid else Exit.USAGE


def _report(obj: Invocation, name: str | None, path: str | None) -> dict[str, Any]:
    """One definition, `{"workflow", "source", "valid", "problems"}`; `source` is null where there is none."""
    from faber.workflows.definitions import find, resolve, source

    where = None
    problems: list[dict[str, Any]] = []
    try:
        found = path or find(obj.layout, name or "")
        where = source(obj.layout, found)
        resolve(obj.layout, found)
    except InvalidDefinition as error:
        problems = error.fields["problems"]
    except FaberError as error:
        problems = [{"file": where, "line": None, "path": "", "message": error.message}]
    return {"workflow": name or where, "source": where, "valid": not problems, "problems": problems}


def _lines(report: dict[str, Any]) -> str:
    from faber.workflows.source_map import described

    if report["valid"]:
        return f"✓ {inert(report['workflow'])}\n"
    return "".join(f"✗ {inert(described(redact_json(problem)))}\n" for problem in report["problems"])
