"""What the readers of Codex's and OpenCode's streams share: `TurnReader`, from lines of JSON to a `TurnResult`.

A reader also says what happens in the shape of Claude Code's events, which is what logs and displays read. A line that
is not an event is counted and a sample is kept for a person; it never raises an error.
"""

import json
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from faber.agents.outcome import HOPELESS, TEMPORARY, Outcome, TurnResult, error_line, tail, words_of
from faber.agents.process import Ended
from faber.agents.refusal_words import CAUSES, meaning_of
from faber.agents.stream import CUT, MAX_LINE, Denial, Piece
from faber.text.safe_text import inert, redact

_SHOWN = 200
_SESSION = r"[A-Za-z0-9][\w.-]{0,199}"  # it becomes an argument
OnEvent = Callable[[Mapping[str, Any]], None]


class TurnReader(ABC):
    """Reads the lines of one turn. `client` is the name of the client, `patience` the seconds for which it may repeat
    requests that the service refuses; `tell` gets the events."""

    def __init__(self, client: str, cwd: str, tell: OnEvent | None, patience: float) -> None:
        self.session: str | None = None
        self.usage: Counter[str] = Counter()
        self.cost: float | None = None
        self._client = client
        self._cwd = cwd
        self._tell = tell or (lambda event: None)
        self._patience = patience
        self._text = ""  # of the last answer
        self._stop: str | None = None
        self._steps = 0
        self._answered = False  # the agent said or did something, which is paid for
        self._whole = False  # the agent came to its end
        self._failed = ""  # what the client said when it gave up
        self._failed_as: Outcome | None = None
        self._said = ""  # of the service, by a client that repeats a request
        self._waiting: Outcome | None = None
        self._waiting_since: float | None = None
        self._causes: Counter[str] = Counter()
        self._denied: list[Denial] = []
        self._garbage = 0
        self._sample = ""

    @abstractmethod
    def _take(self, kind: str, event: Mapping[str, Any]) -> None:
        """Read an event."""

    def feed(self, line: bytes) -> None:
        """Read one line of stdout, with or without its end."""
        if not line.strip():
            return
        event: Any = None
        if len(line) <= MAX_LINE:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            self._take(event["type"], event)
        else:
            self._garbage += 1
            self._sample = self._sample or line[:_SHOWN].decode("utf-8", "replace").strip()

    def hopeless(self) -> Outcome | None:
        """How the turn ends that will not come through any more: the client repeats a refused request for too long."""
        if self._waiting is None or self._waiting_since is None:
            return None
        waited = time.monotonic() - self._waiting_since
        return self._waiting if self._waiting in HOPELESS or waited > self._patience else None

    def result(self, ended: Ended) -> TurnResult:
        """The result of the turn, once its process ended."""
        outcome = self._outcome(ended)
        kept = tail(ended.stderr)
        unpaid = outcome in TEMPORARY | HOPELESS and not self._answered and not any(self.usage.values())
        said = words_of(outcome, self._client, self._failed or self._said)
        said = self._agent_error(ended, kept) if said is None else said
        stop = CUT if outcome is Outcome.CUT else self._stop
        return TurnResult(
            outcome=outcome,
            text=self._text,
            pieces=(Piece(self._text, stop),) if self._text else (),
            stop_reason=stop,
            session_id=self.session,
            cost_usd=0.0 if unpaid and self.cost is None else self.cost,
            usage=dict(self.usage),
            turns=self._steps,
            denials=tuple(self._denied),
            error=error_line(said, {} if outcome is Outcome.COMPLETED else self._causes),
            stderr=kept,
            exit_status=ended.exit_status,
            causes=dict(self._causes),
            client=self._client,
        )

    def _outcome(self, ended: Ended) -> Outcome:
        # A client that had come to its end before it was ended has done its work.
        if self._whole and (ended.exit_status == 0 or ended.ended_by is not None):
            return self._failed_as or Outcome.COMPLETED
        if ended.ended_by is Outcome.TIMED_OUT and self._waiting is not None:
            return self._waiting  # it waited for the service, not for the agent
        return ended.ended_by or self._failed_as or meaning_of(self._failed) or Outcome.AGENT_ERROR

    def _agent_error(self, ended: Ended, stderr: str) -> str:
        said = ["the client was not started"]
        if ended.exit_status is not None:
            said = [f"the client ended with exit status {ended.exit_status}"] + ["without a result"] * (not self._whole)
        if self._garbage:
            said.append(f"after {self._garbage} lines that are not events, the first: {self._sample!a}")
        why = self._failed or stderr.rpartition("\n")[2]
        text = ", ".join(said) + (f": {why}" if why else "")
        return text[:1].upper() + text[1:]

    # --- what happens, as the readers find it ------------------------------------------------------

    def _began(self, session: str) -> None:
        if not re.fullmatch(_SESSION, session):
            return
        if self.session is None:
            told = {"session_id": session, "cwd": self._cwd, "client": self._client}
            self._tell({"type": "system", "subtype": "init", **told})
        self.session = session

    def _answers(self) -> None:
        """The service answers: what it refused before is over."""
        self._waiting = self._waiting_since = None

    def _repeats(self, said: str) -> None:
        """The client repeats a request that the service refused with these words."""
        self._waiting = meaning_of(said) or Outcome.UNAVAILABLE
        self._waiting_since = self._waiting_since or time.monotonic()
        self._said = said
        cause = CAUSES.get(self._waiting, "unknown")
        self._causes[cause] += 1
        self._tell({"type": "system", "subtype": "api_retry", "error": cause})

    def _speaks(self, text: str) -> None:
        self._content("assistant", {"type": "text", "text": text})

    def _calls(self, call: str, tool: str, given: object) -> None:
        self._content("assistant", {"type": "tool_use", "id": call, "name": tool, "input": given})

    def _printed(self, call: str, text: str, *, failed: bool) -> None:
        self._content("user", {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed})

    def _was_denied(self, tool: str, given: object) -> None:
        call = json.dumps(given, ensure_ascii=False)[:_SHOWN]
        self._denied.append(Denial(inert(tool), inert(redact(call))))

    def _ends(self, said: str, *, failed: bool) -> None:
        self._tell({"type": "result", "subtype": said, "is_error": failed, "result": said, "num_turns": self._steps})

    def _content(self, kind: str, block: Mapping[str, object]) -> None:
        self._answered = True
        self._tell({"type": kind, "message": {"content": [block]}})


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str:
    """`value` if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """`value` if it is a whole number that is not negative, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
