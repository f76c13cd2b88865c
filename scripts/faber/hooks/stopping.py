"""Stop: where the run that the session works on waits for its person, show them the request and a code."""

import json

from faber.hooks.hook_call import Call, say
from faber.hooks.provenance import attended


def stop(call: Call) -> None:
    """Print what the client shows to the person; nothing where nobody sits at a terminal or nothing waits."""
    if not attended(call):
        return
    from faber.hooks.hook_recording import working_on
    from faber.hooks.waiting import waiting

    run = working_on(call)
    if run and (shown := waiting(call, run)):
        say(json.dumps({"systemMessage": shown}) + "\n")
