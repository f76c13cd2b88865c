"""A phase's saved cycle state, valid for its branch at one commit: written, read, validated, parked."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass

from faber.errors import UnsafeFile
from faber.model.ids import MAX_REMEDIATION_ID, phase_id_problem
from faber.nebula.phase.cycle_state import CycleState, Stage, from_table, to_table
from faber.nebula.phase.phase_errors import CheckpointMoved, IncompatibleCheckpoint, InvalidCheckpoint
from faber.nebula.plan.toml_text import toml_text
from faber.store.files import make_directories, read_bytes, sync_directory, unwritable, write_atomic
from faber.store.strict import Malformed, toml_value

VERSION = 1
PREFIX = "checkpoint."
SUFFIX = ".toml"
MAX_CHECKPOINT = 4 * 1024 * 1024


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint file. `git_sha` is the head of the phase's branch that `state` belongs to; `event_id` is the
    newest event of the run at that time (0 if there is none); `created_at` (UTC) is informational."""

    phase_id: str
    nebula_name: str
    created_at: str
    git_sha: str
    event_id: int
    state: CycleState
    version: int = VERSION


# --- text ------------------------------------------------------------------------------------------


def to_toml(checkpoint: Checkpoint) -> str:
    """The text of the checkpoint file. Lone surrogates become U+FFFD."""
    return toml_text({"version": checkpoint.version, **vars(checkpoint), "state": to_table(checkpoint.state)})


def from_toml(text: str) -> Checkpoint:
    """Parse a checkpoint without validating it. Raises `InvalidCheckpoint`."""
    try:
        table = toml_value(text, MAX_CHECKPOINT)
    except Malformed as error:
        raise InvalidCheckpoint(f"The checkpoint is not TOML: {error.reason}.") from None
    version = table.get("version")
    if version != VERSION or isinstance(version, bool):
        raise IncompatibleCheckpoint(
            f"The checkpoint has version {str(version)[:40]}; this faber reads version {VERSION}.",
            version=version,
            known=VERSION,
        )
    texts = {name: table.get(name, "") for name in ("phase_id", "nebula_name", "created_at", "git_sha")}
    event_id, state = table.get("event_id", 0), table.get("state")
    if not all(isinstance(value, str) for value in texts.values()) or not isinstance(state, Mapping):
        raise InvalidCheckpoint("The checkpoint has no state, or a field has the wrong type.")
    if not isinstance(event_id, int) or isinstance(event_id, bool) or not texts["phase_id"]:
        raise InvalidCheckpoint("The checkpoint has no phase_id, or its event_id is not a number.")
    try:
        return Checkpoint(**texts, event_id=event_id, state=from_table(state))
    except ValueError as error:
        raise InvalidCheckpoint(f"The checkpoint is invalid: its state {error}.", phase=texts["phase_id"]) from None


# --- validation ------------------------------------------------------------------------------------


def validate(checkpoint: Checkpoint, current_sha: str) -> None:
    """Raise unless the phase can resume from `checkpoint` on a branch at `current_sha`.

    `IncompatibleCheckpoint` for another version; `InvalidCheckpoint` for a cycle or a cycle limit below 1, or an
    unknown stage; `CheckpointMoved`, with both commits, if the branch is at another commit.
    """
    state, name = checkpoint.state, checkpoint.phase_id
    if checkpoint.version != VERSION:
        message = f"The checkpoint of {name} has version {checkpoint.version}; this faber reads version {VERSION}."
        raise IncompatibleCheckpoint(message, version=checkpoint.version, known=VERSION, phase=name)
    if state.cycle < 1:
        raise InvalidCheckpoint(f"The checkpoint of {name} is in cycle {state.cycle}; cycles count from 1.", phase=name)
    if state.phase not in tuple(Stage) or state.max_cycles < 1:
        raise InvalidCheckpoint(f"The checkpoint of {name} is in no known stage of a cycle.", phase=name)
    if checkpoint.git_sha != current_sha:
        raise CheckpointMoved(
            f"The checkpoint of {name} belongs to commit {checkpoint.git_sha[:40]}, but its branch is at "
            f"{current_sha[:40] or 'no commit'}.",
            phase=name,
            expected=checkpoint.git_sha,
            actual=current_sha,
        )


# --- files -----------------------------------------------------------------------------------------


def checkpoint_file(phase_id: str) -> str:
    """The file name of a phase's checkpoint; raises `InvalidCheckpoint` for an invalid phase id."""
    reason = phase_id_problem(phase_id, MAX_REMEDIATION_ID)
    if reason:
        raise InvalidCheckpoint(f"The phase id {phase_id[:60]!a} {reason}.", phase=ascii(phase_id))
    return f"{PREFIX}{phase_id}{SUFFIX}"


def save(directory: str, checkpoint: Checkpoint) -> str:
    """Write `checkpoint` into `directory` atomically; returns its path. Raises `StoreUnwritable`."""
    path = os.path.join(directory, checkpoint_file(checkpoint.phase_id))
    write_atomic(path, to_toml(checkpoint).encode())
    return path


def load(directory: str, phase_id: str) -> Checkpoint | None:
    """The checkpoint of `phase_id` in `directory`; None if there is none.

    Raises `InvalidCheckpoint` if the file cannot be read or parsed, or belongs to another phase.
    """
    name = checkpoint_file(phase_id)
    try:
        checkpoint = from_toml(read_bytes(os.path.join(directory, name), MAX_CHECKPOINT).decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnsafeFile, UnicodeDecodeError) as error:
        message = f"The checkpoint of {phase_id} cannot be read: {error}."
        raise InvalidCheckpoint(message, phase=phase_id, file=name) from None
    except InvalidCheckpoint as error:
        error.fields |= {"phase": phase_id, "file": name}
        raise
    if checkpoint.phase_id != phase_id:
        message = f"{name} is the checkpoint of another phase: {checkpoint.phase_id[:60]!a}."
        raise InvalidCheckpoint(message, phase=phase_id, file=name)
    return checkpoint


def load_all(directory: str) -> dict[str, Checkpoint | InvalidCheckpoint]:
    """Every checkpoint in `directory` by phase, sorted; for an unreadable one, the error."""
    found: dict[str, Checkpoint | InvalidCheckpoint] = {}
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for name in names:
        phase_id = name.removeprefix(PREFIX).removesuffix(SUFFIX)
        if not (name.startswith(PREFIX) and name.endswith(SUFFIX) and phase_id):
            continue
        try:
            checkpoint = load(directory, phase_id)
        except InvalidCheckpoint as error:
            found[phase_id] = error
        else:
            if checkpoint is not None:
                found[phase_id] = checkpoint
    return found


def remove(directory: str, phase_id: str) -> bool:
    """Remove the checkpoint of a phase; true if there was one."""
    path = os.path.join(directory, checkpoint_file(phase_id))
    try:
        os.unlink(path)
        sync_directory(directory)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unwritable(error, path) from error
    return True


def park(directory: str, phase_id: str, into: str) -> str | None:
    """Move the checkpoint of a phase into the directory `into`, valid or not: see `set_aside`."""
    return set_aside(os.path.join(directory, checkpoint_file(phase_id)), into)


def set_aside(path: str, into: str) -> str | None:
    """Move a file into the directory `into`; returns its new path, None if there is no file.

    It gets the next free number (`name.1.toml`), so that an earlier one is never overwritten.
    """
    if not os.path.lexists(path):
        return None
    make_directories(into)
    name, suffix = os.path.splitext(os.path.basename(path))
    number = 1
    while True:
        target = os.path.join(into, f"{name}.{number}{suffix}")
        try:
            _move(path, target)
            sync_directory(into)
            sync_directory(os.path.dirname(path))
            return target
        except FileExistsError:
            number += 1
        except OSError as error:
            raise unwritable(error, target) from error


def _move(path: str, target: str) -> None:
    """Move without overwriting: link, then unlink. After a kill in between, both names exist."""
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        # Another file system, or one without hard links.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "exists", target) from None
        import shutil

        shutil.copy2(path, target, follow_symlinks=False)
    os.unlink(path)


def document(checkpoint: Checkpoint) -> dict[str, object]:
    """A checkpoint for display, without the outputs and the findings themselves."""
    state = checkpoint.state
    cycle, stage = state.next_stage
    return {
        "cycle": state.cycle,
        "max_cycles": state.max_cycles,
        "stage": state.phase.word,
        "next": {"cycle": cycle, "stage": stage.word},
        "cost_usd": state.total_cost_usd,
        "git_sha": checkpoint.git_sha,
        "created_at": checkpoint.created_at,
        "event_id": checkpoint.event_id,
        "findings": sum(finding.is_open for finding in state.findings),
    }
