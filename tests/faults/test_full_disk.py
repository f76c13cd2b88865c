"""A disk without space, and one without inodes."""

from pathlib import Path

import pytest

from faults.mounts import in_namespace

PREAMBLE = """
import json, os, subprocess, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from faults.store import RUN, call, logged, must, run_directory, snapshot, temporary_files
root = Path(sys.argv[3])

def mount(*options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "faber-test", str(root)], check=True)

def emit(number):
    return call(root, "event", "emit", RUN, "--type", "decision_point", "--message", "x" * 400, "--key", str(number))
"""

SCENARIO = (
    PREAMBLE
    + """
first, *larger = sys.argv[4:]
mount(first)
made = call(root, "run", "init", "--run-id", RUN, "--target", "Too much")
told = {"init": [made.status, made.code], "left": temporary_files(root), "runs": must(root, "run", "list")["runs"]}
told["full"] = []
acknowledged = 0
for limit in larger:
    subprocess.run(["mount", "-o", "remount," + limit, str(root)], check=True)
    if not told["full"]:
        must(root, "run", "init", "--run-id", RUN, "--target", "Just enough")
    while (answer := emit(acknowledged)).status == 0:
        acknowledged += 1
        if acknowledged == 60:
            break
    else:
        told["full"].append({
            "answer": [answer.status, answer.code, answer.words.count(chr(10))],
            "left": temporary_files(root),
            "events": must(root, "run", "show", RUN)["state"]["last_event_id"],
            "expected": acknowledged + len(answer.value["error"].get("recorded", [])),
        })
told["acknowledged"] = acknowledged
told["log"] = [number for number, _ in logged(run_directory(root))]
told["healthy"] = must(root, "doctor", RUN)["healthy"]
print(json.dumps(told))
"""
)


@pytest.mark.parametrize(
    "limits",
    [("size=12k", "size=40k", "size=96k", "size=4m"), ("nr_inodes=8", "nr_inodes=18", "nr_inodes=60", "nr_inodes=999")],
    ids=["space", "inodes"],
)
def test_a_full_disk_keeps_what_was_there(tmp_path: Path, limits: tuple[str, ...]) -> None:
    """Full, a disk takes nothing by halves and gives back all that was recorded; with room again, it all continues."""
    told = in_namespace(SCENARIO, str(tmp_path), *limits)
    assert told["init"] == [1, "store_unwritable"]
    assert (told["left"], told["runs"]) == ([], [])
    assert len(told["full"]) == len(limits) - 2
    for full in told["full"]:
        assert full["answer"] == [1, "store_unwritable", 1]
        assert full["left"] == []
        # An event may be in the log although state.json found no room: the error says so.
        assert full["events"] == full["expected"]
    assert told["acknowledged"] == 60
    assert told["log"] == list(range(1, 61))
    assert told["healthy"] is True
