"""Requests to GitHub's REST API through `gh api`, with the person's own login."""

import os
import re
from collections.abc import Mapping

from faber.git.configuration import environment as git_environment
from faber.github.api_calls import GRAPHQL, HEADERS, ApiRequest
from faber.github.api_responses import MAX_RESPONSE, NoResponse, Response
from faber.github.trusted_repository import gh_environment, standard_api
from faber.processes.runner import Program, run

ASKING_SECONDS = 10.0

_STATUS = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})\b.*")
# Errors that gh reports before anything was sent.
_NEVER_SENT = ("error connecting to", "no such host", "connection refused", "network is unreachable")


def logged_in(host: str, environ: Mapping[str, str]) -> "GhTransport | None":
    """The transport through the `gh` on the PATH; None if there is no gh or it is not logged in to `host`.

    `gh auth token` reads files and the keyring, not the network. The token is held in memory to redact it from output.
    """
    program = _found(environ.get("PATH", os.defpath))
    if program is None:
        return None
    environment = git_environment(gh_environment(host, environ))
    asked = run(Program([program, "auth", "token", "--hostname", host], environment), seconds=ASKING_SECONDS)
    token = asked.out.strip()
    return GhTransport(program, host, environment, token) if asked.code == 0 and token else None


class GhTransport:
    """Runs `gh api` once per request. gh follows redirects of reads itself, with its own rules for the token."""

    def __init__(self, program: str, host: str, environment: Mapping[str, str], token: str) -> None:
        self.root = standard_api(host)
        self.secrets: tuple[str, ...] = (token,)
        self._environment = environment
        self._command = [program, "api", "--hostname", host, "--include"]
        self._headers = [word for name, value in HEADERS.items() for word in ("--header", f"{name}: {value}")]

    def send(self, request: ApiRequest, seconds: float) -> Response:
        """The answer to one request; raises `NoResponse`."""
        given = ["--input", "-"] if request.body is not None else []
        # The path starts with a letter and has no braces: gh takes it neither for an option nor for a placeholder.
        command = [*self._command, *self._headers, "--method", request.method, *given, request.path]
        answer = run(
            Program(command, self._environment, request.body or b""), seconds=seconds, limit=MAX_RESPONSE + 64_000
        )
        if answer.problem == "timeout":
            raise NoResponse(f"no answer within {seconds:.3g} s", sent=True)
        if answer.problem == "cut":
            raise NoResponse(f"the answer is larger than {MAX_RESPONSE // 1_000_000} MB", sent=True, final=True)
        response = parse(answer.data.decode(errors="replace"))
        # gh also fails where GraphQL answered with errors, which the caller reads.
        failed = answer.code != 0 and request.path != GRAPHQL
        if response is None or (response.status < 300 and failed):
            reason = answer.complaint or f"gh ended with status {answer.code}"
            never = answer.code is None or any(words in reason.lower() for words in _NEVER_SENT)
            raise NoResponse(reason, sent=response is not None or not never)
        return response


def parse(printed: str) -> Response | None:
    """The output of `gh api --include` (status line, headers, empty line, body); None if it is anything else."""
    head, separator, body = printed.partition("\r\n\r\n")
    status, _, lines = head.partition("\n")
    match = _STATUS.fullmatch(status.strip())
    if match is None or not separator:
        return None
    pairs = [line.partition(":") for line in lines.split("\r\n")]
    return Response(int(match[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}, body.encode())


def _found(path: str) -> str | None:
    # Only absolute directories: a relative one may be in the repository, under anybody's control.
    for directory in path.split(os.pathsep):
        program = os.path.join(directory, "gh")
        if os.path.isabs(directory) and os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None
