"""Which shell commands of an agent are exactly one plain call of this plugin's own `bin/faber`.

Pure and strict: anything that is not certainly harmless gets no answer, and the client asks the person as usual.
"""

import re
from collections.abc import Collection

# What an agent may call without a permission prompt, by its first words. Nothing here speaks for a person.
ALLOWED = frozenset(
    {
        ("config", "show"),
        ("context",),
        ("doctor",),
        ("event", "emit"),
        ("event", "list"),
        ("feedback", "history"),
        ("feedback", "request"),
        ("feedback", "show"),
        ("next",),
        ("phase", "complete"),
        ("phase", "fail"),
        ("phase", "start"),
        ("run", "begin"),
        ("run", "complete"),
        ("run", "fail"),
        ("run", "init"),
        ("run", "list"),
        ("run", "resume"),
        ("run", "show"),
        ("session", "list"),
        ("session", "save"),
        ("status",),
        ("step", "complete"),
        ("step", "fail"),
        ("step", "start"),
        ("workflow", "list"),
        ("workflow", "show"),
        ("workflow", "validate"),
    }
)
# Only a person decides and grants autonomy; a workflow written by the agent could name commands that faber would run;
# another root is another project; a posted comment is public.
REFUSED_OPTIONS = ("--decide", "--workflow", "--root", "--autonomy", "--post")

_WORD = re.compile(
    r"""(?: [A-Za-z0-9_@%+:,./=-]+      # nothing the shell would read as more than itself
          | '[^'\x00-\x1f\x7f]*'        # a single-quoted string is literal
          | "[^"$`\\!\x00-\x1f\x7f]*"   # a double-quoted one is, without these
        )+""",
    re.VERBOSE | re.ASCII,
)
_PIECE = re.compile(r"""'([^']*)'|"([^"]*)"|([^'"]+)""")
MAX_COMMAND = 100_000


def words(command: str) -> list[str] | None:
    """The words of a simple command, or None where the shell might do anything but pass them on:
    operators, substitutions, redirections, globs, assignments, comments, several lines."""
    if len(command) > MAX_COMMAND:
        return None
    found, at, text = [], 0, command.strip(" ")
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            return None
        found.append("".join(a or b or c for a, b, c in _PIECE.findall(match[0])))
        at = match.end()
        if at < len(text):
            if text[at] != " ":
                return None
            while at < len(text) and text[at] == " ":
                at += 1
    return found


def approved_call(command: str, programs: Collection[str]) -> list[str] | None:
    """The arguments of `command` if it is one plain, harmless call of one of `programs`, else None.

    A program matches only by its exact path: another spelling (`..`, a link) could be another file by the time the
    shell resolves it.
    """
    parsed = words(command)
    if not parsed or parsed[0] not in programs:
        return None
    rest = parsed[1:]
    if rest[:1] == ["--exit-zero"]:
        rest = rest[1:]
    # click takes `--opt=value`; unambiguous beginnings of long options are not accepted by it.
    if any(word == option or word.startswith(option + "=") for word in rest for option in REFUSED_OPTIONS):
        return None
    return rest if tuple(rest[:1]) in ALLOWED or tuple(rest[:2]) in ALLOWED else None
