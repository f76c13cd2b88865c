"""Stop: where the run that the session works on waits for its person, show them the request and a code."""

import json

from faber.hooks.hook_call import Call, say
from faber.hooks.provenance import attended
from faber.hooks.run_lookup import working_on


def stop(call: Call) -> None:
    """Print what the client shows to the person; nothing where nobody sits at a terminal or nothing waits.

    Without a terminal the session gets a code that is shown to nobody and could not be used: it only marks the request,
    so that the first prompt after the answer says that there is one.
    """
    if call.given.get("agent_id") is not None:
        return
    run = working_on(call)
    if run is None or run.state["feedback_request"] is None:
        return
    from faber.hooks.waiting import marked, waiting

    if not attended(call):
        marked(call, run)
    elif shown := waiting(call, run):
        say(json.dumps({"systemMessage": shown}) + "\n")
