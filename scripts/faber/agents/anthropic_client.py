"""`AnthropicClient`: one conversation over the Messages API, for answers that need no tools.

Needs the package `anthropic`, which comes with the extra `faber[api]` and is imported with the first question.
"""

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from faber.agents.outcome import Outcome, TurnResult, failure
from faber.errors import FaberError, InvalidInput
from faber.model.text import inert, redact, shorten
from faber.responses.constants import MAX_RESPONSE
from faber.responses.llm import Completion

MAX_TOKENS = 32_000
SECONDS = 600.0
_MESSAGE = 1_000
_PAUSE = 0.05  # seconds between looks at the time and at a cancellation


class ApiPackageMissing(FaberError):
    """The package `anthropic` is not installed."""

    code = "package_missing"
    recovery = "Install it with faber's extra: `pip install 'faber[api]'`."


class AnthropicClient:
    """An `LLMClient` over the Messages API; it remembers what was said, cut answers as they were.

    `max_tokens` is the output limit of one answer, `timeout` the seconds that one may take in all. `base_url` and
    `api_key` default to the package's own variables (`ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`). `prices` are the
    dollars for a million input and output tokens: without them no cost is known. `cancel`, set from another thread,
    ends the answer that is coming in. `usage` counts tokens over the conversation.
    """

    def __init__(
        self,
        model: str,
        *,
        system: str | None = None,
        max_tokens: int = MAX_TOKENS,
        timeout: float = SECONDS,
        max_retries: int = 2,
        base_url: str | None = None,
        api_key: str | None = None,
        prices: tuple[float, float] | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        if max_tokens < 1 or not 0 < timeout < float("inf"):
            raise InvalidInput("An answer needs an output limit and a time limit.")
        self.usage = {"input_tokens": 0, "output_tokens": 0}
        self.cancelled = cancel or threading.Event()
        self._model = model
        self._limits = {"max_tokens": max_tokens}
        self._timeout = timeout
        self._made: Any = None
        self._connection = {"base_url": base_url, "api_key": api_key, "max_retries": max_retries}
        self._system = {"system": system} if system else {}
        self._prices = prices
        self._said: list[dict[str, str]] = []

    def cancel(self) -> None:
        """End the answer that is coming in, from any thread."""
        self.cancelled.set()

    def complete(self, prompt: str) -> Completion:
        """The answer to `prompt` and all before it, as far as the output limit let it come.

        Raises `ApiPackageMissing`, and the `TurnFailed` that names what happened instead: `NotLoggedIn`, `TimedOut`,
        `Cancelled`, or `TurnFailed` itself for what the API refused. What failed is not remembered.
        """
        if self.cancelled.is_set():
            raise failure(TurnResult(Outcome.CANCELLED, error="The answer was cancelled before it began."))
        anthropic = self._package()
        asked = [*self._said, {"role": "user", "content": prompt}]
        told: queue.SimpleQueue[str | Exception | Any] = queue.SimpleQueue()
        # A read that waits for a silent server cannot be interrupted: it is left to its own time limit.
        threading.Thread(target=self._read, args=(anthropic, asked, told), daemon=True).start()
        deadline = time.monotonic() + self._timeout
        text: list[str] = []
        length = 0
        while True:
            self._check(deadline, length)
            try:
                news = told.get(timeout=_PAUSE)
            except queue.Empty:
                continue
            if isinstance(news, Exception):
                raise self._failed(anthropic, news) from None
            if not isinstance(news, str):
                break
            text.append(news)
            length += len(news)
        answer = "".join(text)
        # An empty message would be refused with the next prompt.
        self._said = [*asked, {"role": "assistant", "content": answer}] if answer else asked
        return Completion(answer, news.stop_reason, self._cost(news.usage))

    def _read(self, anthropic: Any, asked: list[dict[str, str]], told: "queue.SimpleQueue[Any]") -> None:
        """Put into `told` the pieces of the answer, then the whole message, or what went wrong instead."""
        try:
            if self._made is None:
                self._made = anthropic.Anthropic(**self._connection)
            # Streamed: the package refuses to wait for a long answer in one piece.
            with self._made.messages.stream(
                model=self._model, messages=asked, timeout=self._timeout, **self._limits, **self._system
            ) as stream:
                for event in stream:
                    if event.type == "text":
                        told.put(event.text)
                    if self.cancelled.is_set():
                        return
                told.put(stream.get_final_message())
        except Exception as error:  # noqa: BLE001 - also what the package's transport raises, under changing names
            told.put(error)

    def _package(self) -> Any:
        try:
            import anthropic
        except ImportError as error:
            raise ApiPackageMissing(f"The Messages API needs the package anthropic: {error}.") from None
        return anthropic

    def _check(self, deadline: float, length: int) -> None:
        if self.cancelled.is_set():
            raise failure(TurnResult(Outcome.CANCELLED, error="The answer was cancelled."))
        if time.monotonic() > deadline:
            raise failure(TurnResult(Outcome.TIMED_OUT, error="The answer took longer than it may."))
        if length > MAX_RESPONSE:
            raise failure(TurnResult(Outcome.TOO_MUCH_OUTPUT, error=f"The answer has over {MAX_RESPONSE} characters."))

    def _cost(self, usage: Any) -> float | None:
        given: Mapping[str, int] = {name: getattr(usage, name) or 0 for name in self.usage}
        for name, tokens in given.items():
            self.usage[name] += tokens
        if self._prices is None:
            return None
        return sum(tokens * price / 1e6 for tokens, price in zip(given.values(), self._prices, strict=True))

    def _failed(self, anthropic: Any, error: Exception) -> FaberError:
        outcome, what = Outcome.AGENT_ERROR, "The API gave no answer"
        if isinstance(error, anthropic.AuthenticationError):
            outcome, what = Outcome.NOT_LOGGED_IN, "The API refuses the key"
        elif "Timeout" in type(error).__name__:
            outcome, what = Outcome.TIMED_OUT, "The answer took longer than it may"
        elif "api_key" in str(error) and not isinstance(error, anthropic.APIError):
            outcome, what = Outcome.NOT_LOGGED_IN, "There is no key for the API"
        said = shorten(inert(redact(f"{what}: {error}")), _MESSAGE)
        return failure(TurnResult(outcome, error=said))
