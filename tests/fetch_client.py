"""Fetch a client that the tests drive, and print the path of its program.

Usage:
    fetch_client.py [--unpinned] CLIENT [VERSION]

CLIENT is `claude-code`, `codex` or `opencode`; VERSION is `newest` (the default), `oldest`, or a pinned one.
The SHA-512 of each platform's package is pinned here: what the tests prove, they prove about these clients.
`--unpinned` takes any other version, too, and says what its SHA-512 is. A client comes through the ordinary npm client
and is kept in $XDG_CACHE_HOME/faber (default ~/.cache), where it appears whole or not at all. Once it is there,
neither npm nor the network is asked.

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# SHA-512 of each package, in base64, by version and system; the oldest version first.
CLAUDE_CODE = {
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
CODEX = {
    "0.169.0": {
        "darwin-arm64": "5WsWFBbVP78D+6FvNo1MMVxLPZdmcoQlqVJFrF4qx/TmvneLnMQKtLyXkUo54XOTDfoYKpNouTJ/F7gTVA8FnQ==",
        "darwin-x64": "K1FKSsSLl9v3z5TeagBQXyQRDBIGB5Jncy5dxsRxwT3aaTqN3AI8VrCfoxBxKMOOU9O2QX1vg7WkBwNVth/s9A==",
        "linux-arm64": "NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg==",
        "linux-x64": "o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==",
    },
}
OPENCODE = {
    "1.18.33": {
        "linux-x64": "q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",
    },
}


@dataclass(frozen=True)
class Client:
    """A client as its makers publish it."""

    package: str  # what npm calls it; {version} and {system} stand for the wanted ones
    folder: str  # of the package that holds what is kept
    program: str  # in that folder
    sha512: Mapping[str, Mapping[str, str]]


CLIENTS = {
    "claude-code": Client(
        "@anthropic-ai/claude-code-{system}@{version}",
        "package",
        "claude",
        CLAUDE_CODE,
    ),
    # One package for every libc. Its other programs (its sandbox, rg) lie beside it, where it looks for them.
    "codex": Client(
        "@openai/codex@{version}-{system}",
        "package/vendor/*",
        "bin/codex",
        CODEX,
    ),
    "opencode": Client(
        "opencode-{system}@{version}",
        "package/bin",
        "opencode",
        OPENCODE,
    ),
}


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


def fetch(name: str, version: str, system: str, cache: Path, *, pinned_only: bool = True) -> Path:
    """The path of the client's program in `cache`, where it is put if it is not there yet; raises CannotFetch."""
    client, home = CLIENTS[name], cache / f"{name}-{version}"
    if os.access(home / client.program, os.X_OK):
        return home / client.program
    pinned = client.sha512.get(version, {})
    if not re.fullmatch(r"\d+\.\d+\.\d+", version, re.ASCII):
        raise CannotFetch(f"{version!r} is no version of {name}, such as {[*client.sha512][-1]}")
    if system not in pinned:
        system = system.removesuffix("-musl") if name == "codex" else system
    if system not in pinned and (pinned_only or pinned):
        raise CannotFetch(f"no {name} {version} is pinned for {system}")
    npm = shutil.which("npm")
    if not npm:
        raise CannotFetch("npm is missing: install it, or set the variable of tests/run that names the client")
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob(".fetch-*"):  # 500 MB each, left behind by a fetch that was killed
        if left.stat().st_mtime < time.time() - 3600:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as directory:
        package = client.package.format(system=system, version=version)
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
            print(f"fetch_client.py: {package} is not pinned; its SHA-512 is {digest}", file=sys.stderr)
        elif digest != pinned[system]:
            raise CannotFetch(f"{package} has SHA-512 {digest}, not the pinned one")
        with tarfile.open(archives[0]) as members:
            if hasattr(tarfile, "data_filter"):
                members.extractall(directory, filter="data")
            elif pinned:  # Python 3.11.0 to 3.11.3 filter nothing: what is unpacked there is known byte by byte
                members.extractall(directory)
            else:
                raise CannotFetch(f"{package} is not pinned: unpack it with Python 3.11.4 or newer")
        unpacked = next(Path(directory).glob(client.folder), None)
        if unpacked is None or not (unpacked / client.program).is_file():
            raise CannotFetch(f"{package} holds no client")
        (unpacked / client.program).chmod(0o755)
        try:
            unpacked.rename(home)
        except OSError:  # another process was faster
            if not os.access(home / client.program, os.X_OK):
                raise
    return home / client.program


def main() -> int:
    """Run the command line described above."""
    given = [each for each in sys.argv[1:] if each != "--unpinned"]
    if not given or given[0] not in CLIENTS or len(given) > 2:
        print(f"fetch_client.py: name one of {', '.join(CLIENTS)}, and at most one version", file=sys.stderr)
        return 2
    name, wanted = given[0], (given[1:] or ["newest"])[0]
    pinned = [*CLIENTS[name].sha512]
    version = {"oldest": pinned[0], "newest": pinned[-1]}.get(wanted, wanted)
    home = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(home if os.path.isabs(home) else os.path.expanduser("~/.cache"), "faber")
    try:
        print(fetch(name, version, this_platform(), cache, pinned_only="--unpinned" not in sys.argv[1:]))
    except (CannotFetch, OSError) as problem:
        print(f"fetch_client.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
