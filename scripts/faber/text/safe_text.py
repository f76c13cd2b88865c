"""Untrusted text: made inert before it is shown, redacted before it is stored or sent."""

import json
import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

REDACTED = "[REDACTED]"

# C0 (but tab and newline), DEL, C1; zero-width and invisible operators; bidirectional controls;
# line and paragraph separators; the byte order mark; tag characters and the adjacent variation selectors,
# which can hide whole texts; lone surrogates.
_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff"
)

# The password in a URL comes first, so that a token used as the user name does not hide it. `sk-` must start
# a word and be followed by a digit somewhere: `task-write-the-parser` and `sk-slovak-translation` are names.
_SECRETS = (
    r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[A-Za-z0-9_-]{50,}",
    r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-(?!----END))*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"(?i:(?<=bearer )|(?<=authorization: token ))[A-Za-z0-9._~+/=-]{16,}",
)

# Each match of a pattern above contains one of these, once its letters are lower case.
_HINTS = (
    *(b"://", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"sk-", b"xox", b"glpat-", b"akia", b"asia"),
    *(b"aiza", b"npm_", b"pypi-", b"eyj", b"-----begin ", b"bearer ", b"author"),
)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    # Compiled on first use: most commands need no pattern.
    return re.compile(
        {
            "invisible": f"[{_INVISIBLE}]",
            "comment": r"<!--.*?(?:-->|\Z)",
            "secret": "|".join(_SECRETS),
        }[name],
        re.DOTALL,
    )


def inert(text: str) -> str:
    """`text` without control, bidirectional and zero-width characters; tab and newline stay.

    The result can be printed on a terminal without affecting its cursor or clipboard.
    """
    text = text.replace("\r\n", "\n")
    # Printable characters are visible, except in the last planes. This shortcut spares most commands the pattern.
    if text.replace("\n", "").replace("\t", "").isprintable() and (text.isascii() or max(text) < "\U000e0000"):
        return text
    return _pattern("invisible").sub("", text)


def visible(json_text: str) -> str:
    """JSON whose control, bidirectional and zero-width characters are written as escapes: the same value,
    safe to print."""
    return _pattern("invisible").sub(lambda match: json.dumps(match[0])[1:-1], json_text)


def outsiders(text: str) -> str:
    """Text from an untrusted author, made inert and without HTML comments (even unclosed ones).

    Repeated until nothing changes: removing one character or comment can form another.
    """
    while True:
        cleaned = _pattern("comment").sub("", inert(text))
        if cleaned == text:
            return cleaned
        text = cleaned


def redact(text: str) -> str:
    """`text` with everything that looks like a credential replaced by `[REDACTED]`. Idempotent."""
    # Removing one credential can form another from the text around it.
    while (redacted := _pattern("secret").sub(REDACTED, text)) != text:
        text = redacted
    return text


def has_secret(text: str) -> bool:
    """True if `redact` would change `text`."""
    return _pattern("secret").search(text) is not None


def may_have_secret(text: bytes) -> bool:
    """False only if `has_secret` certainly is; takes a tenth of its time, so that long logs are searched with it."""
    lower = text.lower()
    return any(hint in lower for hint in _HINTS)


def redact_json(value: Any, keep: frozenset[str] = frozenset(), secrets: Collection[str] = ()) -> Any:
    """A JSON value with every string in it (keys too) redacted, except the strings in `keep`.

    `secrets` are redacted as well, in the order given.
    """
    if isinstance(value, str):
        return value if value in keep else without(value, secrets)
    if isinstance(value, list):
        return [redact_json(item, keep, secrets) for item in value]
    if isinstance(value, dict):
        return {without(key, secrets): redact_json(item, keep, secrets) for key, item in value.items()}
    return value


def without(text: str, secrets: Iterable[str]) -> str:
    """`text` redacted, with each of `secrets` replaced by `[REDACTED]`."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return redact(text)


def shorten(text: str, limit: int) -> str:
    """`text` cut to at most `limit` characters; a notice in the text counts what was cut."""
    if len(text) <= limit:
        return text
    # Making room for the notice cuts more characters, so the count may need one more digit.
    room = len(f" […{len(text)} more characters]")
    keep = max(0, limit - room)
    return (text[:keep] + f" […{len(text) - keep} more characters]")[:limit]


def cut(text: str, width: int) -> str:
    """One line of at most `width` columns; where something is missing it ends with an ellipsis."""
    line = text.expandtabs().replace("\n", " ")
    return line if len(line) <= width else line[: width - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """`text` as one line of inert text of at most `limit` characters."""
    return shorten(" ".join(inert(text).split()), limit)


def sentence(text: str) -> str:
    """`text` with a full stop, if nothing ends it: what a service says is often no sentence."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."


def ending(text: str, limit: int) -> str:
    """The end of `text`, where errors are, in at most `limit` characters. A first line, included in the limit,
    counts what was cut. A surrogate pair is one character; lone halves become �."""
    text = encodable(text)
    if len(text) <= limit:
        return text
    # Making room for the notice cuts more characters; space for the longest possible count fits any count.
    keep = max(0, limit - len(f"[… {len(text)} characters before this]\n"))
    return (f"[… {len(text) - keep} characters before this]\n" + text[len(text) - keep :])[:limit]


def encodable(text: str) -> str:
    """`text` without surrogates, which UTF-8 cannot encode: pairs become the character they encode, others �."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
