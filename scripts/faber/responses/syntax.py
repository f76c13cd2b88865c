"""The tokens of RFC 8259 that can be cut short, and the problem of a text that cannot be continued."""

import re
from typing import NamedTuple

WHITESPACE = re.compile(r"[ \t\n\r]*")
SPACES = " \t\n\r"
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# Every prefix of a number, complete numbers included.
NUMBER_PREFIX = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?[eE][+-]?[0-9]*)?)?")
# What `json` leaves unread of a number that is cut in its fraction or exponent.
NUMBER_REST = re.compile(r"\.|[eE][+-]?")
NUMBER_CHARACTERS = "0123456789+-.eE"


class SyntaxProblem(NamedTuple):
    """Why no continuation can turn a text into JSON, and at which character index."""

    message: str
    position: int

    def as_dict(self) -> dict[str, str | int]:
        """The problem as a JSON object."""
        return {"message": self.message, "position": self.position}


def literal_prefix(word: str) -> bool:
    """True if `word` is a prefix of true, false or null; the empty word is one."""
    return "true".startswith(word) or "false".startswith(word) or "null".startswith(word)


_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_CUT_LOW_SURROGATE = re.compile(r"\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?")


def uncertain_in_string(text: str, begin: int) -> int:
    r"""How many characters at the end of `text` are uncertain, if it is cut inside a string.

    `begin` is where the string's content begins. Uncertain are `\`, `\u` with fewer than four digits, and the first
    half of a surrogate pair with what there is of the second. `text` has no malformed escape. Reads the last twelve
    characters and a run of backslashes before them.
    """
    end = len(text)
    if end > begin and "\ud800" <= text[-1] <= "\udbff":
        return 1
    last = text.rfind("\\", max(begin, end - 6))
    if last < 0 or not _begins_escape(text, last, begin):
        return 0
    if _HIGH_SURROGATE.fullmatch(text, last):
        return end - last
    if not _CUT_ESCAPE.fullmatch(text, last):
        return 0
    before = last - 6
    if (
        before >= begin
        and _CUT_LOW_SURROGATE.fullmatch(text, last)
        and _HIGH_SURROGATE.match(text, before)
        and _begins_escape(text, before, begin)
    ):
        return end - before
    return end - last


def _begins_escape(text: str, at: int, begin: int) -> bool:
    """True if the backslash at `at` is not itself escaped: it ends a run of odd length."""
    run = at
    while run > begin and text[run - 1] == "\\":
        run -= 1
    return (at - run) % 2 == 0
