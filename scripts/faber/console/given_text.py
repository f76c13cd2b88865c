"""The texts that a command is given: a file, or stdin for `-`, bounded and in UTF-8."""

import os
import stat
import sys
from typing import BinaryIO, NamedTuple

from faber.errors import InvalidInput
from faber.responses import InvalidSchema, ResponseTooLarge
from faber.responses.constants import MAX_RESPONSE
from faber.store import strict_json

MAX_SCHEMA = 1024 * 1024


class CutText(NamedTuple):
    """Text without the incomplete character at its end, of which there were `cut_bytes`, in the file `name`."""

    text: str
    cut_bytes: int
    name: str

    def require_whole(self) -> None:
        """Raise `InvalidInput` if a character was cut."""
        if self.cut_bytes:
            raise InvalidInput(
                f"{_shown(self.name)} ends with {self.cut_bytes} byte(s) of a character after the complete JSON.",
                recovery="Remove the incomplete character at its end.",
            )


def read_cut(name: str) -> CutText:
    """The text of the file `name`, or of stdin for `-`, which may end inside a character; else as `read_response`."""
    data = _bytes(name, MAX_RESPONSE)
    try:
        data.decode("utf-8")
        cut = 0
    except UnicodeDecodeError as error:
        cut = len(data) - error.start if error.reason == "unexpected end of data" else 0
    return CutText(_decoded(data[: len(data) - cut], name), cut, name)


def read_response(name: str, limit: int = MAX_RESPONSE) -> str:
    """The text of the file `name`, or of stdin for `-`.

    Raises `ResponseTooLarge` beyond `limit` bytes, and `InvalidInput` if it is not a file of UTF-8 text or stdin is a
    terminal.
    """
    return _decoded(_bytes(name, limit), name)


def read_schema(name: str) -> dict[str, object]:
    """The JSON Schema in the file `name`; raises `InvalidSchema`, and what `read_response` raises."""
    try:
        value = strict_json.loads(read_response(name, MAX_SCHEMA))
    except strict_json.InvalidJSON as error:
        raise InvalidSchema(f"{name[:200]!a} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidSchema(f"{name[:200]!a} is not a JSON object.")
    return value


def _bytes(name: str, limit: int) -> bytes:
    if name == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise InvalidInput(
                "There is no response on stdin.", recovery="Pipe the response to stdin, or name its file."
            )
        return _limited(sys.stdin.buffer, name, limit)
    try:
        with open(name, "rb") as opened:
            if stat.S_ISDIR(os.fstat(opened.fileno()).st_mode):
                raise IsADirectoryError
            return _limited(opened, name, limit)
    except FileNotFoundError:
        raise InvalidInput(f"There is no file {name[:200]!a}.", recovery="Name the file of the response.") from None
    except (IsADirectoryError, ValueError):
        raise InvalidInput(f"{name[:200]!a} is not a file.", recovery="Name the file of the response.") from None


def _shown(name: str) -> str:
    return ascii("stdin" if name == "-" else name[:200])


def _limited(opened: BinaryIO, name: str, limit: int) -> bytes:
    data = opened.read(limit + 1)
    if len(data) > limit:
        raise ResponseTooLarge(f"{_shown(name)} has more than {limit} bytes.", limit=limit)
    return data


def _decoded(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{_shown(name)} is not UTF-8 at byte {error.start}: {error.reason}.",
            recovery="Convert the response to UTF-8 text.",
            byte=error.start,
        ) from None
    if "\0" in text:
        raise InvalidInput(
            f"{_shown(name)} is binary: it has a NUL at character {text.index(chr(0))}.",
            recovery="Pass the response as text.",
        )
    return text
