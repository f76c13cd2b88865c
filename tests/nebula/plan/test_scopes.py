"""Scopes: whether two globs can mean the same file."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.nebula.plan.scopes import PathPattern, candidates, overlap, scope_problem
from support.examples import examples


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("src", "src/a.py", True),
        ("src/", "src/deep/a.py", True),
        ("src", "srcs/a.py", False),
        ("src/*.py", "src/a*", True),
        ("src/*.py", "src/*.js", False),
        ("*.py", "src/a.py", False),
        ("**/*.py", "src/deep/a.py", True),
        ("**/a.py", "src/**/b.py", False),
        ("src/*.py", "src/a.py/below", False),
        ("src/*.py/", "src/a.py/below", True),
        ("v1.2/", "v1.2/x", True),
        (".github", ".github/workflows/ci.yml", True),
        ("docs/**/*.md", "docs/a.py", False),
        ("docs/**/*.md", "docs/api/*.m*", True),
        ("a/**/z", "a/b/c", True),
        ("a/**/z.txt", "b/**/z.txt", False),
        ("a?c", "a[bx]c", True),
        ("a[!b]c", "abc", False),
        ("a[!b]c", "a[a-c]c", True),
        ("a[0-9]*", "ab*", False),
        ("[!a]", "[a]", False),
        ("x*y", "*xy*", True),
        ("**", "anything/at/all", True),
        (".", "anything", True),
        ("a/**", "a", True),
        ("a[", "a[", True),
        ("[]]", "]", True),
    ],
)
def test_overlap(one: str, other: str, expected: bool) -> None:
    """Globs overlap if there is a path that both mean, and only then."""
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


PARTS = ["".join(letters) for size in (1, 2) for letters in product("abc", repeat=size)] + ["a.b", "b.b", "c.b", ".b"]
PATHS = ["/".join(parts) for depth in (1, 2, 3) for parts in product(PARTS, repeat=depth)]
tokens = st.sampled_from(["a", "b", "?", "*", "[ab]", "[!a]", "[!b]", "[b-c]"])
parts = st.sampled_from(["**", "*.b", "a.b"]) | st.lists(tokens, min_size=1, max_size=2).map("".join)
globs = st.lists(parts, min_size=1, max_size=2).map("/".join)


def pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression, by another way than the one tested."""
    expression = ""
    for part in glob.split("/"):
        if part == "**":
            expression += "(?:[^/]+/)*"
        else:
            for token in re.findall(r"\[.*?\]|.", part):
                expression += {"?": "[^/]", "*": "[^/]*", ".": r"\."}.get(token, token.replace("[!", "[^/"))
            expression += "/"
    return re.compile(expression + (r"\Z" if "." in part else ""))  # with an ending it means files


@settings(max_examples=examples(40, 150))
@given(globs, globs)
def test_overlap_is_what_enumeration_finds(one: str, other: str) -> None:
    """Two small globs overlap exactly if one of all small paths (up to three parts of two letters) is meant by both."""
    first, second = pattern(one), pattern(other)
    # `**` before the end stands for any number of parts, so a match may end at any boundary of parts.
    both = any(first.match(path + "/") and second.match(path + "/") for path in PATHS)
    assert overlap(one, other) is both


@given(st.lists(globs, max_size=6))
def test_no_pair_that_overlaps_is_passed_over(scopes: list[str]) -> None:
    """The pairs that are looked at are all of those that overlap, each once."""
    claims = [PathPattern(f"p{number}", 0, glob) for number, glob in enumerate(scopes)]
    looked_at = [(one.phase, other.phase) for one, other in candidates(claims)]
    assert len(looked_at) == len(set(looked_at))
    overlapping = {
        (one.phase, other.phase)
        for number, one in enumerate(claims)
        for other in claims[number + 1 :]
        if overlap(one.glob, other.glob)
    }
    assert overlapping <= set(looked_at)


def test_directories_of_their_own_are_not_compared() -> None:
    """A thousand phases in a thousand directories make no pair to decide."""
    assert list(candidates([PathPattern(f"p{n}", 0, f"src/d{n}/**/*.py") for n in range(1000)])) == []


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_texts_are_decided(one: str, other: str) -> None:
    """Any two texts overlap or do not, either way round."""
    assert overlap(one, other) is overlap(other, one)


@pytest.mark.parametrize(
    ("glob", "reason"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is not relative to the repository"),
        ("~/x", "is not relative to the repository"),
        ("C:/x", "is not relative to the repository"),
        ("a/../../b", "contains '..', which leaves the repository"),
        (".git/hooks/x", "is inside git's own directory"),
        ("sub/.GIT/config", "is inside git's own directory"),
        ("a\\b", "contains a backslash; separate path components with '/'"),
        ("a\nb", "contains an unprintable character"),
        ("a..b/c", None),
        (".github/*.yml", None),
        ("./a", None),
    ],
)
def test_a_scope_lies_in_the_repository(glob: str, reason: str | None) -> None:
    """A scope that leads out of the repository, or into git's own directory, is refused with the reason."""
    assert scope_problem(glob) == reason
