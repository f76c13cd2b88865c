"""Fetch a Claude Code client that the tests drive, and print its path.

Usage:
    fetch_claude.py [--unpinned] [VERSION]

VERSION is `newest` (the default), `oldest`, or one of the pinned versions. The SHA-512 of each platform's package is
pinned here: what the tests prove, they prove about these clients. `--unpinned` takes any other version, too, and says
what its SHA-512 is. A client comes through the ordinary npm client and
is kept in $XDG_CACHE_HOME/faber (default ~/.cache), where it appears whole or not at all. Once it is there, neither
npm nor the network is asked.

Exit status: 1 with one line on stderr if it cannot be obtained.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

PACKAGE = "@anthropic-ai/claude-code"
# The window of versions that faber supports, from the oldest to the newest.
SHA512 = {
    "2.1.197": {
        "darwin-arm64": "1FOVhJzkKGWgOEEsvaK3ylCEmjKeJiXwfKl7RtNEbiDj7OxhRQ1G1CLN0HGDTTq1QwY+Dm2x1Yscdv5NfobAxQ==",
        "darwin-x64": "DOPeGTQqJWVENJsxwMxJtLOx+7OBINEDg9trQldlJR1nBssaYzNj1WWxp37JYSBRjeYLhqLipvDqEA0LMglL7A==",
        "linux-arm64": "sx6SoGj3MNR5CV+YDkNtbLHXa1tn3G8qcYFgm1gnvOi9ODQUKbhiPfankJfkTMDVekOvnKJhm6i9hGFIPzp7cQ==",
        "linux-arm64-musl": "r3taVK9rDaMahHkrCGV8wF1Sjphs7fqXy2ZEznyDGxUqeW6HxgkbG7dPplXnwwGiMTdYLrtQTQMN21ZTxcVHBA==",
        "linux-x64": "rIlKmrY0QMyHgPRX/MYWNj039vbypICvI9jVe3rs9Xy2RnNklySjyPxqh62QadznzoftEO23uYQ1tFePcQ//bg==",
        "linux-x64-musl": "/Ij3+inZf96Lb1BLnO0rWArRi1HqIMh6HeGrQoykrp7a8Yj0SA1EQIO42kpNeVxM9z3o3xUaiIf0FRMzLIp6oQ==",
    },
    "2.1.330": {
        "darwin-arm64": "rgzAjrRJJsIdZXGF9CCFFbURxKuJNobRr+krV3dNmqNJWIws74rLD0CABe4+nXlx/9WwRECTrveprWB96mubqw==",
        "darwin-x64": "XenTNj2zXaFrnLmf47n25vChfFhlfeyaAR/vW5SFsEnLGwd2U1vDUY97+5etHBZu3xWBnlK8HhBVxzRi9YTUDw==",
        "linux-arm64": "V4yanAY5EA5UpwwRPtjSfqDbNqAlUJeVn3NYZw2AgmRHjdpSsLtHAzbxRXfkAnbjwTXzE0uedjQxUY02ARPcsA==",
        "linux-arm64-musl": "NemfeTqZ30tQDhAeumZgDYoX4ewhAHkN3dbcsyvlgb+yvpKUlcYu5Bor8K+Du5azGe3uy9sftlJxbGhTsCR7zA==",
        "linux-x64": "9Gn+V7DtJ8M1nztP9CeDVl9g3RtrepI7rOFTyPRRnZe8D6zebIHKmC7OvBauucuAP0X0k85SDN/LPVZyjsGezQ==",
        "linux-x64-musl": "OnduSSPY1b59FA8jTbq20Y1XkDUV0S1OVyvYBNslEbpX79P81JF7Ih4lgYvDKiFnnSv75z4Kv6qLE5DQqogYXA==",
    },
}
VERSIONS = {"oldest": "2.1.197", "newest": "2.1.330"}


class CannotFetch(Exception):
    """The client cannot be obtained; the message says why."""


def this_platform() -> str:
    """The platform of this machine in the spelling of the client's packages."""
    machine = {"x86_64": "x64", "amd64": "x64", "arm64": "arm64", "aarch64": "arm64"}.get(
        platform.machine().lower(), ""
    )
    system = platform.system().lower()
    musl = "-musl" if system == "linux" and platform.libc_ver()[0] != "glibc" else ""
    return f"{system}-{machine}{musl}"


def fetch(version: str, system: str, cache: Path, *, pinned_only: bool = True) -> Path:
    """The client's path in `cache`, where it is put if it is not there yet; raises CannotFetch."""
    client = cache / f"claude-code-{version}" / "claude"
    if os.access(client, os.X_OK):
        return client
    pinned = SHA512.get(version, {})
    if not re.fullmatch(r"\d+\.\d+\.\d+", version, re.ASCII):
        raise CannotFetch(f"{version!r} is no version of the client, such as {VERSIONS['newest']}")
    if system not in pinned and (pinned_only or pinned):
        raise CannotFetch(f"no client {version} is pinned for {system}")
    npm = shutil.which("npm")
    if not npm:
        raise CannotFetch("npm is missing: install it, or set FABER_TEST_CLAUDE to a client")
    client.parent.mkdir(parents=True, exist_ok=True)
    for left in client.parent.glob(".fetch-*"):  # 300 MB each, left behind by a fetch that was killed
        if left.stat().st_mtime < time.time() - 3600:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=client.parent) as directory:
        package = f"{PACKAGE}-{system}@{version}"
        packed = subprocess.run(
            [npm, "pack", "--silent", "--pack-destination", directory, package],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        archives = list(Path(directory).glob("*.tgz"))
        if packed.returncode or len(archives) != 1:
            raise CannotFetch(f"npm pack {package} failed: {' '.join(packed.stderr.split())[-300:]}")
        with archives[0].open("rb") as archive:
            digest = base64.b64encode(hashlib.file_digest(archive, "sha512").digest()).decode()
        if not pinned:
            print(f"fetch_claude.py: {package} is not pinned; its SHA-512 is {digest}", file=sys.stderr)
        elif digest != pinned[system]:
            raise CannotFetch(f"{package} has SHA-512 {digest}, not the pinned one")
        unpacked = Path(directory, "claude")
        with tarfile.open(archives[0]) as members, unpacked.open("wb") as target:
            source = members.extractfile("package/claude")
            if source is None:
                raise CannotFetch(f"{package} holds no client")
            shutil.copyfileobj(source, target)
        unpacked.chmod(0o755)
        os.replace(unpacked, client)
    return client


def main() -> int:
    """Run the command line described above."""
    given = sys.argv[1:]
    pinned_only = "--unpinned" not in given
    wanted = next((each for each in given if each != "--unpinned"), "newest")
    home = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(home if os.path.isabs(home) else os.path.expanduser("~/.cache"), "faber")
    try:
        print(fetch(VERSIONS.get(wanted, wanted), this_platform(), cache, pinned_only=pinned_only))
    except (CannotFetch, OSError) as problem:
        print(f"fetch_claude.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
