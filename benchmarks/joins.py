"""Cut responses and replies that continue them, in the ways in which models continue and slip.

Half of the responses hold real files: of the standard library and of the installed packages. In a third of these, a
block of the file stands twice, more than 16 KiB apart, and the cut is in its copy. Nothing here knows how a join is
made: a reply follows from the document, the place of the cut, and the token of the prompt.
"""

import json
import random
import re
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_SUFFIXES = frozenset({".py", ".pyi", ".json", ".md", ".rst", ".txt", ".html", ".js", ".css", ".toml", ".cfg"})
_FAR = 16 * 1024
_TALK = (
    *("the remaining lines are unchanged", "... (rest of the file)", "I'm sorry, I got cut off again."),
    *("[truncated]", "", "\n\nThe rest is as before."),
)


class Cut(NamedTuple):
    """A document and where it was cut."""

    text: str
    at: int


class Asked(NamedTuple):
    """A cut document and what its model was asked: to continue from `token`, which ends at `certain`.

    `complete` is where its last complete JSON token ends.
    """

    text: str
    cut: int
    token: str
    certain: int
    complete: int

    @property
    def rest(self) -> str:
        """What follows the token."""
        return self.text[self.certain :]


class Reply(NamedTuple):
    """What a model answers, and why it stopped."""

    text: str
    stop_reason: str = "end_turn"


def files(random_: random.Random, count: int, most: int, *, everywhere: bool) -> list[str]:
    """The texts of `count` real files of 1 kB to `most` bytes: of the standard library, or `everywhere` installed."""
    names = ("stdlib", "purelib", "platlib") if everywhere else ("stdlib",)
    roots = {Path(sysconfig.get_path(name)) for name in names}
    found = {path for root in roots for path in (root.rglob("*") if everywhere else root.glob("*.py"))}
    paths = sorted((path for path in found if path.suffix in _SUFFIXES), key=str)
    random_.shuffle(paths)
    texts: list[str] = []
    for path in paths:
        if len(texts) == count:
            break
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if 1_000 <= len(text) <= most:
            texts.append(text)
    return texts


def cuts(random_: random.Random, documents: list[str], real: list[str]) -> Iterator[Cut]:
    """Cut documents without end: every second one of `documents`, the others with files of `real`."""
    long = [text for text in real if len(text) > 2 * _FAR] or [text * 20 for text in real[:1]]
    while True:
        text = random_.choice(documents)
        yield Cut(text, random_.randrange(1, len(text)))
        if random_.random() < 2 / 3:
            text, _ = _written(random_, random_.choice(real), 0)
            yield Cut(text, random_.randrange(1, len(text)))
        else:
            yield _with_a_copy(random_, random_.choice(long))


def _with_a_copy(random_: random.Random, text: str) -> Cut:
    size = random_.randrange(200, 3_000)
    begin = random_.randrange(0, len(text) - _FAR - size)
    to = random_.randrange(begin + size + _FAR, len(text) + 1)
    content = text[:to] + text[begin : begin + size] + text[to:]
    return Cut(*_written(random_, content, to + random_.randrange(20, size)))


def _written(random_: random.Random, content: str, at: int) -> tuple[str, int]:
    """An answer that writes a file with this content, and where in it the character `at` of the content is."""
    plain = random_.random() < 0.5
    indent = random_.choice([None, None, 2])
    value = {"action": "write_file", "path": "/src/file", "content": content, "mode": 420, "next": ["test", "commit"]}
    text = json.dumps(value, ensure_ascii=not plain, indent=indent)
    before = text.index('"content": "') + len('"content": "')
    return text, before + len(json.dumps(content[:at], ensure_ascii=not plain)) - 2


def asked(cut: Cut, token: str, complete: int) -> Asked:
    """A cut document with the token of its prompt, at its last place; `complete` as in `Asked`."""
    return Asked(*cut, token, cut.text[: cut.at].rindex(token) + len(token), complete)


def _other_escapes(asked: Asked) -> str:
    """The echo and the rest with other escapes: what can be escaped is, and what need not be is not."""

    def spelled(found: re.Match[str]) -> str:
        was = found[0]
        if was == "/":
            return "\\/"
        if was == "\\n":
            return "\\u000A"
        if was[0] != "\\":
            return json.dumps(was)[1:-1]
        if len(was) < 6 or (len(was) == 6 and (0xD800 <= int(was[2:], 16) < 0xE000 or int(was[2:], 16) < 0x80)):
            return was
        return str(json.loads(f'"{was}"'))

    pair = r"\\u[dD][89abAB]..\\u[dD][c-fC-F].."
    return re.sub(rf"{pair}|\\u....|\\.|/|[^\x00-\x7f]", spelled, asked.token + asked.rest)


def _line_begin(asked: Asked) -> int:
    text, cut = asked.text, asked.cut
    return max(text.rfind("\n", 0, cut) + 1, text.rfind("\\n", 0, cut) + 2)


def _elsewhere(asked: Asked) -> str:
    end = asked.text[max(0, asked.cut - 20) : asked.cut]
    return asked.text[asked.text.index(end) :]


def _last_word(asked: Asked) -> str:
    return str((re.findall(r"\w+", asked.token) or [""])[-1])


def _first_place(asked: Asked) -> str:
    return asked.token + asked.text[asked.text.index(asked.token) + len(asked.token) :]


def _unfinished(random_: random.Random, asked: Asked) -> str:
    return asked.token + asked.rest[: random_.randrange(0, len(asked.rest))] + random_.choice(_TALK)


def _retracted(random_: random.Random, asked: Asked) -> str:
    wait = random_.choice(["Wait, that is not right. Here it is again:", "Sorry, I made a mistake there:\n\n```json"])
    return f"{asked.token}{asked.rest}\n\n{wait}\n\n{asked.text[: random_.randrange(1, 200)]}"


_Style = Callable[[random.Random, Asked], str]
# What brings the document back.
ECHOED: dict[str, _Style] = {
    "echo": lambda random_, asked: asked.token + asked.rest,
    "echo, fenced": lambda random_, asked: f"```json\n{asked.token}{asked.rest}\n```",
    "echo after prose": lambda random_, asked: f"Here is the rest of the JSON:\n\n{asked.token}{asked.rest}",
    "echo, prose and fence": lambda random_, asked: (
        f"I continue.\n\n```json\n{asked.token}{asked.rest}\n```\nThat is all."
    ),
    "echo, other escapes": lambda random_, asked: _other_escapes(asked),
    "echo, its first place": lambda random_, asked: _first_place(asked),
    "whole": lambda random_, asked: asked.text,
    "whole, fenced": lambda random_, asked: f"```json\n{asked.text}\n```",
}
# What continues without the echo.
PLAIN: dict[str, _Style] = {
    "exact": lambda random_, asked: asked.text[asked.cut :],
    "exact, fenced": lambda random_, asked: f"```json\n{asked.text[asked.cut :]}\n```",
    "exact after prose": lambda random_, asked: f"Here is the rest of the JSON:\n\n{asked.text[asked.cut :]}",
    "overlap": lambda random_, asked: asked.text[max(0, asked.cut - random_.randrange(1, 25)) :],
    "token again": lambda random_, asked: asked.text[asked.complete :].lstrip(),
    "line again": lambda random_, asked: asked.text[_line_begin(asked) :],
    "gap": lambda random_, asked: asked.text[asked.cut + random_.randrange(1, 25) :],
    "other place": lambda random_, asked: _elsewhere(asked),
}
# What begins with the token and then is not what follows it, or not all that there is.
SLIPS: dict[str, _Style] = {
    "space more": lambda random_, asked: f"{asked.token} {asked.rest}",
    "word again": lambda random_, asked: asked.token + _last_word(asked) + asked.rest,
    "space, word again": lambda random_, asked: f"{asked.token} {_last_word(asked)}{asked.rest}",
    "end again": lambda random_, asked: asked.token + asked.token[-random_.randrange(1, 40) :] + asked.rest,
    "token twice": lambda random_, asked: asked.token * 2 + asked.rest,
    "token, gap": lambda random_, asked: asked.token + asked.rest[random_.randrange(1, 25) :],
    "token, line break": lambda random_, asked: f"{asked.token}\n{asked.rest}",
    "unfinished": _unfinished,
    "retracted": _retracted,
}
STYLES = ECHOED | PLAIN | SLIPS
IN_PIECES = "echo, in pieces"


def reply(random_: random.Random, style: str, asked: Asked) -> Reply:
    """What a model answers in `style`; asked for the whole document, it writes that wherever it would begin with the
    token."""
    whole = not asked.token and style not in PLAIN
    return Reply(STYLES["whole" if whole else style](random_, asked))


class InPieces:
    """A model that is cut again and again, and each time begins with what the prompt asks for."""

    def __init__(self, random_: random.Random, text: str) -> None:
        self._random = random_
        self._text = text

    def complete(self, prompt: str) -> Reply:
        """The next piece, or the whole document if the prompt names no token."""
        _, there, after = prompt.partition("<<<<<<<<\n")
        if not there:
            return Reply(self._text)
        token = after.rpartition("\n>>>>>>>>")[0]
        begin = self._text.index(token)
        end = begin + len(token) + self._random.randrange(40, max(41, len(self._text) // 2))
        return Reply(self._text[begin:end], "end_turn" if end >= len(self._text) else "max_tokens")
