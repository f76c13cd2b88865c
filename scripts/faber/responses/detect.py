"""Is a response cut, complete or no JSON at all? And where does what is certain of it end?

A text is *truncated* if and only if it is a strict prefix of some JSON text (RFC 8259). The C scanner of `json` reads
it and says where it stops; only the characters there and the tail decide. Texts that `json` reads otherwise than the
standard (NaN, nesting beyond its recursion limit, numbers of thousands of digits) go through `JsonScanner`.
"""

import json
from typing import Any, NamedTuple, NoReturn

from faber.responses.constants import CUT_STOP_REASONS, MAX_RESPONSE
from faber.responses.response_errors import ResponseTooLarge
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import (
    NUMBER_CHARACTERS,
    NUMBER_PREFIX,
    NUMBER_REST,
    SPACES,
    WHITESPACE,
    Problem,
    literal_prefix,
    uncertain_in_string,
)


class _Found(NamedTuple):
    truncated: bool
    status: str
    truncation_index: int | None
    certain_end: int | None
    error: Problem | None
    raw: str


class TruncationDetectionResult(_Found):
    """What `detect_truncation` found.

    `status` is `complete`, `truncated` or `malformed`. Of a truncated text: `truncation_index` is the end of its last
    complete token (a string cut short is none: the index lies before it), `certain_end` the end of what can be
    joined to (inside a cut string, of its last complete character), `last_valid_token` the text up to there that a
    continuation is anchored on. Of a malformed one: `error` says what is wrong at which character. The rest is None.
    """

    __slots__ = ()

    @property
    def last_valid_token(self) -> str | None:
        """What a continuation is asked to begin with; chosen when asked for, from the tail."""
        from faber.responses.anchors import anchor

        return anchor(self) if self.truncated else None

    @property
    def proves(self) -> bool:
        """True if a continuation that begins with `last_valid_token` proves its join.

        It does not where the text repeats itself from its beginning, or for longer than an anchor may get.
        """
        from faber.responses.anchors import stands_alone

        token = self.last_valid_token
        return token is not None and stands_alone(self.raw, self.certain_end or 0, len(token))

    def as_dict(self) -> dict[str, Any]:
        """The result as `faber response check` prints it."""
        return {
            "status": self.status,
            "truncated": self.truncated,
            "truncation_index": self.truncation_index,
            "last_valid_token": self.last_valid_token,
            "error": self.error.as_dict() if self.error else None,
        }

    def __repr__(self) -> str:
        return f"TruncationDetectionResult({self.as_dict()})"


class _NotJson(Exception):
    """A constant that `json` reads and JSON does not have."""


def _refuse(constant: str) -> NoReturn:
    raise _NotJson


_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]  # as `json` itself calls it


def detect_truncation(raw: str, stop_reason: str | None = None) -> TruncationDetectionResult:
    """Whether `raw` is a strict prefix of some JSON text, and what of it is certain.

    `stop_reason` is what the source said of its end. It decides one case: a number that is the whole text (`12`) is
    complete JSON, and cut if the source says that it stopped at its limit. Raises `ResponseTooLarge` past 64 MB
    (characters).
    """
    end = len(raw)
    if end > MAX_RESPONSE:
        raise ResponseTooLarge(f"The response has {end} characters; the limit is {MAX_RESPONSE}.", limit=MAX_RESPONSE)
    begin = 0 if raw[:1] not in SPACES else WHITESPACE.match(raw).end()  # type: ignore[union-attr]
    try:
        _, at = _scan(raw, begin)
    except json.JSONDecodeError as error:
        return _classified(raw, end, error.msg, error.pos)
    except StopIteration as error:
        at = error.value
        rest = raw[at : at + 6]
        if literal_prefix(rest) or rest == "-":
            return _cut_outside(raw, at)
        return _scanned(raw, stop_reason)
    except (_NotJson, RecursionError, ValueError):
        return _scanned(raw, stop_reason)
    if at == end:
        if stop_reason in CUT_STOP_REASONS and raw[-1] in "0123456789":
            return _scanned(raw, stop_reason)
        return TruncationDetectionResult(False, "complete", None, None, None, raw)
    if WHITESPACE.match(raw, at).end() == end:  # type: ignore[union-attr]
        return TruncationDetectionResult(False, "complete", None, None, None, raw)
    return _scanned(raw, stop_reason)


def _classified(raw: str, end: int, message: str, at: int) -> TruncationDetectionResult:
    """From the error of `json` and its position: cut there, or malformed."""
    if message.startswith("Unterminated string"):
        before = _token_end(raw, at)
        return _cut(raw, before, end - uncertain_in_string(raw, at + 1))
    if at >= end:
        if raw[end - 1] in "0123456789":
            return _cut_outside(raw, _number_begin(raw, end))
        return _cut_outside(raw, end)
    if message.startswith("Expecting ',' delimiter") and end - at <= 2 and NUMBER_REST.fullmatch(raw, at):
        begin = _number_begin(raw, end)
        if NUMBER_PREFIX.fullmatch(raw, begin) and begin < at:
            return _cut_outside(raw, begin)
    return _scanned(raw, None)


def _number_begin(raw: str, end: int) -> int:
    """Where the number that ends at `end` begins."""
    size = 32
    while True:
        tail = raw[max(0, end - size) : end]
        rest = tail.rstrip(NUMBER_CHARACTERS)
        if rest or size >= end:
            return end - len(tail) + len(rest)
        size *= 4


def _token_end(raw: str, at: int) -> int:
    """Where the token ends that stands before `at`, white space aside; 0 if there is none."""
    while at and raw[at - 1] in SPACES:
        at -= 1
    return at


def _cut_outside(raw: str, at: int) -> TruncationDetectionResult:
    """Cut between tokens, or in the number or literal that begins at `at`."""
    index = _token_end(raw, at)
    return _cut(raw, index, index)


def _cut(raw: str, index: int, certain: int) -> TruncationDetectionResult:
    return TruncationDetectionResult(True, "truncated", index, certain, None, raw)


def _scanned(raw: str, stop_reason: str | None) -> TruncationDetectionResult:
    """The same by `JsonScanner`, which reads everything."""
    return result(JsonScanner().feed(raw), raw, stop_reason)


def result(scanner: JsonScanner, raw: str, stop_reason: str | None = None) -> TruncationDetectionResult:
    """What `scanner`, which was fed `raw`, says of it."""
    status = scanner.status
    if status == "malformed":
        return TruncationDetectionResult(False, status, None, None, scanner.problem, raw)
    if status == "complete" and not (scanner.lone_number and stop_reason in CUT_STOP_REASONS):
        return TruncationDetectionResult(False, "complete", None, None, None, raw)
    certain = scanner.token_end
    if scanner.in_string:
        opening = WHITESPACE.match(raw, scanner.token_end).end()  # type: ignore[union-attr]
        certain = len(raw) - uncertain_in_string(raw, opening + 1)
    return _cut(raw, scanner.token_end, certain)
