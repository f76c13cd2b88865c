"""A second opinion on JSON: RFC 8259 one character at a time, written from its grammar and nothing of faber's.

Slow, without regular expressions and without the `json` module. For every prefix of a text it knows whether the prefix
is complete, can be continued, or is lost; and for a prefix that can be continued, where its tokens end.
"""

HEX = "0123456789abcdefABCDEF"
DIGITS = "0123456789"
SPACE = " \t\n\r"


class Reading:
    """The grammar as a machine: `step` takes one character; `alive` says whether some continuation is JSON."""

    def __init__(self):
        self.open = []  # "[" and "{"
        self.wants = "value"
        self.token = None  # what is being read: "string", "number" or a literal's name
        self.inner = ""  # where in the token
        self.alive = True
        self.at = 0
        self.ended = 0  # where the last finished token ends

    def step(self, c):
        """Take the next character."""
        if self.alive:
            self._take(c)
        self.at += 1

    @property
    def complete(self):
        """True if what was read is a JSON text."""
        if not self.alive:
            return False
        if self.token == "number":
            return not self.open and self.inner in ("zero", "digits", "fraction", "exponent")
        return self.token is None and self.wants == "nothing"

    def _take(self, c):
        if self.token == "string":
            self._in_string(c)
        elif self.token == "number":
            self._in_number(c)
        elif self.token:
            self._in_literal(c)
        elif c not in SPACE:
            self._begin(c)

    def _end_token(self, *, with_this=True):
        self.ended = self.at + (1 if with_this else 0)
        self.token = None

    def _value_done(self):
        self.wants = "more" if self.open else "nothing"

    def _begin(self, c):
        value = self.wants in ("value", "value or ]")
        if c == '"' and (value or self.wants in ("key", "key or }")):
            self.key = not value
            self.token, self.inner = "string", ""
        elif c in "[{" and value:
            self.open.append(c)
            self.wants = "value or ]" if c == "[" else "key or }"
            self._end_token()
        elif (c == "]" and self.open[-1:] == ["["] and self.wants in ("value or ]", "more")) or (
            c == "}" and self.open[-1:] == ["{"] and self.wants in ("key or }", "more")
        ):
            self.open.pop()
            self._end_token()
            self._value_done()
        elif c == "," and self.wants == "more":
            self.wants = "value" if self.open[-1] == "[" else "key"
            self._end_token()
        elif c == ":" and self.wants == "colon":
            self.wants = "value"
            self._end_token()
        elif c in "-0123456789" and value:
            self.token = "number"
            self.inner = {"-": "minus", "0": "zero"}.get(c, "digits")
        elif c in "tfn" and value:
            self.token, self.inner = {"t": "true", "f": "false", "n": "null"}[c], 1
        else:
            self.alive = False

    def _in_string(self, c):
        if self.inner == "":
            if c == '"':
                self._end_token()
                if self.key:
                    self.wants = "colon"
                else:
                    self._value_done()
            elif c == "\\":
                self.inner = "\\"
            elif ord(c) < 0x20:
                self.alive = False
        elif self.inner == "\\":
            if c == "u":
                self.inner = "u"
            elif c in '"\\/bfnrt':
                self.inner = ""
            else:
                self.alive = False
        elif c in HEX:
            self.inner = "" if len(self.inner) == 4 else self.inner + "x"
        else:
            self.alive = False

    def _in_number(self, c):
        digit = c in DIGITS
        after = None
        match self.inner:
            case "minus":
                after = "zero" if c == "0" else "digits" if digit else None
            case "zero" | "digits":
                after = "digits" if digit and self.inner == "digits" else {".": "point", "e": "e", "E": "e"}.get(c)
            case "point":
                after = "fraction" if digit else None
            case "fraction":
                after = "fraction" if digit else "e" if c in "eE" else None
            case "e":
                after = "exponent" if digit else "sign" if c in "+-" else None
            case "sign" | "exponent":
                after = "exponent" if digit else None
        if after:
            self.inner = after
        elif self.inner in ("zero", "digits", "fraction", "exponent"):
            self._end_token(with_this=False)
            self._value_done()
            if c not in SPACE:
                self._begin(c)
        else:
            self.alive = False

    def _in_literal(self, c):
        if self.token[self.inner] != c:
            self.alive = False
            return
        self.inner += 1
        if self.inner == len(self.token):
            self._end_token()
            self._value_done()


def read(text):
    """The machine after all of `text`."""
    machine = Reading()
    for c in text:
        machine.step(c)
    return machine


def classify(text):
    """`complete`, `truncated` or `malformed`."""
    machine = read(text)
    if machine.complete:
        return "complete"
    return "truncated" if machine.alive else "malformed"
