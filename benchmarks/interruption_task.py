"""The work that is interrupted: an issue, the built-in workflow's steps, and what an agent does for each of them.

Every arm does the same work by the same craft. What it writes depends on what it has been told: without the failed
approach it tries that again, without a decision or an answer it writes another file. Whatever lies on the disk it sees
in every arm: a file that is there as wanted is not written again.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interruption_work import SAY_SO, View, Work, listed

from e2e.literal import Made
from e2e.replies import Reply, tool
from e2e.repositories import git, make_project

WORK_ID, TITLE, ASKER = "158", "Export reports as CSV", "accounting"
BRANCH, PULL_REQUEST = "feat/158", "https://example.invalid/acme/report-tool/pull/7"
STEPS = (
    "frame:fetch-work", "frame:classify", "frame:setup-branch", "architect:write-spec", "build:implement",
    "build:commit", "evaluate:test", "evaluate:review", "release:document", "release:open-pr",
)  # fmt: skip
TASKS = dict(
    zip(
        STEPS,
        (
            "Read the work item and say in one sentence what it asks for.",
            "Decide whether this is a feature, a fix, a refactoring or a chore.",
            "Create and check out a branch.",
            "Write the specification to a file.",
            "Implement the specification, with tests.",
            "Commit the work.",
            "Run the tests. If they fail, go back to build:implement.",
            "Review the whole change.",
            "Update the documentation.",
            "Open the pull request.",
        ),
        strict=True,
    )
)
# What a person is asked before a step, in the words of the workflow's gates.
GATES = {
    "release:document": "Start phase release (Release)?",
    "release:open-pr": "Open the pull request (release:open-pr) cannot be undone. Do it?",
}
ANSWERS = {
    "release:document": "Document that the separator is a semicolon.",
    "release:open-pr": "Open it against main.",
}
FEATURE = "A feature: nothing exports reports today."
CSV = "The csv module of the standard library, no new dependency."
DATES = "Dates stay in ISO 8601: the import of accounting reads nothing else."
DECISIONS = {"frame:classify": FEATURE, "architect:write-spec": CSV, "build:implement": DATES}
FAILED = "Collecting the rows in a list runs out of memory at a million rows: do not do that again, stream them."
SYMPTOM = "rows are held in memory"  # what the failing test prints
RETURN_TO = "build:implement"
# The steps as they are worked on from the beginning to the end; the first test fails.
ROAD = (*STEPS[:7], *STEPS[4:])
FAILING = 6

SPEC_PATH, CODE_PATH, TEST_PATH, DOC_PATH = "specs/csv-export.md", "export.py", "test_export.py", "docs/export.md"
REPORT = '"""Reports."""\n\n\ndef rows(year):\n    """The rows of a report."""\n    yield year, "2026-01-09"\n'
SPEC = f"# {TITLE}\n\n## Requirements\n\n- `export(rows, out)` writes rows, separated by semicolons.\n- {CSV}\n"
CODE = '"""Reports as CSV."""\n\nimport csv\n\n\ndef export(rows, out):\n    """Write rows."""\n'
LISTED = CODE + '    rows = list(rows)\n    csv.writer(out, delimiter=";").writerows(rows)\n'
STREAMED = CODE + '    csv.writer(out, delimiter=";").writerows(rows)\n'
TEST = f"""from export import export

written = []


def rows():
    for number in range(5_000):
        if number - len(written) > 1_000:
            raise MemoryError(f"{{number}} {SYMPTOM}")
        yield number, "2026-01-09"


class Out:
    def write(self, line):
        written.append(line)


export(rows(), Out())
print(len(written), "rows written")
"""
OPENING = '#!/bin/sh\n# Stands for the host of the project: what is opened there stays.\necho "$1" >>../pull-requests\n'
RUN_TESTS = "python3 test_export.py"
OPEN = f"sh tools/open-pr.sh '{TITLE}'"
COMMITS = {LISTED: "Add the CSV export", STREAMED: "Stream the rows"}
CONFIG = "workflow: default\nfeedback: {from_scripts: true}\n"


def document(view: View) -> str:
    """The documentation, as far as what it says has reached the agent."""
    lines = ["# Export", "", "`export(rows, out)` writes a report as CSV."]
    lines += ["The separator is a semicolon."] if view.knows(ANSWERS["release:document"]) else []
    lines += ["Dates are in ISO 8601, as the import of accounting needs."] if view.knows(DATES) else []
    return "\n".join(lines) + "\n"


def issue() -> dict[str, Any]:
    """The work item."""
    body = "Accounting copies numbers out of the terminal by hand. A CSV file would save them a day a month."
    return {"id": WORK_ID, "title": TITLE, "body": body, "labels": ["feature"], "state": "open", "author": ASKER}


def prepare(project: Path, faber: bool) -> None:
    """The repository before the work begins."""
    make_project(project)
    files = {
        "report.py": REPORT,
        "tools/open-pr.sh": OPENING,
        ".gitignore": "__pycache__/\n",
        f"issues/{WORK_ID}.json": json.dumps(issue(), indent=1),
    }
    if faber:
        files |= {
            ".fractary/faber/config.yaml": CONFIG,
            f".fractary/faber/work/{WORK_ID}.json": json.dumps(issue()),
        }
    for name, content in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(content)
    git(project, "add", "--all", "--force")
    git(project, "commit", "-q", "-m", "Print reports")


def craft(place: str, view: View) -> Made:
    """What a step comes to: first a look, then the deeds that the disk still lacks."""
    project = view.project
    look = _looks(project)[place]
    knows_failure = view.knows(FAILED)
    decisions = [DECISIONS[place]] if place in DECISIONS and not (place == RETURN_TO and knows_failure) else []
    message = f"Done with {place}."
    match place:
        case "frame:fetch-work":
            return Made([look], message="Accounting wants reports as CSV files, the yearly one too.")
        case "frame:setup-branch":
            there = git(project, "branch", "--show-current") == BRANCH
            known = git(project, "branch", "--list", BRANCH)
            switch = tool("Bash", command=f"git switch {BRANCH}" if known else f"git switch -c {BRANCH}")
            return Made([look, *([] if there else [switch])], {"branch_name": BRANCH}, message)
        case "architect:write-spec":
            return Made([look, *_written(project, SPEC_PATH, SPEC)], {"spec_path": SPEC_PATH}, message, decisions)
        case "build:implement":
            # The failure is all that speaks against the first idea; what is there already is kept.
            code = STREAMED if knows_failure or _has(project, CODE_PATH, STREAMED) else LISTED
            writes = [*_written(project, CODE_PATH, code), *_written(project, TEST_PATH, TEST)]
            return Made([look, *writes], {}, message, decisions)
        case "build:commit":
            code = STREAMED if _has(project, CODE_PATH, STREAMED) else LISTED
            return Made([look, *_committed(project, COMMITS[code], SPEC_PATH, CODE_PATH, TEST_PATH)], {}, message)
        case "evaluate:test":
            if view.tests_failed:
                return Made(failure=FAILED)
            return Made([look, tool("Bash", command=RUN_TESTS)], {}, "The tests pass.")
        case "release:document":
            return Made([look, *_written(project, DOC_PATH, document(view))], {}, message)
        case "release:open-pr":
            deeds = [*_committed(project, "Document the export", DOC_PATH), tool("Bash", command=OPEN)]
            return Made([look, *deeds], {"pr_url": PULL_REQUEST}, message)
    return Made([look], {}, message, decisions)


def _looks(project: Path) -> dict[str, Reply]:
    read = {
        "frame:fetch-work": f"issues/{WORK_ID}.json",
        "frame:classify": "report.py",
        "build:implement": SPEC_PATH,
        "release:document": CODE_PATH,
    }
    run = {
        "frame:setup-branch": "git branch --list",
        "architect:write-spec": "ls",
        "build:commit": "git status --short",
        "evaluate:test": "ls -l",
        "evaluate:review": "git diff --stat main",
        "release:open-pr": "git log --oneline -3",
    }
    looks = {place: tool("Read", file_path=str(project / path)) for place, path in read.items()}
    return looks | {place: tool("Bash", command=command) for place, command in run.items()}


def _has(project: Path, name: str, content: str) -> bool:
    path = project / name
    return path.exists() and path.read_text() == content


def _written(project: Path, name: str, content: str) -> Sequence[Reply]:
    path = project / name
    if _has(project, name, content):
        return []
    # The client lets no file be replaced that the session has not read.
    first = [tool("Read", file_path=str(path))] if path.exists() else []
    return [*first, tool("Write", file_path=str(path), content=content)]


def _committed(project: Path, message: str, *paths: str) -> Sequence[Reply]:
    there = [path for path in paths if (project / path).exists()]
    if not there or not git(project, "status", "--porcelain", "--", *there):
        return []
    added = tool("Bash", command=f"git add {' '.join(there)}")
    return [added, tool("Bash", command=f"git commit -q -m '{message}'")]


def final_tree(project: Path) -> str:
    """The files of the work's branch, but for notes and the run store; empty unless all is committed."""
    kept = [":(exclude)NOTES.md", ":(exclude).fractary"]
    left = subprocess.run(
        ["git", "status", "--porcelain", "--", ".", *kept], cwd=project, capture_output=True, text=True, check=True
    ).stdout.strip()
    opened = (project.parent / "pull-requests").exists()
    if left or not opened or not git(project, "branch", "--list", BRANCH):
        return ""
    lines = git(project, "ls-tree", "-r", BRANCH).splitlines()
    return "\n".join(line for line in lines if not line.split("\t")[1].startswith((".fractary", "NOTES.md")))


WORK = Work(
    about=f'issue {WORK_ID}, "{TITLE}", which {ASKER} asked for',
    assigned=(
        f'Work on issue {WORK_ID}, "{TITLE}", which {ASKER} asked for. '
        f"It is in issues/{WORK_ID}.json. Do these steps in order, and do not stop between them:\n\n{listed(TASKS)}\n"
        + "".join(f'Before {place} ask me "{question}" and wait for my answer.\n' for place, question in GATES.items())
        + SAY_SO
    ),
    steps=STEPS,
    tasks=TASKS,
    road=ROAD,
    paths=(SPEC_PATH, CODE_PATH, TEST_PATH, DOC_PATH),
    check=RUN_TESTS,
    failed=FAILED,
    return_to=RETURN_TO,
    fixed_in=CODE_PATH,
    craft=craft,
    prepare=prepare,
    final_tree=final_tree,
    branch=BRANCH,
    gates=GATES,
    answers=ANSWERS,
    decisions=DECISIONS,
)
