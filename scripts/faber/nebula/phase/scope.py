"""Find changed files outside a phase's scope. Pure."""

import re
from collections.abc import Iterable, Sequence


def outside(paths: Iterable[str], globs: Sequence[str]) -> list[str]:
    """The `paths` (relative, with `/`) that no glob matches; none if there are no globs.

    `*` and `?` stay within a path component, `**` crosses directories, `[…]` is a set. A glob also matches everything
    below what it matches.
    """
    if not globs:
        return []
    patterns = [_pattern(glob) for glob in globs]
    return [path for path in paths if not any(pattern.match(path) for pattern in patterns)]


def _pattern(glob: str) -> re.Pattern[str]:
    expression, rest = "", glob.strip().removeprefix("./").rstrip("/")
    while rest:
        if rest.startswith("**/"):
            expression, rest = expression + "(?:[^/]+/)*", rest[3:]
        elif rest.startswith("**"):
            expression, rest = expression + ".*", rest[2:]
        elif rest[0] == "*":
            expression, rest = expression + "[^/]*", rest[1:]
        elif rest[0] == "?":
            expression, rest = expression + "[^/]", rest[1:]
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            inner = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
            inner = "^" + inner[1:] if inner[0] in "!^" else inner
            expression, rest = expression + f"[{inner}]", rest[end + 1 :]
        else:
            expression, rest = expression + re.escape(rest[0]), rest[1:]
    return re.compile(f"{expression}(?:/.*)?\\Z", re.DOTALL)
