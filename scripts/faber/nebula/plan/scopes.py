"""The scope of a phase: globs of paths, and whether two globs can match the same file. Pure.

A glob is relative to the repository. Within a part, `*` matches any characters except `/`, `?` matches one, and `[a-z]`
or `[!a-z]` matches one of a class; `**` as a whole part matches any number of parts. A glob also covers everything
below what it matches: `src` and `src/` mean the whole directory. Only if its last part has an extension (`*.py`,
`go.mod`) and no slash follows does it mean files alone.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

# The characters that one token matches: disjoint, sorted ranges of code points. None is a `*`.
Ranges = tuple[tuple[int, int], ...]
Part = tuple[Ranges | None, ...]
Parts = tuple[Part | str, ...]
ANY_PARTS = "**"
_LAST = 0x10FFFF
_SLASH = ord("/")


def scope_problem(glob: str) -> str | None:
    """Why `glob` is not a valid scope, as the end of the sentence "The scope …"; None if it is."""
    if not glob.strip():
        return "is empty"
    if glob.startswith(("/", "~")) or (len(glob) > 1 and glob[1] == ":"):
        return "is not relative to the repository"
    parts = glob.split("/")
    if ".." in parts:
        return "contains '..', which leaves the repository"
    if any(part.lower() == ".git" for part in parts):
        return "is inside git's own directory"
    if "\\" in glob:
        return "contains a backslash; separate path components with '/'"
    if not glob.isprintable():
        return "contains an unprintable character"
    return None


def overlap(one: str, other: str) -> bool:
    """True if some path is covered by both globs."""
    return _meet(_parts(one), _parts(other))


def outside(paths: Iterable[str], globs: Sequence[str]) -> list[str]:
    """The `paths` (of files, relative, with `/`) that no glob covers; none if there are no globs."""
    scope = [_parts(glob) for glob in globs]
    return [path for path in paths if scope and not any(_meet(glob, _literal(path)) for glob in scope)]


def _literal(path: str) -> Parts:
    return tuple(tuple(((ord(character), ord(character)),) for character in part) for part in path.split("/"))


def literal_prefix(glob: str) -> tuple[str, ...]:
    """The leading parts of `glob` without wildcards: everything it covers lies below them."""
    found: list[str] = []
    for part in _split(glob):
        if part == ANY_PARTS or any(character in part for character in "*?["):
            break
        found.append(part)
    return tuple(found)


# --- deciding --------------------------------------------------------------------------------------


def _split(glob: str) -> list[str]:
    return [part for part in glob.split("/") if part not in ("", ".")]


@lru_cache(maxsize=20_000)
def _parts(glob: str) -> Parts:
    """The parts of a glob, plus `**` for what lies below it unless it means files alone."""
    split = _split(glob)
    parts = tuple(ANY_PARTS if part == ANY_PARTS else _tokens(part) for part in split)
    is_file = bool(split) and "." in split[-1][1:] and not glob.endswith("/") and split[-1] != ANY_PARTS
    return parts if is_file else (*parts, ANY_PARTS)


def _meet(one: Parts, other: Parts) -> bool:
    """True if some sequence of path components matches both."""
    return _reaches_end(one, other, ANY_PARTS, _parts_meet)


@lru_cache(maxsize=20_000)
def _parts_meet(one: Part, other: Part) -> bool:
    """True if some text matches both parts."""
    return _reaches_end(one, other, None, _share)


def _reaches_end(one: tuple[Any, ...], other: tuple[Any, ...], star: object, alike: Callable[[Any, Any], bool]) -> bool:
    """True if some sequence matches both patterns: a search over the reachable pairs of positions.

    `star` matches any number of elements. `alike` tells whether two other tokens can match the same element.
    """
    reached, left = {(0, 0)}, [(0, 0)]
    while left:
        i, j = left.pop()
        if i == len(one) and j == len(other):
            return True
        star_1, star_2 = one[i : i + 1] == (star,), other[j : j + 1] == (star,)
        # A star matches nothing (its position advances) or one more element (it stays).
        steps = [(i + 1, j)] * star_1 + [(i, j + 1)] * star_2
        if i < len(one) and j < len(other):
            if star_1 != star_2:
                steps.append((i, j + 1) if star_1 else (i + 1, j))
            elif not star_1 and alike(one[i], other[j]):
                steps.append((i + 1, j + 1))
        new = [step for step in steps if step not in reached]
        reached.update(new)
        left += new
    return False


def _share(one: Ranges, other: Ranges) -> bool:
    return any(low <= high2 and low2 <= high for low, high in one for low2, high2 in other)


def _tokens(part: str) -> Part:
    """A part as tokens. An unclosed `[` is literal."""
    found: list[Ranges | None] = []
    at = 0
    while at < len(part):
        character = part[at]
        end = _class_end(part, at) if character == "[" else None
        if character == "*":
            if not found or found[-1] is not None:
                found.append(None)
        elif character == "?":
            found.append(_outside(()))
        elif end is not None:
            found.append(_class(part[at + 1 : end]))
            at = end
        else:
            found.append(((ord(character), ord(character)),))
        at += 1
    return tuple(found)


def _class_end(part: str, at: int) -> int | None:
    """The end of the class that starts at `at`; a leading `]` is one of its characters."""
    first = at + 1 + (part[at + 1 : at + 2] in ("!", "^"))
    end = part.find("]", first + 1)
    return end if end > 0 else None


def _class(text: str) -> Ranges:
    negated = text[:1] in ("!", "^")
    text = text[negated:]
    ranges = []
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            low, high = ord(text[at]), ord(text[at + 2])
            at += 3
        else:
            low = high = ord(text[at])
            at += 1
        if low <= high:
            ranges.append((low, high))
    if negated:
        return _outside(ranges)
    return tuple(sorted(piece for low, high in ranges for piece in _without_slash(low, high)))


def _outside(ranges: Collection[tuple[int, int]]) -> Ranges:
    """Every character except those in `ranges` and the slash."""
    found = []
    begin = 1  # no path contains NUL
    for low, high in sorted([*ranges, (_SLASH, _SLASH)]):
        if begin < low:
            found.append((begin, low - 1))
        begin = max(begin, high + 1)
    if begin <= _LAST:
        found.append((begin, _LAST))
    return tuple(found)


def _without_slash(low: int, high: int) -> Iterator[tuple[int, int]]:
    if low <= _SLASH <= high:
        if low < _SLASH:
            yield low, _SLASH - 1
        if high > _SLASH:
            yield _SLASH + 1, high
    else:
        yield low, high


# --- pairs -----------------------------------------------------------------------------------------


class PathPattern(NamedTuple):
    """A glob of a phase's scope; `number` is its index in the scope."""

    phase: str
    number: int
    glob: str


def candidates(patterns: Sequence[PathPattern]) -> Iterator[tuple[PathPattern, PathPattern]]:
    """The pairs of patterns of different phases that may overlap, the earlier of the two first.

    Two globs can only overlap if the literal prefix of one is a prefix of the other's, so a nebula whose phases keep to
    separate directories has almost no pairs to check.
    """
    ordered = sorted(range(len(patterns)), key=lambda place: (literal_prefix(patterns[place].glob), place))
    open_: list[tuple[tuple[str, ...], int]] = []
    for place in ordered:
        prefix = literal_prefix(patterns[place].glob)
        while open_ and prefix[: len(open_[-1][0])] != open_[-1][0]:
            open_.pop()
        for _, earlier in open_:
            if patterns[earlier].phase != patterns[place].phase:
                first, second = sorted((earlier, place))
                yield patterns[first], patterns[second]
        open_.append((prefix, place))
