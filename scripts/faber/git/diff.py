"""What changed between two commits: files, text, and reverted files."""

from collections.abc import Iterator
from typing import NamedTuple

from faber.git.programs import Git, checked
from faber.text.safe_text import inert, redact

_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none", "-O/dev/null")
_NAMES = 400_000  # bytes of the names of changed files that are read together with the text


class Files(NamedTuple):
    """Paths (the new one of a renamed file), at most as many as asked for, and how many there are."""

    paths: list[str]
    total: int


def diff_files(git: Git, base: str, head: str, limit: int = 200) -> Files:
    """The files that differ between the commits `base` and `head`: changed, added, deleted, renamed, binary.

    Seed 000, `GitDiffLister`. Paths are inert, sorted as git sorts them. Raises `GitFailed` for an unknown commit.
    """
    asked = git.run("diff", "--name-status", "-z", "-M", "-l1000", *_PLAIN, checked(base), checked(head), "--")
    return _files(iter(asked.out.split("\0")[:-1]), limit)


def diff_text(git: Git, base: str, head: str, max_chars: int = 20_000) -> str:
    """The unified diff between two commits in at most `max_chars` characters, credentials redacted.

    A longer diff is cut at the end of a line, and the last line says so; git is killed there, so that a diff of any
    size costs no more.
    """
    limit = max_chars * 4 + 4  # the bytes that so many characters can have
    asked = git.run("diff", "-M", "-l1000", *_PLAIN, checked(base), checked(head), "--", limit=limit)
    text = redact(inert(asked.out))
    if not asked.cut and len(text) <= max_chars:
        return text
    return _shortened(text, diff_files(git, base, head, 0).total, max_chars)


def diff_both(git: Git, base: str, head: str, limit: int = 200, max_chars: int = 20_000) -> tuple[Files, str]:
    """`diff_files` and `diff_text`, of one program unless very many files differ."""
    most = max_chars * 4 + 4
    both = ("--raw", "--patch", "-z", "-M", "-l1000")
    asked = git.run("diff", *both, *_PLAIN, checked(base), checked(head), "--", limit=most + _NAMES)
    names, ended, patch = asked.out.partition("\0\0")
    if asked.cut and (not ended or len(names) > _NAMES // 4):
        return diff_files(git, base, head, limit), diff_text(git, base, head, max_chars)
    files = _files(iter(names.split("\0")) if ended else iter(()), limit)
    text = redact(inert(patch))
    return files, text if not asked.cut and len(text) <= max_chars else _shortened(text, files.total, max_chars)


def _files(fields: Iterator[str], limit: int) -> Files:
    paths = []
    for kind in fields:  # a status, or what `--raw` prints before the path, which ends in it
        path = next(fields)
        if kind.split(" ")[-1][0] in "RC":
            path = next(fields)
        paths.append(inert(path))
    return Files(paths[: max(0, limit)], len(paths))


def _shortened(text: str, total: int, max_chars: int) -> str:
    notice = f"[… cut: {total} files differ in all]\n"
    keep = text[: max(0, max_chars - len(notice))]
    return (keep[: keep.rfind("\n") + 1] + notice)[:max_chars]


def reverted_files(git: Git, base: str, failed_head: str, new_head: str) -> list[str]:
    """The files that changed from `base` to `failed_head` and that at `new_head` are as in `base` again, empty, or
    deleted.

    Seed 000: a remediation builds on the failed attempt's work and does not revert it. A file is its content and its
    mode; a renamed one counts under both names.
    """
    touched = changed_paths(git, checked(base), checked(failed_head))
    kept = changed_paths(git, checked(base), checked(new_head))
    taken = touched - kept | touched & _emptied(git, failed_head, new_head)
    return sorted(inert(path) for path in taken)


# The id of the empty content, in SHA-1 and in SHA-256.
_EMPTY = frozenset(
    (
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    )
)


def _emptied(git: Git, before: str, after: str) -> set[str]:
    """The files of `before` that are deleted or empty at `after`."""
    asked = git.run(
        "diff", "--raw", "-z", "--no-abbrev", "--no-renames", *_PLAIN, checked(before), checked(after), "--"
    )
    fields = asked.out.split("\0")[:-1]
    found = set()
    for facts, path in zip(fields[::2], fields[1::2], strict=True):
        _, _, _, now, status = facts.split(" ")
        if status == "D" or now in _EMPTY:
            found.add(path)
    return found


def moved_from(git: Git, base: str, head: str) -> set[str]:
    """The files of `base` (inert) that git detects as renamed at `head`."""
    asked = git.run(
        "diff", "--name-status", "-z", "-M", "-l1000", "--diff-filter=R", *_PLAIN, checked(base), checked(head), "--"
    )
    return {inert(path) for path in asked.out.split("\0")[1:-1:3]}


def changed_paths(git: Git, *arguments: str) -> set[str]:
    """The paths, as git spells them, that `git diff ARGUMENTS` lists; a renamed file counts under both names."""
    return set(git.run("diff", "--name-only", "-z", "--no-renames", *_PLAIN, *arguments, "--").out.split("\0")[:-1])
