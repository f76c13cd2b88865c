"""Read-only questions to git, asked side by side with a short time limit. A failure is an answer, not an exception."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from faber.git.configuration import command, environment
from faber.processes.runner import LIMIT, SECONDS, Program, ProgramResult, start
from faber.store.external_files import StrPath


class GitQuestion(NamedTuple):
    """The arguments after `git`, and the directory it runs in."""

    directory: StrPath
    arguments: Sequence[str]


Begin = Callable[[Sequence[GitQuestion]], Callable[[], list[ProgramResult]]]
"""Asks all questions at once and returns a function that waits for the answers."""


def ask(questions: Sequence[GitQuestion], *, seconds: float = SECONDS, limit: int = LIMIT) -> list[ProgramResult]:
    """Ask all `questions` side by side; each has `seconds` and at most `limit` bytes of output (see `runner.start`)."""
    return begin(questions, seconds=seconds, limit=limit)()


def begin(
    questions: Sequence[GitQuestion], *, seconds: float = SECONDS, limit: int = LIMIT
) -> Callable[[], list[ProgramResult]]:
    """`ask` in two halves: git is running when this returns; the function returned, called once, waits for it."""
    variables = environment(os.environ, fetches=False)
    programs = [Program([*command(os.fspath(each.directory)), *each.arguments], variables) for each in questions]
    return start(programs, seconds=seconds, limit=limit)
