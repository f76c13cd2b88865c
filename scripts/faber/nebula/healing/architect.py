"""Asking an architect for the phase that remedies a failed one.

The answer is a phase file, and it comes as one JSON object with the file as a text: the response pipeline of seed 003
works on JSON alone. So an answer that was cut is completed where the join is proven, and a bare or fenced phase file,
of which nobody could say whether it is whole, is asked for again. What then stands in the text is read like any phase
file, and one that is not valid is corrected once.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from faber.agents.outcome import Cancelled, TurnFailed
from faber.agents.pipeline import AgentLoop, Record
from faber.errors import Exit, FaberError, Notice, Severity
from faber.nebula.healing.architect_request import build_remediation_request, correction_request
from faber.nebula.healing.diagnosis import FailureDiagnosis
from faber.nebula.healing.partial_work import PartialWork
from faber.nebula.healing.remediation import finalize_remediation_spec, remediation_file, split_partial_work
from faber.nebula.plan.parse import FENCE, parse_phase
from faber.nebula.plan.problems import Problem
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.nebula.plan.write import write_phase
from faber.responses.llm import Completion, ask
from faber.responses.response_errors import CorrectionExhausted

MAX_PHASE_FILE = 60_000
_OPENING = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*[\w+.-]*[ \t]*")

ARCHITECT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A phase file",
    "type": "object",
    "required": ["phase_file"],
    "properties": {
        "phase_file": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PHASE_FILE,
            "description": "the whole file: a TOML header between two lines of +++, and the body in Markdown",
        }
    },
}


class ArchitectClient(Protocol):
    """One conversation with an architect: it remembers what it said."""

    def complete(self, prompt: str) -> Completion | str:
        """The answer to `prompt`; raises `TurnFailed` where there is none."""


class ArchitectFailed(FaberError):
    """The architect gave no phase that can be inserted. `cost_usd` is what it cost all the same, None: not known."""

    code = "architect_failed"
    exit_code = Exit.UNFINISHED
    recovery = "The phase stays failed. `faber heal plan DIR PHASE` asks again, or write the phase by hand."

    def __init__(self, message: str, cost_usd: float | None, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, cost_usd=cost_usd, problems=[each.as_dict() for each in problems[:20]])
        self.cost_usd = cost_usd


class Planned(NamedTuple):
    """A remediation that can be inserted: `spec`, the `text` of its file, what the architect cost in US dollars (None:
    not known), how often it was asked to correct its phase file, and warnings of the response pipeline."""

    spec: PhaseSpec
    text: str
    cost_usd: float | None
    corrections: int
    notices: list[Notice]


def plan_remediation(
    client: ArchitectClient,
    diagnosis: FailureDiagnosis,
    nebula: Nebula,
    failed_spec: PhaseSpec,
    partial_work: PartialWork | None,
    *,
    new_id: str,
    record: Record = lambda recovery: [],
) -> Planned:
    """Ask `client` for the remediation of `failed_spec`, and make it fit to be inserted.

    `new_id` is the id it gets; `record` is told of responses that were cut (a `RecoveryLog`'s). Raises
    `ArchitectFailed` where there is no usable answer, and `Cancelled` where the turn was cancelled from outside.
    """
    counting = _Counting(client)
    loop = AgentLoop(counting, record, max_correction_attempts=1)
    prompt = build_remediation_request(diagnosis, nebula, failed_spec, partial_work, new_id=new_id)
    notices: list[Notice] = []
    problems: list[Problem] = []
    for turn in (1, 2):
        try:
            said = loop.run_turn(new_id, turn, prompt, ARCHITECT_SCHEMA)
        except Cancelled:
            raise
        except (TurnFailed, CorrectionExhausted) as error:
            raise ArchitectFailed(f"The architect gave no phase: {error.message}", counting.cost_usd) from error
        notices += said.notices
        spec, problems = read_answer(said.value["phase_file"], new_id)
        if spec is not None:
            final = finalize_remediation_spec(spec, failed_spec, nebula, new_id=new_id, partial_work=partial_work)
            return Planned(final, write_phase(final), counting.cost_usd, turn - 1, notices)
        prompt = correction_request(problems)
    wrong = next((each for each in problems if each.severity is Severity.ERROR), problems[0])
    reason = f"The architect's phase file is not valid, and was not after a correction: {wrong.message}"
    raise ArchitectFailed(reason, counting.cost_usd, problems)


def read_answer(text: str, new_id: str) -> tuple[PhaseSpec | None, list[Problem]]:
    """The phase in an architect's `phase_file`, and what is wrong with it; None where an error is among that.

    A fence or a sentence around the file is passed over. A file without a task is an error here: its title alone is no
    narrower than what failed.
    """
    problems: list[Problem] = []
    file = remediation_file(new_id)
    spec, _ = parse_phase(file, unwrapped(text), problems)
    if spec is not None and not split_partial_work(spec.body)[0]:
        message = "The phase has no text but what was done before: nothing says what is to be done."
        problems.append(Problem("empty", Severity.ERROR, file, None, message, "Describe the task.", new_id))
    bad = spec is None or any(each.severity in (Severity.ERROR, Severity.CRITICAL) for each in problems)
    return (None if bad else spec), problems


def unwrapped(text: str) -> str:
    """A phase file without what a model put around it: from its first line of `+++`, and to the end of the fence that
    it stands in, if it does."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    begin = next((number for number, line in enumerate(lines) if line.strip() == FENCE), None)
    if begin is None:
        return text
    before = [line for line in lines[:begin] if line.strip()]
    inside = lines[begin:]
    inside[0] = FENCE
    fence = _OPENING.fullmatch(before[-1]) if before else None
    if fence:
        last = max((n for n, line in enumerate(inside) if _closes(line, fence[1])), default=len(inside))
        inside = inside[:last]
    return "\n".join(inside)


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])


class _Counting:
    """The client, with what its turns cost."""

    def __init__(self, client: ArchitectClient) -> None:
        self._client = client
        self.cost_usd: float | None = 0.0

    def complete(self, prompt: str) -> Completion:
        try:
            reply = ask(self._client, prompt)
        except TurnFailed as error:
            self._add(error.result.cost_usd)
            raise
        self._add(reply.cost_usd)
        return reply

    def _add(self, cost: float | None) -> None:
        self.cost_usd = None if cost is None or self.cost_usd is None else round(self.cost_usd + cost, 6)
