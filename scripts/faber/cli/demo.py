"""`faber demo`: a sample project whose run is really killed, and then reconstituted.

Makes a temporary directory with a git repository, a specification, a work item and a run; a child
process works through the run with the ordinary commands and is ended with SIGKILL in the middle of
its build phase. What is printed after that comes from `faber context` alone.
"""

import json
import os
import signal
import time
from typing import Any

import click

from faber.cli.output import write
from faber.cli.sample import announce, commit_all, git, launcher, make_place, put, run_faber
from faber.errors import FaberError
from faber.events.event_types import BRANCH_CREATE, DECISION_POINT, SPEC_GENERATE
from faber.store.layout import Layout

BRANCH = "feat/158-csv-export"
RUN_ID = "sample/report-tool/demo"

SPEC = """---
title: CSV export of reports
type: feature
status: approved
---
# CSV export of reports

## Summary
Reports can be exported as CSV from the command line, so that they open in any spreadsheet.

## Goals
- One command writes a report as CSV
- Exports of a million rows stay within constant memory

## Acceptance Criteria
- [x] `report.py --csv` writes a header and one line a row
- [ ] Commas, quotes and line breaks in values survive a round trip
- [ ] A million rows are streamed, not collected

## Technical Approach
A generator of rows feeds the `csv` module of the standard library.

## Files to Modify
- `report.py`
- `test_report.py`

## Implementation Phases

### Phase 1: Writer
- [x] Write header and rows
- [ ] Quote special characters

### Phase 2: Streaming
- [ ] Read rows lazily
"""

ISSUE = {
    "id": "158",
    "title": "Export reports as CSV",
    "body": "Accounting copies numbers out of the terminal by hand. A CSV file would save them a day a month.",
    "labels": ["feature", "reports"],
    "state": "open",
    "author": "accounting",
    "comments": [
        {
            "author": "maintainer",
            "body": "Please stream: the yearly report has a million rows.",
            "created_at": "2026-01-09T10:00:00Z",
        }
    ],
}

REPORT_1 = '''"""Print a report."""

ROWS = [("January", 10), ("February", 12)]


def main() -> None:
    for name, value in ROWS:
        print(name, value)
'''

REPORT_2 = (
    REPORT_1
    + """

def export() -> None:
    print("month,value")
    for name, value in ROWS:
        print(f"{name},{value}")
"""
)

REPORT_HALF = REPORT_2.replace(
    "def export", "import csv\n\n\ndef quote(value: str) -> str:\n    return '\"' + value.repl"
)

# What the agent of the sample does until it is killed: (arguments, input) of ordinary commands.
AGENT: list[tuple[list[str], dict[str, Any] | None]] = [
    (["step", "start", RUN_ID, "frame:fetch-work"], None),
    (["step", "complete", RUN_ID, "frame:fetch-work", "--message", "CSV export, streamed, for accounting"], None),
    (["step", "start", RUN_ID, "frame:classify"], None),
    (
        [
            "event",
            "emit",
            RUN_ID,
            "--type",
            DECISION_POINT,
            "--message",
            "A feature, not a fix: there was no export before",
        ],
        None,
    ),
    (["step", "complete", RUN_ID, "frame:classify"], None),
    (["step", "start", RUN_ID, "frame:setup-branch"], None),
    (["event", "emit", RUN_ID, "--type", BRANCH_CREATE, "--metadata", json.dumps({"branch": BRANCH})], None),
    (["step", "complete", RUN_ID, "frame:setup-branch"], None),
    (["step", "start", RUN_ID, "architect:write-spec"], None),
    (
        ["event", "emit", RUN_ID, "--type", SPEC_GENERATE, "--metadata", json.dumps({"path": "specs/csv-export.md"})],
        None,
    ),
    (
        [
            "event",
            "emit",
            RUN_ID,
            "--type",
            DECISION_POINT,
            "--message",
            "csv module of the standard library, no new dependency",
        ],
        None,
    ),
    (["step", "complete", RUN_ID, "architect:write-spec"], None),
    (
        ["session", "save", RUN_ID],
        {
            "session_id": "morning",
            "phase_completed": "architect",
            "summary": {
                "accomplished": ["Read the request", "Wrote specs/csv-export.md", "Wrote header and rows"],
                "decisions": ["Stream rows from a generator; never collect them in a list"],
                "files_changed": ["report.py", "specs/csv-export.md"],
                "remaining_phases": ["build", "evaluate", "release"],
                "context_notes": "The yearly report is the test case: a million rows.",
            },
        },
    ),
    (["step", "start", RUN_ID, "build:implement"], None),
]


@click.command()
@click.option("--directory", metavar="DIR", help="Where to make the sample. Default: a new temporary directory.")
@click.option("--heal", is_flag=True, help="See a nebula instead, whose phase fails and is healed (no model needed).")
def demo(directory: str | None, heal: bool) -> None:
    """See a run that was killed in the middle of its build phase, reconstituted."""
    if heal:
        from faber.cli.demo_heal import show_healing

        show_healing(make_place(directory))
        return
    project = make_place(directory)
    announce(f"Making a sample project in {project}")
    _history(project)
    run_faber(project, ["run", "init", "--work-id", "158", "--run-id", RUN_ID])
    announce(f"An agent (process of its own) works on run {RUN_ID} …")
    pid = _work_until_killed(project)
    announce(f"… and is killed with SIGKILL in the middle of build:implement (process {pid}).")
    announce("Its session is gone. This is what the next one gets from `faber context latest`:\n")
    answer = run_faber(project, ["context", "latest", "--format", "text"])
    write(answer)
    program = launcher()
    write(
        f"\nGo on exploring:\n"
        f"  cd {project}\n"
        f"  {program} context latest          # the JSON that an agent gets\n"
        f"  {program} status latest           # phases and steps\n"
        f"  {program} event list latest       # the log\n"
        f"  {program} step complete latest build:implement\n"
    )


def _history(project: str) -> None:
    """A repository with a default branch, a branch for the work and a half-written file on it."""
    git(project, "init", "-q", "-b", "main")
    put(project, "report.py", REPORT_1)
    put(project, "README.md", "# report-tool\n\nPrints reports.\n")
    put(Layout(project).work_items, "158.json", json.dumps(ISSUE, indent=2) + "\n")
    commit_all(project, "Print reports")
    git(project, "checkout", "-q", "-b", BRANCH)
    put(project, "specs/csv-export.md", SPEC)
    commit_all(project, "Specify the CSV export")
    put(project, "report.py", REPORT_2)
    commit_all(project, "Write header and rows")


def _work_until_killed(project: str) -> int:
    """Let a child play the agent, and end it with SIGKILL while it is writing report.py."""
    started = os.path.join(project, ".git", "agent-is-writing")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for arguments, given in AGENT:
                run_faber(project, arguments, given)
            put(project, "report.py", REPORT_HALF)
            put(project, ".git/agent-is-writing", "")
            time.sleep(600)
        except BaseException as error:  # noqa: BLE001 - a child must never return into its parent's code
            os.write(2, f"{error}\n".encode())
        os._exit(status)
    while not os.path.exists(started):
        done, _ = os.waitpid(child, os.WNOHANG)
        if done:
            raise FaberError("The sample's agent ended before it could be killed.")
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.unlink(started)
    return child
