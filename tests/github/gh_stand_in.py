"""Stands in for `gh`: the two subcommands that faber calls, with gh's own arguments, output and exit statuses.

Its login is for the host in STAND_IN_HOST; `gh api` asks the server at STAND_IN_API. Every call is a line of the
file in STAND_IN_LOG: the arguments, and the variables that could carry a credential or change what is printed.
"""

import _socket
import os
import sys

TOKEN = "gh-login-of-the-tests"
WATCHED = ("GH_", "GITHUB_", "DEBUG", "CLICOLOR", "NO_COLOR")
Given = dict[str, list[str]]


def _exchanged(place: str, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> "Answer":
    """One request to host:port and its answer. `http.client`, `socket` and `json` take longer to load than to use."""
    host, _, port = place.partition(":")
    told = (
        headers | {"Host": place, "Connection": "close"} | ({} if body is None else {"Content-Length": str(len(body))})
    )
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    connection.connect((host, int(port)))
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    connection.close()
    first, _, rest = b"".join(parts).partition(b"\r\n")
    above, _, data = rest.partition(b"\r\n\r\n")
    head = first.decode("latin-1").split(None, 2)
    if len(head) < 2 or not head[0].startswith("HTTP/"):
        raise OSError("malformed HTTP response")
    found: dict[str, str] = {}
    for line in above.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip().title(), value.strip())
    if len(data) < int(found.get("Content-Length", 0)):
        raise OSError("unexpected EOF")
    return Answer(int(head[1]), head[2].strip() if len(head) > 2 else "", found, data)


class Answer:
    """What the server answered."""

    def __init__(self, status: int, reason: str, headers: dict[str, str], data: bytes) -> None:
        self.status, self.reason, self.headers, self.data = status, reason, headers, data


def token(hostname: str) -> int:
    """`gh auth token`."""
    if hostname != os.environ.get("STAND_IN_HOST"):
        print("no oauth token", file=sys.stderr)
        return 1
    print(TOKEN)
    return 0


def api(endpoint: str, hostname: str, given: Given) -> int:
    """`gh api`: redirects of reads are followed, an answer past 299 is printed and ends with status 1."""
    body = sys.stdin.buffer.read() if given.get("--input") == ["-"] else None
    method = given["--method"][-1] if "--method" in given else ("POST" if body is not None else "GET")
    headers = {"User-Agent": "GitHub CLI", "Authorization": f"token {TOKEN}", "Time-Zone": "UTC"}
    headers |= {"Content-Type": "application/json; charset=utf-8"} if body is not None else {}
    for header in given.get("--header", []):
        name, _, value = header.partition(":")
        headers[name.strip()] = value.strip()
    place, slash, path = os.environ["STAND_IN_API"].removeprefix("http://").partition("/")
    root = slash + path
    # gh asks an Enterprise Server's GraphQL beside its REST API.
    above = root.removesuffix("/v3") if endpoint == "graphql" else root
    target = f"{above}/{endpoint}"
    for _ in range(10):
        try:
            answer = _exchanged(place, method, target, body, headers)
        except ConnectionRefusedError:
            print(f"error connecting to {hostname}", file=sys.stderr)
            print("check your internet connection or https://githubstatus.com", file=sys.stderr)
            return 1
        except (OSError, ValueError) as error:
            print(f'{method.capitalize()} "https://{hostname}{target}": {error}', file=sys.stderr)
            return 1
        if answer.status not in (301, 302, 307, 308) or method != "GET":
            break
        target = "/" + answer.headers.get("Location", "").partition("://")[2].partition("/")[2].partition("?")[0]
    out = sys.stdout.buffer
    if "--include" in given:
        out.write(f"HTTP/1.1 {answer.status} {answer.reason}\n".encode())
        for name in sorted(answer.headers):
            out.write(f"{name}: {answer.headers[name]}\r\n".encode())
        out.write(b"\r\n")
    data = answer.data
    out.write(data)
    out.flush()
    if endpoint != "graphql" and answer.status <= 299:
        return 0
    import json

    if endpoint == "graphql" and json.loads(data).get("errors"):
        print(f"gh: {json.loads(data)['errors'][0]['message']}", file=sys.stderr)
        return 1
    if answer.status > 299:
        try:
            said = f"{json.loads(data)['message']} (HTTP {answer.status})"
        except (ValueError, KeyError, TypeError):
            said = f"HTTP {answer.status}"
        print(f"gh: {said}", file=sys.stderr)
        return 1
    return 0


def _told(words: list[str], flags: tuple[str, ...], options: tuple[str, ...]) -> tuple[list[str], Given]:
    """The words that belong to no option, and what was given to each; ends with status 2 where there is another."""
    plain: list[str] = []
    given: Given = {}
    left = iter(words)
    for word in left:
        if word in flags:
            given[word] = []
        elif word in options and (value := next(left, None)) is not None:
            given.setdefault(word, []).append(value)
        elif word.startswith("-"):
            sys.exit(2)
        else:
            plain.append(word)
    return plain, given


def main() -> int:
    """What the arguments ask for, after writing them down."""
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        seen = {name: value for name, value in os.environ.items() if name.startswith(WATCHED)}
        log.write(f"{ {'arguments': sys.argv[1:], 'environment': seen}!r}\n")
    plain, given = _told(sys.argv[1:], ("--include",), ("--hostname", "--method", "--header", "--input"))
    hostname = given.get("--hostname", ["github.com"])[-1]
    if plain == ["auth", "token"] and not given.keys() - {"--hostname"}:
        return token(hostname)
    if len(plain) == 2 and plain[0] == "api":
        return api(plain[1], hostname, given)
    return 2


if __name__ == "__main__":
    sys.exit(main())
