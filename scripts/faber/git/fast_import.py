"""A commit made by one `git fast-import`, without loose objects, index or working tree.

Measured against `hash-object -w --stdin-paths` with `mktree`: 10,000 new files become one pack instead of 10,000
files, and a later commit writes only what is new.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple


class NewCommit(NamedTuple):
    """A commit to make, and the `ref` to move to it; `author` is `Name <address>`.

    The tree is that of the commit `base` (None: empty) with `files` in it, by path. `base_tree` is the id of that tree;
    it is needed only where `base` is not `parent`.
    """

    ref: str
    message: bytes
    author: str
    parent: str | None
    base: str | None
    base_tree: str | None
    files: Mapping[str, bytes]


def stream(commit: NewCommit) -> bytes:
    """The input of `git fast-import --force --done --quiet`, which prints the id of the commit."""
    author = f"{commit.author} {int(time.time())} +0000".encode("utf-8", "replace")
    parts = [
        b"feature done\n",
        f"commit {commit.ref}\nmark :1\n".encode(),
        b"author %s\ncommitter %s\ndata %d\n%s\n" % (author, author, len(commit.message), commit.message),
    ]
    if commit.parent:
        parts.append(f"from {commit.parent}\n".encode())
    if commit.parent and commit.base is None:
        parts.append(b"deleteall\n")
    elif commit.base and commit.base != commit.parent:
        parts.append(f'M 040000 {commit.base_tree} ""\n'.encode())
    for path, data in commit.files.items():
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
    parts.append(b"\nget-mark :1\ndone\n")
    return b"".join(parts)
