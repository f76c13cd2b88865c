"""An incremental JSON scanner: it reads text in pieces, and no character twice.

It keeps a stack of open brackets instead of recursing, and leaves runs of string characters to the regular expression
engine. It reads RFC 8259 and nothing more: no NaN, no comments, no byte order mark.
"""

import re

from faber.responses.syntax import NUMBER, NUMBER_PREFIX, WHITESPACE, SyntaxProblem, literal_prefix

# What may come next. The order matters: a value may begin at the first two, a string at the first four.
_VALUE, _FIRST_VALUE, _FIRST_KEY, _KEY, _COLON, _COMMA, _END = range(7)
_PLACES = (
    "a value",
    "a value or ']'",
    "a key or '}'",
    "a key",
    "':'",
    "',' or the closing bracket",
    "the end of the text",
)

_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_CHARACTERS = re.compile(rf'[^"\\\x00-\x1f]*+(?>(?:{_ESCAPE}[^"\\\x00-\x1f]*+)*)')
_ESCAPE_PREFIX = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_WORD = re.compile(r"[-+.\w]+", re.ASCII)
_LITERALS = frozenset({"true", "false", "null"})


class JsonScanner:
    """The state of a JSON text after everything that was fed so far.

    `token_end` is where the last complete token ends, `length` how many characters were fed. `pending` is a number,
    literal or escape at the very end that may continue. `problem` says why no continuation is JSON, or is None.
    """

    __slots__ = ("_expected", "_key", "_stack", "in_string", "length", "pending", "problem", "token_end")

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._expected = _VALUE
        self._key = False
        self.in_string = False
        self.length = 0
        self.pending = ""
        self.problem: SyntaxProblem | None = None
        self.token_end = 0

    def copy(self) -> "JsonScanner":
        """An independent scanner in the same state."""
        made = JsonScanner()
        made._stack = self._stack.copy()
        made._expected, made._key, made.in_string = self._expected, self._key, self.in_string
        made.length, made.pending = self.length, self.pending
        made.problem, made.token_end = self.problem, self.token_end
        return made

    def certain(self, end: int) -> "JsonScanner":
        """A copy that has read up to `end` only.

        After `end`, only white space and the pending piece were fed, or inside a string, half of a surrogate pair.
        """
        made = self.copy()
        made.length, made.pending = end, ""
        return made

    @property
    def value_end(self) -> int | None:
        """Where the complete value ends, whatever follows it; None if it is not complete."""
        return self.token_end if self._expected == _END else None

    @property
    def status(self) -> str:
        """`complete`, `truncated` (something can follow that makes it JSON) or `malformed`."""
        if self.problem is not None:
            return "malformed"
        if self._expected == _END or (self.lone_number and NUMBER.fullmatch(self.pending)):
            return "complete"
        return "truncated"

    @property
    def lone_number(self) -> bool:
        """True if the whole text is a number, so that only the source knows whether it was cut."""
        return not self._stack and not self.in_string and self.pending[:1] in tuple("-0123456789")

    def feed(self, text: str) -> "JsonScanner":
        """Read `text` as well; returns the scanner itself. A malformed text stays malformed."""
        base = self.length - len(self.pending)
        text, self.pending = self.pending + text, ""
        self.length = base + len(text)
        at, end = 0, len(text)
        while at < end and self.problem is None:
            if self.in_string:
                at = self._string(text, at, base)
                continue
            at = WHITESPACE.match(text, at).end()  # type: ignore[union-attr]  # it also matches nothing
            if at < end:
                at = self._token(text, at, base)
        return self

    def _string(self, text: str, at: int, base: int) -> int:
        at = _CHARACTERS.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return at
        if text[at] == '"':
            self.in_string = False
            if self._key:
                self._key = False
                self._expected = _COLON
            else:
                self._after_value()
            self.token_end = base + at + 1
            return at + 1
        if _ESCAPE_PREFIX.fullmatch(text, at):
            self.pending = text[at:]
            return len(text)
        return self._fail("Invalid escape" if text[at] == "\\" else "Invalid control character in a string", base + at)

    def _token(self, text: str, at: int, base: int) -> int:
        character, expected = text[at], self._expected
        if character == '"' and expected != _COLON and expected < _COMMA:
            self._key = expected in (_FIRST_KEY, _KEY)
            self.in_string = True
            return at + 1
        if character in "[{" and expected <= _FIRST_VALUE:
            self._stack.append(character)
            self._expected = _FIRST_VALUE if character == "[" else _FIRST_KEY
        elif (character == "]" and self._closes("[", _FIRST_VALUE)) or (
            character == "}" and self._closes("{", _FIRST_KEY)
        ):
            self._stack.pop()
            self._after_value()
        elif character == "," and expected == _COMMA:
            self._expected = _VALUE if self._stack[-1] == "[" else _KEY
        elif character == ":" and expected == _COLON:
            self._expected = _VALUE
        elif expected <= _FIRST_VALUE:
            return self._word(text, at, base)
        else:
            return self._fail(f"Expected {_PLACES[expected]}", base + at)
        self.token_end = base + at + 1
        return at + 1

    def _closes(self, opening: str, empty: int) -> bool:
        return self._expected == empty or (self._expected == _COMMA and self._stack[-1] == opening)

    def _word(self, text: str, at: int, base: int) -> int:
        found = _WORD.match(text, at)
        word = found[0] if found else ""
        end = at + len(word)
        if word in _LITERALS or (end < len(text) and NUMBER.fullmatch(word)):
            self._after_value()
            self.token_end = base + end
            return end
        if end == len(text) and (NUMBER_PREFIX.fullmatch(word) or literal_prefix(word)):
            self.pending = word
            return end
        return self._fail(f"Expected {_PLACES[self._expected]}", base + at)

    def _after_value(self) -> None:
        self._expected = _COMMA if self._stack else _END

    def _fail(self, message: str, position: int) -> int:
        self.problem = SyntaxProblem(message, position)
        return position
