"""`faber report`: the file that it writes, and that its figures are those of every other view."""

import webbrowser
from html import unescape
from pathlib import Path

import pytest

from cli.conftest import Faber
from faber.foreign.open_run import open_run
from faber.nebula.plan.state_file import StateWriter
from faber.nebula.plan.state_file import project as projected
from faber.report.wording import lasted
from faber.store.layout import Layout
from faber.view.following import Follower, Runs
from faber.view.live_frame import Scene, Watching, frame
from faber.view.read_view import read_view
from faber.view.styled_lines import plain_text
from faber.view.tree_text import count_text, duration
from support.busy_nebula import RUN_ID, busy_nebula

NAME = "faber-report-acme-shop-checkout.html"


def test_a_report_is_a_file(project: Path, faber: Faber) -> None:
    """Without options the report is a file in the current directory, and the answer says which."""
    busy_nebula(project, 60)
    answer = faber("report").json
    page = (project / NAME).read_bytes()
    assert answer == {"run_id": RUN_ID, "file": str(project / NAME), "bytes": len(page), "events": 60}
    assert page.startswith(b"<!doctype html>")
    assert faber("report", RUN_ID, "--output", "-").out.startswith("<!doctype html>")
    assert faber("report", RUN_ID, "--output", "-", "--open").status == 2
    (project / "mine.txt").write_text("mine")
    assert faber("report", "--output", "mine.txt").code == "not_a_report"
    assert (project / "mine.txt").read_text() == "mine"


def test_a_report_is_opened_in_the_browser(
    project: Path, faber: Faber, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With --open the browser gets the file's address; without a browser the person is told where the file is."""
    busy_nebula(project, 10)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or len(opened) < 2)
    place = tmp_path / "a b"
    place.mkdir()
    assert faber("report", "--output", str(place), "--open").err == ""
    assert opened == [f"file://{str(place / NAME).replace(' ', '%20')}"]
    assert str(place / NAME) in faber("report", "--output", str(place), "--open").err


def test_an_unreadable_start_hides_no_run(project: Path, faber: Faber) -> None:
    """Every view shows a run whose newest start cannot be read; what limits it is then not known."""
    run = busy_nebula(project, 60)
    newest = sorted(Path(run.directory, "events").glob("*-workflow_resumed.json"))[-1]
    newest.write_text("{")
    for command in (("status",), ("status", RUN_ID), ("status", "--line"), ("report", "--output", "-")):
        answer = faber(*command)
        assert (answer.status, "$" in answer.out, "$40" in answer.out) == (0, True, False), command
    assert Follower(Layout(str(project)), run, 0.0).view("2026-11-22T00:00:00.000Z").allowance.limit_usd is None
    runs = Runs(Layout(str(project)))
    runs.find(0.0)
    assert [view.run_id for view in runs.board("2026-11-22T00:00:00.000Z").views] == [RUN_ID]


@pytest.mark.parametrize("events", [0, 39, 200])
def test_every_view_has_the_same_figures(project: Path, faber: Faber, events: int) -> None:
    """Status of the run and of its nebula, as text and as JSON, watch, report and why show the same money, tokens,
    progress, time, resume point and next command, each where it shows any."""
    run = busy_nebula(project, events)
    StateWriter().save(str(project / "plan"), projected(run.state))
    made = open_run(Layout(str(project)), RUN_ID)
    view = read_view(made, "2026-11-22T00:00:00.000Z")
    state = faber("status", RUN_ID, "--format", "json").json
    spent, phases = state["nebula"]["spent"], state["nebula"]["phases"]
    assert (view.money.cost_usd, view.money.turns) == (spent["cost"], spent["turns"])
    assert view.money.tokens_out == spent["tokens"]["output_tokens"]
    done = sum(phase["status"] == "done" for phase in phases.values())
    assert view.progress.done == done
    assert view.next_command == state["next_command"]

    why = faber("why", RUN_ID, "--format", "json").json
    assert (why["status"], why["resume_point"], why["next_command"]) == (view.status, view.resume, view.next_command)
    nebula = faber("nebula", "status", "plan").json
    money = view.money
    assert (nebula["cost_usd"], nebula["tokens_in"], nebula["tokens_out"]) == (money.cost_usd, *money[1:3])
    assert (nebula["counts"].get("done", 0), nebula["budget"]) == (done, view.allowance._asdict())
    took = {row["id"]: row["elapsed_s"] for row in nebula["phases"]}
    assert {phase.id: took[phase.id] for phase in view.phases} == {phase.id: phase.elapsed_s for phase in view.phases}

    texts = {
        "status": faber("status", RUN_ID).out,
        "watch": plain_text(frame(Scene([view]), Watching(), 200, 60, str)),
        "report": unescape(faber("report", RUN_ID, "--output", "-").out),
    }
    tokens = f"{count_text(view.money.tokens_in)} tokens in, {count_text(view.money.tokens_out)} out"
    for name, text in texts.items():
        assert f"${spent['cost']:.2f} of $40.00" in text, name
        assert tokens in text, name
        assert f"{done} of {view.progress.total} phases" in text, name
        assert (lasted if name == "report" else duration)(view.elapsed_s) in text, name
        assert view.ended_at or name == "watch" or state["next_command"] in text, name
        for phase in phases:
            assert name == "watch" or phase in text, name
