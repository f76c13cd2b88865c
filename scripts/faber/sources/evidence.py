"""Checks the evidence that a step must produce; nothing the agent claims is trusted.

Commands run in the worktree and are trusted (they are part of the project's committed workflow), with a time limit
and bounded output, and without holding a lock.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from faber.git.asking import GitQuestion, ask
from faber.git.refs import branch_problem, is_commit
from faber.model.documents import Evidence
from faber.processes.runner import Program, run
from faber.text.safe_text import inert, redact

DEFAULT_TIMEOUT = 600  # seconds
KEPT_OUTPUT = 4_000  # characters, from the end, where errors are


class StepFacts(NamedTuple):
    """What the run knows about a step: the worktree, the branch, the commit at which the step first started, the
    artifacts by name, and whether an event of a given type was recorded since."""

    worktree: str
    branch: str | None
    base_commit: str | None
    artifacts: Mapping[str, object]
    recorded: Callable[[str], bool]


class EvidenceCheck(NamedTuple):
    """One piece of evidence checked. `detail` says what was found, or what is missing and how to provide it; `output`
    is the end of a command's output."""

    kind: str
    value: str | None
    met: bool
    detail: str
    output: str | None = None

    def as_dict(self) -> dict[str, object]:
        """The check as a JSON object, without `output` where there is none."""
        return {key: value for key, value in self._asdict().items() if value is not None or key == "value"}


def examine(evidence: list[Evidence], facts: StepFacts) -> list[EvidenceCheck]:
    """Each piece of evidence checked, in order."""
    checks: dict[str, Callable[[Evidence, StepFacts], EvidenceCheck]] = {
        "commit": _commit,
        "file": _file,
        "command": _command,
        "artifact": _artifact,
        "events": _events,
    }
    return [checks[piece["kind"]](piece, facts) for piece in evidence]


def _check(piece: Evidence, met: bool, detail: str, output: str | None = None) -> EvidenceCheck:
    return EvidenceCheck(piece["kind"], piece["value"], met, redact(inert(detail)), output)


def _commit(piece: Evidence, facts: StepFacts) -> EvidenceCheck:
    """A commit on the run's branch that changes the tree, made since the step first started."""
    ref = "HEAD"
    if facts.branch is not None:
        problem = branch_problem(facts.branch)
        if problem:
            return _check(piece, False, f"The run's branch name {problem}.")
        ref = f"refs/heads/{facts.branch}"
    head, base = _trees(facts.worktree, ref), _trees(facts.worktree, facts.base_commit)
    where = f"branch {facts.branch}" if facts.branch else "HEAD"
    if head is None:
        return _check(piece, False, f"There is no commit on {where}.")
    if base is None:
        return _check(piece, True, f"{where} is at {head[0][:12]}; it had no commit when the step started.")
    if head[0] == base[0]:
        return _check(piece, False, f"No commit was made on {where} since the step started (it is at {head[0][:12]}).")
    if not ask([GitQuestion(facts.worktree, ["merge-base", "--is-ancestor", base[0], head[0]])])[0].ok:
        return _check(
            piece, False, f"{where} does not descend from {base[0][:12]}, where it was when the step started."
        )
    if head[1] == base[1]:
        return _check(piece, False, f"The commits on {where} since {base[0][:12]} do not change the tree.")
    return _check(piece, True, f"{where} moved from {base[0][:12]} to {head[0][:12]}.")


def _trees(worktree: str, revision: str | None) -> tuple[str, str] | None:
    """(commit, tree) of a revision; None if it does not exist."""
    if revision is None or not (revision == "HEAD" or revision.startswith("refs/heads/") or is_commit(revision)):
        return None
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options"]
    commit, tree = ask([GitQuestion(worktree, [*arguments, f"{revision}^{{{kind}}}"]) for kind in ("commit", "tree")])
    return (commit.out.strip(), tree.out.strip()) if commit.ok and tree.ok else None


def _file(piece: Evidence, facts: StepFacts) -> EvidenceCheck:
    path = str(piece["value"])
    if _inside(facts.worktree, path):
        return _check(piece, True, f"{path} exists.")
    return _check(piece, False, f"The file {path} is not in the worktree.")


def _inside(worktree: str, path: str) -> bool:
    """True if `path` is a regular file of the worktree, links followed."""
    top = os.path.realpath(worktree)
    real = os.path.realpath(os.path.join(top, path))
    return real.startswith(top + os.sep) and os.path.isfile(real)


def _artifact(piece: Evidence, facts: StepFacts) -> EvidenceCheck:
    name = str(piece["value"])
    value = facts.artifacts.get(name)
    if isinstance(value, dict):
        value = value.get("value") or value.get("path") or value.get("url")
    if not isinstance(value, str) or not value:
        return _check(piece, False, f"The artifact {name} was not recorded (--artifact {name}=VALUE).")
    if re.fullmatch(r"https?://[^\s/]+\S*", value):
        return _check(piece, True, f"{name} is the address {value}.")
    if _inside(facts.worktree, value.lstrip("/")):
        return _check(piece, True, f"{name} is the file {value}.")
    if not branch_problem(value) and _trees(facts.worktree, f"refs/heads/{value}"):
        return _check(piece, True, f"{name} is the branch {value}.")
    if is_commit(value) and _trees(facts.worktree, value):
        return _check(piece, True, f"{name} is the commit {value}.")
    return _check(piece, False, f"{name} is {value!a:.200}, which is not a file, branch, commit or address here.")


def _events(piece: Evidence, facts: StepFacts) -> EvidenceCheck:
    kind = str(piece["value"])
    if facts.recorded(kind):
        return _check(piece, True, f"An event of type {kind} was recorded.")
    return _check(piece, False, f"No event of type {kind} was recorded since the step started.")


def _command(piece: Evidence, facts: StepFacts) -> EvidenceCheck:
    """Exit status 0 within the time limit; the command and everything it started are killed afterwards."""
    from tempfile import TemporaryFile

    line, limit = str(piece["value"]), piece.get("timeout", DEFAULT_TIMEOUT)
    if not os.path.isdir(facts.worktree):
        return _check(piece, False, f"`{line}` could not be started: there is no directory {facts.worktree}.")
    shell = ["/bin/sh", "-c", 'cd -- "$1" && exec /bin/sh -c "$2"', "sh", facts.worktree, line]
    # A file, not a pipe: processes that the command leaves running can neither block the reader nor fill the memory.
    with TemporaryFile() as said:
        result = run(Program(shell, os.environ, output=said.fileno()), seconds=limit, alone=True)
        said.seek(max(0, said.seek(0, os.SEEK_END) - 4 * KEPT_OUTPUT))
        output = redact(inert(said.read().decode("utf-8", "replace")))[-KEPT_OUTPUT:]
    if result.code == 0:
        return _check(piece, True, f"`{line}` passed.", output)
    if result.problem == "timeout":
        return _check(piece, False, f"`{line}` did not end within {limit} s.", output)
    if result.code is None:
        return _check(piece, False, f"`{line}` could not be started: {result.stderr}.")
    return _check(piece, False, f"`{line}` ended with status {result.code}.", output)
