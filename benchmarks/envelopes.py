"""A corpus of agent envelopes, the same in every run: complete, cut, malformed.

What a text is follows from how it was made, not from a parser: a strict prefix of an object is truncated, and a text
with a mistake in it stays malformed however it is cut after the mistake.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

_WORDS = (
    *(
        "rows",
        "report",
        "export",
        "stream",
        "commit",
        "branch",
        "review",
        "value",
        "column",
        "header",
        "parse",
        "write",
    ),
    *("reader", "quote", "total", "error", "cache", "retry", "limit", "token", "agent", "phase", "model"),
    *("naïve", "größe", "行", "данные", "😀", "🚀", "½"),
)
_CODE = (
    "def {0}_{1}(self, {2}):\n",
    "    for {0} in {1}:\n",
    '        yield {{"{0}": {1}, "{2}": "{3}"}}\n',
    "    return [{0} for {0} in {1} if {0} != '{2}']\n",
    '    """Write {0} {1} to {2}."""\n',
    "    assert re.match(r'^\\s*{0}\\b', {1}), \"{2}\\t{3}\"\n",
    "    path = 'C:\\\\{0}\\\\{1}'  # {2} {3}\n",
    "\n",
)


def _words(random_: random.Random, count: int) -> list[str]:
    return [random_.choice(_WORDS) + str(random_.randrange(1000)) * (random_.random() < 0.3) for _ in range(count)]


def _code(random_: random.Random, size: int) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(random_.choice(_CODE).format(*_words(random_, 4)))
        length += len(lines[-1])
    return "".join(lines)[:size]


def _nested(random_: random.Random, depth: int) -> Any:
    value: Any = _words(random_, 2)
    for _ in range(depth):
        value = [value] if random_.random() < 0.5 else {random_.choice(_WORDS): value, "n": random_.randrange(10**6)}
    return value


def envelope(random_: random.Random, size: int) -> str:
    """The JSON text of an agent's answer, of about `size` characters; its content is code, prose or a table."""
    kind = random_.randrange(4)
    body: dict[str, Any] = {"path": f"/src/{'/'.join(_words(random_, 2))}.py"}
    if kind == 0:
        body["rows"] = [
            {
                "id": number,
                "name": " ".join(_words(random_, 3)),
                "value": random_.uniform(-1e6, 1e6),
                "ok": number % 3 == 0,
            }
            for number in range(max(2, size // 120))
        ]
    else:
        body["content"] = _code(random_, max(40, size - 450)) if kind < 3 else " ".join(_words(random_, size // 9))
    value = {
        "action": random_.choice(["write_file", "answer", "plan"]),
        "reasoning": " ".join(_words(random_, 12)) + '. "Quoted", as it were.',
        "parameters": body,
        "nested": _nested(random_, random_.choice([2, 5, 40])),
        "next": _words(random_, 3),
        "confidence": random_.random(),
        "done": random_.choice([True, False, None]),
    }
    return json.dumps(value, ensure_ascii=random_.random() < 0.5, indent=random_.choice([None, None, 2]))


def malformed(random_: random.Random, text: str) -> str:
    """`text` with one mistake that no continuation fixes, and cut somewhere after it, or not."""
    at = text.index('"parameters"')
    mistakes = [
        ("'parameters'", 1),
        ("parameters", 1),
        ('"a": NaN, ', 7),
        ('"a": -Infinity, ', 7),
        ('"a": 01, ', 8),
        ('"a": "\\x41", ', 7),
        ('"a": "\\udn", ', 10),
        ('"a": "line\n", ', 11),
        ('"a": [1, 2,], ', 12),
        ('"a": [1 2], ', 9),
        ('"a" 1, ', 6),
        ('"a": 1., ', 8),
        ('"a": .5, ', 6),
        ("// a comment\n", 1),
        ('"a": True, ', 6),
        (", ", 1),
        ('"a": 1}}, ', 8),
    ]
    mistake, seen = random_.choice(mistakes)
    broken = text[:at] + mistake + text[at:]
    least = at + seen
    if random_.random() < 0.2:
        return random_.choice(["I cannot do that.", text + text, text + "}", "{}" + text, "\ufeff" + text])
    return broken if random_.random() < 0.3 else broken[: random_.randrange(least, len(broken) + 1)]


class Case(NamedTuple):
    """A text and what it is."""

    text: str
    status: str


def classified(random_: random.Random, documents: list[str], cuts: int) -> Iterator[Case]:
    """Every document complete, cut at `cuts` places (everywhere if it is shorter than that), and broken as often."""
    for text in documents:
        yield Case(text, "complete")
        yield Case(f"\n{text}\n", "complete")
        places = range(len(text)) if len(text) <= cuts else sorted(random_.sample(range(len(text)), cuts))
        yield from (Case(text[:place], "truncated") for place in places)
        yield from (Case(malformed(random_, text), "malformed") for _ in range(min(cuts, 40)))
