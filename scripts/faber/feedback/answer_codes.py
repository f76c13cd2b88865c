"""The codes with which a person answers inside a session: one small file per session, in the index.

A code stands for one request, in one session. Only its salted hash is kept. Written by hooks without syncing to disk:
where it is lost, the session shows another code.
"""

import os
from typing import Any, NamedTuple

from faber.errors import FaberError
from faber.store import strict_json
from faber.store.files import read_json, write_atomic
from faber.store.index import file_name
from faber.store.layout import Layout

CODES = "answer-codes"
VERSION = 1
LIMIT = 64_000
# Nothing that is read as something else: no 0 and O, no 1, I and L.
_DIGITS, _LETTERS = frozenset("23456789"), frozenset("ABCDEFGHJKMNPQRSTUVWXYZ")
_SIGNS = _DIGITS | _LETTERS
LENGTH = 3
MOST = 6  # codes that stay valid in a session; the newest win
TRIES = 5  # wrong codes after which all that are open become void
LAST_TRY = 20  # wrong codes after which the session gets no more
ROUNDS = 20_000


class OpenCode(NamedTuple):
    """What a code stands for."""

    run_id: str
    request_id: str


class AnswerCodes(NamedTuple):
    """The codes of a session: what each open one stands for by its hash, oldest first, and the wrong tries so far;
    `transcript` if the session had one when a code was shown."""

    salt: bytes
    codes: dict[str, OpenCode]
    wrong: int = 0
    transcript: bool = False


def is_code(word: str) -> bool:
    """True if `word` is shaped like a code, in upper or lower case. A word never is, because a code has a digit."""
    signs = set(word.upper())
    return word.isascii() and len(word) == LENGTH and signs <= _SIGNS and bool(signs & _DIGITS and signs & _LETTERS)


def path_of(layout: Layout, session_id: str) -> str:
    """The path of a session's codes."""
    return os.path.join(layout.index, CODES, file_name(session_id) + ".json")


def read_codes(layout: Layout, session_id: str) -> AnswerCodes | None:
    """The session's codes; None if it was shown none, or the file cannot be read."""
    try:
        found = read_json(path_of(layout, session_id), LIMIT)
        return _shaped(found)
    except (OSError, FaberError, strict_json.InvalidJSON, KeyError, TypeError, ValueError):
        return None


def new_code(layout: Layout, session_id: str, stands_for: OpenCode, transcript: bool = False) -> str | None:
    """A new code for a request, to be shown to the person and to nobody else.

    None where the session had too many wrong tries, or the code cannot be kept.
    """
    known = read_codes(layout, session_id) or AnswerCodes(os.urandom(16), {})
    if known.wrong >= LAST_TRY:
        return None
    code = _random()
    kept = {**known.codes, _hash(known.salt, code): stands_for}
    newest = dict(list(kept.items())[-MOST:])
    return (
        code
        if _write(layout, session_id, known._replace(codes=newest, transcript=known.transcript or transcript))
        else None
    )


def meant_by(known: AnswerCodes, word: str) -> OpenCode | None:
    """What `word` stands for in that session, in upper or lower case; None if it is not one of its open codes."""
    return known.codes.get(_hash(known.salt, word.upper()))


def count_wrong(layout: Layout, session_id: str, known: AnswerCodes, tried: int = 1) -> int:
    """Count wrong tries; returns how many are left until all codes of the session are void (0: they are now)."""
    wrong = known.wrong + tried
    left = max(TRIES - known.wrong % TRIES - tried, 0)
    _write(layout, session_id, known._replace(codes=known.codes if left else {}, wrong=wrong))
    return left


def void(layout: Layout, session_id: str, known: AnswerCodes, request_id: str) -> None:
    """Make all codes for a request void."""
    left = {key: code for key, code in known.codes.items() if code.request_id != request_id}
    _write(layout, session_id, known._replace(codes=left))


def _random() -> str:
    signs = sorted(_SIGNS)
    even = 256 - 256 % len(signs)  # bytes from here on would favour the first signs
    while True:
        drawn = [signs[byte % len(signs)] for byte in os.urandom(LENGTH * 4) if byte < even]
        code = "".join(drawn[:LENGTH])
        if is_code(code):
            return code


def _hash(salt: bytes, code: str) -> str:
    from hashlib import pbkdf2_hmac  # loads OpenSSL

    return pbkdf2_hmac("sha256", code.encode(), salt, ROUNDS).hex()


def _write(layout: Layout, session_id: str, known: AnswerCodes) -> bool:
    path = path_of(layout, session_id)
    codes = [{"hash": key, **code._asdict()} for key, code in known.codes.items()]
    document = {
        "version": VERSION,
        "salt": known.salt.hex(),
        "codes": codes,
        "wrong": known.wrong,
        "transcript": known.transcript,
    }
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomic(path, strict_json.dumps(document), durable=False)
    except (OSError, FaberError):
        return False
    return True


def _shaped(found: Any) -> AnswerCodes:
    if found["version"] != VERSION:
        raise ValueError("written by another version")
    codes = {str(code["hash"]): OpenCode(str(code["run_id"]), str(code["request_id"])) for code in found["codes"]}
    return AnswerCodes(bytes.fromhex(found["salt"]), codes, int(found["wrong"]), bool(found.get("transcript")))
