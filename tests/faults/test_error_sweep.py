"""An error of the operating system at every call that changes the store."""

from pathlib import Path

import pytest

from faults.conftest import MakeSweep
from faults.sampling import spread
from faults.store import Answer, logged, run_directory, temporary_files
from faults.tracing import Call, Interrupted, Sweep

ERRORS = ("ENOSPC", "EIO", "EINTR", "EROFS")
# Of the (call, error) pairs; coprime with the number of errors, so that every error meets every kind of call.
EVERY = {
    "run init": 29,
    "step start": 11,
    "step complete": 11,
    "event emit": 13,
    "session save": 13,
    "repair": 17,
    "run adopt": 37,
    "context": 13,
    "feedback request": 13,
    "feedback respond": 13,
    "feedback respond skip": 17,
}
PARTS = 2
CODES = {"store_unwritable"}


# What POSIX lets a signal interrupt must continue as if nothing had been; the rest may also be refused.
INTERRUPTIBLE = {"open", "openat", "write", "pwrite64", "fsync", "ftruncate", "rename", "flock"}


def tolerated(made: Sweep, call: Call) -> bool:
    """True for what only helps: the name in the lock and looking for it, the index."""
    if call.path.endswith("/lock") and call.name == "flock":
        return made.calls.index(call) > [(c.name, c.path) for c in made.calls].index((call.name, call.path))
    if call.path.endswith("/lock"):
        return call.name in ("ftruncate", "pwrite64")
    return "/faber/index" in call.path


def broken_answer(made: Sweep, interrupted: Interrupted, error: str) -> list[str]:
    """What is wrong with the answer of a command that met `error`."""
    answer, call = interrupted
    assert call is not None
    if "unreadable" in answer.value or "Traceback" in answer.words:
        return [f"no JSON on stdout but {answer.value} and {answer.words!r}"]
    if tolerated(made, call) or (error == "EINTR" and call.name in INTERRUPTIBLE):
        return [] if answer.status == 0 else [f"not borne: {answer.value}"]
    if (error == "EINTR" or call.name == "sendfile") and answer.status == 0:
        return []  # there is another way to copy
    if made.prepared.operation.name == "context":  # what cannot be recorded is a warning of the context
        codes = [warning["code"] for warning in answer.value["warnings"]]
        return [] if "not_recorded" in codes else [f"no warning among {codes}"]
    if answer.status != 1 or answer.code not in CODES:
        return [f"exit {answer.status} with {answer.value}"]
    if len(answer.words.splitlines()) != 1:
        return [f"{answer.words!r} is not one line"]
    return []


def untrue(made: Sweep, root: Path, answer: Answer) -> list[str]:
    """What the error says of the log that is not so: which events it has, and so whether the command has to be
    repeated."""
    said = answer.value.get("error", {})
    if "recorded" not in said:
        return []
    before = made.prepared.acknowledged
    there = [number for number, _ in logged(run_directory(root))][before:]
    if [number for number in said["recorded"] if number > before] != there:
        return [f"{said['recorded']} are said to be recorded, and {there} are"]
    wanted = len(made.prepared.outcome.log) - before
    if (said["committed"] and not there) or (not said["committed"] and len(there) == wanted):
        return [f"committed is {said['committed']}, and of {wanted} events {len(there)} are there"]
    return []


def fail(made: Sweep, cases: list[tuple[int, str]]) -> list[str]:
    """What is wrong after these errors at these calls, each named with its call."""
    found = []
    prepared = made.prepared
    given = temporary_files(prepared.base)
    for index, error in cases:
        root, interrupted = made.inject(index, f"error={error}")
        wrong = broken_answer(made, interrupted, error)
        wrong += untrue(made, root, interrupted.answer)
        wrong += [f"{path} was left behind" for path in temporary_files(root) if path not in given]
        wrong += prepared.wrong(root)
        found += [f"{error} at {interrupted.hit}: {problem}" for problem in wrong]
    return found


def _sweep(made: Sweep, every: int, part: int) -> list[str]:
    cases = [(index, error) for index in range(len(made.calls)) for error in ERRORS]
    return fail(made, spread(cases, every, part, PARTS))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", EVERY)
def test_an_error_of_the_system_tears_nothing(sweep: MakeSweep, name: str, part: int) -> None:
    """A refused call ends the command with one error, nothing half-written stays, and repeating the command works."""
    found = _sweep(sweep(name), EVERY[name], part)
    assert not found, "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", EVERY)
def test_any_error_at_any_call_tears_nothing(sweep: MakeSweep, name: str, part: int) -> None:
    """The same with each of the four errors at every single call."""
    found = _sweep(sweep(name), 1, part)
    assert not found, "\n".join(found)
