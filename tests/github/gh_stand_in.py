"""Stands in for `gh`: the two subcommands that faber calls, with gh's own arguments, output and exit statuses.

Its login is for the host in STAND_IN_HOST; `gh api` asks the server at STAND_IN_API. Every call is a line of the
file in STAND_IN_LOG: the arguments, and the variables that could carry a credential or change what is printed.
"""

import argparse
import json
import os
import socket
import sys

TOKEN = "gh-login-of-the-tests"
WATCHED = ("GH_", "GITHUB_", "DEBUG", "CLICOLOR", "NO_COLOR")


def _exchanged(place: str, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> "Answer":
    """One request to host:port and its answer, without `http.client`, which takes longer to load than all else here."""
    host, _, port = place.partition(":")
    told = (
        headers | {"Host": place, "Connection": "close"} | ({} if body is None else {"Content-Length": str(len(body))})
    )
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as reader:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        head = reader.readline().decode("latin-1").split(None, 2)
        if len(head) < 2 or not head[0].startswith("HTTP/"):
            raise OSError("malformed HTTP response")
        found: dict[str, str] = {}
        while line := reader.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            found.setdefault(name.strip().title(), value.strip())
        data = reader.read()
    if len(data) < int(found.get("Content-Length", 0)):
        raise OSError("unexpected EOF")
    return Answer(int(head[1]), head[2].strip() if len(head) > 2 else "", found, data)


class Answer:
    """What the server answered."""

    def __init__(self, status: int, reason: str, headers: dict[str, str], data: bytes) -> None:
        self.status, self.reason, self.headers, self.data = status, reason, headers, data


def token(arguments: argparse.Namespace) -> int:
    """`gh auth token`."""
    if arguments.hostname != os.environ.get("STAND_IN_HOST"):
        print("no oauth token", file=sys.stderr)
        return 1
    print(TOKEN)
    return 0


def api(arguments: argparse.Namespace) -> int:
    """`gh api`: redirects of reads are followed, an answer past 299 is printed and ends with status 1."""
    body = sys.stdin.buffer.read() if arguments.input == "-" else None
    method = arguments.method or ("POST" if body is not None else "GET")
    headers = {"User-Agent": "GitHub CLI", "Authorization": f"token {TOKEN}", "Time-Zone": "UTC"}
    headers |= {"Content-Type": "application/json; charset=utf-8"} if body is not None else {}
    for header in arguments.header:
        name, _, value = header.partition(":")
        headers[name.strip()] = value.strip()
    place, slash, path = os.environ["STAND_IN_API"].removeprefix("http://").partition("/")
    root = slash + path
    # gh asks an Enterprise Server's GraphQL beside its REST API.
    above = root.removesuffix("/v3") if arguments.endpoint == "graphql" else root
    target = f"{above}/{arguments.endpoint}"
    for _ in range(10):
        try:
            answer = _exchanged(place, method, target, body, headers)
        except ConnectionRefusedError:
            print(f"error connecting to {arguments.hostname}", file=sys.stderr)
            print("check your internet connection or https://githubstatus.com", file=sys.stderr)
            return 1
        except (OSError, ValueError) as error:
            print(f'{method.capitalize()} "https://{arguments.hostname}{target}": {error}', file=sys.stderr)
            return 1
        if answer.status not in (301, 302, 307, 308) or method != "GET":
            break
        target = "/" + answer.headers.get("Location", "").partition("://")[2].partition("/")[2].partition("?")[0]
    out = sys.stdout.buffer
    if arguments.include:
        out.write(f"HTTP/1.1 {answer.status} {answer.reason}\n".encode())
        for name in sorted(answer.headers):
            out.write(f"{name}: {answer.headers[name]}\r\n".encode())
        out.write(b"\r\n")
    data = answer.data
    out.write(data)
    out.flush()
    if arguments.endpoint == "graphql" and json.loads(data).get("errors"):
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


def main() -> int:
    """What the arguments ask for, after writing them down."""
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        seen = {name: value for name, value in os.environ.items() if name.startswith(WATCHED)}
        log.write(json.dumps({"arguments": sys.argv[1:], "environment": seen}) + "\n")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    auth = commands.add_parser("auth", allow_abbrev=False).add_subparsers(required=True)
    one = auth.add_parser("token", allow_abbrev=False)
    one.add_argument("--hostname", default="github.com")
    one.set_defaults(do=token)
    one = commands.add_parser("api", allow_abbrev=False)
    one.add_argument("endpoint")
    one.add_argument("--hostname", default="github.com")
    one.add_argument("--include", action="store_true")
    one.add_argument("--method")
    one.add_argument("--header", action="append", default=[])
    one.add_argument("--input")
    one.set_defaults(do=api)
    arguments = parser.parse_args()
    status: int = arguments.do(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
