"""Starts the command line as `python -I driver.py ARG...`, or a deliberately broken variant of it.

FABER_TEST_MUTANT names the variant. A sweep that finds nothing wrong with a mutant proves nothing, so every mutant
belongs to a test that must catch it. The product knows nothing of this file.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).resolve().parents[2] / "scripts"


def in_place() -> None:
    """The file itself is truncated and written, with no temporary file and no rename."""
    from faber.store import files

    def write(path: str, data: bytes, *, durable: bool = True) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)

    files.write_atomic = write


def no_file_sync() -> None:
    """Contents are renamed into place before they are on the disk."""
    from faber.store import files

    files.sync = lambda handle: None


def no_directory_sync() -> None:
    """Names are never forced to the disk."""
    from faber.store import files

    files.sync_directory = lambda directory: None


def state_first() -> None:
    """state.json counts the events before they are in the log."""
    from faber.store import files

    write: Callable[..., None] = files.write_atomic
    waiting: list[tuple[str, bytes]] = []

    def reordered(path: str, data: bytes, *, durable: bool = True) -> None:
        if os.path.basename(os.path.dirname(path)) == "events":
            waiting.append((path, data))
            return
        write(path, data, durable=durable)
        if os.path.basename(path) == "state.json":
            while waiting:
                write(*waiting.pop(0))

    files.write_atomic = reordered


def no_lock() -> None:
    """The lock lets everybody in."""
    from faber.store import lock

    @contextmanager
    def locked(path: str, *, deadline: float = 0) -> Iterator[None]:
        yield

    lock.locked = locked


def no_retry() -> None:
    """A rename that a signal interrupts is an error."""
    from faber.store import files

    def replace(source: str, target: str) -> None:
        os.replace(source, target)

    files.replace = replace


def no_cleaning() -> None:
    """A temporary file whose write failed stays."""
    from faber.store import files

    files.discard = lambda path: None


def no_exchange() -> None:
    """Events from elsewhere are appended one after another."""
    from faber.store import import_events

    def refused(one: str, other: str) -> None:
        raise import_events.Unexchangeable("a mutant")

    import_events.exchange_directories = refused


MUTANTS: dict[str, Callable[[], Any]] = {
    made.__name__: made
    for made in (in_place, no_file_sync, no_directory_sync, state_first, no_lock, no_retry, no_cleaning, no_exchange)
}


def prepare() -> None:
    """Break what FABER_TEST_MUTANT names, before any other module has imported it."""
    if str(PACKAGES) not in sys.path:
        sys.path.insert(0, str(PACKAGES))
    # The built-in steps without their conditions: what is killed here is the store's work, not an examination.
    from faber.workflows import definitions

    definitions.BUILT_IN = str(Path(__file__).resolve().parents[1] / "fixtures" / "workflows")
    if mutant := os.environ.get("FABER_TEST_MUTANT"):
        MUTANTS[mutant]()


def command_line() -> int:
    """Run the command line."""
    from faber.cli import main

    return main()


if __name__ == "__main__":
    prepare()
    sys.exit(command_line())
