"""`faber response validate` and `faber response log`, and the log's place in `doctor` and `repair`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.responses.recovery_log import Recovery, RecoveryLog
from faber.store.layout import Layout

Faber = Callable[..., Any]
SCHEMA = {"type": "object", "required": ["action"], "properties": {"action": {"const": "write_file"}}}
ONE = Recovery("task-1", 3, 120, 200, 1, "RESOLVED")


@pytest.fixture
def schema(project: Path) -> Path:
    """A schema's file."""
    path = project / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


WRONG_ACTION = {"path": "$.action", "message": "'write_file' was expected"}


@pytest.mark.parametrize(
    ("given", "status", "answer"),
    [
        ('{"action": "write_file"}', 0, {"valid": True, "problems": []}),
        ('```json\n{"action": "write_file"}\n```', 0, {"valid": True, "problems": []}),
        (
            '{"action": "x"}',
            5,
            {"valid": False, "problems": [{"path": "$.action", "message": "'write_file' was expected"}]},
        ),
        ("{}", 5, {"valid": False, "problems": [{"path": "$", "message": "'action' is a required property"}]}),
    ],
)
def test_a_response_is_validated(faber: Faber, schema: Path, given: str, status: int, answer: dict[str, Any]) -> None:
    """Problems are named by path, with exit status 5; from stdin and from a file alike."""
    said = faber("response", "validate", "--schema", str(schema), given=given)
    assert (said.status, said.json) == (status, answer)
    (schema.parent / "answer.json").write_text(given)
    assert faber("response", "validate", "--schema", str(schema), "answer.json").json == answer


@pytest.mark.parametrize(
    ("written", "status", "code"),
    [
        (b'{"type": "nothing"}', 2, "invalid_schema"),
        (b'{"$ref": "http://127.0.0.1:9/x"}', 2, "invalid_schema"),
        (b'{"$ref": "file:///etc/passwd"}', 2, "invalid_schema"),
        (b"{", 2, "invalid_schema"),
        (b"[]", 2, "invalid_schema"),
        (b'{"a": 1, "a": 2}', 2, "invalid_schema"),
        (b"\xff{}", 2, "invalid_input"),
        (b"{}\0", 2, "invalid_input"),
        (b" " * (1024 * 1024 + 1), 2, "response_too_large"),
        (None, 2, "invalid_input"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_schema_that_is_none_is_refused(
    faber: Faber, project: Path, written: bytes | None, status: int, code: str
) -> None:
    """An invalid schema, or one that refers to something else, is a usage error that says so."""
    if written is not None:
        (project / "schema.json").write_bytes(written)
    said = faber("response", "validate", "--schema", "schema.json", given="{}")
    assert (said.status, said.code) == (status, code)


@pytest.mark.parametrize("given", [b"\xff\xfe{", b'{"action": "\x00"}', b'{"action": "\xe2\x82'])
def test_what_is_no_text_is_refused(faber: Faber, schema: Path, given: bytes) -> None:
    """Binary input and invalid UTF-8 get a clear error."""
    assert faber("response", "validate", "--schema", str(schema), given=given).code == "invalid_input"


def test_the_log_lists_what_was_cut(faber: Faber, project: Path) -> None:
    """Oldest first, by task; an empty store has an empty log and is given no database."""
    assert faber("response", "log").json["entries"] == []
    layout = Layout(str(project))
    assert not os.path.exists(layout.store)
    for number in range(3):
        RecoveryLog(layout).record(ONE._replace(turn_number=number, task_id=f"task-{number % 2}"))
    said = faber("response", "log").json
    assert [each["turn_number"] for each in said["entries"]] == [0, 1, 2]
    assert said["database"] == layout.database
    assert set(said["entries"][0]) == {"id", *Recovery._fields}
    assert [each["turn_number"] for each in faber("response", "log", "--task", "task-0").json["entries"]] == [0, 2]
    assert [each["turn_number"] for each in faber("response", "log", "--last", "1").json["entries"]] == [2]


def test_a_damaged_log_is_found_and_rebuilt(faber: Faber, project: Path, run: str) -> None:
    """`response log` fails with the way out, the doctor warns and stays healthy, `repair --store` rebuilds."""
    layout = Layout(str(project))
    RecoveryLog(layout, run_id=run).record(ONE)
    before = faber("response", "log").json["entries"]
    for suffix in ("-wal", "-shm"):
        Path(layout.database + suffix).unlink(missing_ok=True)
    Path(layout.database).write_bytes(b"x" * 5000)
    said = faber("response", "log")
    assert (said.status, said.code) == (1, "recovery_log")
    report = faber("doctor")
    assert report.status == 0
    assert [each["code"] for each in report.json["reports"][0]["findings"]] == ["recovery_log"]
    done = faber("repair", "--store").json
    assert any("Put 1 recovery(ies) back" in each for each in done["actions"])
    assert len(done["moved"]) == 1
    assert faber("response", "log").json["entries"] == before
    assert faber("doctor").json["reports"][0]["findings"] == []


def test_the_event_is_recorded_by_recoveries_alone(faber: Faber, run: str) -> None:
    """`faber event emit` cannot write what the table is rebuilt from."""
    said = faber("event", "emit", run, "--type", "response_recovered", "--metadata", '{"task_id": "t"}')
    assert (said.status, said.code) == (4, "has_own_command")
