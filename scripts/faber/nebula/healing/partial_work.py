"""The work of a failed phase that its remediation builds on. Pure, except for asking git."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.findings import Finding, by_severity
from faber.nebula.phase.prompts import bullets
from faber.text.safe_text import encodable, inert, redact, shorten

FILES = 100
FINDINGS = 40
DESCRIPTION = 500
COMMITS = 50
SECTION = "## Partial Work"
_MARKS = re.compile(r"\[((?:END )?AUTO-HEALING CONTEXT)\]", re.IGNORECASE)
# The coder's work of the cycle is committed; its checks and its review may not be finished.
_WORKED = frozenset(Stage) - {Stage.IDLE, Stage.BEAD_CREATED, Stage.CODING, Stage.ERROR}


class GitDiffLister(Protocol):
    """Lists the files that differ between two commits."""

    def diff_file_list(self, base: str, head: str) -> list[str]:
        """Paths relative to the repository; the new path of a renamed file."""


@dataclass(frozen=True)
class PartialWork:
    """How far a phase got before it failed.

    `commit_shas` are the newest commits of its cycles, in order; `base_commit_sha` is where its branch began (empty:
    unknown). `files_touched` are at most 100 of the `files_total` files that differ between base and last commit.
    `cycles_used` counts the cycles in which the coder finished. `last_findings` are those open at the end.
    """

    phase_id: str
    commit_shas: tuple[str, ...] = ()
    base_commit_sha: str = ""
    files_touched: tuple[str, ...] = ()
    cycles_used: int = 0
    last_findings: tuple[str, ...] = ()
    files_total: int = 0

    def as_dict(self) -> dict[str, object]:
        """The work as a JSON object."""
        return as_json(self)


def as_json(record: object) -> dict[str, object]:
    """The fields of a dataclass, its tuples as lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(record).items()}


def build_partial_work(state: CycleState | None, git: GitDiffLister | None, *, phase_id: str) -> PartialWork | None:
    """The work of the phase with this `state`; None if its coder finished no cycle.

    The files are those that differ between its base and its last commit; without either, git is not asked. Raises the
    errors of `git` if it does not know the commits.
    """
    if state is None:
        return None
    cycles = max(0, state.cycle if state.phase in _WORKED else state.cycle - 1)
    if not cycles and not state.cycle_commits:
        return None
    files: Sequence[str] = ()
    if git is not None and state.base_commit_sha and state.cycle_commits:
        files = git.diff_file_list(state.base_commit_sha, state.cycle_commits[-1])
    return PartialWork(
        phase_id,
        state.cycle_commits,
        state.base_commit_sha,
        tuple(_line(path) for path in files[:FILES]),
        cycles,
        finding_texts(finding for finding in state.findings if finding.is_open),
        len(files),
    )


# --- as text ---------------------------------------------------------------------------------------


def finding_texts(findings: Iterable[Finding]) -> tuple[str, ...]:
    """One line per finding, most severe first: `[major] src/a.py:3: what is wrong`; at most 40, and a count of the
    others."""
    return limited([finding_text(finding) for finding in by_severity(findings)])


def finding_text(finding: Finding) -> str:
    """One finding as a line."""
    return _line(f"[{finding.severity}]{finding.place}: {finding.description}")


def limited(lines: Sequence[str]) -> tuple[str, ...]:
    """The first 40 lines, and one that counts the others."""
    rest = len(lines) - FINDINGS
    return (*lines[:FINDINGS], f"and {rest} more") if rest > 0 else tuple(lines)


def healing_context(work: PartialWork) -> str:
    """The block at the top of the prompts of a remediation's coder and reviewer."""
    return (
        "[AUTO-HEALING CONTEXT]\n"
        "This phase remediates a prior failure. The following commits contain partial\n"
        "work that you MUST preserve and build upon:\n"
        f"{_list(_commits(work))}\n"
        f"Files already modified: {_without_marks(' '.join(', '.join(_files(work)).split()) or 'none')}\n"
        "Unresolved reviewer findings from the failed attempt:\n"
        f"{_list(work.last_findings)}\n"
        "Do NOT revert existing changes. Focus on resolving the listed findings.\n"
        "[END AUTO-HEALING CONTEXT]"
    )


def architect_section(work: PartialWork) -> str:
    """The section on partial work of the architect's prompt."""
    return (
        "### Partial Work from Failed Phase\n"
        f"- Base commit: {work.base_commit_sha or 'none'}\n"
        f"- Cycle commits: {', '.join(_commits(work)) or 'none'}\n"
        f"- Files touched:{_below(_files(work))}\n"
        f"- Cycles completed: {work.cycles_used}\n"
        f"- Unresolved findings:{_below(work.last_findings)}\n"
        "\n"
        "The remediation phase MUST NOT revert these commits. Build on the existing\n"
        "changes and address only the unresolved findings listed above."
    )


def body_section(work: PartialWork) -> str:
    """The section on partial work of a remediation's phase file, if its architect wrote none."""
    return (
        f"{SECTION}\n\n"
        f"The phase `{work.phase_id}` failed after {work.cycles_used} cycles. Its work is on this branch: build on it, "
        "do not revert it.\n\n"
        f"Commits: {', '.join(commit[:12] for commit in _commits(work)) or 'none'}.\n\n"
        f"Files touched:\n\n{_list(_files(work))}\n\n"
        f"Findings still open:\n\n{_list(work.last_findings)}"
    )


def _commits(work: PartialWork) -> tuple[str, ...]:
    known = work.commit_shas
    if len(known) <= COMMITS:
        return known
    # The newest ones contain the others.
    return (f"{len(known) - COMMITS} earlier ones", *known[-COMMITS:])


def _files(work: PartialWork) -> tuple[str, ...]:
    rest = work.files_total - len(work.files_touched)
    return (*work.files_touched, f"and {rest} more files") if rest > 0 else work.files_touched


def _list(lines: Sequence[str]) -> str:
    return _without_marks(bullets(lines or ["none"]))


def _below(lines: Sequence[str]) -> str:
    return " none" if not lines else "\n" + "\n".join(f"  - {' '.join(line.split())}" for line in lines)


def _without_marks(text: str) -> str:
    """An agent's text must not end the block that contains it."""
    return _MARKS.sub(r"(\1)", text)


def _line(text: str) -> str:
    return shorten(" ".join(redact(inert(encodable(text))).split()), DESCRIPTION)
