"""What can be done now, by whoever asks: the answer that `faber next`, the context, the status and a session's brief
show."""

import time

from faber.context import session_record
from faber.errors import FaberError
from faber.foreign.unadopted import adoption_first
from faber.model.documents import State
from faber.model.holder import Asking, Signs, Working, holds, takeover_hint, working
from faber.model.next import Action, next_action, no_step
from faber.store import index
from faber.store.config import DEFAULTS, Config, load_config
from faber.store.layout import Layout
from faber.store.load import Run


def what_next(run: Run, session: str | None, *, loaded: bool = False) -> Action:
    """What `session`, or a person, does next. `loaded` is true where the session loads the run's context just now."""
    state = run.state
    if first := adoption_first(run):
        return _adopt_first(*first)
    loaded = loaded or session is None or session in state["context_sessions"]
    action = next_action(state, run.plan, loaded=loaded)
    if action["action"] == "step" and session is not None and not holds(state, session):
        asked = asking(run.layout, session, state, _settings(run.layout))
        if found := working(state, asked):
            action = _held_elsewhere(state, found, max(0, int(asked.now - found.seen)))
    return action


def _held_elsewhere(state: State, found: Working, silent: int) -> Action:
    """To wait: another session works on the run, and gave its last sign `silent` seconds ago."""
    whose = f"session {found.session_id}" if found.session_id else "the session that a person lets take over"
    why = f"Only one session works on a run: {whose} does since {found.since} (last sign {silent} s ago)."
    return {
        **no_step("wait", why, f"faber run takeover {state['run_id']}", person=True),
        "instruction": f"Stop here and tell the person. {takeover_hint(state['run_id'])}",
    }


def _adopt_first(command: str, why: str, instruction: str) -> Action:
    """To wait: another tool began the run, and nothing is recorded about it until a person adopts it."""
    return {**no_step("wait", why, command, person=True), "instruction": instruction}


def asking(layout: Layout, session: str, state: State, config: Config) -> Asking:
    """The session as one that wants to work on the run."""

    def signs(other: str) -> Signs:
        found = session_record.signs(layout, other, session)
        # A session of another machine, whose work was brought here by a pull: the run was handed over.
        away = not found.started and index.is_bound(layout, index.PULLED, other, state["run_id"])
        return found._replace(gone=True) if away else found

    patience: int = config.at("sessions.silent_minutes")
    return Asking(session, time.time(), patience * 60, signs)


def _settings(layout: Layout) -> Config:
    """The settings; the defaults where they cannot be read: in a hook without packages, or after a typo."""
    try:
        return load_config(layout)
    except (FaberError, ImportError):
        return Config(DEFAULTS, None)
