"""The members."""

import json
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


def members(name="members.json"):
    """All members as they are kept."""
    return json.loads((DATA / name).read_text())
