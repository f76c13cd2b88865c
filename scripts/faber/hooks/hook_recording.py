"""What hooks add to a run's log: once, without waiting, and only to a run that the session works on."""

import os

from faber.agents.known_clients import client_of
from faber.errors import FaberError
from faber.events.drafts import Draft
from faber.hooks.hook_call import Call
from faber.model import acceptance
from faber.notify.news import announce
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.index import file_name
from faber.store.load import Run

DEADLINE = 0.2  # seconds for the lock


def record(call: Call, run: Run, prefix: str, draft: Draft) -> None:
    """Append `draft`, unless the newest event is this hook's own for this session.

    Best effort: if the lock is held, the run has ended or the disk refuses, nothing is recorded and nothing printed.
    """
    own = f"{prefix}-{file_name(call.session or '')}-"
    newest = run.state["recent_events"][-1:]
    if newest and str(newest[0].get("key", "")).startswith(own):
        return
    client = client_of(os.environ)
    try:
        commit(
            call.layout,
            run.run_id,
            lambda state, plan: acceptance.emit(state, plan, draft),
            Writer(call.session, "hook", deadline=DEADLINE, client=client.name if client else None, tell=announce),
            key=f"{own}{run.state['last_event_id']}",
            known=run,
        )
    except FaberError:
        pass
