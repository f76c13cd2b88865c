"""Continuing a cut response until it is complete, or until it has been asked for often enough."""

from collections.abc import Callable
from typing import NamedTuple

from faber.responses.constants import ANCHOR_LENGTH, CUT_STOP_REASONS, MAX_RESUME_ATTEMPTS, Join
from faber.responses.detect import detect_truncation
from faber.responses.envelope import examine
from faber.responses.llm import Asked, Completion, ask
from faber.responses.merge import Chunk, merge_chunks
from faber.responses.response_errors import ChunkMergeError, PartialCompletionResumeExhaustedError

INSTRUCTION = (
    "Continue the JSON payload from the last valid token. Output ONLY the remaining JSON. "
    "Do not repeat any content before the last valid token."
)


def build_resume_prompt(last_valid_token: str) -> str:
    """The words that ask for the rest of a cut response (seed 003, `buildResumePrompt`).

    They hold `last_valid_token` exactly, on lines of its own, the seed's instruction exactly, and nothing else of the
    response. The model is asked to begin with the token itself: that echo is what proves the join.
    """
    if not last_valid_token:
        return (
            f"Your last response was cut off, and no token of it can be gone on from. {INSTRUCTION} "
            "That is: all of the JSON. Begin with its first character, and write no prose and no code fence.\n"
        )
    return (
        f"Your last response was cut off at the output limit. {INSTRUCTION}\n\n"
        f"The last valid token is the text between these two lines:\n"
        f"<<<<<<<<\n{last_valid_token}\n>>>>>>>>\n\n"
        "Begin your output with the last valid token itself, unchanged, character for character, and go on directly "
        "from there; what came after it is written again. No prose, no code fence, no line break before it.\n"
    )


class Resumption(NamedTuple):
    """How a response was completed.

    `text` is what to validate: the JSON of the response without what stood around it, or the response as it was where
    it is `malformed`. `status` is `complete` or `malformed`; `attempts` how many continuations were asked for (0: it
    was not cut); `truncation_index` where the first chunk was cut, `initial_length` its characters.
    """

    text: str
    status: str
    attempts: int
    truncation_index: int | None
    initial_length: int


def resume(
    llm_client: Asked,
    raw: str,
    max_resume_attempts: int = MAX_RESUME_ATTEMPTS,
    *,
    stop_reason: str | None = None,
    join: Join = "consistent",
    on_reply: Callable[[Completion], None] | None = None,
) -> Resumption:
    """Complete `raw` if it was cut, asking `llm_client` for what is missing; `stop_reason` is what ended `raw`.

    A refused join is asked for again with a longer anchor; a continuation that is itself cut is merged and continued.
    After a piece was refused only an echo is taken: without one, a reply may as well go on from that piece.
    Malformed text is answered as it is: no continuation can make it valid. `on_reply` hears of every continuation,
    for its cost. Raises `PartialCompletionResumeExhaustedError` after `max_resume_attempts`, and what the client
    raises.
    """
    envelope, found = examine(raw, stop_reason)
    if not found.truncated:
        text = raw if found.status == "malformed" else envelope.text
        return Resumption(text, found.status, 0, None, len(raw))
    chunk = Chunk.of(raw, stop_reason)
    index, length, taken = chunk.detection.truncation_index, ANCHOR_LENGTH, join
    for attempt in range(1, max_resume_attempts + 1):
        reply = ask(llm_client, build_resume_prompt(chunk.token(length)))
        if on_reply is not None:
            on_reply(reply)
        try:
            merge = chunk.join(reply.text, taken, reply.stop_reason, length)
        except ChunkMergeError as refused:
            length *= 2
            if refused.reason != "no_join" or reply.stop_reason in CUT_STOP_REASONS:
                taken = "proven"
            continue
        if merge.complete:
            return Resumption(merge.text, "complete", attempt, index, len(raw))
        chunk, length, taken = merge.chunk, ANCHOR_LENGTH, join
    raise PartialCompletionResumeExhaustedError(max_resume_attempts, chunk.text, truncation_index=index)


def resume_if_truncated(
    llm_client: Asked,
    raw: str,
    max_resume_attempts: int = MAX_RESUME_ATTEMPTS,
    *,
    stop_reason: str | None = None,
    join: Join = "consistent",
) -> str:
    """`resume`'s text alone (seed 003, `resumeIfTruncated`): the complete JSON, or malformed text as it is."""
    return resume(llm_client, raw, max_resume_attempts, stop_reason=stop_reason, join=join).text


class PartialCompletionResumeProtocol:
    """The four operations under one name, as in seed 003; each is the function of the same name."""

    detect_truncation = staticmethod(detect_truncation)
    build_resume_prompt = staticmethod(build_resume_prompt)
    merge_chunks = staticmethod(merge_chunks)
    resume_if_truncated = staticmethod(resume_if_truncated)
