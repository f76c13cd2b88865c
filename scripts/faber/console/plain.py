"""An answer as text for people: one line a value, lists and objects indented below their key."""

from collections.abc import Iterator

NOTHING = "-"


def plain(value: object) -> str:
    """`value`, which JSON can hold, in lines."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entry(f"{key}:", inner)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            if isinstance(inner, dict) and inner:
                first, *rest = _lines(inner)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield from _entry("-", inner)
    else:
        yield from _text(value)


def _entry(head: str, value: object) -> Iterator[str]:
    """The value beside `head` if it is one line, otherwise indented below it, where it cannot pass for a key."""
    found = list(_lines(value))
    if len(found) == 1 and not (isinstance(value, dict | list | tuple) and value):
        yield f"{head} {found[0]}"
        return
    yield head
    yield from (f"  {line}" for line in found)


def _text(value: object) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return (str(value) if isinstance(value, int | float) else str(value or "")).splitlines() or [NOTHING]
