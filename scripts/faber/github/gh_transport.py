"""Requests to GitHub's REST API through `gh api`, which has the person's own login."""

import os
import re
from collections.abc import Mapping

from faber.github.api_calls import HEADERS, ApiRequest
from faber.github.api_responses import MAX_RESPONSE, NoResponse, Response
from faber.github.trusted_repository import gh_environment, standard_api
from faber.processes.runner import Program, clean_environment, run

ASKING_SECONDS = 10.0

_STATUS = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})\b.*")
# Said by gh before anything left the machine.
_NEVER_SENT = ("error connecting to", "no such host", "connection refused", "network is unreachable")


def logged_in(host: str, environ: Mapping[str, str]) -> "GhTransport | None":
    """The transport through the `gh` on the PATH, None where there is none or it has no login for `host`.

    Asks `gh auth token`, which reads files and keyring and no network; the token stays in memory, to be kept out
    of what is shown.
    """
    program = _found(environ.get("PATH", os.defpath))
    if program is None:
        return None
    environment = clean_environment(gh_environment(host, environ))
    asked = run(Program([program, "auth", "token", "--hostname", host], environment), seconds=ASKING_SECONDS)
    token = asked.out.strip()
    return GhTransport(program, host, environment, token) if asked.code == 0 and token else None


class GhTransport:
    """One `gh api` a request. gh follows redirects of reads by itself, with its own rules for the token."""

    def __init__(self, program: str, host: str, environment: Mapping[str, str], token: str) -> None:
        self.root = standard_api(host)
        self.secrets: tuple[str, ...] = (token,)
        self._environment = environment
        self._command = [program, "api", "--hostname", host, "--include"]
        self._headers = [word for name, value in HEADERS.items() for word in ("--header", f"{name}: {value}")]

    def send(self, request: ApiRequest, seconds: float) -> Response:
        """The answer to one request; raises `NoResponse`."""
        given = ["--input", "-"] if request.body is not None else []
        # The path begins with a letter and holds no braces, so that it is neither an option nor a placeholder.
        command = [*self._command, *self._headers, "--method", request.method, *given, request.path]
        answer = run(
            Program(command, self._environment, request.body or b""), seconds=seconds, limit=MAX_RESPONSE + 64_000
        )
        if answer.problem == "timeout":
            raise NoResponse(f"no answer within {seconds:.3g} s", sent=True)
        if answer.problem == "cut":
            raise NoResponse(f"the answer is larger than {MAX_RESPONSE // 1_000_000} MB", sent=True, final=True)
        response = parse(answer.out)
        if response is None or (response.status < 300 and answer.code != 0):
            reason = answer.error or f"gh ended with status {answer.code}"
            never = answer.code is None or any(words in reason.lower() for words in _NEVER_SENT)
            raise NoResponse(reason, sent=response is not None or not never)
        return response


def parse(printed: str) -> Response | None:
    """What `gh api --include` printed: a status line, headers, an empty line, the body. None if it is not that."""
    head, separator, body = printed.partition("\r\n\r\n")
    status, _, lines = head.partition("\n")
    match = _STATUS.fullmatch(status.strip())
    if match is None or not separator:
        return None
    pairs = [line.partition(":") for line in lines.split("\r\n")]
    return Response(int(match[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}, body.encode())


def _found(path: str) -> str | None:
    # Only absolute directories: a relative one is the repository's to fill.
    for directory in path.split(os.pathsep):
        program = os.path.join(directory, "gh")
        if os.path.isabs(directory) and os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None
