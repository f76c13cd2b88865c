"""What one phase's loop is given to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from faber.nebula.phase.filters import Check


@dataclass(frozen=True)
class PhaseTask:
    """A phase as its agents see it.

    `body` is the task in Markdown, `scope` the globs it may touch (empty: everything), `goals` and `constraints` are
    the project's, `project_context` stands before them (what healing says of an earlier attempt), `partial_work`
    says what an abandoned attempt of this phase did. `max_budget_usd` None: only the run's limit holds.
    `directory` is where the filters run, relative to the tree's top; `top` is the path of the tree, which its agents
    are not told otherwise.
    """

    id: str
    title: str
    body: str
    max_cycles: int
    max_budget_usd: float | None = None
    scope: Sequence[str] = ()
    goals: Sequence[str] = ()
    constraints: Sequence[str] = ()
    project_context: str = ""
    partial_work: str = ""
    filters: Sequence[Check] = ()
    directory: str = "."
    top: str = ""
