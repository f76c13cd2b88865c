"""Who the person at this machine is."""

import os

from faber.git.asking import GitQuestion, ask
from faber.model.answers import Responder
from faber.processes.runner import SECONDS
from faber.text.safe_text import inert

MAX_NAME = 100


def terminal_responder(root: str, *, seconds: float = SECONDS) -> Responder:
    """The person at this terminal: git's `user.name` if it answers within `seconds`, else the login name; at most 100
    characters."""
    answer = ask([GitQuestion(root, ["config", "--get", "user.name"])], seconds=seconds)[0]
    name = _line(answer.out) if answer.code == 0 else ""
    return {"name": name or _login() or None, "source": "terminal", "url": None, "comment_id": None}


def _login() -> str:
    import pwd

    try:
        return _line(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:  # a user id without an entry, as in a container
        return ""


def _line(text: str) -> str:
    return " ".join(inert(text).split())[:MAX_NAME].strip()
