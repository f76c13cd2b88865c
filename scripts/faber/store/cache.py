"""Parsed forms of texts, cached in the index: parsing needs slow imports, comparing the text does not."""

import os
from collections.abc import Callable
from typing import Any

from faber.errors import FaberError
from faber.store import strict_json
from faber.store.files import MAX_STATE, read_json, write_atomic
from faber.store.index import file_name
from faber.store.layout import Layout

# Increased when the result computed from the same text changes.
CACHE_VERSION = 1
PARSED = "parsed"


def memo(layout: Layout, name: str, text: str, compute: Callable[[str], Any]) -> Any:
    """`compute(text)`, a JSON value; taken from the index if it was computed before for exactly this text.

    `name` identifies the computation. The whole text is compared, so a hit is never wrong; with a missing,
    damaged or unwritable cache the value is computed.
    """
    path = os.path.join(layout.index, PARSED, file_name(name))
    try:
        found = read_json(path, MAX_STATE)
        if found["version"] == CACHE_VERSION and found["text"] == text:
            return found["value"]
    except (OSError, FaberError, strict_json.InvalidJSON, KeyError, TypeError):
        pass
    value = compute(text)
    if os.path.isdir(layout.store):
        try:
            data = strict_json.dumps({"version": CACHE_VERSION, "text": text, "value": value})
            if len(data) <= MAX_STATE:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_atomic(path, data, durable=False)
        except (OSError, FaberError):
            pass
    return value
