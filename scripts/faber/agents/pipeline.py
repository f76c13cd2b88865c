"""`AgentLoop`: a turn of an agent that answers with JSON, from the prompt to a value that fits a schema."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from faber.agents.outcome import TurnFailed, TurnResult
from faber.errors import InvalidInput, Notice
from faber.responses import (
    CUT_STOP_REASONS,
    MAX_RESUME_ATTEMPTS,
    Completion,
    LLMClient,
    NoAnswer,
    PartialCompletionResumeExhaustedError,
    detect_truncation,
    resume,
)
from faber.responses.llm import Schema, ask
from faber.responses.recovery_log import EXHAUSTED, RESOLVED, Recovery
from faber.responses.schema_validation import MAX_CORRECTION_ATTEMPTS, MalformedResponseHandler, check_schema

Record = Callable[[Recovery], list[Notice]]
_CUT = next(iter(CUT_STOP_REASONS))
CUT_SHORT = "Your last response was cut off at the output limit and could not be completed: make it shorter."


class AgentResponse(NamedTuple):
    """The answer of a turn.

    `value` fits the schema, `text` is its JSON. `final_status` is None if the first response was not cut, `RESOLVED` if
    it was completed, `EXHAUSTED` if it was not, even if a correction then gave the answer. `resume_attempts` and
    `corrections` count the prompts after the first. `cost_usd` sums the costs that the client reported. `notices` are
    warnings of the recovery log.
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
    """Turns of one conversation with `client`. `record` is called with each recovery (see `RecoveryLog.record`).

    `cost_usd` is what the turns cost so far and `usage` their tokens, failed ones included; the cost is None if the
    client did not report all of it. Raises `InvalidInput` for a negative number of attempts.
    """

    def __init__(
        self,
        client: LLMClient,
        record: Record = lambda recovery: [],
        *,
        max_resume_attempts: int = MAX_RESUME_ATTEMPTS,
        max_correction_attempts: int = MAX_CORRECTION_ATTEMPTS,
    ) -> None:
        if max_resume_attempts < 0 or max_correction_attempts < 0:
            raise InvalidInput("A turn has no negative number of attempts.")
        self.cost_usd: float | None = 0.0
        self.usage: Counter[str] = Counter()
        self._client = client
        self._record = record
        self._resumes = max_resume_attempts
        self._corrections = max_correction_attempts

    def run_turn(self, task_id: str, turn_number: int, prompt: str, schema: Schema) -> AgentResponse:
        """Send `prompt` and take the answer through the three stages of seed 003's pipeline.

        A `StructuredClient` is asked for JSON that fits `schema`; the answer is checked all the same. Raises
        `InvalidInput` and `InvalidSchema` before anything is sent; `NoAnswer` if the model refuses or says nothing, and
        whatever the client raises (budget exhausted, timed out …), after which the model is not asked again; and
        `CorrectionExhausted` if no answer fits.
        """
        Recovery(task_id, turn_number, None, 0, 0, RESOLVED).checked()
        check_schema(schema)
        if not prompt.strip():
            raise InvalidInput("The prompt is empty.")
        turn = _Turn(self._client, self._record, task_id, turn_number, self._resumes)
        try:
            return self._run(turn, prompt, schema)
        finally:
            known = self.cost_usd is not None and turn.all_reported
            self.cost_usd = round((self.cost_usd or 0.0) + turn.cost_usd, 6) if known else None
            self.usage.update(turn.usage)

    def _run(self, turn: "_Turn", prompt: str, schema: Schema) -> AgentResponse:
        first = turn.answer(prompt, schema)
        # The requirement fixes the order. Correcting first would have a cut response rewritten from scratch, and
        # validating first would call it malformed:
        # [3_MCP-TAS-072] truncation resume, [3_MCP-TAS-071] schema validation, [3_MCP-TAS-071] formatting correction.
        whole = turn.completed(first)  # [3_MCP-TAS-072]
        status, why = turn.status, CUT_SHORT if turn.status == EXHAUSTED else ""
        found = MalformedResponseHandler.validate(whole, schema)  # [3_MCP-TAS-071]
        value, text, corrections = found.value, whole, 0
        if not found.ok:
            corrected = MalformedResponseHandler.correct_with_retry(  # [3_MCP-TAS-071]
                turn, whole, schema, self._corrections, complete=turn.completed, why=why
            )
            value, text, corrections = corrected
        return AgentResponse(
            value, text, status, turn.attempts, corrections, turn.cost_usd, turn.session_id, turn.notices
        )


class _Turn:
    """The conversation of one turn, and the totals over it."""

    def __init__(self, client: LLMClient, record: Record, task_id: str, turn_number: int, max_resumes: int) -> None:
        self._client = client
        self._record = record
        self._task_id = task_id
        self._turn_number = turn_number
        self._max_resumes = max_resumes
        self.status: str | None = None  # of the response that was completed last
        self.attempts = 0
        self.cost_usd = 0.0
        self.all_reported = True  # False if a cost is missing from `cost_usd`
        self.usage: Counter[str] = Counter()
        self.session_id: str | None = None
        self.notices: list[Notice] = []

    def complete(self, prompt: str) -> Completion:
        """The client's answer; its cost is added."""
        return self._ask(prompt, None)

    def answer(self, prompt: str, schema: Schema) -> Completion:
        """The client's answer, of the form of `schema` if it can ask for that; its cost is added."""
        return self._ask(prompt, schema)

    def _ask(self, prompt: str, schema: Schema | None) -> Completion:
        paid: Completion | TurnResult = Completion("")
        try:
            paid = reply = ask(self._client, prompt, schema)
        except TurnFailed as error:
            paid = error.result
            raise
        except NoAnswer as error:
            paid = error.reply
            raise
        finally:
            self.cost_usd += paid.cost_usd or 0.0
            self.all_reported &= paid.cost_usd is not None
            self.usage.update(paid.usage)
        self.session_id = reply.session_id or self.session_id
        return reply

    def completed(self, reply: Completion) -> str:
        """The whole text of `reply`, joined only where the echo proves it; else the certain part of it."""
        self.status = None
        try:
            made = resume(self, reply.text, self._max_resumes, stop_reason=reply.stop_reason, join="proven")
        except PartialCompletionResumeExhaustedError as error:
            self._note(reply, error.truncation_index, error.attempts, EXHAUSTED)
            # A cut number could pass for a complete answer: only the certain part is kept.
            return error.merged_raw[: detect_truncation(error.merged_raw, _CUT).certain_end]
        if made.attempts:
            self._note(reply, made.truncation_index, made.attempts, RESOLVED)
        return made.text

    def _note(self, reply: Completion, index: int | None, attempts: int, status: str) -> None:
        self.status = status
        self.attempts += attempts
        recovery = Recovery(self._task_id, self._turn_number, index, len(reply.text), attempts, status)
        self.notices += self._record(recovery)
