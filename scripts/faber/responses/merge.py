"""Joining two chunks of a response, or refusing to.

Models do not continue exactly: they overlap by a few characters, restart the cut token or line, restate the whole
document, wrap it in a fence, begin with a sentence, or leave a gap. A join puts the continuation where its beginning
repeats the end of the first chunk, or right after it. Inside a string nearly every place is valid JSON, so the grammar
proves nothing there: only a repetition too long to be an accident does.

*proven*: the continuation begins with the anchor and what the chunk has after it, or with everything that is certain of
the document; and it completes the document, or its source was cut.
*consistent*: otherwise, all places that give valid JSON must give the same document.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from faber.responses.anchors import Anchor, anchor
from faber.responses.constants import ANCHOR_LENGTH, CUT_STOP_REASONS, MAX_RESPONSE, Join
from faber.responses.detect import TruncationDetectionResult, result
from faber.responses.envelope import beginnings_of_continuation, examine, is_talk, suffix_removed
from faber.responses.overlaps import begins_with, echo, overlaps
from faber.responses.response_errors import ChunkMergeError, ResponseTooLarge
from faber.responses.scanner import JsonScanner
from faber.responses.syntax import SPACES

_UNFINISHED = "The continuation ends without completing the response."
_NO_ECHO = "The continuation does not begin with the anchor."
_TOKENS = re.compile(r'"(?>(?:[^"\\]|\\.)*)"|[{}\[\],:]|[^\s"{}\[\],:]++', re.DOTALL)


class Merge(NamedTuple):
    """Two chunks joined. If the merge is not `complete` JSON, its `chunk` can be joined with the next continuation.

    `proof` is `echo` if the continuation repeats the anchor, else `consistent`.
    """

    text: str
    complete: bool
    proof: str
    chunk: "Chunk"

    @property
    def detection(self) -> TruncationDetectionResult:
        """The result of `detect_truncation` for the text."""
        return self.chunk.detection


class _Reading(NamedTuple):
    """A possible text after the certain part; `adds` is False if the chunk has all of it already."""

    rest: str
    complete: bool
    adds: bool
    scanner: JsonScanner


class Chunk:
    """A cut response and a scanner that has read it, so that a join reads only the continuation."""

    def __init__(self, text: str, scanner: JsonScanner, stop_reason: str | None = None) -> None:
        self.text = text
        self.detection = result(scanner, text, stop_reason)
        self._scanner = scanner
        self._anchors: dict[int, Anchor] = {}

    @classmethod
    def of(cls, raw: str, stop_reason: str | None = None) -> "Chunk":
        """The chunk in `raw`, without what surrounds it; raises `ChunkMergeError` if it was not cut."""
        envelope, found = examine(raw, stop_reason)
        if not found.truncated:
            wrong = "complete" if found.status == "complete" else f"not the beginning of JSON: {_said(found)}"
            raise ChunkMergeError(f"The first chunk is {wrong}.", reason="not_truncated", status=found.status)
        return cls(envelope.text, JsonScanner().feed(envelope.text), stop_reason)

    def token(self, length: int = ANCHOR_LENGTH) -> str:
        """The anchor for the prompt; empty if it would prove nothing, so that the model rewrites the whole document."""
        made = self.anchor(length)
        return made.token if made.proves else ""

    @property
    def joint(self) -> int:
        """Where a continuation is joined: after the last complete character or token."""
        return self.detection.joint or 0

    def anchor(self, length: int = ANCHOR_LENGTH) -> Anchor:
        """The anchor that a continuation is asked to begin with, about `length` characters."""
        if length not in self._anchors:
            joint, token_end = self.joint, self.detection.truncation_index or 0
            self._anchors[length] = anchor(self.text, joint, token_end, length, self._scanner.certain(joint))
        return self._anchors[length]

    def join(
        self,
        continuation: str,
        join: Join = "proven",
        stop_reason: str | None = None,
        asked: int = ANCHOR_LENGTH,
    ) -> Merge:
        """Join `continuation` to this chunk; `stop_reason` is its own, `asked` the length its anchor was chosen with.

        Raises `ChunkMergeError` and `ResponseTooLarge`.
        """
        if len(self.text) + len(continuation) > MAX_RESPONSE:
            raise ResponseTooLarge(f"The merged response would pass {MAX_RESPONSE} characters.", limit=MAX_RESPONSE)
        views = [continuation[begin:] for begin in beginnings_of_continuation(continuation)]
        echoed = False
        for view in views:
            for repeated, rest in self._echoes(view, asked):
                echoed = True
                found = self._decided([rest], stop_reason)
                if found and self._doubtful(found, view, repeated, stop_reason):
                    raise ChunkMergeError("What is repeated is too short to prove a join.", reason="ambiguous")
                if found and not found.complete and stop_reason not in (None, *CUT_STOP_REASONS):
                    raise ChunkMergeError(_UNFINISHED, reason="unfinished")
                if found:
                    return self._merged(found, "echo", stop_reason)
        if echoed:
            raise ChunkMergeError("What follows the repeated anchor does not fit.", reason="no_join")
        if join == "proven" and not self.anchor().proves:
            raise ChunkMergeError(
                "The chunk repeats itself: only repeating all of it proves a join.",
                reason="ambiguous",
            )
        token = self.token(asked)
        begun = bool(token) and any(view.startswith(token) for view in views)
        if join == "proven":
            what = "What follows the anchor is not what the chunk has there." if begun else _NO_ECHO
            raise ChunkMergeError(what, reason="no_echo")
        if len(token) >= ANCHOR_LENGTH and (begun or (self._scanner.in_string and token in continuation)):
            raise ChunkMergeError("The anchor is there, but no echo of what the chunk has.", reason="ambiguous")
        for group in self._grouped(views):
            rests = [rest for view in group for rest in self._fitting(view)]
            found = self._decided(rests, stop_reason)
            if found and not found.complete and not self._may_be_cut(group, stop_reason):
                raise ChunkMergeError(_UNFINISHED, reason="unfinished")
            if found:
                return self._merged(found, "consistent", stop_reason)
        raise ChunkMergeError("No place of the continuation fits the first chunk.", reason="no_join")

    def _echoes(self, view: str, asked: int) -> Iterator[tuple[int, str | None]]:
        """How much of `view` repeats what proves the join, and what follows it; nothing if it does not."""
        joint = self.joint
        if not joint:  # nothing is certain, so only the whole document from its start can be an echo
            begun = self.text.lstrip(SPACES)
            new = begun and self._scanner.copy().feed(view).status != "malformed"
            if not new and view.lstrip(SPACES).startswith(begun):
                yield 0, view
            return
        sizes = {len(self.text[:joint].lstrip(SPACES))}
        sizes |= {made.size for made in map(self.anchor, (ANCHOR_LENGTH, asked)) if made.proves}
        for size in sizes:
            if repeated := echo(self.text[:joint], size, view):
                yield repeated, self._rest(view, repeated)

    def _doubtful(self, found: _Reading, view: str, repeated: int, stop_reason: str | None) -> bool:
        """True if `found` repeats so few characters that `view` may just as well repeat nothing.

        The whole text may be that short; then the end of the document decides. New text cannot close the brackets that
        the text and its repetition open together. A document that is complete with the repetition is therefore right,
        unless the source says that it was cut.
        """
        if not self.joint or repeated >= ANCHOR_LENGTH or (found.complete and stop_reason not in CUT_STOP_REASONS):
            return False
        return any(rest is not None and self._read(rest, stop_reason) for rest in self._plain(view))

    def _may_be_cut(self, views: list[str], stop_reason: str | None) -> bool:
        """True if an unfinished continuation without the echo may itself have been cut."""
        if stop_reason is None:
            return not (self._scanner.in_string and is_talk(views[0]))
        return stop_reason in CUT_STOP_REASONS

    def _grouped(self, views: list[str]) -> Iterator[list[str]]:
        """The views that are decided together: outside a string, those that differ only in leading white space."""
        group: list[str] = []
        for view in views:
            if group and (self._scanner.in_string or view.lstrip(SPACES) != group[0].lstrip(SPACES)):
                yield group
                group = []
            group.append(view)
        yield group

    def _fitting(self, view: str) -> Iterator[str | None]:
        """What follows the certain part, for each place where `view` may belong."""
        yield from (self._rest(view, size) for size in overlaps(self.text[: self.joint], view))
        yield from self._plain(view)

    def _rest(self, view: str, size: int) -> str | None:
        """What follows the certain part if `view` repeats `size` characters; None if it contradicts the cut piece."""
        rest = view[size:]
        cut = self.text[self.joint :]
        if self._scanner.in_string:
            return rest if begins_with(rest, cut) else None
        return rest if rest.lstrip(SPACES).startswith(cut.lstrip(SPACES)) else None

    def _plain(self, view: str) -> Iterator[str | None]:
        """What follows the certain part if `view` repeats none of it, though perhaps some of the cut piece."""
        cut = self.text[self.joint :]
        if cut:
            yield self._rest(view, 0)
        for kept in range(1, len(cut) + 1) if cut else [0]:
            if view.startswith(cut[kept:]):
                yield cut[:kept] + view

    def _decided(self, rests: Iterable[str | None], stop_reason: str | None) -> _Reading | None:
        """The only reading of the continuation; None if there is none. Raises `ChunkMergeError` if several differ."""
        readings: dict[str, _Reading] = {}
        for rest in rests:
            reading = None if rest is None else self._read(rest, stop_reason)
            if reading is not None:
                readings.setdefault(reading.rest if self._scanner.in_string else reading.rest.strip(SPACES), reading)
            if self._scanner.in_string and sum(each.complete for each in readings.values()) > 1:
                break  # two that differ are enough; a long continuation may have many more
        complete = [reading for reading in readings.values() if reading.complete]
        unfinished = [reading for reading in readings.values() if not reading.complete]
        if complete and stop_reason is not None and stop_reason not in CUT_STOP_REASONS:
            unfinished = []
        found = complete + unfinished
        if len(found) > 1 and (unfinished or len({self._tokens(reading.rest) for reading in complete}) > 1):
            raise ChunkMergeError("The continuation can be read in several ways that differ.", reason="ambiguous")
        return found[0] if found and found[0].adds else None

    def _read(self, rest: str, stop_reason: str | None) -> _Reading | None:
        """`rest` after the certain part, without what follows a complete value; None if it is not JSON."""
        end = self.joint
        scanner = self._scanner.certain(end).feed(rest)
        if scanner.status == "malformed":
            value_end = scanner.value_end
            if value_end is None or suffix_removed(rest[value_end - end :]) is None:
                return None
            rest = rest[: value_end - end]
            scanner = self._scanner.certain(end).feed(rest)
        complete = not result(scanner, self.text[:end] + rest, stop_reason).truncated
        adds = complete or len(rest.strip(SPACES)) > len(self.text[end:].strip(SPACES))
        return _Reading(rest, complete, adds, scanner)

    def _tokens(self, rest: str) -> tuple[str, ...]:
        """The tokens of the certain part and `rest`, regardless of white space."""
        return tuple(_TOKENS.findall(self.text[: self.joint] + rest))

    def _merged(self, reading: _Reading, proof: str, stop_reason: str | None) -> Merge:
        text = self.text[: self.joint] + reading.rest
        return Merge(text, reading.complete, proof, Chunk(text, reading.scanner, stop_reason))


def _said(found: TruncationDetectionResult) -> str:
    return f"{found.error.message} at character {found.error.position}" if found.error else found.status


def join_chunks(initial: str, continuation: str, join: Join = "proven", *, stop_reason: str | None = None) -> Merge:
    """Join `continuation` to `initial`; `stop_reason` is the continuation's.

    Raises `ChunkMergeError` like `merge_chunks`, except that a continuation that is cut itself gives an unfinished
    merge, whose `chunk` can be joined with the next one.
    """
    return Chunk.of(initial).join(continuation, join, stop_reason)


def merge_chunks(initial: str, continuation: str, join: Join = "proven") -> str:
    """The complete JSON text of the cut `initial` and its `continuation` (seed 003, `mergeChunks`).

    `join="proven"` accepts only a continuation that repeats the anchor (`detect_truncation(initial).last_valid_token`)
    and what follows it, or the whole document. `"consistent"` also accepts one without it, if every place where it fits
    gives the same document; a gap then goes unnoticed (80 % of those in real files are joined wrong). Raises
    `ChunkMergeError`, also if the merged text is still cut (`unfinished`).
    """
    merge = join_chunks(initial, continuation, join)
    if not merge.complete:
        raise ChunkMergeError("The continuation fits, but is cut itself.", reason="unfinished")
    return merge.text
