"""Response recovery: detects a cut response, asks for the rest, joins and validates it, and logs what happened.

It implements seed 003 (requirement 3_MCP-TAS-072); docs/response-recovery.md explains it and lists the seed's names.
Importing the package needs the standard library only. Of the functions here, only `resume` and `resume_if_truncated`
call a model; the others are pure.
"""

from faber.responses.constants import ANCHOR_LENGTH, CUT_STOP_REASONS, MAX_RESPONSE, MAX_RESUME_ATTEMPTS, Join
from faber.responses.detect import detect_truncation
from faber.responses.envelope import extract_envelope
from faber.responses.llm import Completion, LLMClient, NoAnswer, StructuredClient
from faber.responses.merge import Chunk, join_chunks, merge_chunks
from faber.responses.response_errors import (
    ChunkMergeError,
    CorrectionExhausted,
    InvalidSchema,
    PartialCompletionResumeExhaustedError,
    RecoveryLogUnreadable,
    ResponseTooLarge,
)
from faber.responses.resuming import PartialCompletionResumeProtocol, build_resume_prompt, resume, resume_if_truncated
from faber.responses.scanner import JsonScanner
from faber.responses.schema_validation import MalformedResponseHandler

__all__ = [
    "ANCHOR_LENGTH",
    "CUT_STOP_REASONS",
    "MAX_RESPONSE",
    "MAX_RESUME_ATTEMPTS",
    "Chunk",
    "ChunkMergeError",
    "Completion",
    "CorrectionExhausted",
    "InvalidSchema",
    "Join",
    "JsonScanner",
    "LLMClient",
    "MalformedResponseHandler",
    "NoAnswer",
    "PartialCompletionResumeExhaustedError",
    "PartialCompletionResumeProtocol",
    "RecoveryLogUnreadable",
    "ResponseTooLarge",
    "StructuredClient",
    "build_resume_prompt",
    "detect_truncation",
    "extract_envelope",
    "join_chunks",
    "merge_chunks",
    "resume",
    "resume_if_truncated",
]
