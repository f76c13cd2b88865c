"""Run filters: the project's own checks between the coder's commit and the review."""

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple

from faber.agents.environment import TURN, agent_environment
from faber.agents.outcome import Outcome
from faber.agents.process import Running
from faber.nebula.plan.specs import Filter
from faber.text.safe_text import inert, redact

KEPT_OUTPUT = 8_000  # characters from the end, where errors are
MAX_OUTPUT = 64 * 1024 * 1024  # bytes
_SHELL = "/bin/sh"


class FilterResult(NamedTuple):
    """The result of a filter. `output` is the end of its interleaved stdout and stderr, inert and without credentials;
    `detail` says in one line how it ended."""

    name: str
    passed: bool
    detail: str
    output: str
    cancelled: bool = False


def run_filters(
    filters: Sequence[Filter], directory: str, *, cancel: threading.Event, label: str
) -> list[FilterResult]:
    """Run the filters in order in `directory`, up to and including the first that fails; one result each.

    All processes of a filter end with it. `label` marks them, so that `end_turns` finds those of a killed faber.
    """
    results = []
    for one in filters:
        results.append(run_filter(one, directory, cancel=cancel, label=label))
        if not results[-1].passed:
            break
    return results


def run_filter(one: Filter, directory: str, *, cancel: threading.Event, label: str) -> FilterResult:
    """Run one filter; see `run_filters`."""
    command = [_SHELL, "-c", one.command] if isinstance(one.command, str) else list(one.command)
    marker = f"{label}.{os.urandom(8).hex()}"
    variables = agent_environment(os.environ, {}, marker)
    running = Running(
        # One stream keeps the order of what it prints.
        command=[_SHELL, "-c", 'exec "$@" 2>&1', "sh", *command],
        cwd=directory,
        environment=variables,
        marker=f"{TURN}={marker}",
        prompt="",
        grace=1.0,
    )
    end = _End(4 * KEPT_OUTPUT)
    ended = running.wait(end.take, timeout=one.timeout, max_output=MAX_OUTPUT, cancelled=cancel)
    output = redact(inert(end.text()))[-KEPT_OUTPUT:]
    passed = ended.exit_status == 0 and ended.ended_by is None
    return FilterResult(
        name=one.name,
        passed=passed,
        detail="passed" if passed else _detail(one, ended.exit_status, ended.ended_by),
        output=output,
        cancelled=ended.ended_by is Outcome.CANCELLED,
    )


class _End:
    """The last bytes of a stream of lines."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def take(self, line: bytes) -> None:
        self._kept += line + b"\n"
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        return bytes(self._kept[-self._limit :]).decode("utf-8", "replace")


def _detail(one: Filter, status: int | None, ended_by: Outcome | None) -> str:
    if ended_by is Outcome.TIMED_OUT:
        return f"did not end within {one.timeout:g} s"
    if ended_by is Outcome.CANCELLED:
        return "was cancelled"
    if ended_by is Outcome.TOO_MUCH_OUTPUT:
        return "printed too much"
    if status is None:
        return "could not be started"
    return f"was killed by signal {status - 128}" if status > 128 else f"ended with status {status}"
