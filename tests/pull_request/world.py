"""A project on the GitHub of the tests, its remote beside it, and a run that has come to its last step."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from github.comments import settings
from github.fake import FakeGitHub
from support.copies import copy_tree
from support.repositories import commit, git

RUN = "acme/widgets/csv"
BRANCH = "feat/csv"
STEP = "release:open-pr"
SPECIFICATION = """# Export orders as CSV

## Summary

Sales can export the orders of a month as a CSV file. The file opens in every spreadsheet, because it is written as
[RFC 4180](https://www.rfc-editor.org/rfc/rfc4180) says.

- one row an order, in the order of their numbers
- amounts with a dot, as `1234.50`

## Acceptance Criteria

- [x] `shop export --month 2026-10` writes one row for each order of the month
- [x] a quote, a comma and a line break in a name survive a round trip through a spreadsheet
- [ ] 100,000 orders take less than two seconds

## Technical Approach

A generator over the orders, written with the `csv` module.
"""


class Answer(NamedTuple):
    """The exit status and the JSON object of one call."""

    status: int
    json: Any

    @property
    def code(self) -> str:
        """The code of the error."""
        return str(self.json["error"]["code"])


class World(NamedTuple):
    """The project, its GitHub, and faber called in it."""

    project: Path
    github: FakeGitHub
    call: Callable[..., Answer]

    def open(self, *options: str) -> Answer:
        """`faber pull-request`."""
        return self.call("pull-request", RUN, *options)

    @property
    def state(self) -> Any:
        """The run's state."""
        return json.loads((self.project / ".fractary" / "faber" / "runs" / RUN / "state.json").read_text())

    def events(self, *kinds: str) -> list[Any]:
        """The run's events of these types, in order."""
        found = sorted((self.project / ".fractary" / "faber" / "runs" / RUN / "events").iterdir())
        loaded = [json.loads(file.read_text()) for file in found]
        return [event for event in loaded if event["type"] in kinds]

    @property
    def bodies(self) -> dict[int, str]:
        """The text of every pull request."""
        return {number: one["body"] for number, one in self.github.pulls.found.items()}

    def configure(self, **chosen: Any) -> None:
        """The project's config.yaml."""
        (self.project / ".fractary" / "faber" / "config.yaml").write_text(settings(self.github, **chosen))


def make(place: Path, call: Callable[..., Answer]) -> None:
    """The project and its remote below `place`, which is the parent of the current directory."""
    project, remote = place / "project", place / "projects" / "acme" / "widgets.git"
    remote.parent.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--template=", "--bare", "-b", "main", str(remote)], check=True)
    git(project, "init", "-q", "--template=", "-b", "main")
    (project / ".gitignore").write_text(".fractary/\n")
    commit(project, {"README.md": "# shop\n"}, "Begin")
    git(project, "remote", "add", "origin", "../projects/acme/widgets.git")
    git(project, "push", "-q", "origin", "main")
    must(call, "run", "init", "--run-id", RUN, "--work-id", "7", "--target", "Export orders as CSV")
    done(call, "frame:fetch-work", "--message", "Sales wants the orders of a month as CSV.")
    done(call, "frame:classify", "--decision", "This is a feature: nothing that exists changes.")
    git(project, "switch", "-q", "-c", BRANCH)
    done(call, "frame:setup-branch", "--artifact", f"branch_name={BRANCH}")
    commit(project, {"specs/csv.md": SPECIFICATION}, "Specify the export")
    done(call, "architect:write-spec", "--artifact", "spec_path=specs/csv.md")
    must(call, "next", RUN)
    asked = ("--type", "selection", "--prompt", "Which separator do the spreadsheets of sales expect?")
    must(call, "feedback", "request", RUN, *asked, "--option", "comma", "--option", "semicolon")
    must(call, "feedback", "respond", RUN, "comma", "--comment", "They all use the English version.")
    must(call, "step", "complete", RUN, "build:implement", "--message", "Wrote the export, with eleven tests.")
    must(call, "next", RUN)
    commit(
        project,
        {"shop/export.py": "import csv\n", "tests/test_export.py": "def test(): pass\n"},
        "Export orders as CSV",
    )
    must(call, "step", "complete", RUN, "build:commit", "--message", "Committed the export and its tests.")
    done(call, "evaluate:test", "--message", "All 214 tests pass; the export's take 0.3 s.")
    done(
        call,
        "evaluate:review",
        "--message",
        "Two of three criteria are met; the time for 100,000 orders is 2.4 s.",
        "--warning",
    )
    done(call, "release:document", "--message", "Described `shop export` in the manual.")


def done(call: Callable[..., Answer], place: str, *options: str) -> None:
    """Start a step, approving its gate, and complete it."""
    start(call, place)
    must(call, "step", "complete", RUN, place, *options)


def start(call: Callable[..., Answer], place: str) -> None:
    """Start a step, approving its gate."""
    if call("step", "start", RUN, place).status == 3:
        must(call, "next", RUN)
        must(call, "feedback", "respond", RUN, "approve")
        must(call, "step", "start", RUN, place)


def must(call: Callable[..., Answer], *arguments: str) -> Any:
    """A call that has to succeed."""
    answer = call(*arguments)
    assert answer.status == 0, (arguments, answer.json)
    return answer.json


def copied(made: Path, place: Path) -> Path:
    """A copy of the project and its remote."""
    for name in ("project", "projects"):
        copy_tree(made / name, place / name)
    return place / "project"
