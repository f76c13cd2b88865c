"""Gives every member a new number, and keeps a journal."""

import json
from pathlib import Path

data = Path(__file__).resolve().parents[1] / "data"
members = json.loads((data / "members.json").read_text())
for member in members:
    member["number"] = member["number"] * 10 + 1
(data / "members.json").write_text(json.dumps(members) + "\n")
with (data / "journal.txt").open("a") as journal:
    journal.write(f"migrated {len(members)} members\n")
