"""Whether what a step must leave behind is really there: looked at, never believed.

Commands run in the worktree as the project's own (they are part of its committed workflow), with a time
limit and bounded output, and no lock is held while they do.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

from faber.git.refs import branch_problem, is_commit
from faber.model.documents import Evidence
from faber.model.text import inert, redact
from faber.processes.runner import Question, ask

DEFAULT_TIMEOUT = 600  # seconds
KEPT_OUTPUT = 4_000  # characters, from the end: errors are there


class Facts(NamedTuple):
    """What the run knows: where the work is, its branch, the commit when the step first began, its
    artifacts by name, and whether an event of a type was recorded since."""

    worktree: str
    branch: str | None
    base_commit: str | None
    artifacts: dict[str, Any]
    recorded: Callable[[str], bool]


class Verdict(NamedTuple):
    """One piece of evidence looked at. `detail` says what was found, or what is missing and how to get it;
    `output` is a command's, its end."""

    kind: str
    value: str | None
    met: bool
    detail: str
    output: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The verdict as a JSON object, without an output where there is none."""
        return {key: value for key, value in self._asdict().items() if value is not None or key == "value"}


def examine(evidence: list[Evidence], facts: Facts) -> list[Verdict]:
    """A verdict on every piece, in order."""
    checks: dict[str, Callable[[Evidence, Facts], Verdict]] = {
        "commit": _commit,
        "file": _file,
        "command": _command,
        "artifact": _artifact,
        "events": _events,
    }
    return [checks[piece["kind"]](piece, facts) for piece in evidence]


def _verdict(piece: Evidence, met: bool, detail: str, output: str | None = None) -> Verdict:
    return Verdict(piece["kind"], piece["value"], met, redact(inert(detail)), output)


def _commit(piece: Evidence, facts: Facts) -> Verdict:
    """A commit on the run's branch that changes the tree, made since the step first began."""
    ref = "HEAD"
    if facts.branch is not None:
        problem = branch_problem(facts.branch)
        if problem:
            return _verdict(piece, False, f"The run's branch name {problem}.")
        ref = f"refs/heads/{facts.branch}"
    head, base = _trees(facts.worktree, ref), _trees(facts.worktree, facts.base_commit)
    where = f"branch {facts.branch}" if facts.branch else "HEAD"
    if head is None:
        return _verdict(piece, False, f"There is no commit on {where}.")
    if base is None:
        return _verdict(piece, True, f"{where} is at {head[0][:12]}; it had no commit when the step began.")
    if head[0] == base[0]:
        return _verdict(piece, False, f"No commit was made on {where} since the step began (it is at {head[0][:12]}).")
    if not ask([Question(facts.worktree, ["merge-base", "--is-ancestor", base[0], head[0]])])[0].ok:
        return _verdict(piece, False, f"{where} does not go on from {base[0][:12]}, where it was when the step began.")
    if head[1] == base[1]:
        return _verdict(piece, False, f"The commits on {where} since {base[0][:12]} change nothing in the tree.")
    return _verdict(piece, True, f"{where} moved from {base[0][:12]} to {head[0][:12]}.")


def _trees(worktree: str, revision: str | None) -> tuple[str, str] | None:
    """(commit, tree) of a revision; None where there is none."""
    if revision is None or not (revision == "HEAD" or revision.startswith("refs/heads/") or is_commit(revision)):
        return None
    arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options"]
    commit, tree = ask([Question(worktree, [*arguments, f"{revision}^{{{kind}}}"]) for kind in ("commit", "tree")])
    return (commit.out.strip(), tree.out.strip()) if commit.ok and tree.ok else None


def _file(piece: Evidence, facts: Facts) -> Verdict:
    path = str(piece["value"])
    if _inside(facts.worktree, path):
        return _verdict(piece, True, f"{path} is there.")
    return _verdict(piece, False, f"The file {path} is not in the worktree.")


def _inside(worktree: str, path: str) -> bool:
    """True if `path` is a regular file of the worktree, links followed."""
    top = os.path.realpath(worktree)
    real = os.path.realpath(os.path.join(top, path))
    return real.startswith(top + os.sep) and os.path.isfile(real)


def _artifact(piece: Evidence, facts: Facts) -> Verdict:
    name = str(piece["value"])
    value = facts.artifacts.get(name)
    if isinstance(value, dict):
        value = value.get("value") or value.get("path") or value.get("url")
    if not isinstance(value, str) or not value:
        return _verdict(piece, False, f"The artifact {name} was not recorded (--artifact {name}=VALUE).")
    if re.fullmatch(r"https?://[^\s/]+\S*", value):
        return _verdict(piece, True, f"{name} is the address {value}.")
    if _inside(facts.worktree, value.lstrip("/")):
        return _verdict(piece, True, f"{name} is the file {value}.")
    if not branch_problem(value) and _trees(facts.worktree, f"refs/heads/{value}"):
        return _verdict(piece, True, f"{name} is the branch {value}.")
    if is_commit(value) and _trees(facts.worktree, value):
        return _verdict(piece, True, f"{name} is the commit {value}.")
    return _verdict(piece, False, f"{name} is {value!a:.200}, which is no file, branch, commit or address here.")


def _events(piece: Evidence, facts: Facts) -> Verdict:
    kind = str(piece["value"])
    if facts.recorded(kind):
        return _verdict(piece, True, f"An event of type {kind} was recorded.")
    return _verdict(piece, False, f"No event of type {kind} was recorded since the step began.")


def _command(piece: Evidence, facts: Facts) -> Verdict:
    """Exit status 0 within the time limit; the command and all it started are ended at the limit."""
    from tempfile import TemporaryFile

    line, limit = str(piece["value"]), piece.get("timeout", DEFAULT_TIMEOUT)
    # A file and not a pipe: what the command leaves running cannot make anybody wait, nor fill the memory.
    with TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                cwd=facts.worktree,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return _verdict(piece, False, f"`{line}` could not be started: {error.strerror}.")
        try:
            status = process.wait(timeout=limit)
            ended = f"ended with status {status}"
        except subprocess.TimeoutExpired:
            status, ended = -1, f"did not end within {limit} s"
        finally:
            _end_group(process)
        said.seek(max(0, said.seek(0, os.SEEK_END) - 4 * KEPT_OUTPUT))
        output = redact(inert(said.read().decode("utf-8", "replace")))[-KEPT_OUTPUT:]
    if status == 0:
        return _verdict(piece, True, f"`{line}` passed.", output)
    return _verdict(piece, False, f"`{line}` {ended}.", output)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End the command and what it left running in its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
