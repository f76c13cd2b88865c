"""Every way in which faber says no: one base class, stable codes, exit codes and a way out.

Two vocabularies live here because every package needs both:

* a `FaberError` ends a command. The CLI catches it once and prints `{"error": {...}}`.
* a `Notice` rides along with a result that is still worth having (a warning of the context, a
  finding of the doctor).
"""

from enum import IntEnum, StrEnum
from typing import Any, NamedTuple


class Exit(IntEnum):
    """Exit statuses of the command line."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PERSON_NEEDED = 3
    REFUSED = 4
    UNFINISHED = 5
    INTERRUPTED = 130


class Severity(StrEnum):
    """How bad a notice is, in the words of the context reconstitution protocol."""

    CRITICAL = "CRITICAL"
    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"


class Notice(NamedTuple):
    """Something a person or an agent should know beside a result.

    `code` is stable, `recovery` says what to do (empty where nothing needs doing), `source` names
    what the notice is about: a file, a branch, an issue.
    """

    code: str
    severity: Severity
    message: str
    recovery: str = ""
    source: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The notice as a JSON object."""
        return self._asdict() | {"severity": self.severity.value}


class FaberError(Exception):
    """Base of all errors that end a command.

    Subclasses fix `code`, `exit_code` and a default `recovery`; `fields` carry what a program needs
    (ids, paths, the known names) so that nobody has to parse the message.
    """

    code = "failed"
    exit_code = Exit.FAILED
    recovery = ""

    def __init__(self, message: str, *, recovery: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        if recovery is not None:
            self.recovery = recovery
        self.fields = fields

    def as_dict(self) -> dict[str, Any]:
        """`{"code", "message", "recovery", …fields}`, the value of `error` on stdout."""
        own = {"code": self.code, "message": self.message, "recovery": self.recovery}
        return {**own, **{name: value for name, value in self.fields.items() if name not in own}}


class InternalError(FaberError):
    """A bug in faber itself."""

    code = "internal"
    recovery = "This is a bug in faber; FABER_DEBUG=1 shows where. What was acknowledged before is safe."


# --- usage: exit 2 ---------------------------------------------------------------------------------


class UsageError(FaberError):
    """The arguments do not make sense; nothing was read or written."""

    code = "usage"
    exit_code = Exit.USAGE
    recovery = "Run the command with --help."


class InvalidRunId(UsageError):
    """A run id that could leave its directory, confuse git, or hide in a listing."""

    code = "invalid_run_id"
    recovery = (
        "Use one to three segments of letters, digits, '.', '_' and '-' joined by '/', "
        "each starting with a letter or digit."
    )


class InvalidInput(UsageError):
    """Text from a person or an agent that is not what the command takes."""

    code = "invalid_input"
    recovery = "Correct the input and run the command again; nothing was recorded."


class NotAnOption(InvalidInput):
    """An answer that is none of the request's options."""

    code = "not_an_option"
    recovery = "Answer with one of the options; nothing was recorded."


class UnknownEventType(UsageError):
    """An event type that no part of faber registered."""

    code = "unknown_event_type"
    recovery = "Use one of the known types."


class UnknownPlace(UsageError):
    """A phase or step that the run's plan does not have."""

    code = "unknown_step"
    recovery = "Use one of the known phases and steps; `faber run show RUN` prints the plan."


class UnknownWorkflow(UsageError):
    """A workflow definition that is neither built in nor the project's."""

    code = "unknown_workflow"
    recovery = "Use one of the known workflows, or the path of a definition inside the repository."


class InvalidDefinition(UsageError):
    """A workflow definition or configuration file that its schema refuses."""

    code = "invalid_definition"
    recovery = "Correct the file at the place named; `faber workflow validate` checks it."


class InvalidConfiguration(UsageError):
    """`config.yaml` is malformed or has an unknown key."""

    code = "invalid_config"
    recovery = "Correct .fractary/faber/config.yaml; `faber config show` checks it."


# --- not found and damaged: exit 1 -----------------------------------------------------------------


class RunNotFound(FaberError):
    """No run of that id."""

    code = "run_not_found"
    recovery = "Run `faber run list` for the known runs, or `faber run init` to start a new one."


class AmbiguousRun(UsageError):
    """A partial run id that fits several runs."""

    code = "ambiguous_run"
    recovery = "Use more of the run id."


class StateMissing(FaberError):
    """The run directory is there, its state.json is not."""

    code = "state_missing"
    recovery = "Run `faber repair RUN` to rebuild it from the events, or start a new run."


class StateCorrupt(FaberError):
    """state.json cannot be read as a state; it is left exactly as it is."""

    code = "state_corrupt"
    recovery = "Run `faber doctor RUN` to see what is wrong and `faber repair RUN` to rebuild it from the events."


class InvalidStatus(StateCorrupt):
    """state.json claims a status that no run has."""

    code = "invalid_status"


class MetadataUnreadable(FaberError):
    """metadata.json or plan.json is missing or damaged."""

    code = "metadata_unreadable"
    recovery = "Restore the file from a backup or another clone; it never changes after `faber run init`."


class EventUnreadable(FaberError):
    """An event that must be folded cannot be read."""

    code = "event_unreadable"
    recovery = "Run `faber doctor RUN`; the damaged file is kept."


class UnsafeFile(FaberError):
    """A link, a pipe or a device where a regular file of the store belongs, or a file past its limit."""

    code = "unsafe_file"
    recovery = "Look at the path named; faber opens only regular files inside its store."


class StoreUnwritable(FaberError):
    """The operating system refused a write; what was there before is still there."""

    code = "store_unwritable"
    recovery = "Free space or fix permissions, then repeat the command: repeating is harmless."


class DamageUnrepairable(FaberError):
    """What was lost cannot be told from the events; nothing was invented."""

    code = "unrepairable"
    recovery = "Restore the files named from a backup or another clone."


class NoRepository(FaberError):
    """The command needs a git repository."""

    code = "no_repository"
    recovery = "Run it inside a git repository, or pass --root."


class InvalidNebula(FaberError):
    """A directory that cannot be worked through as a nebula; `problems` says all that is wrong."""

    code = "invalid_nebula"
    recovery = "Correct the files named; `faber nebula validate DIR` checks them."


class UnknownPhase(FaberError):
    """A phase that the nebula does not have."""

    code = "unknown_phase"
    recovery = "Use one of the nebula's phases; `faber nebula plan DIR` lists them."


class NebulaStateUnreadable(FaberError):
    """nebula.state.toml cannot be read; it is left as it is."""

    code = "nebula_state_unreadable"
    recovery = "Restore the file, or move it away: it is written again from the run's events."


class InvalidCheckpoint(FaberError):
    """A checkpoint that cannot be gone on from; it is parked, and the phase starts afresh."""

    code = "invalid_checkpoint"
    recovery = "Nothing needs doing: the phase starts afresh with what was done as partial work."


class IncompatibleCheckpoint(InvalidCheckpoint):
    """A checkpoint of another format."""

    code = "checkpoint_version"


class CheckpointMoved(InvalidCheckpoint):
    """The phase's branch is not at the commit that the checkpoint belongs to."""

    code = "checkpoint_sha_mismatch"


class GitMissing(FaberError):
    """There is no git program, or GitPython cannot be loaded."""

    code = "git_missing"
    recovery = "Install git, or put it on the PATH."


class GitFailed(FaberError):
    """A git program refused or failed; `error` is what it said."""

    code = "git_failed"
    recovery = "Run `git status` in the directory named; repeating the command is harmless."


class GitTimeout(GitFailed):
    """A git program did not end in time and was ended, with everything it had started."""

    code = "git_timeout"
    recovery = "Repeat the command when the disk is less busy."


class TreeLost(FaberError):
    """A phase's worktree is gone, or no longer one of this repository."""

    code = "tree_lost"
    recovery = "Resume the nebula: the worktree is made again from the phase's branch, which keeps what was committed."


class EmbeddedRepository(FaberError):
    """There is a git repository inside a phase's worktree; git would record that it is there, not what is in it."""

    code = "embedded_repository"
    recovery = "Delete the .git of the directories named (or the directories): their files are then committed."


class GitUnfinished(FaberError):
    """A merge with unresolved conflicts, or a rebase or the like, stands in the middle."""

    code = "git_unfinished"
    recovery = "Resolve the files named, or end the operation."


class MergeConflict(FaberError):
    """Two lines of work changed the same places; `files` names them. Nothing was changed."""

    code = "merge_conflict"
    recovery = "Merge the integration branch into the phase's branch and resolve the files named."


class MergeContention(FaberError):
    """The branch moved each time before the merge could be published."""

    code = "merge_contention"
    recovery = "Repeat: nothing was changed."


# --- a person is needed: exit 3 --------------------------------------------------------------------


class AwaitingFeedback(FaberError):
    """The run waits for a person's answer; only that answer opens the way."""

    code = "awaiting_feedback"
    exit_code = Exit.PERSON_NEEDED
    recovery = "A person answers the open request; `faber context RUN` shows it."


class GateClosed(FaberError):
    """The run has come to a gate that no person has approved."""

    code = "gate_closed"
    exit_code = Exit.PERSON_NEEDED


class EvidenceMissing(FaberError):
    """What the step has to leave behind is not there."""

    code = "evidence_missing"
    exit_code = Exit.REFUSED


class ProtectedBranch(FaberError):
    """Work would land on a branch that agents may not commit to."""

    code = "protected_branch"
    exit_code = Exit.REFUSED
    recovery = "Create a branch for the run and record it: `faber event emit RUN --type branch_create`."


# --- refused: exit 4 -------------------------------------------------------------------------------


class Refused(FaberError):
    """Understood, and not done."""

    code = "refused"
    exit_code = Exit.REFUSED


class IllegalTransition(Refused):
    """The run, phase or step is not in a state that allows this."""

    code = "illegal_transition"


class AlreadyAnswered(IllegalTransition):
    """Somebody's answer to the request is recorded; it stands."""

    code = "already_answered"
    recovery = "The first answer counts; `faber feedback history RUN` shows it."


class OutOfOrder(Refused):
    """A step other than the next unfinished one."""

    code = "out_of_order"


class StepsUnfinished(Refused):
    """A phase or run that still has unfinished steps cannot be completed."""

    code = "steps_unfinished"
    recovery = "Complete the steps named, or let a person skip them."


class RunExists(Refused):
    """A run of this id, of a prefix of it, or under it, is already there."""

    code = "run_exists"
    recovery = "Choose another --run-id."


class ForeignRun(Refused):
    """A run that another tool made is a read-only view."""

    code = "foreign_run"
    recovery = "Run `faber run adopt RUN` first; the other tool's files are kept."


class PersonRequired(Refused):
    """A command that speaks for a person was called by an agent."""

    code = "person_required"
    recovery = "A person runs this in a terminal of their own, outside the agent's session."


class HasOwnCommand(Refused):
    """An event type that only its own command may record."""

    code = "has_own_command"


class Locked(Refused):
    """Another process holds the run's lock and did not let go in time."""

    code = "locked"
    recovery = "Wait for the holder named, or end it; faber never breaks a lock."


class KeyReused(Refused):
    """An idempotency key that was given to something else."""

    code = "key_reused"
    recovery = "Use another --key; nothing was recorded."


class Stale(Refused):
    """The run moved on since it was read."""

    code = "stale"
    recovery = "Read the run again and repeat the command if it still makes sense."


class NewerSchema(Refused):
    """Written by a newer faber: it is read as far as possible and never written."""

    code = "newer_schema"
    recovery = "Update faber."


class RepositoryUnusable(Refused):
    """The repository is bare, has no commits, or stands in the middle of something; `reason` says which."""

    code = "repository_unusable"


class BranchInTheWay(Refused):
    """A branch of the repository's own stands where faber's would be made, or one of faber's is checked out."""

    code = "branch_in_the_way"


class TreeDirty(Refused):
    """A tree that has to be clean has uncommitted changes; `files` names the first of them."""

    code = "tree_dirty"
    recovery = "Commit, stash or remove the files named."


class TreeInUse(Refused):
    """A living process works in this tree."""

    code = "tree_in_use"
    recovery = "Wait for the process named, or end it."


# --- runs on other machines ------------------------------------------------------------------------


class SyncFailed(FaberError):
    """A git program that a sync needs is missing, refused or failed; `error` is what it said."""

    code = "sync_failed"
    recovery = "See what git says in the repository; repeating the command is harmless."


class RemoteUnknown(UsageError):
    """The remote named is none that the repository has configured."""

    code = "remote_unknown"
    recovery = "Name a configured remote with --remote, or add one: `git remote add origin URL`."


class RemoteUnreachable(FaberError):
    """The remote does not answer: no network, no such host, no such repository."""

    code = "remote_unreachable"
    recovery = "Check the network and `git remote -v`, then repeat: nothing was changed here."


class RemoteTimeout(RemoteUnreachable):
    """git did not end in time and was ended, with everything it had started."""

    code = "remote_timeout"
    recovery = "Repeat it, with a longer --timeout if the run is large or the line is slow: repeating is harmless."


class RemoteAuthentication(RemoteUnreachable):
    """The remote wants a name, a password or a key, and nobody is there to be asked."""

    code = "remote_auth"
    exit_code = Exit.REFUSED
    recovery = "Let git reach the remote without asking (credential helper, key in the agent, token), then repeat."


class RunNotAtRemote(FaberError):
    """The remote has no run of that id."""

    code = "run_not_at_remote"
    recovery = "`faber sync status` lists the runs of the remote; `faber sync push RUN` brings one there."


class ObjectsMissing(FaberError):
    """The repository lacks objects that it should have: a partial fetch, or a pruned one."""

    code = "objects_missing"
    recovery = "Run `git fetch --refetch` on the remote (or clone anew), then repeat."


class RemoteRejected(Refused):
    """The remote refused the run's ref: a hook, a rule, or missing permission."""

    code = "remote_rejected"
    recovery = "Let the remote accept pushes to refs/faber/runs/ from you; nothing was changed there."


class Diverged(Refused):
    """Here and at the remote the run went on differently; `local` and `remote` name each side's last event."""

    code = "diverged"


class BranchNotPushable(Refused):
    """The run's branch cannot go along with it, so the run does not go either; `reason` says why."""

    code = "branch_not_pushable"


class SecretInRun(Refused):
    """A file of the run holds what looks like a credential; `file` and `place` name it."""

    code = "secret_in_run"
    recovery = "Revoke the credential. What the log holds stays there: go on in a new run (`faber run rerun`)."


class RemoteRunInvalid(Refused):
    """What the remote has under the run's ref is no run that can be trusted; nothing was replaced here."""

    code = "remote_run_invalid"
    recovery = "Look at the ref named with `git log` and `git ls-tree`; push a sound copy over it, or delete it there."
