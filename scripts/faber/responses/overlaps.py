"""Where the beginning of a continuation repeats the end of the text before it."""

import json
import re
from functools import lru_cache

from faber.responses.response_errors import ChunkMergeError

_SEED, _HEAD = 16, 512
_MOST_PLACES = 64
# How many characters are compared at most, far more than a real response needs. Without a limit, comparing two texts
# that repeat one character would take quadratic time.
_MOST_COMPARED = 1 << 30
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)


def overlaps(certain: str, view: str) -> list[int]:
    """The lengths of the suffixes of `certain` that `view` begins with: short ones first, then by their place.

    Raises `ChunkMergeError` if there are too many, or too many near misses.
    """
    end = len(certain)
    sizes = [size for size in range(1, min(_SEED, end + 1, len(view) + 1)) if certain.endswith(view[:size])]
    if len(view) < _SEED:
        return sizes
    seed, head, tail = view[:_SEED], view[:_HEAD], certain[-_SEED:]
    compared = 0
    at = certain.find(seed, max(0, end - len(view)))
    while at >= 0:
        size = end - at
        alike = certain.startswith(head[:size], at) and view.startswith(tail, size - len(tail))
        compared += size if alike else _SEED
        if alike and view.startswith(certain[at:]):
            sizes.append(size)
        if len(sizes) > _MOST_PLACES or compared > _MOST_COMPARED:
            raise ChunkMergeError("The continuation fits at too many places.", reason="ambiguous")
        at = certain.find(seed, at + 1)
    return sizes


def echo(certain: str, size: int, view: str) -> int:
    """How many characters of `view` say what the last `size` of `certain` say, whatever the escapes; 0 if none do.

    What is spelled otherwise must be unique as what it means.
    """
    said = certain[-size:]
    if view.startswith(said):
        return size
    if _meaning(view[:_HEAD])[:_SEED] != _meaning(said[:_HEAD])[: min(_SEED, len(view))]:
        return 0
    wanted, at, before = _meaning(said), 0, 0
    for found in _ESCAPE.finditer(view):
        further = before + found.start() - at
        if further >= len(wanted):
            break
        at, before = found.end(), further + len(_spelled(found[0]))
    end = at + len(wanted) - before
    unique = size == len(certain) or _meaning(certain).find(wanted) == len(_meaning(certain)) - len(wanted)
    return end if unique and end > 0 and _meaning(view[:end]) == wanted else 0


def begins_with(view: str, cut: str) -> bool:
    """True if `view` begins with `cut`, an unfinished escape or nothing, or with the character that it begins."""
    found = _ESCAPE.match(view)
    character = _spelled(found[0]) if found else view[:1]
    if view.startswith(cut) or not (found or character > "\x7f" or character == "/"):
        return view.startswith(cut)
    try:
        units = json.loads(f'"{character}"').encode("utf-16-be", "surrogatepass").hex()
    except ValueError:  # JSON has no such escape
        return False
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)).startswith(cut.lower())


def _meaning(text: str) -> str:
    """`text` with the shortest escape of each character, or none."""
    return _ESCAPE.sub(lambda found: _spelled(found[0]), text) if "\\" in text else text


@lru_cache(1024)
def _spelled(escape: str) -> str:
    try:
        return json.dumps(json.loads(f'"{escape}"'), ensure_ascii=False)[1:-1]
    except ValueError:
        return escape
