"""The checkpoints that `faber sync pull` fetched with a run: a resume writes them next to the nebula's files, once."""

from faber.git.programs import Git
from faber.model.documents import State, nebula_phases
from faber.nebula.phase.checkpoint import MAX_CHECKPOINT, Checkpoint, checkpoint_file, from_toml, load, save, validate
from faber.nebula.phase.phase_errors import InvalidCheckpoint


def take_checkpoints(state: State, directory: str, git: Git) -> None:
    """Write those of phases in progress that are newer than the ones here, and remove the refs that held them.

    A file that is not a valid checkpoint of its phase is ignored: the phase then starts over.
    """
    name = f"/nebulas/{state['run_id']}/checkpoints"
    for ref in [ref for ref in git.refs("refs/faber/remotes/") if ref.endswith(name)]:
        for phase, known in nebula_phases(state).items():
            if known["status"] == "in_progress":
                pulled = _read(git, ref, phase)
                here = _load(directory, phase)
                if pulled and pulled.event_id <= state["last_event_id"] and _is_newer(pulled, here):
                    save(directory, pulled)
        git.run("update-ref", "-d", ref)


def _is_newer(pulled: Checkpoint, here: Checkpoint | None) -> bool:
    return here is None or pulled.event_id > here.event_id


def _read(git: Git, ref: str, phase: str) -> Checkpoint | None:
    try:
        asked = git.run("cat-file", "blob", f"{ref}:{checkpoint_file(phase)}", codes=(0, 128), limit=MAX_CHECKPOINT)
        if asked.code or asked.cut:
            return None
        checkpoint = from_toml(asked.out)
        validate(checkpoint, checkpoint.git_sha)
    except InvalidCheckpoint:
        return None
    return checkpoint if checkpoint.phase_id == phase else None


def _load(directory: str, phase: str) -> Checkpoint | None:
    try:
        return load(directory, phase)
    except InvalidCheckpoint:
        return None
