"""git over HTTP, as GitHub has it beside its API: one repository, and nothing without the token."""

import base64
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.git_environment import UNCONFIGURED


def answer(
    projects: Path, method: str, path: str, headers: Mapping[str, str], body: bytes, tokens: set[str]
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of what `git http-backend` answers for a repository below `projects`.

    Whoever has none of `tokens` (as the password of basic authentication) is told 401, to read as well.
    """
    if _password(headers.get("authorization", "")) not in tokens:
        return 401, [("WWW-Authenticate", 'Basic realm="GitHub"'), ("Content-Length", "0")], b""
    place, _, query = path.partition("?")
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **UNCONFIGURED,
        "GIT_PROJECT_ROOT": str(projects),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REMOTE_USER": "somebody",
        "PATH_INFO": place,
        "QUERY_STRING": query,
        "REQUEST_METHOD": method,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "GIT_PROTOCOL": headers.get("git-protocol", ""),
    }
    done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, check=True)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    said = [(name, value.strip()) for name, _, value in (row.partition(":") for row in head.decode().splitlines())]
    status = next((int(value.split()[0]) for name, value in said if name == "Status"), 200)
    kept = [(name, value) for name, value in said if name != "Status"]
    return status, [*kept, ("Content-Length", str(len(rest)))], rest


def _password(authorization: str) -> str | None:
    kind, _, given = authorization.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return None
