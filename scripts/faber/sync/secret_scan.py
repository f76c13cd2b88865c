"""Finds credentials in what is about to leave the machine: by their form, or as the value of a variable. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from faber.text.safe_text import has_secret


class Found(NamedTuple):
    """Where in a document a credential is, as `metadata.note`, and why it looks like one; never the text."""

    at: str
    why: str


def find(document: Any, values: Mapping[str, str], keep: frozenset[str] = frozenset()) -> Found | None:
    """The first credential in a JSON value, its keys included; None if there is none.

    `keep` are names of the plan: one that happens to look like a credential must still be that name.
    """
    for at, text in _texts(document, ""):
        if text in keep:
            continue
        if has_secret(text):
            return Found(at, "it has the form of a credential")
        for value, name in values.items():
            if value in text:
                return Found(at, f"it holds the value of ${name}")
    return None


def _texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield at or "top level", value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{at}.{number}" if at else str(number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{at}, a key" if at else "a key", key
            # A key that is a credential is found before its name is put into a place.
            yield from _texts(item, f"{at}.{key[:60]}" if at else key[:60])
