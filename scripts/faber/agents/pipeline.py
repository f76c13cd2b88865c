"""`AgentLoop`: one turn of an agent that answers with JSON, from its prompt to a value that fits its schema."""

from collections.abc import Callable
from typing import Any, NamedTuple

from faber.errors import Notice
from faber.responses import (
    CUT_STOP_REASONS,
    MAX_RESUME_ATTEMPTS,
    Completion,
    LLMClient,
    PartialCompletionResumeExhaustedError,
    detect_truncation,
    resume,
)
from faber.responses.llm import ask
from faber.responses.recovery_log import EXHAUSTED, RESOLVED, Recovery
from faber.responses.schema_validation import MAX_CORRECTION_ATTEMPTS, MalformedResponseHandler, Schema

Record = Callable[[Recovery], list[Notice]]
_CUT = next(iter(CUT_STOP_REASONS))
CUT_SHORT = "Your last response was cut at the output limit and could not be completed: make it shorter."


class AgentResponse(NamedTuple):
    """What a turn came to.

    `value` fits the schema, `text` is its JSON. `final_status` is None where nothing was cut, else what became of the
    first response: `RESOLVED`, or `EXHAUSTED` also where a correction then rescued the answer. `resume_attempts` and
    `corrections` count what was asked for beside the prompt. `cost_usd` sums what the client could tell of its costs.
    `notices` are warnings of the recovery log.
    """

    value: Any
    text: str
    final_status: str | None
    resume_attempts: int
    corrections: int
    cost_usd: float
    session_id: str | None
    notices: list[Notice]


class AgentLoop:
    """Turns of one conversation with `client`; each recovery goes to `record` (a `RecoveryLog`'s)."""

    def __init__(
        self,
        client: LLMClient,
        record: Record = lambda recovery: [],
        *,
        max_resume_attempts: int = MAX_RESUME_ATTEMPTS,
        max_correction_attempts: int = MAX_CORRECTION_ATTEMPTS,
    ) -> None:
        self._client = client
        self._record = record
        self._resumes = max_resume_attempts
        self._corrections = max_correction_attempts

    def run_turn(self, task_id: str, turn_number: int, prompt: str, schema: Schema) -> AgentResponse:
        """Say `prompt` and bring the answer through all three stages; seed 003's pipeline.

        Raises `CorrectionExhausted` if no answer fits `schema`, `InvalidSchema`, and what the client raises (a budget
        stop, a time limit …), which is never asked around.
        """
        turn = _Turn(self._client, self._record, task_id, turn_number, self._resumes)
        first = turn.ask(prompt)
        # The order is part of the requirement. Corrected first, a cut response would be written again from nothing;
        # validated first, it would be called malformed:
        # [3_MCP-TAS-072] truncation resume, [3_MCP-TAS-071] schema validation, [3_MCP-TAS-071] formatting correction.
        whole = turn.completed(first)  # [3_MCP-TAS-072]
        status, why = turn.status, CUT_SHORT if turn.status == EXHAUSTED else ""
        found = MalformedResponseHandler.validate(whole, schema)  # [3_MCP-TAS-071]
        value, text, corrections = found.value, whole, 0
        if not found.ok:
            corrected = MalformedResponseHandler.correct_with_retry(  # [3_MCP-TAS-071]
                turn.ask, whole, schema, self._corrections, complete=turn.completed, why=why
            )
            value, text, corrections = corrected
        return AgentResponse(
            value, text, status, turn.attempts, corrections, turn.cost_usd, turn.session_id, turn.notices
        )


class _Turn:
    """What adds up over a turn."""

    def __init__(self, client: LLMClient, record: Record, task_id: str, turn_number: int, max_resumes: int) -> None:
        self._client = client
        self._record = record
        self._task_id = task_id
        self._turn_number = turn_number
        self._max_resumes = max_resumes
        self.status: str | None = None  # of the response that was completed last
        self.attempts = 0
        self.cost_usd = 0.0
        self.session_id: str | None = None
        self.notices: list[Notice] = []

    def ask(self, prompt: str) -> Completion:
        """The client's answer, its cost noted."""
        reply = ask(self._client, prompt)
        self.cost_usd += reply.cost_usd or 0.0
        self.session_id = reply.session_id or self.session_id
        return reply

    def completed(self, reply: Completion) -> str:
        """`reply` whole, joined only where the echo proves it; what there is of it where it could not be completed."""
        self.status = None
        try:
            made = resume(self.ask, reply.text, self._max_resumes, stop_reason=reply.stop_reason, join="proven")
        except PartialCompletionResumeExhaustedError as error:
            self._note(reply, error.truncation_index, error.attempts, EXHAUSTED)
            # A number that is the whole of it would pass for a complete answer: only what is certain goes on.
            return error.merged_raw[: detect_truncation(error.merged_raw, _CUT).certain_end]
        if made.attempts:
            self._note(reply, made.truncation_index, made.attempts, RESOLVED)
        return made.text

    def _note(self, reply: Completion, index: int | None, attempts: int, status: str) -> None:
        self.status = status
        self.attempts += attempts
        recovery = Recovery(self._task_id, self._turn_number, index, len(reply.text), attempts, status)
        self.notices += self._record(recovery)
