"""Events changed on disk as faber would have written them, with the checksum of what they say now."""

import json
from pathlib import Path
from typing import Any

from faber.store import log


def rewrite_event(path: Path, old: str, new: str) -> None:
    """Replace text in an event's file."""
    text = json.dumps(log.decode(path.read_bytes()), separators=(",", ":"), ensure_ascii=False)
    assert old in text
    path.write_bytes(log.encode(json.loads(text.replace(old, new))))


def change_event(path: Path, **changed: Any) -> None:
    """Give an event other values at its top level."""
    path.write_bytes(log.encode({**log.decode(path.read_bytes()), **changed}))
