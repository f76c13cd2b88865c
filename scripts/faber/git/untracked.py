"""The files in untracked directories, of which git itself names only the directory."""

import os
from collections.abc import Sequence

from faber.git.asking import Begin, GitQuestion
from faber.store.external_files import StrPath
from faber.text.safe_text import inert

DIRECTORIES = 20  # that are looked into
ENTRIES = 200  # a directory with more in it, at any depth, stays as it is


def listed(directory: StrPath, paths: Sequence[str], begin: Begin) -> dict[str, list[str]]:
    """By untracked directory (`docs/`): the files in it that are not ignored. `directory` is the worktree.

    A directory is missing that is large, such as one of installed packages, or whose files git does not tell.
    """
    small = [path for path in [path for path in paths if path.endswith("/")][:DIRECTORIES] if _small(directory, path)]
    if not small:
        return {}
    options = ["ls-files", "--others", "--exclude-standard", "-z", "--", *(f":(top,literal){path}" for path in small)]
    answer = begin([GitQuestion(directory, options)])()[0]
    files = answer.out.split("\0")[:-1] if answer.ok else []
    found = {path: [inert(file) for file in files if file.startswith(path)] for path in small}
    return {path: inside for path, inside in found.items() if inside}


def _small(directory: StrPath, path: str) -> bool:
    entries, left = 0, [os.path.join(directory, path)]
    while left:
        try:
            with os.scandir(left.pop()) as found:
                for entry in found:
                    entries += 1
                    if entries > ENTRIES:
                        return False
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:
            return False
    return True
