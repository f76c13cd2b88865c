"""What a run's events come to: calls, repetitions, refusals, and money as the client itself reports it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from faber.agents.versions import totals_cover_the_session
from trials.shell import only_faber

# What an agent would have to name in order to see what is kept from it.
HIDDEN = re.compile(r"benchmarks/(?:tasks|trials?)\b|FABER_TRIAL")
Event = Mapping[str, Any]


@dataclass
class Tally:
    """Counts over all processes of a run. A call of faber is none of the work."""

    start_usd: float
    work_calls: int = 0
    faber_calls: int = 0
    repeated: int = 0
    responses: set[str] = field(default_factory=set)
    denied: int = 0
    peeked: bool = False
    turns: int = 0
    unpriced_turns: int = 0
    cost_usd: float = 0.0
    charged_usd: float = 0.0
    refused: str = ""  # what the endpoint said instead of an answer, at last
    refusing: str = ""  # what the endpoint says to what the client is trying again
    stopped: str = ""  # the limit that ended the last turn
    _open: dict[str, bool] = field(default_factory=dict)  # of each call, whether it is work
    _made: set[str] = field(default_factory=set)
    _version: str | None = None
    _unresolved: bool = False  # a prompt was given whose result did not come
    _baseline: float = 0.0  # of the process: what its conversation had cost before
    _total: float | None = 0.0  # of the process: what it printed last, None where a turn has no price

    def begin_process(self, before: float | None) -> None:
        """A process begins; `before` is what `end_process` returned for the conversation that it continues."""
        self._baseline, self._total = before or 0.0, 0.0
        self._open.clear()

    def begin_turn(self) -> None:
        """A prompt was given: until its result comes, what it costs is unknown."""
        self.turns += 1
        self._unresolved = True

    def end_process(self) -> float | None:
        """The process is over. Returns the total of its conversation that a client resuming it begins with."""
        total, self._total = self._total, 0.0
        unresolved, self._unresolved = self._unresolved, False
        self.unpriced_turns += unresolved
        own = None if total is None else max(0.0, total - self._baseline) if total else 0.0
        self.cost_usd += own or 0.0
        self.charged_usd += max(self.start_usd, own or 0.0) if unresolved or own is None else own
        # A client that was killed has not kept its total: the next one begins at nothing (measured).
        return total if total and not unresolved and totals_cover_the_session(self._version) else None

    def take(self, event: Event) -> bool:
        """Count an event; true if it is the result of a call of the work."""
        kind = event.get("type")
        if kind == "system" and event.get("subtype") == "init":
            self._version = event.get("claude_code_version")
        elif kind == "system" and event.get("subtype") == "api_retry":
            self.refusing = " ".join(str(event[name]) for name in ("error_status", "error") if event.get(name))
        elif kind == "assistant":
            self.refusing = ""
            self._said(event)
        elif kind == "user":
            ended = [self._open.pop(block.get("tool_use_id", ""), False) for block in _blocks(event, "tool_result")]
            self.work_calls += sum(ended)
            return any(ended)
        elif kind == "result":
            self._priced(event)
        return False

    def _said(self, event: Event) -> None:
        self.responses.add(str(event["message"].get("id")))
        for block in _blocks(event, "tool_use"):
            made = json.dumps([block.get("name"), block.get("input")], sort_keys=True)
            work = not is_faber(str(block.get("name")), block.get("input") or {})
            self._open[str(block.get("id"))] = work
            self.faber_calls += not work
            self.repeated += work and made in self._made and block.get("name") != "Read"
            self._made.add(made)
            self.peeked |= HIDDEN.search(made) is not None

    def _priced(self, event: Event) -> None:
        self._unresolved = False
        self.denied += len(event.get("permission_denials") or ())
        subtype = str(event.get("subtype"))
        self.stopped = subtype if subtype.startswith("error_max_") else ""
        failed = event.get("is_error") is True and not subtype.startswith("error_")
        self.refused = str(event.get("result")) if failed else ""
        cost = event.get("total_cost_usd")
        models = (event.get("modelUsage") or {}).values()
        # For a model that it does not know, the client reckons with the price of another.
        known = not any(each.get("costBasis") == "unknown" for each in models if isinstance(each, dict))
        if isinstance(cost, int | float) and known and self._total is not None:
            self._total = float(cost)
        else:
            self._total = None
            self.unpriced_turns += 1


def is_faber(tool: str, given: Mapping[str, Any]) -> bool:
    """Whether a call is one of faber's program or skills, and nothing else."""
    if tool == "Skill":
        return str(given.get("skill") or given.get("command")).startswith("faber:")
    return tool == "Bash" and only_faber(str(given.get("command", "")))


def _blocks(event: Event, kind: str) -> Iterator[Mapping[str, Any]]:
    content = (event.get("message") or {}).get("content")
    return (
        (block for block in content if isinstance(block, dict) and block.get("type") == kind)
        if isinstance(content, list)
        else iter(())
    )
