"""`Conversation`: one conversation with a headless client, turn by turn, whichever client it is."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faber.agents.agent_options import AgentOptions
from faber.agents.client_kinds import program_of
from faber.agents.environment import TURN, agent_environment
from faber.agents.outcome import Outcome, TurnResult, failure
from faber.agents.process import Ended, Running
from faber.agents.stream import NOT_WHOLE
from faber.responses.llm import Completion, Schema

OnEvent = Callable[[Mapping[str, Any]], None]


class Conversation(ABC):
    """The first turn begins a session, and later ones continue it, even after a cut answer.

    `session_id` continues an existing session. `cancel`, set from any thread, ends the running turn and refuses the
    next. `on_event` is called with every event of the stream in the shape of Claude Code's, in the calling thread, for
    live progress. `spent_usd` is the known cost so far, `turns` the results so far.
    """

    name: str  # of the client, as in `client_kinds`

    def __init__(
        self,
        options: AgentOptions,
        *,
        session_id: str | None = None,
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.options = options
        self.session_id = session_id
        self.cancelled = cancel or threading.Event()
        self.spent_usd = 0.0
        self.turns: list[TurnResult] = []
        self.on_event = on_event

    def cancel(self) -> None:
        """End the running turn, from any thread; its outcome is then `Outcome.CANCELLED`."""
        self.cancelled.set()

    def turn(self, prompt: str, schema: Schema | None = None) -> TurnResult:
        """Send `prompt` and wait for the end of the turn. Never raises for anything that the agent or its client did.

        With `schema` the client is told to answer with JSON that fits it, if it takes that schema. Whether the answer
        fits is for the caller to check. An exception from outside (KeyboardInterrupt) is raised once every process of
        the turn has ended.
        """
        result = (self._refused() or self._turn(prompt, schema))._replace(client=self.name)
        self.turns.append(result)
        self.spent_usd += result.cost_usd or 0.0
        # A session without a response of the model cannot be resumed; the next turn begins a new one.
        if result.session_id and (any(result.usage.values()) or result.pieces):
            self.session_id = result.session_id
        return result

    def complete(self, prompt: str) -> Completion:
        """The answer to `prompt`, as for `LLMClient`; raises the `TurnFailed` that names how the turn ended instead.

        If the client continued the answer by itself, this is the first piece: no echo proves the join with the others.
        """
        return _completion(self.turn(prompt))

    def answer(self, prompt: str, schema: Schema) -> Completion:
        """The answer to `prompt` as JSON, as for `StructuredClient`; raises like `complete`."""
        return _completion(self.turn(prompt, schema))

    @abstractmethod
    def _turn(self, prompt: str, schema: Schema | None) -> TurnResult:
        """One turn, which is within the budget and not cancelled."""

    @property
    def _left_usd(self) -> float:
        return self.options.max_budget_usd - self.spent_usd

    def _refused(self) -> TurnResult | None:
        """The result of a turn that may not begin."""
        if self.cancelled.is_set():
            return TurnResult(Outcome.CANCELLED, error="The turn was cancelled before it began.")
        if self._left_usd >= 0.000001:
            return None
        spent = f"The conversation has spent its {self.options.max_budget_usd} dollars."
        return TurnResult(Outcome.BUDGET_STOP, session_id=self.session_id, cost_usd=0.0, error=spent)

    def _inherited(self) -> Mapping[str, str]:
        return os.environ if self.options.inherited is None else self.options.inherited

    def _run(
        self,
        arguments: Sequence[str],
        prompt: str,
        take: Callable[[bytes], None],
        *,
        environment: Mapping[str, str],
        hopeless: Callable[[], Outcome | None],
        take_error: Callable[[bytes], None] = lambda line: None,
    ) -> Ended:
        """Run the client with these arguments, and `environment` besides that of the options."""
        options, inherited = self.options, self._inherited()
        marker = f"{options.label}.{os.urandom(8).hex()}"
        command = [*(options.command or [program_of(self.name, {**inherited, **options.environment})])]
        running = Running(
            command=[*command, *arguments],
            cwd=options.cwd,
            environment=agent_environment(inherited, {**options.environment, **environment}, marker),
            marker=f"{TURN}={marker}",
            prompt=prompt,
            grace=options.grace,
        )
        return running.wait(
            take,
            timeout=options.timeout,
            max_output=options.max_output,
            cancelled=self.cancelled,
            hopeless=hopeless,
            take_error=take_error,
        )


def _completion(result: TurnResult) -> Completion:
    if result.outcome not in (Outcome.COMPLETED, Outcome.CUT):
        raise failure(result)
    first = result.first
    if not first.text.strip():
        raise failure(result.without_answer())
    reason = first.stop_reason if first.stop_reason in NOT_WHOLE else result.stop_reason
    return Completion(first.text, reason, result.cost_usd, result.session_id, result.usage)
