"""The prompts of coder and reviewer. Pure.

Each turn is a new conversation, so each prompt is complete. Text that an agent, a filter or a repository wrote is
fenced and labelled as material.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from faber.nebula.phase.findings import Finding, by_severity
from faber.nebula.phase.phase_task import PhaseTask

CODER_OUTPUT = 4_000
FILTER_OUTPUT = 6_000
DIFF = 40_000
SHOWN_FINDINGS = 60
SHOWN_FILES = 50


class Written(NamedTuple):
    """The files of a phase so far: the first of `total` that are committed, and those that are not committed."""

    committed: Sequence[str]
    total: int
    uncommitted: Sequence[str]


def coder_prompt(
    task: PhaseTask,
    *,
    cycle: int,
    findings: Sequence[Finding] = (),
    failed_filter: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
    written: Written | None = None,
) -> str:
    """The coder's prompt for `cycle`.

    `findings` are the open ones, `failed_filter` is the name and output of the check that failed last, `notes` are
    sentences about the worktree or the last turn, `written` the phase's files so far.
    """
    parts = [_head(task, cycle), *_project(task), section("Task", task.body.strip() or task.title)]
    if task.scope:
        parts.append(section("Scope", "Change only files that match these globs:\n" + bullets(task.scope)))
    if task.partial_work:
        parts.append(section("Earlier work", task.partial_work.strip()))
    if written:
        parts.append(section("Files so far", _files_so_far(written)))
    if failed_filter is not None:
        name, output = failed_filter
        shown = fenced(output, FILTER_OUTPUT)
        parts.append(section("Failed check", f"`{name}` failed and must pass. The end of its output:\n\n{shown}"))
    if findings:
        parts.append(section("Open findings", "Fix what the reviewer objects to:\n" + finding_lines(findings)))
    if notes:
        parts.append(section("Notes", bullets(notes)))
    if cycle == 1 and not (task.partial_work or written):
        start = "Do the task in this directory."
    else:
        start = "This directory contains the work so far. Build on it; do not start over."
    closing = f"{start} Do not commit; your changes are committed for you. {_REPORT}"
    return _joined([*parts, section("Instructions", closing)])


_REPORT = "End with one paragraph that says what you changed and why."


def conflict_prompt(task: PhaseTask, *, cycle: int, files: Sequence[str]) -> str:
    """The coder's prompt for resolving a merge with the work of other phases."""
    text = (
        f"Since this phase started, other phases changed the same places. {merge_note(files)} Do not drop either "
        f"side's work. Do not commit, and do not abort the merge. {_REPORT}"
    )
    parts = [_head(task, cycle), *_project(task), section("Task of this phase", task.body.strip() or task.title)]
    return _joined([*parts, section("Instructions", text)])


def merge_note(files: Sequence[str]) -> str:
    """The coder's instructions for a merge in progress with conflicts in `files`."""
    return (
        "A merge with the work of other phases is in progress in this directory, with conflict markers in:\n"
        f"{bullets(files)}\n\nResolve every conflict so that the intent of both sides is kept, and remove all markers."
    )


class ReviewSubject(NamedTuple):
    """What is reviewed in one cycle: the changes from `base` to `head`, whose tree is `tree`.

    `files` are the first of `total_files` changed files, `earlier` all findings so far, `outside_scope` changed files
    that no glob of the scope matches, `filters` the checks that passed.
    """

    cycle: int
    tree: str
    base: str
    head: str
    files: Sequence[str]
    total_files: int
    diff: str
    coder_output: str
    earlier: Sequence[Finding] = ()
    outside_scope: Sequence[str] = ()
    filters: Sequence[str] = ()


def reviewer_prompt(task: PhaseTask, subject: ReviewSubject) -> str:
    """The reviewer's prompt."""
    parts = [_head(task, subject.cycle, "Review of phase"), *_project(task)]
    parts.append(section("Task", task.body.strip() or task.title))
    listed = bullets(subject.files) if subject.files else "- nothing"
    if subject.total_files > len(subject.files):
        listed += f"\n- and {subject.total_files - len(subject.files)} more files"
    span = f"Commits {subject.base[:12]} to {subject.head[:12]}:"
    parts.append(section("Changes", f"{span}\n{listed}\n\n{fenced(subject.diff, DIFF)}"))
    if subject.outside_scope:
        parts.append(
            section("Outside the scope", "Changed files that are not in scope:\n" + bullets(subject.outside_scope))
        )
    if subject.filters:
        parts.append(section("Checks that passed", bullets(subject.filters)))
    if subject.coder_output:
        said = fenced(subject.coder_output, CODER_OUTPUT)
        parts.append(section("The coder's report", f"Verify these claims; they are not facts:\n\n{said}"))
    if subject.earlier:
        listed = finding_lines(subject.earlier, status=True)
        parts.append(section("Earlier findings", f"Verify each one in the current files:\n{listed}"))
    parts.append(section("Answer", _ANSWER.format(tree=subject.tree)))
    return _joined(parts)


_ANSWER = """Read the files you need in this directory. Then answer with one JSON object and nothing else:

{{"verdict": "approved" or "not_approved",
 "tree": "{tree}",
 "summary": "what was done, and your assessment, in a few sentences",
 "findings": [{{"severity": "critical" | "major" | "minor" | "info", "description": "…", "file": "path", "line": 1}}],
 "earlier": [{{"id": "f-…", "status": "fixed" | "still_present" | "regressed"}}]}}

`findings` contains only new objections; `earlier` contains every finding listed above. `tree` identifies what you \
reviewed: copy it. Approve only if the task is complete and no critical or major finding is open. If in doubt, do not \
approve."""


def _files_so_far(written: Written) -> str:
    said = []
    for what, files, total in (
        ("Committed", written.committed, written.total),
        ("Not committed yet, and perhaps not finished", written.uncommitted, len(written.uncommitted)),
    ):
        if files:
            more = [f"and {total - SHOWN_FILES} more"] if total > SHOWN_FILES else []
            said.append(f"{what}:\n{bullets([*files[:SHOWN_FILES], *more])}")
    return "\n\n".join(said)


# --- parts -----------------------------------------------------------------------------------------


def finding_lines(findings: Iterable[Finding], *, status: bool = False) -> str:
    """One line per finding, most severe first: id, severity, place, description; `status` adds its status."""
    ordered = by_severity(findings)
    lines = [_finding_line(finding, status) for finding in ordered[:SHOWN_FINDINGS]]
    if len(ordered) > SHOWN_FINDINGS:
        lines.append(f"- and {len(ordered) - SHOWN_FINDINGS} more")
    return "\n".join(lines)


def _finding_line(finding: Finding, status: bool) -> str:
    shown = f" ({finding.status.replace('_', ' ')}, cycle {finding.cycle})" if status else ""
    return f"- {finding.id} [{finding.severity}]{finding.place}{shown}: {' '.join(finding.description.split())}"


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list with one line per entry."""
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def fenced(text: str, limit: int) -> str:
    """The last `limit` characters of `text` in a code block that nothing inside can close."""
    kept = text.strip("\n")
    if len(kept) > limit:
        kept = f"[… {len(kept) - limit} characters omitted]\n{kept[-limit:]}"
    longest = max((len(run) for run in re.findall(r"`{3,}", kept)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{kept}\n{fence}"


def _head(task: PhaseTask, cycle: int, what: str = "Phase") -> str:
    where = f" Your directory is `{task.top}`." if task.top else ""
    return f"# {what} {task.id}: {task.title}\n\nCycle {cycle} of at most {task.max_cycles}.{where}"


def _project(task: PhaseTask) -> list[str]:
    context = task.project_context.strip()
    return [*([context] if context else []), *project_section(Goals=task.goals, Constraints=task.constraints)]


def project_section(**lists: Sequence[str]) -> list[str]:
    """The section on the project, with each of `lists` that is not empty under its name; no section without any."""
    said = [f"{name.replace('_', ' ')}:\n{bullets(lines)}" for name, lines in lists.items() if lines]
    return [section("Project", "\n\n".join(said))] if said else []


def section(title: str, text: str) -> str:
    """A section of a prompt."""
    return f"## {title}\n\n{text}"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"
