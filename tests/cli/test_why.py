"""`faber why`: what the next session would be given, and why."""

import json
from pathlib import Path

from cli.conftest import Faber
from faber.hooks.lines import Line, dropped, fit

PARTS = {"events", "decisions", "steps", "errors", "run", "warnings"}


def busy(faber: Faber, run: str) -> None:
    """Record more decisions than a small context holds, and fail a step."""
    faber("next", run)
    for number in range(12):
        said = f"decision {number}: " + "because " * 40
        faber("event", "emit", run, "--type", "decision_point", "--message", said)
    faber("step", "fail", run, "frame:fetch-work", "--error", "the tracker is down")


def test_sizes_are_those_of_the_context(faber: Faber, run: str) -> None:
    """What `why` says is given is, to the character and the entry, what `context` prints with the same limit."""
    busy(faber, run)
    for limit in ("4000", "24000"):
        told = faber("why", run, "--max-chars", limit, "--format", "json").json["context"]
        printed = faber("context", run, "--no-fetch", "--max-chars", limit)
        assert told["given"] == len(printed.out.rstrip("\n"))
        left_out = {each["part"]: (each["kept"], each["of"]) for each in told["sources"] if "of" in each}
        assert left_out == {each["what"]: (each["kept"], each["of"]) for each in printed.json["omitted"]}
        assert (told["given"] < told["chars"]) == (limit == "4000")
    assert {each["part"] for each in told["sources"]} <= PARTS


def test_the_events_behind_the_resume_point_are_named(faber: Faber, run: str) -> None:
    """Each place where a run can stand names the events that put it there, by type."""

    def decided() -> list[str]:
        return [each["type"] for each in faber("why", run, "--format", "json").json["decided_by"]]

    seen = [decided()]
    faber("next", run)
    seen.append(decided())
    faber("step", "fail", run, "frame:fetch-work", "--error", "down")
    seen.append(decided())
    faber("feedback", "request", run, "--type", "error_resolution", "--prompt", "Again?")
    seen.append(decided())
    faber("feedback", "respond", run, "retry")
    faber("run", "cancel", run, "--reason", "no time")
    seen.append(decided())
    assert seen == [
        [],
        ["step_start"],
        ["step_error"],
        ["feedback_request"],
        ["workflow_cancelled"],
    ]


def test_the_text_fits_a_screen(faber: Faber, run: str) -> None:
    """The text has at most 24 lines of at most 80 characters, and says what was left out."""
    busy(faber, run)
    shown = faber("why", run, "--max-chars", "4000").out
    assert len(shown.splitlines()) <= 24
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith("Next: "))
    assert "step_error frame:fetch-work" in shown
    assert " of 12" in shown


def test_nothing_is_changed(faber: Faber, run: str, project: Path) -> None:
    """`why` changes no file of the run."""
    busy(faber, run)
    runs = project / ".fractary" / "faber" / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}
    assert json.loads(faber("why", run, "--format", "json").out)["brief"]["given"] > 0
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()} == before


def test_lines_that_did_not_fit_are_counted() -> None:
    """The number that a cut brief ends with can be read back; a whole one has none."""
    lines = [Line(number, "word " * 20) for number in range(30)]
    assert dropped(fit(lines, 1_000)) == 30 - fit(lines, 1_000).count("\n")
    assert dropped(fit(lines[:2], 1_000)) == 0
