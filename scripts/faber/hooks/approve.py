"""Which shell commands of an agent are exactly one plain call of this plugin's own `bin/faber`.

Pure and strict: anything that is not certainly harmless gets no answer, and the client asks the person as usual.
"""

import re
from collections.abc import Collection

from faber.hooks.grants import FREE, READS_FILES, REFUSED_OPTIONS

_WORD = re.compile(
    r"""(?: [A-Za-z0-9_@%+:,./=-]+      # nothing the shell would read as more than itself
          | \\'                        # an apostrophe between two quoted strings
          | '[^'\x00-\x09\x0b-\x1f\x7f]*'        # a single-quoted string is literal
          | "[^"$`\\!\x00-\x09\x0b-\x1f\x7f]*"   # a double-quoted one is, without these
        )+""",
    re.VERBOSE | re.ASCII,
)
_PIECE = re.compile(r"""'([^']*)'|"([^"]*)"|\\(')|([^'"\\]+)""")
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
        found.append("".join("".join(pieces) for pieces in _PIECE.findall(match[0])))
        at = match.end()
        if at < len(text):
            if text[at] != " ":
                return None
            while at < len(text) and text[at] == " ":
                at += 1
    return found


def _outside(word: str) -> bool:
    """True if the word, or the value in `--option=value`, could be a path out of the current directory."""
    return ".." in word or any(part.startswith(("/", "~")) for part in word.split("=", 1))


def plain_call(command: str, programs: Collection[str]) -> list[str] | None:
    """The arguments of `command` if it is one plain call of one of `programs` that decides for nobody, else None.

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
    return rest


def harmless(arguments: list[str]) -> bool:
    """True if a call with these arguments is an agent's own to make."""
    called = {tuple(arguments[:1]), tuple(arguments[:2])}
    return bool(called & FREE) and not (called & READS_FILES and any(map(_outside, arguments[1:])))
