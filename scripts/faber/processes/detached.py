"""Start a program that outlives this one; nobody waits for it."""

import os

from faber.processes.runner import Program


def start_detached(program: Program) -> bool:
    """Start `program` in a session of its own, reading and printing nothing; False if it could not be started."""
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        os.posix_spawn(
            program.command[0], list(program.command), dict(program.environment), file_actions=nowhere, setsid=True
        )
    except (OSError, ValueError, NotImplementedError):
        return False
    return True
