"""Recording what an agent tried and was refused, so that a person sees it in the log."""

from faber.errors import Exit, FaberError
from faber.events.drafts import Draft
from faber.events.record_events import command_refused
from faber.foreign.resolve import open_named
from faber.model.acceptance import check_open
from faber.model.documents import Plan, State
from faber.store import log
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.layout import Layout

# Refusals that say nothing about the agent's intent, or that append an event of their own.
_NOT_KEPT = (
    "locked",
    "stale",
    "foreign_run",
    "newer_schema",
    "evidence_missing",
    "awaiting_feedback",
    "held_elsewhere",
    "taken_over",
)


def keep_refusal(layout: Layout, run: str, error: FaberError, arguments: list[str], by: Writer) -> None:
    """Append `command_refused` to the run, unless its newest event says the same; never raises `FaberError`."""
    if error.exit_code not in (Exit.REFUSED, Exit.PERSON_NEEDED) or error.code in _NOT_KEPT:
        return
    command = " ".join(arguments)[:500]
    draft = command_refused(error.message[:2_000], code=error.code, command=command)

    def decide(state: State, plan: Plan) -> list[Draft]:
        check_open(state)
        return [draft]

    try:
        made = open_named(layout, run)
        newest = made.state["recent_events"][-1:]
        if newest and newest[0]["file"].endswith("-command_refused.json"):
            event = log.read_event(made.directory, newest[0]["file"])
            if event.get("metadata") == draft["metadata"]:
                return
        commit(layout, made.run_id, decide, by, known=made)
    except FaberError:
        return
