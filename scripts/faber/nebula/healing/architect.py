"""Ask an architect for the remediation of a failed phase.

The answer is a phase file as a string in a JSON object, because the response pipeline works on JSON: it completes an
answer that was cut if the join is proven, and asks again for a bare phase file, which could be incomplete. An invalid
phase file may be corrected once.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from faber.agents.outcome import Cancelled, TurnFailed
from faber.agents.pipeline import AgentLoop, Record
from faber.errors import Exit, FaberError, Notice, Severity
from faber.nebula.healing.architect_request import build_remediation_request, correction_request
from faber.nebula.healing.diagnosis import FailureDiagnosis
from faber.nebula.healing.partial_work import PartialWork
from faber.nebula.healing.remediation import finalize_remediation_spec, remediation_file, split_partial_work
from faber.nebula.plan.phase_file import FENCE, parse_phase, write_phase
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.responses.llm import LLMClient, NoAnswer
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
            "description": "the whole file: a TOML header between two lines of +++, then the body in Markdown",
        }
    },
}


class ArchitectFailed(FaberError):
    """The architect gave no usable phase. `cost_usd` is what it cost nevertheless, None if unknown; `usage` its
    tokens."""

    code = "architect_failed"
    exit_code = Exit.UNFINISHED
    recovery = "The phase stays failed. `faber heal plan DIR PHASE` asks again, or write the phase by hand."

    def __init__(
        self,
        message: str,
        cost_usd: float | None,
        problems: Sequence[NebulaProblem] = (),
        *,
        usage: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message, cost_usd=cost_usd, problems=[each.as_dict() for each in problems[:20]])
        self.cost_usd = cost_usd
        self.usage = usage or {}


class Planned(NamedTuple):
    """A remediation ready to be inserted: its `spec`, the `text` of its file, the architect's cost in US dollars (None:
    unknown), how often it had to correct its phase file, warnings of the response pipeline, and the tokens."""

    spec: PhaseSpec
    text: str
    cost_usd: float | None
    corrections: int
    notices: list[Notice]
    usage: Mapping[str, int] = {}


def plan_remediation(
    client: LLMClient,
    diagnosis: FailureDiagnosis,
    nebula: Nebula,
    failed_spec: PhaseSpec,
    partial_work: PartialWork | None,
    *,
    new_id: str,
    record: Record = lambda recovery: [],
) -> Planned:
    """Ask `client` for the remediation of `failed_spec`, and prepare it for insertion under the id `new_id`.

    `record` logs responses that were cut. Raises `ArchitectFailed` if there is no usable answer, and `Cancelled` if the
    turn was cancelled from outside.
    """
    loop = AgentLoop(client, record, max_correction_attempts=1)
    prompt = build_remediation_request(diagnosis, nebula, failed_spec, partial_work, new_id=new_id)
    notices: list[Notice] = []
    problems: list[NebulaProblem] = []
    for turn in (1, 2):
        try:
            said = loop.run_turn(new_id, turn, prompt, ARCHITECT_SCHEMA)
        except Cancelled:
            raise
        except (TurnFailed, NoAnswer, CorrectionExhausted) as error:
            reason = f"The architect gave no phase: {error.message}"
            raise ArchitectFailed(reason, loop.cost_usd, usage=loop.usage) from error
        notices += said.notices
        spec, problems = read_answer(said.value["phase_file"], new_id)
        if spec is not None:
            final = finalize_remediation_spec(spec, failed_spec, nebula, new_id=new_id, partial_work=partial_work)
            return Planned(final, write_phase(final), loop.cost_usd, turn - 1, notices, loop.usage)
        prompt = correction_request(problems)
    wrong = next((each for each in problems if each.severity is Severity.ERROR), problems[0])
    reason = f"The architect's phase file is invalid, even after a correction: {wrong.message}"
    raise ArchitectFailed(reason, loop.cost_usd, problems, usage=loop.usage)


def read_answer(text: str, new_id: str) -> tuple[PhaseSpec | None, list[NebulaProblem]]:
    """The phase in an architect's `phase_file` (None if it has errors), and its problems.

    A fence or a sentence around the file is ignored. A file without a task is an error here: a title alone is not
    narrower than the failed phase.
    """
    problems: list[NebulaProblem] = []
    file = remediation_file(new_id)
    spec, _ = parse_phase(file, unwrapped(text), problems)
    if spec is not None and not split_partial_work(spec.body)[0]:
        message = "The phase describes only partial work: it has no task."
        problems.append(NebulaProblem("empty", Severity.ERROR, file, None, message, "Describe the task.", new_id))
    bad = spec is None or any(each.severity in (Severity.ERROR, Severity.CRITICAL) for each in problems)
    return (None if bad else spec), problems


def unwrapped(text: str) -> str:
    """A phase file without what a model put around it: from its first line of `+++` to the end of the enclosing fence,
    if there is one."""
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
