"""Runtime checks and JSON Schemas, both derived from the `TypedDict`s that describe faber's documents.

They differ in strictness. The check runs on every read and write and requires what the code relies on: keys, types and
fixed sets of words. It ignores unknown keys, so that a document of a newer faber can be read. The schema also requires
bounds and patterns, and refuses unknown keys; `faber doctor` and the tests use it.

Both are derived only when they are needed.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    is_typeddict,
)

Shape = TypeVar("Shape")
Check = Callable[[Any], None]

_NAMES = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
    dict: "an object",
    list: "an array",
}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", dict: "object"}


class Keyword(NamedTuple):
    """A keyword of JSON Schema inside `Annotated`: `Annotated[int, Keyword("minimum", 0)]`."""

    name: str
    value: int | str


class ShapeMismatch(Exception):
    """A value is not of its shape. `path` are the keys that lead to it, `problem` is a clause without a subject."""

    def __init__(self, problem: str) -> None:
        self.path: list[str | int] = []
        self.problem = problem

    def __str__(self) -> str:
        """`phases.build.status is "begun", not one of …`, in ASCII."""
        where = ".".join(ascii(str(key))[1:-1][:60] for key in self.path)
        return f"{where or 'the document'} {self.problem}"


def extensible(**keywords: int) -> Callable[[type[Shape]], type[Shape]]:
    """Let a `TypedDict` have any other keys in the JSON Schema; `keywords` go into the schema as they are."""

    def mark(shape: type[Shape]) -> type[Shape]:
        shape.__extensible__ = keywords  # type: ignore[attr-defined]
        return shape

    return mark


def checked(value: object, shape: type[Shape]) -> Shape:
    """`value` itself, if it has the keys and types of the `TypedDict` `shape`; raises `ShapeMismatch`."""
    _apply(_kinds(cast(Hashable, shape)) or {}, value)
    return cast(Shape, value)


def json_schema(shape: type, title: str, **optional: type) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a `TypedDict`; `optional` are further keys that it may have."""
    described = dict(_schema(shape))
    described["properties"] = described["properties"] | {key: _schema(more) for key, more in optional.items()}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **described}


# --- annotations -----------------------------------------------------------------------------------


def _plain(annotation: Any) -> Any:
    """The annotation without `NotRequired` and `Annotated`."""
    while get_origin(annotation) in (NotRequired, Annotated):
        annotation = get_args(annotation)[0]
    return annotation


def _keywords(annotation: Any) -> Iterator[Keyword]:
    while get_origin(annotation) in (NotRequired, Annotated):
        yield from (more for more in getattr(annotation, "__metadata__", ()) if isinstance(more, Keyword))
        annotation = get_args(annotation)[0]


def _members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union, or the annotation alone."""
    plain = _plain(annotation)
    if get_origin(plain) in (Union, UnionType):
        return tuple(inner for member in get_args(plain) for inner in _members(member))
    return (annotation,)


# --- the runtime check -----------------------------------------------------------------------------


class _Kinds(dict[type, Check | None]):
    """What a value may be: each type, with the check of what is inside a value of it."""

    def __missing__(self, kind: type) -> Check | None:
        """The check for a type derived from one of these (`True` is no integer); a refusal for any other."""
        bases = () if kind is bool else kind.__mro__
        return next((self[base] for base in bases if base in self), self._refuse)

    def _refuse(self, value: object) -> None:
        names = [_NAMES[kind] for kind in self if kind is not int or float not in self]
        raise ShapeMismatch(f"is not {' or '.join(names)}")


def _apply(kinds: Mapping[type, Check | None], value: object) -> None:
    check = kinds[type(value)]
    if check is not None:
        check(value)


@cache
def _kinds(annotation: Any) -> _Kinds | None:
    """What a value of this annotation may be; None where it may be anything."""
    kinds = _Kinds()
    if annotation in (str, int, bool):  # most are; the checks are built in every command
        kinds[annotation] = None
        return kinds
    for member in _members(annotation):
        plain = _plain(member)
        origin, arguments = get_origin(plain), get_args(plain)
        if plain is Any or plain is object:
            return None
        if is_typeddict(plain):
            kinds[dict] = _object(plain)
        elif origin is Literal:
            kinds[str] = _words(arguments)
        elif origin is list:
            kinds[list] = _array(_kinds(arguments[0]))
        elif origin is dict:
            kinds[dict] = _mapping(_kinds(arguments[1]))
        elif plain is float:
            kinds |= {float: None, int: None}
        else:
            kinds[NoneType if plain is None else plain] = None
    return kinds


def _words(known: tuple[str, ...]) -> Check:
    allowed = frozenset(known)

    def check(value: str) -> None:
        if value not in allowed:
            raise ShapeMismatch(f"is {value[:40]!a}, not one of {', '.join(known)}")

    return check


def _array(kinds: _Kinds | None) -> Check | None:
    if kinds is None:
        return None

    def check(value: list[object]) -> None:
        number = 0
        try:
            for number, item in enumerate(value):  # noqa: B007 - the handler names the item
                _apply(kinds, item)
        except ShapeMismatch as problem:
            problem.path.insert(0, number)
            raise

    return check


def _mapping(kinds: _Kinds | None) -> Check | None:
    if kinds is None:
        return None

    def check(value: dict[str, object]) -> None:
        key = ""
        try:
            for key, item in value.items():  # noqa: B007 - the handler names the key
                _apply(kinds, item)
        except ShapeMismatch as problem:
            problem.path.insert(0, key)
            raise

    return check


def _object(shape: Any) -> Check:
    fields: dict[str, _Kinds] = {}
    required: frozenset[str] = shape.__required_keys__

    def check(value: dict[str, object]) -> None:
        if not fields:  # most commands meet few of the shapes
            fields.update({key: kinds for key, each in shape.__annotations__.items() if (kinds := _kinds(each))})
        if not required <= value.keys():
            raise ShapeMismatch(f"lacks {', '.join(sorted(required - value.keys()))}")
        key = ""
        try:
            for key, item in value.items():
                if (kinds := fields.get(key)) and (inner := kinds[type(item)]) is not None:
                    inner(item)
        except ShapeMismatch as problem:
            problem.path.insert(0, key)
            raise

    return check


# --- the JSON Schema -------------------------------------------------------------------------------


def _schema(annotation: Any) -> dict[str, Any]:
    members = [_one(member) for member in _members(annotation)]
    made: dict[str, Any] = {}
    for member in members:
        made |= member
    if len(members) > 1:
        # Keywords such as `properties` apply to values of their own type only: one schema holds for all alternatives.
        made["type"] = [member["type"] for member in members]
        if "enum" in made:
            made["enum"] += [None]
    return made | {keyword.name: keyword.value for keyword in _keywords(annotation)}


def _one(annotation: Any) -> dict[str, Any]:
    """The schema of a type that is not a union."""
    plain = _plain(annotation)
    origin, arguments = get_origin(plain), get_args(plain)
    if plain is Any or plain is object:
        return {}
    if is_typeddict(plain):
        made = _schema_of_object(plain)
    elif origin is Literal:
        made = {"type": "string", "enum": list(arguments)}
    elif origin is list:
        made = {"type": "array", "items": _schema(arguments[0])}
    elif origin is dict:
        inner = _schema(arguments[1])
        made = {"type": "object", **({"additionalProperties": inner} if inner else {})}
    else:
        made = {"type": _JSON_TYPES[NoneType if plain is None else plain]}
    return made | {keyword.name: keyword.value for keyword in _keywords(annotation)}


def _schema_of_object(shape: Any) -> dict[str, Any]:
    more = getattr(shape, "__extensible__", None)
    return {
        "type": "object",
        "required": sorted(shape.__required_keys__),
        "properties": {key: _schema(annotation) for key, annotation in shape.__annotations__.items()},
        **({"additionalProperties": False} if more is None else more),
    }
