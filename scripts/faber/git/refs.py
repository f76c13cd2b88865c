"""Checks names from files before they reach git: branches, commits, repositories. Pure."""

import re

from faber.text.safe_text import inert, shorten

# git itself has no limit; a file system does, and an argument list.
_NAME_BYTES = 1024
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SEGMENT = 128


def branch_problem(name: str) -> str | None:
    """Why `name` cannot be a branch, as the end of the sentence "it …"; None if it can.

    The rules of `git check-ref-format --branch` without its expansion of `@{-1}`: what passes is safe
    as `refs/heads/<name>` in an argument list. It may still hold characters that a shell would act on.
    """
    if not name:
        return "is empty"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not text"
    if size > _NAME_BYTES:
        return f"is longer than {_NAME_BYTES} bytes"
    if name.startswith("-"):
        return "starts with '-'"
    if name == "HEAD":
        return "is git's name for the current commit"
    if forbidden := _FORBIDDEN.search(name):
        return f"has the character {forbidden[0]!r}"
    if ".." in name:
        return "has '..'"
    if "@{" in name:
        return "has '@{'"
    if name.endswith("."):
        return "ends with '.'"
    for part in name.split("/"):
        if not part:
            return "has an empty part"
        if part.startswith("."):
            return "has a part that starts with '.'"
        if part.endswith(".lock"):
            return "has a part that ends with '.lock'"
    return None


def is_commit(text: str) -> bool:
    """True if `text` is spelled like a commit id, whole or abbreviated to seven digits or more."""
    return _COMMIT.fullmatch(text) is not None


def is_oid(text: str) -> bool:
    """True if `text` is spelled like a whole object id."""
    return _OID.fullmatch(text) is not None


def shown(name: str) -> str:
    """`name` for a message: inert and in at most 200 characters."""
    return shorten(inert(name).replace("\n", " "), 200)


def slug_of(url: str) -> tuple[str, str] | None:
    """`(organisation, project)` from the URL or path of a remote, None if it has fewer than two parts.

    Accepts `https://`, `ssh://`, `git@host:org/project.git` and paths; of nested groups it takes the last two parts,
    and never a part of the host, the user or the password. Both are valid in a run id and as part of a ref.
    """
    location = url.strip().split("?", 1)[0].split("#", 1)[0]
    if "://" in location:
        location = location.split("://", 1)[1].partition("/")[2]
    elif scp := re.match(r"[^/]*?:(?!\\)", location):  # a colon before any slash: user@host:path
        location = location[scp.end() :]
    parts = [part for part in location.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if parts[-1:] == [".git"]:
        parts.pop()
    segments = [_segment(part) for part in parts[-2:]]
    if len(segments) < 2 or not all(segments):
        return None
    return segments[0], segments[1]


def _segment(part: str) -> str:
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", part.removesuffix(".git"))
    text = re.sub(r"\.{2,}", ".", text)[:_SEGMENT].lstrip("._-")
    while text != (text := text.rstrip(".-").removesuffix(".lock")):
        pass
    return text
