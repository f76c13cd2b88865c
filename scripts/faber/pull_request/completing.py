"""Completes the step that opens the pull request, as the command for steps does, and the run with its last step."""

from faber.context.resume import left_to_agents
from faber.model.acceptance import Decision
from faber.model.commands import Examined, complete_step
from faber.model.documents import Plan, State
from faber.model.progress import step_state
from faber.steps.holding import held
from faber.steps.next_step import start_next
from faber.steps.step_evidence import verify
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.load import Run


def complete_due_step(run: Run, by: Writer, due: tuple[str, str], message: str) -> list[Committed]:
    """Start the step at `due` if it has not started, and complete it; nothing where something else comes first.

    Raises `EvidenceMissing` where the plan requires more of the step than a pull request.
    """
    made: list[Committed] = []
    if not _in_progress(run.state, due):
        started = start_next(run, by)
        made += [started.committed] if started.committed else []
        run = started.run
        if not _in_progress(run.state, due):
            return made
    phase, step = due
    checks = [check.as_dict() for check in verify(run, by, phase, step, [], None).checks]
    examined = Examined(checks, step_state(run.state, phase, step)["attempts"]) if checks else None

    def decide(state: State, plan: Plan) -> Decision:
        return complete_step(state, plan, phase, step, message, [], examined=examined)

    return [*made, commit(run.layout, run.run_id, held(run.layout, by.session_id, decide), by, known=run)]


def go_on_without_agent(run: Run, by: Writer) -> Committed | None:
    """Complete the run whose last step is complete, or ask what the next gate asks; nothing where an agent is to do
    what is left."""
    left = left_to_agents(run.state, run.plan)
    return None if left or run.state["status"] != "in_progress" else start_next(run, by).committed


def _in_progress(state: State, place: tuple[str, str]) -> bool:
    status = state["phases"][place[0]]["steps"][place[1]]["status"]
    return state["status"] == "in_progress" and status == "in_progress"
