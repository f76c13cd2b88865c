"""The turns of a phase's agents: within the budget, watched, retried once, and without effects they may not have."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from faber.agents.outcome import HOPELESS, Outcome, TurnResult
from faber.errors import Notice, Severity
from faber.git.refs import shown
from faber.nebula.phase.agents import Agents, AgentsByClient, ReviewTurn
from faber.nebula.phase.outcomes import AgentFailed, PhaseCancelled, ServiceClosed
from faber.nebula.phase.phase_progress import PhaseProgress
from faber.nebula.phase.tool_calls import ALLOW, denied_words
from faber.nebula.worktrees.tree_errors import TreeLost

AGENT_TRIES = 2

T = TypeVar("T", TurnResult, ReviewTurn)


class Turns(NamedTuple):
    """The turns of one phase; their cost and their effects go to `progress`."""

    agents: Agents
    progress: PhaseProgress

    def coder(self, prompt: str) -> TurnResult:
        """One turn of the coder. Writes outside its worktree are reported, not undone."""
        progress = self.progress
        setup, phase = progress.setup, progress.task.id
        outside: list[str] = []

        def attempt(agents: Agents, budget: float) -> TurnResult:
            written = setup.watch()
            turn = agents.coder(prompt, budget)
            outside.extend(written())
            return turn

        turn = self._turn("coder", attempt)
        if outside:
            text = f"Changed outside the worktree of {phase} while its coder worked: {'; '.join(outside)}."
            setup.notice(Notice("wrote_outside", Severity.WARNING, text, "Check it; nothing was undone.", phase))
        if turn.denials:
            text = f"The coder of {phase} was denied {denied_words(turn.denials)}. {ALLOW}"
            setup.notice(Notice("calls_denied", Severity.WARNING, text, "", phase))
        if turn.outcome is Outcome.CANCELLED or setup.cancel.is_set():
            progress.fail(PhaseCancelled, "Stopped while the coder worked.")
        return turn

    def reviewer(self, prompt: str, tree: str) -> ReviewTurn:
        """A review of `tree`; raises `AgentFailed` if the second attempt gives none either."""
        progress = self.progress
        attempt = 0
        while True:
            attempt += 1
            before = progress.tree_of(progress.head) if progress.all_committed else progress.tree.tree_id()
            turn = self._turn("reviewer", lambda agents, budget: agents.reviewer(prompt, budget))
            if turn.outcome is Outcome.CANCELLED or progress.setup.cancel.is_set():
                progress.fail(PhaseCancelled, "Stopped while the reviewer worked.")
            self._undo_reviewer(before)
            error = turn.error
            if turn.answer is not None:
                judged = str(turn.answer["tree"]).strip()
                if judged == tree:
                    return turn
                error = f"It judged the tree {shown(judged)[:12]}, but it was to review {tree[:12]}."
            if turn.outcome is Outcome.BUDGET_STOP:
                progress.stop_if_budget_spent()
            if attempt == AGENT_TRIES or turn.outcome is Outcome.REFUSED:
                progress.fail(AgentFailed, f"The reviewer gave no review: {error}")

    def _turn(self, role: str, turn: Callable[[Agents, float], T]) -> T:
        """One turn, repeated until a service accepts it; raises `ServiceClosed` if none does.

        Each turn begins in the role's first client, unless that is at its limit and another one is not. What a
        turn left that was refused midway stays in the worktree.
        """
        progress, setup = self.progress, self.progress.setup
        by_client = self.agents if isinstance(self.agents, AgentsByClient) else None
        clients = by_client.clients[role] if by_client else ()
        while True:
            door = setup.door.enter(setup.cancel, clients)
            if door is None:
                progress.stop_if_cancelled(f"before the turn of the {role}")
                progress.fail(ServiceClosed, setup.door.closed(clients).said)
            agents = by_client.within(door.client) if by_client else self.agents
            outcome, said = Outcome.CANCELLED, ""
            try:
                with progress.grant() as grant:
                    result = turn(agents, grant.amount)
                    progress.count(role, result, grant)
                outcome, said = result.outcome, result.error
            finally:  # whatever went wrong, the other phases wait for this
                accepted = door.came_through(outcome, said)
            if accepted and outcome not in HOPELESS:
                return result

    def _undo_reviewer(self, before: str) -> None:
        """Park what the reviewer changed, so that nobody approves its own work."""
        progress = self.progress
        tree, phase = progress.tree, progress.task.id
        try:
            notices = tree.bring_home(progress.head)
            if tree.tree_id() != before or tree.head() != progress.head:
                tree.park_dirty("the reviewer's changes")
                text = f"The reviewer of {phase} changed files; its changes were parked."
                notices.append(Notice("reviewer_wrote", Severity.WARNING, text, "", phase))
        except TreeLost as error:
            progress.fail(AgentFailed, f"The worktree is gone after the review: {error.message}")
        for notice in notices:
            progress.tell(notice)
