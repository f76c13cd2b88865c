"""A GitHub on loopback with few operations, issues that remember, and faults to order.

Every request it gets is held to GitHub's description of its API and every answer it gives of its own accord, too:
`violations` is empty or the test fails. What a fault sends instead is the test's own.
"""

import json
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from github import fake_reactions, gitserver
from github.description import Operation, example, operation, request_problems, response_problems
from github.fake_checks import FakeChecks
from github.fake_pulls import FakePulls

_EPOCH = datetime(2025, 12, 1, 10, 0, 0, tzinfo=UTC)
_DOCS = "https://docs.github.com/rest"


class Fault(NamedTuple):
    """What goes wrong with the next request, or the next of `method` whose path holds `path`.

    A `status` with `headers` and `message` answers so instead of doing anything; `body` is sent raw with it.
    `drop` ends the connection: `before` anything is done, `after` it was done, or `half` way through the answer.
    `seconds` passes before the answer; `drip` sends it a byte at a time with that pause between.
    """

    status: int | None = None
    message: str = "Server Error"
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    body: bytes | None = None
    drop: str = ""
    seconds: float = 0
    drip: bool = False
    method: str = ""
    path: str = ""


class Seen(NamedTuple):
    """A request that arrived: `at` is seconds of a clock that only goes forward, `path` holds the query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


class FakeGitHub:
    """The repository `acme/widgets` on a server of its own; `with FakeGitHub() as github:`.

    `root` is where this server's API is; `public` the root that its answers use in links and URLs. With `projects`,
    a directory that holds `acme/widgets.git`, it serves that repository, too.
    """

    slug = "acme/widgets"

    def __init__(self, *, public: str | None = None, token: str = "fake-token-of-the-tests") -> None:
        self.token = token
        self.login = "faber-helper[bot]"
        self.job = False
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, dict[str, Any]] = {}
        self.permissions: dict[str, tuple[str, str]] = {}
        self.reviews: dict[int, list[dict[str, Any]]] = {}
        self.checks = FakeChecks(self)
        self.reactions: dict[int, list[dict[str, Any]]] = {}
        self.gone: set[int] = set()
        self.transferred: dict[int, str] = {}
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.violations: list[str] = []
        self.certificate: tuple[Path, Path] | None = None
        self.projects: Path | None = None
        self._ids = 1_000
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.github = self
        self.port = self._server.server_address[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.public = public or self.root
        self.web = f"https://{urlsplit(self.public).hostname}/{self.slug}"  # where people see it
        self.pulls = FakePulls(self)

    def __enter__(self) -> "FakeGitHub":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.checks.close()
        self._server.shutdown()
        self._server.server_close()

    # --- what is there ---------------------------------------------------------------------------------

    def add_issue(self, number: int, title: str = "Runs resume", body: str | None = "Make runs resume.") -> None:
        """An open issue of `octocat`, labelled `bug`, without comments."""
        url = f"{self.public}/repos/{self.slug}/issues/{number}"
        issue = _moved(example("issue"), url)
        self.issues[number] = issue | {
            "url": url,
            "html_url": f"https://github.com/{self.slug}/issues/{number}",
            "number": number,
            "title": title,
            "body": body,
            "comments": 0,
            "created_at": _time(0),
            "updated_at": _time(0),
        }

    def add_comment(self, number: int, body: str, login: str | None = "octocat", kind: str = "User") -> int:
        """A comment on an issue, by somebody whose account may be gone (`login=None`); its id."""
        with self._lock:
            self._ids += 1
            comment = example("issue-comment")
            comment |= {
                "id": self._ids,
                "url": f"{self.public}/repos/{self.slug}/issues/comments/{self._ids}",
                "html_url": f"https://github.com/{self.slug}/issues/{number}#issuecomment-{self._ids}",
                "issue_url": f"{self.public}/repos/{self.slug}/issues/{number}",
                "body": body,
                "user": comment["user"] | {"login": login, "type": kind} if login else None,
                "created_at": _time(self._ids),
                "updated_at": _time(self._ids),
            }
            self.comments[self._ids] = comment
            self.issues[number]["comments"] += 1
            return self._ids

    def comment_on_line(self, review: int, path: str, line: int, body: str) -> None:
        """A comment on a line that belongs to a review."""
        comment = example("review-comment-items")[0]
        self.reviews.setdefault(review, []).append(comment | {"path": path, "line": line, "body": body})

    def bodies(self, number: int) -> list[str]:
        """What the comments on an issue say, oldest first."""
        return [comment["body"] for comment in self._on(number)]

    def asked(self, method: str = "") -> list[str]:
        """The requests that arrived, as `GET /path?query`."""
        return [f"{one.method} {one.path}" for one in self.seen if one.method.startswith(method)]

    def _on(self, number: int) -> list[dict[str, Any]]:
        end = f"/issues/{number}"
        return [comment for _, comment in sorted(self.comments.items()) if comment["issue_url"].endswith(end)]

    # --- what is answered ------------------------------------------------------------------------------

    def fault(self, seen: Seen) -> Fault | None:
        """The fault that this request meets; it is used up."""
        with self._lock:
            for fault in self.faults:
                if seen.method.startswith(fault.method) and fault.path in seen.path:
                    self.faults.remove(fault)
                    return fault
        return None

    def answer(self, seen: Seen) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON value for a request, as GitHub gives them."""
        with self._lock:
            self.seen.append(seen)
            path, _, query = seen.path.partition("?")
            path = path.removeprefix("/api/v3") if self.public.endswith("/api/v3") else path
            if path == ("/api/graphql" if self.public.endswith("/api/v3") else "/graphql"):
                return self.pulls.mutate(seen.headers, seen.body)
            # A repository has a second name that outlives its first one.
            asked = operation(seen.method, path.replace("/repositories/1296269/", f"/repos/{self.slug}/", 1))
            if asked is None:
                return _error(404, "Not Found")
            for problem in request_problems(asked, query, seen.headers, seen.body):
                self.violations.append(f"{seen.method} {seen.path}: {problem}")
            if seen.headers.get("authorization") not in (f"Bearer {self.token}", f"token {self.token}"):
                status, headers, value = _error(401, "Bad credentials")
            elif asked.path == "/user":
                status, headers, value = self._account()
            elif f"{asked.parameters['owner']}/{asked.parameters['repo']}".lower() != self.slug:
                status, headers, value = _error(404, "Not Found")
            else:
                status, headers, value = self._do(asked, query, seen.body)
            for problem in response_problems(asked, status, value):
                self.violations.append(f"answer to {seen.method} {seen.path}: {status}: {problem}")
            return status, headers, value

    def _do(self, asked: Operation, query: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        if (about_checks := self.checks.answer(asked)) is not None:
            return about_checks
        if self.pulls.answers(asked):
            return self.pulls.answer(asked, query, body)
        if known := fake_reactions.answer(self, asked):
            return known
        if "username" in asked.parameters:
            return self._permission(asked.parameters["username"].replace("%5B", "[").replace("%5D", "]"))
        if "review_id" in asked.parameters:
            return 200, {}, self.reviews.get(int(asked.parameters["review_id"]), [])
        if "comment_id" in asked.parameters:
            comment = self.comments.get(int(asked.parameters["comment_id"]))
            if comment is None:
                return _error(422, "Validation Failed")  # the description has no 404 here
            comment["body"] = json.loads(body)["body"]
            return 200, {}, dict(comment)
        number = int(asked.parameters["issue_number"])
        if number in self.gone:
            return _error(410, "This issue was deleted")
        if number in self.transferred and asked.method == "get" and not asked.path.endswith("comments"):
            location = self.transferred[number]
            return 301, {"Location": location}, {"message": "Moved Permanently", "url": location}
        if number not in self.issues:
            return _error(404, "Not Found")
        if asked.method == "post":
            made = self.add_comment(number, json.loads(body)["body"], self.login, "Bot")
            return 201, {"Location": self.comments[made]["url"]}, dict(self.comments[made])
        if asked.path.endswith("comments"):
            return self._page(number, parse_qs(query))
        return 200, {}, dict(self.issues[number])

    def _account(self) -> tuple[int, dict[str, str], Any]:
        """Whose the token is; the token of a job may not ask."""
        if self.job:
            return _error(403, "Resource not accessible by integration")
        value = example("private-user-response-with-public-and-private-profile-information")
        return 200, {}, value | {"login": self.login}

    def _page(self, number: int, query: dict[str, list[str]]) -> tuple[int, dict[str, str], Any]:
        size, page = (int(query.get(name, [default])[0]) for name, default in (("per_page", "30"), ("page", "1")))
        found = self._on(number)
        last = max(1, -(-len(found) // size))
        base = f"{self.public}/repositories/1296269/issues/{number}/comments?per_page={size}&page="
        links = [("prev", page - 1), ("next", page + 1), ("last", last), ("first", 1)]
        shown = [
            f'<{base}{to}>; rel="{name}"'
            for name, to in links
            if (page > 1 if name in ("prev", "first") else page < last)
        ]
        headers = {"Link": ", ".join(shown)} if shown else {}
        return 200, headers, found[(page - 1) * size : page * size]

    def _permission(self, login: str) -> tuple[int, dict[str, str], Any]:
        known = {name.lower(): name for name in self.permissions}
        if login.lower() not in known:
            return _error(404, f"{login} is not a user")
        name = known[login.lower()]
        permission, role = self.permissions[name]
        value = example("repository-collaborator-permission-response-if-user-has-admin-permissions")
        value["user"] |= {"login": name, "type": "Bot" if name.endswith("[bot]") else "User", "role_name": role}
        return 200, {}, value | {"permission": permission, "role_name": role}

    # --- over TLS, as a proxy --------------------------------------------------------------------------

    def encrypt(self, host: str, directory: Path) -> dict[str, str]:
        """Answer for `host` behind a proxy, over TLS with a certificate of the test's own.

        What to add to a client's environment so that it comes here, and believes it.
        """
        key, certificate = directory / "key.pem", directory / "certificate.pem"
        subject = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
        subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        self.certificate = certificate, key
        proxy = f"http://127.0.0.1:{self.port}"
        return {"https_proxy": proxy, "HTTPS_PROXY": proxy, "SSL_CERT_FILE": str(certificate)}

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the server lives."""
        self._stop.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    github: FakeGitHub

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what arrived is in `seen`."""

    def do_CONNECT(self) -> None:
        github = self.server.github
        assert github.certificate is not None
        self.send_response(200)
        self.end_headers()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*github.certificate)
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def _do(self) -> None:
        github = self.server.github
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._chunks()
        headers = {name.lower(): value for name, value in self.headers.items()}
        if github.projects and self.path.startswith(f"/{github.slug}.git/"):
            return self._git(github.projects, headers, body)
        seen = Seen(self.command, self.path, headers, body, time.monotonic())
        fault = github.fault(seen) or Fault()
        if fault.drop == "before":
            github.seen.append(seen)
            return self._hang_up()
        if fault.status is not None or fault.body is not None:
            github.seen.append(seen)
            status, extra, value = fault.status or 200, fault.headers, {"message": fault.message}
        else:
            status, extra, value = github.answer(seen)
            extra = extra | fault.headers
        data = fault.body if fault.body is not None else b"" if value is None else json.dumps(value).encode()
        if fault.drop == "after":
            return self._hang_up()
        if fault.seconds and not fault.drip:
            github.pause(fault.seconds)
        self._send(status, extra, data, fault)
        return None

    do_GET = do_POST = do_PATCH = _do  # noqa: N815

    def _send(self, status: int, extra: dict[str, str], data: bytes, fault: Fault) -> None:
        rate = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1767225600"}
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json; charset=utf-8"} | rate | extra).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault.drop == "half":
            self.wfile.write(data[: len(data) // 2])
            return self._hang_up()
        if fault.drip:
            for index in range(len(data)):
                self.wfile.write(data[index : index + 1])
                self.server.github.pause(fault.seconds)
            return None
        self.wfile.write(data)
        return None

    def _git(self, projects: Path, headers: dict[str, str], body: bytes) -> None:
        status, said, data = gitserver.answer(
            projects, self.command, self.path, headers, body, {self.server.github.token}
        )
        self.send_response(status)
        for name, value in said:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()


def _error(status: int, message: str) -> tuple[int, dict[str, str], Any]:
    return status, {}, {"message": message, "documentation_url": _DOCS}


def _moved(issue: dict[str, Any], url: str) -> dict[str, Any]:
    """The example with every URL that begins with its own address at `url`."""
    old = issue["url"]
    text = json.dumps(issue).replace(old, url)
    text = text.replace(old.rpartition("/issues/")[0], url.rpartition("/issues/")[0])
    moved: dict[str, Any] = json.loads(text)
    return moved


def _time(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
