"""How moving runs between machines says no."""

from faber.errors import Exit, FaberError, Refused, RemoteUnreachable, UsageError


class RemoteUnknown(UsageError):
    """The remote named is none that the repository has configured."""

    code = "remote_unknown"
    recovery = "Name a configured remote with --remote, or add one: `git remote add origin URL`."


class RemoteAuthentication(RemoteUnreachable):
    """The remote wants a name, a password or a key, and nobody is there to be asked."""

    code = "remote_auth"
    exit_code = Exit.REFUSED
    recovery = "Let git reach the remote without asking (credential helper, key in the agent, token), then repeat."


class RunNotAtRemote(FaberError):
    """The remote has no run of that id."""

    code = "run_not_at_remote"
    recovery = "`faber sync status` lists the runs of the remote; `faber sync push RUN` brings one there."


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
