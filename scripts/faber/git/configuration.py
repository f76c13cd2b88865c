"""How every git that faber starts is configured: one environment, one set of options.

The configuration of the repository and of the person must not start programs in faber's own work, change git's output
or prompt for anything:

* Hooks do not run. A project's checks are its filters, which run on every cycle and every merge; a hook would repeat
  them, could change what is committed, or prompt. Only a push of the person's own branch runs their hooks
  (`hooks=True`).
* Commits are not signed: signing may prompt for a passphrase.
* No garbage collection runs in the background. Submodules are not updated: in a new worktree their directories are
  empty, and a nebula's `setup` command may fill them.
* Clean and smudge filters run, LFS included: without them, files would be committed with other content. If the program
  of a filter is missing, the git command fails with its name.
"""

from collections.abc import Mapping

_SETTINGS = (
    # programs that the configuration names
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.askPass=",
    "protocol.ext.allow=never",  # a remote's address is not a program to run
    # what is printed
    "core.quotePath=false",
    "color.ui=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "log.showSignature=false",
    "diff.submodule=short",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.relative=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    # side effects
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "merge.verifySignatures=false",
    "merge.autoStash=false",
    "rerere.enabled=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "push.followTags=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    "push.pushOption=",
)
_COMMAND = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")

# A hook inherits variables that point git at the repository of the command it belongs to, and a person's environment
# may enable tracing or a pager. Of git's own variables only these are kept: its configuration, the person's identity,
# and the ssh program.
_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_VALUE_",
    "GIT_EXEC_PATH",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_SSH",
)
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",  # a question must not take the index lock from the agent's own git
    "GIT_PAGER": "cat",
    # No prompts: no terminal, no dialog, no passphrase, no editor.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}


def command(directory: str, *, hooks: bool = False) -> list[str]:
    """git with its options, in `directory`; the subcommand follows. `hooks` lets the person's own hooks run."""
    return [*_COMMAND, *(() if hooks else _NO_HOOKS), "-C", directory]


def environment(variables: Mapping[str, str], *, fetches: bool = True) -> dict[str, str]:
    """git's environment, made from `variables`. Without `fetches`, a partial clone does not fetch missing objects."""
    kept = {name: value for name, value in variables.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    return kept | _SET | ({} if fetches else {"GIT_NO_LAZY_FETCH": "1"})
