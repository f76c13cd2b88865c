"""Outputs of a step of a GitHub Actions job, for the steps and jobs after it."""

import os
import re
from collections.abc import Callable, Mapping

OUTPUTS: dict[str, Callable[[object], bool]] = {
    "result": lambda value: value in ("recorded", "denied", "stale", "ambiguous", "ignored"),
    "resume": lambda value: isinstance(value, bool),
    "pull_request": lambda value: isinstance(value, bool),
    "run_id": lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._/-]{1,400}", value) is not None,
    "request_id": lambda value: isinstance(value, str) and re.fullmatch(r"fr-[A-Za-z0-9-]{1,97}", value) is not None,
}


def write_outputs(outcome: Mapping[str, object], path: str | None) -> None:
    """Write the step's outputs to the file at `path`: fixed keys, and no text from the event.

    A value of the wrong kind is left out.
    """
    if not path:
        return
    lines = [
        f"{key}={str(outcome[key]).lower() if isinstance(outcome[key], bool) else outcome[key]}\n"
        for key, fits in OUTPUTS.items()
        if fits(outcome[key])
    ]
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, "".join(lines).encode())
    finally:
        os.close(handle)
