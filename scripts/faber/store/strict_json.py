"""JSON with limits: a damaged or hostile file is an error here, not a crash later."""

import json
from typing import Any

MAX_DEPTH = 64


class InvalidJSON(ValueError):
    """Not JSON as the store accepts it; the message says why."""


def loads(data: bytes | str) -> Any:
    """Parse UTF-8 JSON. Raises `InvalidJSON` on bad syntax, duplicate keys, NaN and infinities,
    numbers too long to read, and nesting beyond 64 levels."""
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
        value = _DECODER.decode(text)
    except RecursionError:
        raise InvalidJSON("nested too deeply") from None
    except ValueError as error:
        raise InvalidJSON(str(error)) from None
    # Only text with many brackets can be deep: most files need no walk.
    if (data.count(b"[") + data.count(b"{") if isinstance(data, bytes) else data.count("[") + data.count("{")) > (
        MAX_DEPTH
    ) and _too_deep(value, MAX_DEPTH):
        raise InvalidJSON(f"nested deeper than {MAX_DEPTH} levels")
    return value


def loads_own(data: bytes) -> Any:
    """Parse what `dumps` made and a checksum proves unchanged: without the checks of `loads`, in half the time."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidJSON(str(error)) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidJSON(f"duplicate key {twice[:60]!a}")
    return made


def _refuse(constant: str) -> Any:
    raise InvalidJSON(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise InvalidJSON(f"{digits[:40]} is out of range for a number")
    return number


# Making one costs as much as reading a short file.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)


def _too_deep(value: Any, left: int) -> bool:
    if isinstance(value, dict):
        return left == 0 or any(_too_deep(item, left - 1) for item in value.values())
    if isinstance(value, list):
        return left == 0 or any(_too_deep(item, left - 1) for item in value)
    return False


def dumps(value: Any, *, pretty: bool = False) -> bytes:
    """UTF-8 JSON with a final newline; one line unless `pretty`. NaN is refused with `ValueError`."""
    layout: dict[str, Any] = {"indent": 2} if pretty else {"separators": (",", ":")}
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, **layout)
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: only an escape can hold it
        return json.dumps(value, allow_nan=False, **layout).encode() + b"\n"
