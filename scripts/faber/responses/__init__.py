"""Response recovery: a cut response is recognised, continued, and joined only if the join can be trusted.

Seed 003 (requirement 3_MCP-TAS-072). Imports with the standard library alone. Everything here but `resume` and
`resume_if_truncated`, which ask a model, is a pure function. docs/response-recovery.md says how it works, and lists the
seed's names beside these.
"""

from faber.responses.constants import ANCHOR_LENGTH, CUT_STOP_REASONS, MAX_RESPONSE, MAX_RESUME_ATTEMPTS, Join
from faber.responses.detect import TruncationDetectionResult, detect_truncation
from faber.responses.envelope import Envelope, extract_envelope
from faber.responses.errors import ChunkMergeError, PartialCompletionResumeExhaustedError, ResponseTooLarge
from faber.responses.llm import Completion, LLMClient
from faber.responses.merge import Chunk, Merge, join_chunks, merge_chunks
from faber.responses.resuming import (
    PartialCompletionResumeProtocol,
    Resumption,
    build_resume_prompt,
    resume,
    resume_if_truncated,
)
from faber.responses.scanner import JsonScanner

__all__ = [
    "ANCHOR_LENGTH",
    "CUT_STOP_REASONS",
    "MAX_RESPONSE",
    "MAX_RESUME_ATTEMPTS",
    "Chunk",
    "ChunkMergeError",
    "Completion",
    "Envelope",
    "Join",
    "JsonScanner",
    "LLMClient",
    "Merge",
    "PartialCompletionResumeExhaustedError",
    "PartialCompletionResumeProtocol",
    "ResponseTooLarge",
    "Resumption",
    "TruncationDetectionResult",
    "build_resume_prompt",
    "detect_truncation",
    "extract_envelope",
    "join_chunks",
    "merge_chunks",
    "resume",
    "resume_if_truncated",
]
