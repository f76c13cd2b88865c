"""Calls of GitHub's API over any transport: retried, spaced, redirected and limited in time."""

import random as _random
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from faber.github.api_responses import (
    ATTEMPTS,
    HOPS,
    WRITE_SPACING,
    NoResponse,
    Response,
    after_failure,
    after_response,
)
from faber.github.trusted_repository import within
from faber.sources.work_items import WorkItemError, WorkItemInvalid, WorkItemNetworkError
from faber.store import strict_json

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
GRAPHQL = "graphql"  # a path that each transport knows, wherever the host has it
_HIDDEN = b"[REDACTED]"
_SHORTEST_SECRET = 8  # shorter ones are not tokens, and occur in any text


class ApiRequest(NamedTuple):
    """A method, a path under the API's root (no leading slash, with its query), and a JSON body."""

    method: str
    path: str
    body: bytes | None = None


class Transport(Protocol):
    """Sends requests to the API at `root`; `secrets` are removed from whatever comes back."""

    root: str
    secrets: tuple[str, ...]

    def send(self, request: ApiRequest, seconds: float) -> Response:
        """The answer to one request, without following redirects; raises `NoResponse`."""


class Timing(NamedTuple):
    """A monotonic clock, the time since 1970, sleeping and chance; times in seconds. Tests replace them."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = _random.random


class ApiAnswer(NamedTuple):
    """An answer of the API: the JSON value, and the headers by lower-case name."""

    value: object
    headers: dict[str, str]


class Calls:
    """Calls over one transport, one at a time. `seconds` limits one request.

    Reads and idempotent writes are retried after network failures and 5xx; other writes only where nothing was sent
    or done. A pause that GitHub asks for is waited out if the deadline allows it, and is an error otherwise.
    """

    def __init__(self, transport: Transport, seconds: float, timing: Timing) -> None:
        self.transport = transport
        self.seconds = seconds
        self.timing = timing
        self._written: float | None = None

    def call(self, request: ApiRequest, deadline: float, *, repeatable: bool) -> ApiAnswer:
        """The answer to `request`, before `deadline` (of `timing.clock`); raises a `WorkItemError`."""
        timing, attempt, hops = self.timing, 0, 0
        while True:
            if request.method != "GET":
                self._space()
            left = deadline - timing.clock()
            if left <= 0:
                raise WorkItemNetworkError("GitHub did not answer in the time allowed.")
            try:
                response = self._send(request, min(self.seconds, left))
            except NoResponse as failure:
                verdict = after_failure(failure, repeatable=repeatable, attempt=attempt, random=timing.random())
            else:
                if response.redirected and request.method == "GET" and hops < HOPS:
                    hops += 1
                    request = request._replace(path=self.path_of(response.headers.get("location", "")))
                    continue
                judged = after_response(
                    response, repeatable=repeatable, attempt=attempt, now=timing.now(), random=timing.random()
                )
                if judged is None:
                    return ApiAnswer(_json(response.body), dict(response.headers))
                verdict = judged
            if isinstance(verdict, WorkItemError):
                raise verdict
            attempt += 1
            if attempt == ATTEMPTS or timing.clock() + verdict.seconds >= deadline:
                raise verdict.error
            timing.sleep(verdict.seconds)

    def once(self, request: ApiRequest, deadline: float) -> Response:
        """The response to one attempt, whatever it is; raises a `WorkItemError` where there is none."""
        left = deadline - self.timing.clock()
        try:
            if left > 0:
                return self._send(request, min(self.seconds, left))
        except NoResponse as failure:
            raise WorkItemNetworkError(f"GitHub could not be reached: {failure.reason}.") from None
        raise WorkItemNetworkError("GitHub did not answer in the time allowed.")

    def path_of(self, url: str) -> str:
        """The path under the API's root that a URL from an answer names; the token is sent nowhere else."""
        path = within(self.transport.root, url)
        if path is None:
            raise WorkItemInvalid("GitHub's answer redirects to another host; faber did not follow it.")
        return path

    def _send(self, request: ApiRequest, seconds: float) -> Response:
        sent = True
        try:
            response = self.transport.send(request, seconds)
        except NoResponse as failure:
            sent = failure.sent
            reason = self._hidden(failure.reason.encode(errors="replace")).decode()
            raise NoResponse(reason, sent=sent, final=failure.final) from None
        finally:
            if sent and request.method != "GET":
                self._written = self.timing.clock()
        return response._replace(body=self._hidden(response.body))

    def _hidden(self, data: bytes) -> bytes:
        for secret in self.transport.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                data = data.replace(secret.encode(), _HIDDEN)
        return data

    def _space(self) -> None:
        if self._written is not None:
            pause = self._written + WRITE_SPACING - self.timing.clock()
            if pause > 0:
                self.timing.sleep(pause)


def _json(body: bytes) -> object:
    try:
        return strict_json.loads(body)
    except strict_json.InvalidJSON:
        raise WorkItemInvalid(
            "GitHub's answer is not JSON.", recovery="Check that host and api_url in config.yaml name a GitHub server."
        ) from None
