"""Strict parsing of files that people write: YAML, TOML and JSON become JSON values or `Malformed`.

Strict means: bounded before it is parsed, at most 64 levels deep, no key twice in a mapping, no NaN,
no YAML alias or tag, so that a small file can neither name an object nor grow into a large value.
Dates and times become ISO 8601 strings, keys become strings.
"""

import json
import math
import re
from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Any

from faber.store import strict_json

LEVELS = 64
_NUMBER_BITS = 1024


class Malformed(ValueError):
    """Text that is not valid in its format; `reason` says where and why, in one line.

    `line` counts from 1; None if unknown. `problem` is the reason without the line.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"{reason} (line {line})" if line else reason)
        self.problem = reason
        self.line = line

    @property
    def reason(self) -> str:
        """What is wrong, with the line."""
        return str(self)


def yaml_value(text: str, limit: int) -> Any:
    """The value of a YAML document of at most `limit` characters; None for an empty one."""
    _bounded(text, limit)
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Checking the flat events is cheap; only a document that passes is built, recursively.
        _check_events(yaml.parse(text, Loader=loader))
        return jsonable(yaml.load(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        said = " ".join(f"{error.context or ''} {error.problem or 'not YAML'}".split())
        raise Malformed(said, error.problem_mark.line + 1 if error.problem_mark else None) from None
    except Malformed:
        raise
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Malformed(_first_line(error)) from None


def toml_value(text: str, limit: int, *, times: bool = False) -> dict[str, Any]:
    """The table of a TOML document of at most `limit` characters. With `times`, dates and times keep their type."""
    _bounded(text, limit)
    # The time and the memory of the parser grow with the square of a dotted key's segments.
    if re.search(_LONG_KEY, ".".join(part.strip(" \t") for part in text.split("."))):
        raise Malformed(f"a key has more than {LEVELS} segments")
    import tomllib

    try:
        table = jsonable(tomllib.loads(text.replace("\r\n", "\n")), times=times)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise Malformed(_first_line(error)) from None
    assert isinstance(table, dict)
    return table


def json_value(text: str, limit: int) -> Any:
    """The value of a JSON document of at most `limit` characters."""
    _bounded(text, limit)
    try:
        return jsonable(strict_json.loads(text))
    except strict_json.InvalidJSON as error:
        syntax = error.__context__
        if isinstance(syntax, json.JSONDecodeError):
            raise Malformed(syntax.msg, syntax.lineno) from None
        raise Malformed(_first_line(error)) from None


def jsonable(value: Any, level: int = 0, *, times: bool = False) -> Any:
    """`value` as a JSON value; raises `Malformed` if it has no clear JSON form. With `times`, dates and times stay."""
    if level > LEVELS:
        raise Malformed(f"nested more than {LEVELS} levels deep")
    if isinstance(value, dict):
        return {_key(key): jsonable(item, level + 1, times=times) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item, level + 1, times=times) for item in value]
    if isinstance(value, (date, time, datetime)):
        return value if times else value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise Malformed("NaN and infinity are not supported")
    # Python refuses to print, and so to write as JSON, a number with thousands of digits.
    if isinstance(value, int) and value.bit_length() > _NUMBER_BITS:
        raise Malformed("a number is too long")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise Malformed(f"a {type(value).__name__} is not supported")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    plain = jsonable(key)
    if isinstance(plain, (dict, list)):
        raise Malformed("a key is not a plain value")
    return str(plain)


def _bounded(text: str, limit: int) -> None:
    if len(text) > limit:
        raise Malformed(f"larger than {limit // 1000} kB")


def _first_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return f"nested more than {LEVELS} levels deep"
    return (str(error).splitlines() or [type(error).__name__])[0]


# --- YAML ------------------------------------------------------------------------------------------


def _check_events(events: Iterable[Any]) -> None:
    import yaml

    # One entry for each open collection: None for a sequence; for a mapping its keys so far and, in
    # `expects_key`, whether the next node is a key.
    keys: list[set[str] | None] = []
    expects_key: list[bool] = []

    def node(scalar: str | None) -> None:
        if not keys or (seen := keys[-1]) is None:
            return
        if expects_key[-1] and scalar is not None:
            if scalar in seen:
                raise Malformed(f"the key {scalar[:60]!r} occurs twice", _line(event))
            seen.add(scalar)
        expects_key[-1] = not expects_key[-1]

    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise Malformed("aliases are refused", _line(event))
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag not in (None, "!"):
            raise Malformed("tags are refused", _line(event))
        if isinstance(event, yaml.ScalarEvent):
            node(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            node(None)
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            expects_key.append(True)
            if len(keys) > LEVELS:
                raise Malformed(f"nested more than {LEVELS} levels deep", _line(event))
        elif isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            expects_key.pop()


def _line(event: Any) -> int | None:
    return event.start_mark.line + 1 if event.start_mark else None


def yaml_lines(text: str) -> dict[tuple[str | int, ...], int]:
    """The line, from 1, of every key and list entry of a document that `yaml_value` or `json_value` accepted.

    Keys are paths, `("phases", 2, "id")`; the empty one is the document. Empty where the text is JSON
    that YAML does not read.
    """
    import yaml

    found: dict[tuple[str | int, ...], int] = {}

    def walk(node: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    found[*path, key.value] = key.start_mark.line + 1
                    walk(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                found[*path, index] = item.start_mark.line + 1
                walk(item, (*path, index))

    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    if root is not None:
        found[()] = root.start_mark.line + 1
        walk(root, ())
    return found


# --- TOML ---------------------------------------------------------------------------------

_LONG_KEY = r"""(?:\.(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')){64}"""
