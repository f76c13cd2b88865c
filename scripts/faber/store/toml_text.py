"""Writing TOML: a key and its value on one line, so that a file that is written again shows what changed."""

import json
import re
from collections.abc import Mapping
from typing import Any

from faber.model.text import encodable

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def key_text(key: str) -> str:
    """`key` as TOML spells it."""
    return key if _BARE.fullmatch(key) else _quoted(key)


def value_text(value: Any) -> str:
    """A text, number, boolean, list or table of them as TOML on one line; lone surrogates become U+FFFD.

    Raises `ValueError` for what TOML has no value for: None, NaN, infinity, another type.
    """
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(value_text(item) for item in value)}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key_text(key)} = {value_text(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise ValueError(f"TOML has no {type(value).__name__}")


def table_text(table: Mapping[str, Any]) -> str:
    """The pairs of a table, one a line, in their order; keys whose value is None are left out."""
    return "".join(f"{key_text(key)} = {value_text(value)}\n" for key, value in table.items() if value is not None)


def _number(value: float) -> str:
    text = repr(value)
    if text in ("nan", "inf", "-inf"):
        raise ValueError(f"{text} is not written")
    return text if "." in text or "e" in text else text + ".0"


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's too; a DEL has to be escaped besides.
    return json.dumps(encodable(text), ensure_ascii=False).replace("\x7f", "\\u007f")
