"""The members."""

import json
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


def members(name="members.json"):
    """All members as they are kept."""
    return json.loads((DATA / name).read_text())


def find(number):
    """The member with that new or old number."""
    now, before = members(), members("before.json")
    for member in now:
        if member["number"] == number:
            return member
    for old, new in zip(before, now):
        if old["number"] == number:
            return new
    return None
