"""What coder and reviewer are told: pure functions of the phase and of what happened in it.

Each turn is a conversation of its own, so each prompt is whole. Text that an agent, a filter or a repository wrote is
fenced and named as material.
"""

import re
from collections.abc import Iterable, Sequence

from faber.nebula.phase.findings import SEVERITIES, Finding
from faber.nebula.phase.task import PhaseTask

CODER_OUTPUT = 4_000
FILTER_OUTPUT = 6_000
DIFF = 40_000
SHOWN_FINDINGS = 60


def coder_prompt(
    task: PhaseTask,
    *,
    cycle: int,
    findings: Sequence[Finding] = (),
    failed_filter: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The coder's turn of `cycle`: the task, what is objected to, and what failed.

    `findings` are the open ones, `failed_filter` the name and output of the filter that stopped the last cycle, `notes`
    are sentences of the loop's own about the tree.
    """
    parts = [_head(task, cycle), *_project(task), _section("Task", task.body.strip() or task.title)]
    if task.scope:
        parts.append(_section("Scope", "Change only files that these globs match:\n" + bullets(task.scope)))
    if task.partial_work:
        parts.append(_section("Work that is already here", task.partial_work.strip()))
    if failed_filter is not None:
        name, output = failed_filter
        said = fenced(output, FILTER_OUTPUT)
        parts.append(_section("A check failed", f"`{name}` must pass. What it said, its end:\n\n{said}"))
    if findings:
        parts.append(_section("Open findings", "The reviewer objects to:\n" + finding_lines(findings)))
    if notes:
        parts.append(_section("Note", bullets(notes)))
    if cycle == 1 and not task.partial_work:
        closing = "Do the task in this directory. "
    else:
        closing = "What was done before is in this directory. Build on it; do not start over. "
    closing += "Do not commit: what you leave is committed for you. End with one paragraph on what you changed and why."
    return _joined([*parts, _section("Now", closing)])


def conflict_prompt(task: PhaseTask, *, cycle: int, files: Sequence[str]) -> str:
    """The coder's turn that resolves a merge with the work of other phases."""
    text = (
        "Other phases were merged since this one began, and both changed the same places. The merge stands in this "
        "directory with conflict markers in:\n" + bullets(files) + "\n\nResolve every one so that both intentions "
        "hold, and remove all markers. Do not give up what either side did; do not commit; do not abort the merge."
    )
    parts = [_head(task, cycle), *_project(task), _section("Task of this phase", task.body.strip() or task.title)]
    return _joined([*parts, _section("Now", text)])


def reviewer_prompt(
    task: PhaseTask,
    *,
    cycle: int,
    tree: str,
    base: str,
    head: str,
    files: Sequence[str],
    total_files: int,
    diff: str,
    coder_output: str,
    earlier: Sequence[Finding] = (),
    outside_scope: Sequence[str] = (),
    filters: Sequence[str] = (),
) -> str:
    """The reviewer's turn of `cycle` on the tree `tree`: the task, what changed since `base`, the earlier findings."""
    parts = [_head(task, cycle, "Review of phase"), *_project(task)]
    parts.append(_section("Task", task.body.strip() or task.title))
    listed = bullets(files) if files else "- nothing"
    if total_files > len(files):
        listed += f"\n- and {total_files - len(files)} more files"
    parts.append(_section("What changed", f"Commits {base[:12]} to {head[:12]}:\n{listed}\n\n{fenced(diff, DIFF)}"))
    if outside_scope:
        parts.append(
            _section("Outside the scope", "Changed though no glob of the scope matches:\n" + bullets(outside_scope))
        )
    if filters:
        parts.append(_section("Checks that passed", bullets(filters)))
    if coder_output:
        said = fenced(coder_output, CODER_OUTPUT)
        parts.append(_section("What the coder says", f"A claim to verify, not a fact:\n\n{said}"))
    if earlier:
        listed = finding_lines(earlier, status=True)
        parts.append(_section("Earlier findings", f"Verify each in the files as they are now:\n{listed}"))
    parts.append(_section("Answer", _ANSWER.format(tree=tree)))
    return _joined(parts)


_ANSWER = """Read the files you need in this directory. Then answer with one JSON object and nothing else:

{{"verdict": "approved" or "not_approved",
 "tree": "{tree}",
 "summary": "what was done and what you think of it, in a few sentences",
 "findings": [{{"severity": "critical" | "major" | "minor" | "info", "description": "…", "file": "path", "line": 1}}],
 "earlier": [{{"id": "f-…", "status": "fixed" | "still_present" | "regressed"}}]}}

`findings` are new objections only; `earlier` has every finding of the list above. `tree` names what you reviewed: \
copy it. Approve only if the task is done whole and nothing critical or major is left; if you are not sure, do not."""


# --- parts -----------------------------------------------------------------------------------------


def finding_lines(findings: Iterable[Finding], *, status: bool = False) -> str:
    """One line a finding, gravest first: id, severity, place, description; `status` adds how it stands."""
    ordered = sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.cycle, finding.id))
    lines = [_finding_line(finding, status) for finding in ordered[:SHOWN_FINDINGS]]
    if len(ordered) > SHOWN_FINDINGS:
        lines.append(f"- and {len(ordered) - SHOWN_FINDINGS} more")
    return "\n".join(lines)


def _finding_line(finding: Finding, status: bool) -> str:
    place = f" {finding.file}" + (f":{finding.line}" if finding.line else "") if finding.file else ""
    standing = f" ({finding.status.replace('_', ' ')}, cycle {finding.cycle})" if status else ""
    return f"- {finding.id} [{finding.severity}]{place}{standing}: {' '.join(finding.description.split())}"


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list, one line an entry."""
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def fenced(text: str, limit: int) -> str:
    """The end of `text` in at most `limit` characters as a code block that nothing in it can close."""
    kept = text.strip("\n")
    if len(kept) > limit:
        kept = f"[… {len(kept) - limit} characters before this]\n{kept[-limit:]}"
    longest = max((len(run) for run in re.findall(r"`{3,}", kept)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{kept}\n{fence}"


def _head(task: PhaseTask, cycle: int, what: str = "Phase") -> str:
    where = f" Your directory is `{task.top}`." if task.top else ""
    return f"# {what} {task.id}: {task.title}\n\nCycle {cycle} of at most {task.max_cycles}.{where}"


def _project(task: PhaseTask) -> list[str]:
    parts = [task.project_context.strip()] if task.project_context.strip() else []
    said = []
    if task.goals:
        said.append("Goals:\n" + bullets(task.goals))
    if task.constraints:
        said.append("Constraints:\n" + bullets(task.constraints))
    return [*parts, _section("Project", "\n\n".join(said))] if said else parts


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"
