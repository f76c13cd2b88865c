"""Errors of moving runs between machines."""

from faber.errors import Exit, FaberError, Refused, UsageError


class SyncFailed(FaberError):
    """git is missing, or a git command that a sync needs failed; `error` is its message."""

    code = "sync_failed"
    recovery = "Run `git status` in the repository; repeating the command is harmless."


class RemoteUnreachable(FaberError):
    """The remote does not answer: no network, no such host, no such repository."""

    code = "remote_unreachable"
    recovery = "Check the network and `git remote -v`, then repeat: nothing was changed here."


class RemoteTimeout(RemoteUnreachable):
    """git exceeded its time limit and was killed, with everything it had started."""

    code = "remote_timeout"
    recovery = (
        "Repeat the command, with a longer --timeout if the run is large or the connection slow: repeating is harmless."
    )


class ObjectsMissing(FaberError):
    """The repository lacks objects that it should have: a partial fetch, or a pruned one."""

    code = "objects_missing"
    recovery = "Run `git fetch --refetch` on the remote (or clone again), then repeat."


class RemoteUnknown(UsageError):
    """The repository has no remote of that name."""

    code = "remote_unknown"
    recovery = "Name a configured remote with --remote, or add one: `git remote add origin URL`."


class RemoteAuthentication(RemoteUnreachable):
    """The remote asks for a name, a password or a key, and git cannot prompt for it."""

    code = "remote_auth"
    exit_code = Exit.REFUSED
    recovery = "Configure git to authenticate without a prompt (credential helper, SSH agent, token), then repeat."


class RunNotAtRemote(FaberError):
    """The remote has no run with that id."""

    code = "run_not_at_remote"
    recovery = "`faber sync status` lists the runs at the remote; `faber sync push RUN` pushes a run there."


class RemoteRejected(Refused):
    """The remote refused the run's ref: a hook, a rule, or missing permission."""

    code = "remote_rejected"
    recovery = "Allow pushes to refs/faber/runs/ at the remote; nothing was changed there."


class Diverged(Refused):
    """The run diverged between here and the remote; `local` and `remote` are each side's last event."""

    code = "diverged"


class BranchNotPushable(Refused):
    """The run's branch cannot be pushed, so the run is not pushed either; `reason` says why."""

    code = "branch_not_pushable"


class SecretInRun(Refused):
    """A file of the run holds what looks like a credential; `file` and `place` name it."""

    code = "secret_in_run"
    recovery = "Revoke the credential. The log cannot be changed: continue in a new run (`faber run rerun`)."


class RemoteRunInvalid(Refused):
    """The commit under the run's ref at the remote is not a valid run; nothing was replaced here."""

    code = "remote_run_invalid"
    recovery = "Look at the ref named with `git log` and `git ls-tree`; push a valid copy over it, or delete it there."


class BundleInvalid(Refused):
    """The file is not a bundle that `faber sync export` writes: its size, its header, or its objects."""

    code = "bundle_invalid"
    recovery = "Nothing was imported. Look at the file with `git bundle list-heads`; the job that made it kept its log."


class BundleTooLarge(FaberError):
    """The run and its branch are larger than a bundle may be."""

    code = "bundle_too_large"
    recovery = "Push from that machine (`faber sync push RUN`), or take large files out of the branch."


class ForeignEvent(Refused):
    """The bundle has an event that an agent alone may not add to a run."""

    code = "event_not_allowed"
    recovery = "Nothing was imported. What a person decides is recorded where they decide it; see docs/sync.md."


class LogRewritten(Refused):
    """The bundle's run is not the one here with new events at its end."""

    code = "log_rewritten"
    recovery = "Nothing was imported. Repeat the work from the run as it is at the remote."


class BranchNotImportable(Refused):
    """The bundle's branch cannot be taken; `reason` says why."""

    code = "branch_not_importable"
    recovery = "Nothing was imported. A person can look at the commits in the bundle, and push what is right."


class GuardedPath(Refused):
    """Commits of the bundle change files that decide what runs with permissions; `paths` names some."""

    code = "guarded_path"
    recovery = "Nothing was imported. A person makes this change, or allows it: `branches.agents_may_change`."
