"""Asking a model to continue a cut response until it is complete, a limited number of times."""

from typing import NamedTuple

from faber.responses.constants import ANCHOR_LENGTH, CUT_STOP_REASONS, MAX_RESUME_ATTEMPTS, Join
from faber.responses.detect import detect_truncation
from faber.responses.envelope import examine
from faber.responses.llm import Asked, ask
from faber.responses.merge import Chunk, merge_chunks
from faber.responses.response_errors import ChunkMergeError, PartialCompletionResumeExhaustedError

INSTRUCTION = (
    "Continue the JSON payload from the last valid token. Output ONLY the remaining JSON. "
    "Do not repeat any content before the last valid token."
)


def build_resume_prompt(last_valid_token: str) -> str:
    """The prompt that asks for the rest of a cut response (seed 003, `buildResumePrompt`).

    It contains `last_valid_token` verbatim on its own lines, the seed's instruction verbatim, and nothing else of the
    response. The model is asked to begin with the token, because that echo proves the join.
    """
    if not last_valid_token:
        return (
            f"Your last response was cut off, and it has no last valid token to continue from. {INSTRUCTION} "
            "Here, the remaining JSON is the whole document. Start with its first character. "
            "Do not add prose or a code fence.\n"
        )
    return (
        f"Your last response was cut off at the output limit. {INSTRUCTION}\n\n"
        f"The last valid token is the text between these two lines:\n"
        f"<<<<<<<<\n{last_valid_token}\n>>>>>>>>\n\n"
        "Start your output with an exact copy of the last valid token and continue directly after it, "
        "rewriting anything that followed it. Do not add prose, a code fence or a leading line break.\n"
    )


class Resumption(NamedTuple):
    """A response after recovery.

    `text` is what to validate: the JSON without what surrounded it, or the unchanged response if `status` is
    `malformed`. `status` is `complete` or `malformed`. `attempts` counts the continuations (0: it was not cut).
    `truncation_index` is the character at which the first chunk was cut.
    """

    text: str
    status: str
    attempts: int
    truncation_index: int | None


def resume(
    llm_client: Asked,
    raw: str,
    max_resume_attempts: int = MAX_RESUME_ATTEMPTS,
    *,
    stop_reason: str | None = None,
    join: Join = "proven",
) -> Resumption:
    """Complete `raw` if it was cut, asking `llm_client` for the rest; `stop_reason` is what ended `raw`.

    After a refused join the model is asked again with a longer anchor, and from then on only an echo is accepted: a
    reply without one may continue the refused piece instead. A continuation that is cut itself is merged and continued.
    Malformed text is returned unchanged, since no continuation can make it valid. Raises
    `PartialCompletionResumeExhaustedError` after `max_resume_attempts`, and whatever the client raises.
    """
    envelope, found = examine(raw, stop_reason)
    if not found.truncated:
        text = raw if found.status == "malformed" else envelope.text
        return Resumption(text, found.status, 0, None)
    chunk = Chunk.of(raw, stop_reason)
    index, length, taken = chunk.detection.truncation_index, ANCHOR_LENGTH, join
    for attempt in range(1, max_resume_attempts + 1):
        reply = ask(llm_client, build_resume_prompt(chunk.token(length)))
        try:
            merge = chunk.join(reply.text, taken, reply.stop_reason, length)
        except ChunkMergeError as refused:
            length *= 2
            if refused.reason != "no_join" or reply.stop_reason in CUT_STOP_REASONS:
                taken = "proven"
            continue
        if merge.complete:
            return Resumption(merge.text, "complete", attempt, index)
        chunk, length, taken = merge.chunk, ANCHOR_LENGTH, join
    raise PartialCompletionResumeExhaustedError(max_resume_attempts, chunk.text, truncation_index=index)


def resume_if_truncated(
    llm_client: Asked,
    raw: str,
    max_resume_attempts: int = MAX_RESUME_ATTEMPTS,
    *,
    stop_reason: str | None = None,
    join: Join = "proven",
) -> str:
    """The text of `resume` (seed 003, `resumeIfTruncated`): the complete JSON, or malformed text unchanged."""
    return resume(llm_client, raw, max_resume_attempts, stop_reason=stop_reason, join=join).text


class PartialCompletionResumeProtocol:
    """The four operations as one class, as seed 003 names them; each is the function of the same name."""

    detect_truncation = staticmethod(detect_truncation)
    build_resume_prompt = staticmethod(build_resume_prompt)
    merge_chunks = staticmethod(merge_chunks)
    resume_if_truncated = staticmethod(resume_if_truncated)
