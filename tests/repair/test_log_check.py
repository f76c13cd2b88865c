"""What the doctor's fast looks promise: they never see less than the slow ones."""

import io
from typing import Any

import pytest

from faber.repair.log_check import conforms, gaps, merged, spelled
from faber.store import progress_line
from faber.store.schema import problems
from faber.text.safe_text import has_secret, may_have_secret

EVENT: dict[str, Any] = {
    "schema_version": 1,
    "event_id": 3,
    "type": "step_error",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "run_id": "r",
    "phase": "a",
    "step": "s",
    "error": {"message": "No"},
    "artifacts": [{"name": "x", "value": 1}],
    "metadata": {"any": [1]},
    "key": "k",
    "plan_digest": "sha256:" + "a" * 64,
}
CHANGES: list[dict[str, Any]] = [
    *({name: value} for name in EVENT for value in (None, 0, -1, True, 1.5, "", "x", [], {}, [{}], {"message": ""})),
    *({"key": text} for text in ("k" * 200, "k" * 201)),
    *({"timestamp": text} for text in ("2026-01-01T00:00:00Z", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00Z ")),
    *({"artifacts": [made]} for made in ({"name": "x"}, {"value": 1, "more": 2}, {"name": 1, "value": 2})),
    {"type": "step_complete"},
    {"type": "nonsense"},
    {"more": 1},
    {"plan_digest": "sha256:" + "A" * 64},
]


def test_the_fast_check_of_an_event_never_passes_what_its_schema_refuses() -> None:
    """Whatever one key holds: what conforms has no violation; and a whole event conforms."""
    assert conforms(EVENT)  # type: ignore[arg-type]
    assert conforms(
        {key: value for key, value in EVENT.items() if key not in ("artifacts", "error")} | {"type": "docs_update"}
    )  # type: ignore[arg-type]
    refused = 0
    for change in CHANGES:
        for base in (EVENT, {**EVENT, "type": "docs_update"}):
            changed: Any = base | change
            if conforms(changed):
                assert problems("event", changed) == [], changed
            else:
                refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    "text",
    [
        "https://me:secret@example.org/", "ghp_" + "a1" * 12, "ghr_" + "a1" * 12, "github_pat_" + "a1" * 12,
        "sk-" + "a1" * 12, "xoxb-" + "a1" * 12, "glpat-" + "a1" * 12, "AKIA" + "A1" * 8, "ASIA" + "A1" * 8,
        "AIza" + "a" * 35, "npm_" + "a1" * 18, "pypi-" + "a1" * 30,
        "eyJ" + "a" * 10 + "." + "eyJ" + "a" * 10 + "." + "a" * 12,
        "-----BEGIN RSA PRIVATE KEY-----abc", "BeArEr " + "a1" * 10, "Authorization: TOKEN " + "a1" * 10,
    ],
)  # fmt: skip
def test_no_credential_escapes_the_fast_look(text: str) -> None:
    """Every kind of credential has one of the hints; a plain text has none."""
    assert has_secret(text)
    assert may_have_secret(text.encode())
    assert not may_have_secret(b"42 passed, as the plan says")


def test_numbers_are_counted_in_spans() -> None:
    """Missing numbers are found between and after what is there, and named in words."""
    assert gaps([(1, 1), (2, 2), (5, 5), (4, 9)], 1, 12) == [(3, 3), (10, 12)]
    assert gaps([], 1, 0) == []
    assert merged([(3, 3), (1, 2), (7, 9), (8, 12)]) == [(1, 3), (7, 12)]
    assert [spelled(each) for each in ([(3, 3)], [(16, 25)], [(3, 3), (7, 9)])] == [
        "Event 3",
        "Events 16 to 25",
        "Events 3, 7 to 9",
    ]


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["a terminal", "a pipe"])
def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    """A line says how far it is, and is removed at the end; in a pipe nothing is said."""
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr", stream)
    with progress_line.progress_line("Reading") as show:
        assert (show is not None) == stream.isatty()
        if show:
            show(3_000, 100_000)
    said = stream.getvalue()
    assert said == ("\r\x1b[KReading: 3,000 of 100,000\r\x1b[K" if stream.isatty() else "")
