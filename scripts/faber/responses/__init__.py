"""Response recovery: a response cut at the token limit is recognised, continued, and joined only if the join can be trusted.

Seed 003. Imports with the standard library alone; everything here but `resume` is a pure function.

    detect_truncation(raw: str, stop_reason: str | None = None) -> TruncationDetectionResult
    extract_envelope(text: str) -> Envelope
    build_resume_prompt(last_valid_token: str) -> str
    merge_chunks(initial: str, continuation: str, join: Join = "consistent") -> str
    join_chunks(initial, continuation, join="consistent", *, stop_reason=None) -> Merge      unfinished merges too
    resume_if_truncated(llm_client, raw, max_resume_attempts=MAX_RESUME_ATTEMPTS, *, stop_reason=None, join="consistent") -> str
    resume(llm_client, raw, max_resume_attempts=…, *, stop_reason=None, join="consistent", on_reply=None) -> Resumption

    TruncationDetectionResult   truncated, status, truncation_index, last_valid_token, error; as_dict()
    Envelope                    text, prefix, suffix, removed: tuple[str, ...]
    Merge                       text, complete, proof ("echo" | "consistent"), detection
    Resumption                  text (what to validate), status, attempts, truncation_index, initial_length
    Completion                  text, stop_reason, cost_usd, session_id
"""
