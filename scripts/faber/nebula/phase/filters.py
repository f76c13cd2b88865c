"""Filters: the project's own checks between the coder's commit and the review."""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faber.agents.environment import TURN, agent_environment
from faber.agents.outcome import Outcome
from faber.agents.process import Running
from faber.model.text import inert, redact

KEPT_OUTPUT = 8_000  # characters, from the end: errors are there
MAX_OUTPUT = 64 * 1024 * 1024  # bytes that a filter may print
_SHELL = "/bin/sh"


class Check(NamedTuple):
    """One filter: `command` is a line for `/bin/sh -c`, or a program and its arguments; `timeout` in seconds."""

    name: str
    command: str | Sequence[str]
    timeout: float


class FilterResult(NamedTuple):
    """What a filter came to. `output` is its end (stdout and stderr as they came), inert and without credentials;
    `detail` says in one line how it ended."""

    name: str
    passed: bool
    detail: str
    output: str
    seconds: float
    cancelled: bool = False


def run_filters(
    checks: Sequence[Check],
    directory: str,
    *,
    cancel: threading.Event,
    label: str,
    environment: Mapping[str, str] | None = None,
) -> list[FilterResult]:
    """Run the filters in order in `directory`, up to and with the first that fails; one result each.

    Every process of a filter is ended with it. `label` marks them as `agents.running.end_turns` knows them.
    """
    results = []
    for check in checks:
        results.append(run_filter(check, directory, cancel=cancel, label=label, environment=environment))
        if not results[-1].passed:
            break
    return results


def run_filter(
    check: Check,
    directory: str,
    *,
    cancel: threading.Event,
    label: str,
    environment: Mapping[str, str] | None = None,
) -> FilterResult:
    """One filter; see `run_filters`."""
    command = [_SHELL, "-c", check.command] if isinstance(check.command, str) else list(check.command)
    marker = f"{label}.{os.urandom(8).hex()}"
    variables = agent_environment(os.environ if environment is None else environment, {}, marker)
    running = Running(
        # One stream, so that what it says stays in the order in which it said it.
        [_SHELL, "-c", 'exec "$@" 2>&1', "sh", *command],
        cwd=directory,
        environment=variables,
        marker=f"{TURN}={marker}",
        prompt="",
        grace=1.0,
    )
    end = _End(4 * KEPT_OUTPUT)
    ended = running.wait(end.take, timeout=check.timeout, max_output=MAX_OUTPUT, cancelled=cancel)
    output = redact(inert(end.text()))[-KEPT_OUTPUT:]
    passed = ended.exit_status == 0 and ended.ended_by is None
    return FilterResult(
        name=check.name,
        passed=passed,
        detail="passed" if passed else _detail(check, ended.exit_status, ended.ended_by),
        output=output,
        seconds=ended.seconds,
        cancelled=ended.ended_by is Outcome.CANCELLED,
    )


class _End:
    """The last bytes of what comes line by line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def take(self, line: bytes) -> None:
        self._kept += line + b"\n"
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        return bytes(self._kept[-self._limit :]).decode("utf-8", "replace")


def _detail(check: Check, status: int | None, ended_by: Outcome | None) -> str:
    if ended_by is Outcome.TIMED_OUT:
        return f"did not end within {check.timeout:g} s"
    if ended_by is Outcome.CANCELLED:
        return "was cancelled"
    if ended_by is Outcome.TOO_MUCH_OUTPUT:
        return "printed more than a filter may"
    if status is None:
        return "could not be started"
    return f"was killed by signal {status - 128}" if status > 128 else f"ended with status {status}"
