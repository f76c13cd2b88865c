"""Classifying a response as complete, truncated or malformed, and finding where its certain part ends.

A text is *truncated* if and only if it is a strict prefix of some JSON text (RFC 8259). The C scanner of `json` reads
it and says where it stopped; only the characters there and the tail decide. Texts for which `json` differs from the
standard (NaN, nesting beyond its recursion limit, numbers with thousands of digits) are read by `JsonScanner` instead.
"""

import json
from typing import NamedTuple, NoReturn

from faber.responses.anchors import Anchor, anchor
from faber.responses.constants import CUT_STOP_REASONS, MAX_RESPONSE
from faber.responses.response_errors import ResponseTooLarge
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import (
    NUMBER_CHARACTERS,
    NUMBER_PREFIX,
    NUMBER_REST,
    SPACES,
    WHITESPACE,
    SyntaxProblem,
    literal_prefix,
    uncertain_in_string,
)


class TruncationDetectionResult(NamedTuple):
    """The result of `detect_truncation`.

    `status` is `complete`, `truncated` or `malformed`. For a truncated text, `truncation_index` is the end of its last
    complete token (a cut string is not one: the index lies before it), and `joint` the end of what a continuation can
    be joined to (inside a cut string, after its last complete character). For a malformed text, `error` says what is
    wrong at which character. Fields that do not apply are None. `raw` is the text.
    """

    truncated: bool
    status: str
    truncation_index: int | None
    joint: int | None
    error: SyntaxProblem | None
    raw: str

    @property
    def anchor(self) -> Anchor | None:
        """What a continuation is asked to begin with; None if nothing was cut."""
        return anchor(self.raw, self.joint or 0, self.truncation_index or 0) if self.truncated else None

    @property
    def last_valid_token(self) -> str | None:
        """The text that a continuation is asked to begin with; None if nothing was cut."""
        found = self.anchor
        return found and found.token

    @property
    def certain_end(self) -> int | None:
        """Where `last_valid_token` ends in the text: at a word or a line; None if nothing was cut."""
        found = self.anchor
        return found and found.end

    @property
    def proves(self) -> bool:
        """True if a continuation that begins with `last_valid_token` proves its join.

        It does not if the text repeats itself from its beginning, or for longer than an anchor may be.
        """
        found = self.anchor
        return found is not None and found.proves

    def as_dict(self) -> dict[str, object]:
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
    """`json` read a constant that JSON does not have."""


def _refuse(constant: str) -> NoReturn:
    raise _NotJson


_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]  # as `json` itself calls it


def detect_truncation(raw: str, stop_reason: str | None = None) -> TruncationDetectionResult:
    """Classify `raw`: it is truncated if it is a strict prefix of some JSON text.

    `stop_reason` is the source's word for why it ended. It decides one case: a number that is the whole text (`12`)
    is complete JSON, but truncated if the source stopped at its output limit. Raises `ResponseTooLarge` for more than
    `MAX_RESPONSE` characters.
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
    """Classify by the message and position of an error of `json`: cut there, or malformed."""
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
    """Where the token before `at` and any white space ends; 0 if there is none."""
    while at and raw[at - 1] in SPACES:
        at -= 1
    return at


def _cut_outside(raw: str, at: int) -> TruncationDetectionResult:
    """Cut between tokens, or in the number or literal that begins at `at`."""
    index = _token_end(raw, at)
    return _cut(raw, index, index)


def _cut(raw: str, index: int, joint: int) -> TruncationDetectionResult:
    return TruncationDetectionResult(True, "truncated", index, joint, None, raw)


def _scanned(raw: str, stop_reason: str | None) -> TruncationDetectionResult:
    """Classify by `JsonScanner`, which reads every text."""
    return result(JsonScanner().feed(raw), raw, stop_reason)


def result(scanner: JsonScanner, raw: str, stop_reason: str | None = None) -> TruncationDetectionResult:
    """The result for `raw`, which `scanner` has read."""
    status = scanner.status
    if status == "malformed":
        return TruncationDetectionResult(False, status, None, None, scanner.problem, raw)
    if status == "complete" and not (scanner.lone_number and stop_reason in CUT_STOP_REASONS):
        return TruncationDetectionResult(False, "complete", None, None, None, raw)
    joint = scanner.token_end
    if scanner.in_string:
        opening = WHITESPACE.match(raw, scanner.token_end).end()  # type: ignore[union-attr]
        joint = len(raw) - uncertain_in_string(raw, opening + 1)
    return _cut(raw, scanner.token_end, joint)
