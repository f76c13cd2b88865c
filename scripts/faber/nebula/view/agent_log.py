"""Keeps what a phase's agents say and do: lines of JSON, one file for each phase, readable while a turn runs.

Every text is inert, without credentials and shortened. A file has at most `MAX_FILE` bytes; then it takes the place of
the older one, so that a phase's log has twice that. It is for people: nothing is decided by it, and a log that cannot
be written ends no turn.
"""

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, NotRequired, TypedDict

from faber.errors import FaberError, Notice, Severity
from faber.model.documents import nebula_phases
from faber.model.ids import MAX_REMEDIATION_ID, phase_id_problem
from faber.model.nebula_documents import NebulaPhase
from faber.nebula.phase.tool_calls import call_words
from faber.nebula.run.protocols import Display
from faber.nebula.view.display import Look, noticed
from faber.store.clock import utc_now
from faber.store.files import make_directories
from faber.text.safe_text import encodable, ending, inert, shorten, without

MAX_FILE = 1024 * 1024  # bytes
SAID, PRINTED = 8_000, 2_000  # characters of one text, and of what a tool printed
CALLED = 500
OLDER = ".old"
# Credentials are found before a text is cut, in no more than this.
_READ = 64_000


class AgentLine(TypedDict):
    """One line of a log.

    `kind`: `turn` (one begins), `said`, `called` (a tool), `printed` (what a tool answered), `refused` (a tool's
    error), `retries` (the service refuses), `ended` (the turn), `note` (what happens to the phase). `directory` and
    `config` are where the client of a turn works and keeps its sessions (empty: in its usual place); `client` is its
    name, where it is not Claude Code.
    """

    at: str
    kind: str
    role: NotRequired[str]
    text: NotRequired[str]
    cycle: NotRequired[int]
    session: NotRequired[str]
    directory: NotRequired[str]
    config: NotRequired[str]
    client: NotRequired[str]


def log_file(directory: str, phase: str) -> str:
    """The log of a phase in `directory`; empty for an id that no phase can have."""
    return "" if phase_id_problem(phase, MAX_REMEDIATION_ID) else os.path.join(directory, f"{phase}.jsonl")


class AgentLog:
    """Writes the logs of a run's phases into `directory`; thread-safe. `secrets` are the values of credentials that no
    line may contain, `config` the directory where clients keep their sessions."""

    def __init__(
        self, directory: str, *, secrets: Collection[str] = (), config: str = "", notice: Callable[[Notice], None]
    ) -> None:
        self._directory = directory
        self._secrets = secrets
        self._config = config
        self._notice = notice
        self._lock = threading.Lock()
        self._turns: dict[str, AgentLine] = {}  # the newest of each phase, which every file begins with
        self._tools: dict[str, dict[str, str]] = {}  # the open calls of each phase, by id
        self._broken = False

    def heard(self, phase: str, role: str, event: Mapping[str, Any], cycle: int | None) -> None:
        """Keep what an event of an agent's stream says."""
        kind, subtype = event.get("type"), event.get("subtype")
        if kind == "system" and subtype == "init":
            self._begin(phase, role, event, cycle)
        elif kind == "system" and subtype == "api_retry":
            self._write(
                phase, {"at": utc_now(), "kind": "retries", "role": role, "text": self._safe(event.get("error"))}
            )
        elif kind in ("assistant", "user"):
            message = event.get("message")
            content = message.get("content") if isinstance(message, Mapping) else None
            for block in content if isinstance(content, list) else ():
                if isinstance(block, Mapping):
                    self._block(phase, role, block)
        elif kind == "result":
            said = subtype if event.get("is_error") is not True else event.get("result") or subtype
            steps = event.get("num_turns")
            text = f"{self._safe(said, CALLED)}, {steps} steps" if isinstance(steps, int) else self._safe(said, CALLED)
            self._write(phase, {"at": utc_now(), "kind": "ended", "role": role, "text": text})

    def note(self, phase: str, text: str) -> None:
        """Keep what happens to a phase."""
        self._write(phase, {"at": utc_now(), "kind": "note", "text": self._safe(text)})

    # --- inside ------------------------------------------------------------------------------------

    def _begin(self, phase: str, role: str, event: Mapping[str, Any], cycle: int | None) -> None:
        line: AgentLine = {"at": utc_now(), "kind": "turn", "role": role}
        if cycle is not None:
            line["cycle"] = cycle
        line["session"] = self._safe(event.get("session_id"), 100)
        line["directory"] = self._safe(event.get("cwd"))
        line["config"] = self._config
        if event.get("client"):
            line["client"] = self._safe(event["client"], 100)
        with self._lock:
            self._turns[phase], self._tools[phase] = line, {}
        self._write(phase, line)

    def _block(self, phase: str, role: str, block: Mapping[str, Any]) -> None:
        tools = self._tools.setdefault(phase, {})
        line: AgentLine = {"at": utc_now(), "kind": "said", "role": role}
        match block.get("type"):
            case "text":
                line["text"] = self._safe(block.get("text"))
            case "tool_use":
                name, given = str(block.get("name")), json.dumps(block.get("input"), ensure_ascii=False)
                tools[str(block.get("id"))] = name
                line["kind"], line["text"] = "called", call_words(name, without(given[:_READ], self._secrets), CALLED)
            case "tool_result":
                name, failed = tools.pop(str(block.get("tool_use_id")), ""), block.get("is_error") is True
                if not failed and name != "Bash":
                    return  # the content of a file that was read says nothing of what was done
                line["kind"] = "refused" if failed else "printed"
                line["text"] = ending(self._clean(_text_of(block.get("content"))[-_READ:]), PRINTED)
            case _:
                return
        if line["text"].strip():
            self._write(phase, line)

    def _safe(self, text: object, limit: int = SAID) -> str:
        return shorten(self._clean(str(text or "")[:_READ]), limit)

    def _clean(self, text: str) -> str:
        return without(inert(encodable(text)), self._secrets)

    def _write(self, phase: str, line: AgentLine) -> None:
        path = log_file(self._directory, phase)
        if self._broken or not path:
            return
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            try:
                make_directories(self._directory)
                if _size(path) + len(data) > MAX_FILE:
                    os.replace(path, path + OLDER)
                    turn = self._turns.get(phase)
                    data = (json.dumps(turn, ensure_ascii=False).encode() + b"\n" if turn else b"") + data
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                handle = os.open(path, flags, 0o600)
                try:
                    os.write(handle, data)
                finally:
                    os.close(handle)
            except (OSError, FaberError) as error:
                self._broken = True
                why = error.strerror if isinstance(error, OSError) else error.message
                text = f"What the agents do is not kept any more: {path}: {why}"
                self._notice(Notice("agent_log_unwritten", Severity.WARNING, text, "", phase))


class KeptDisplay:
    """A display that also keeps what it shows of the phases, once `keep` was called."""

    def __init__(self, shown: Display) -> None:
        self._shown = shown
        self._log: AgentLog | None = None
        self._look: Look = lambda: None

    def keep(self, directory: str, secrets: Collection[str], config: str) -> None:
        """From now on keep it in `directory`; see `AgentLog`."""
        self._log = AgentLog(directory, secrets=secrets, config=config, notice=self._shown.notice)

    def show(self, phase: str, what: str) -> None:
        """Show and keep what happens to a phase."""
        self._shown.show(phase, what)
        if self._log is not None:
            self._log.note(phase, what)

    def notice(self, notice: Notice) -> None:
        """Show a notice; keep it if it is about a phase."""
        self._shown.notice(notice)
        if self._log is not None and notice.source in self._phases():
            self._log.note(str(notice.source), noticed(notice))

    def heard(self, phase: str, role: str, event: Mapping[str, object]) -> None:
        """Show and keep an event of an agent's stream."""
        self._shown.heard(phase, role, event)
        if self._log is not None:
            known = self._phases().get(phase)
            self._log.heard(phase, role, event, known.get("cycle") if known else None)

    def line(self, text: str) -> None:
        """Print one line."""
        self._shown.line(text)

    def follow(self, look: Look) -> None:
        """Read the current phases from the state that `look` returns from now on."""
        self._look = look
        self._shown.follow(look)

    def _phases(self) -> Mapping[str, NebulaPhase]:
        state = self._look()
        return nebula_phases(state) if state is not None else {}


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))
