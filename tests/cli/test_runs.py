"""`faber run …`: how runs are made, move and end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Faber = Callable


def test_init_makes_a_pending_run_without_events(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """A new run is pending, its plan is frozen and its log is empty."""
    directory = run_dir(run)
    assert json.loads((directory / "state.json").read_text())["status"] == "pending"
    assert [p["id"] for p in json.loads((directory / "plan.json").read_text())["phases"]] == [
        "frame",
        "architect",
        "build",
        "evaluate",
        "release",
    ]
    assert list((directory / "events").iterdir()) == []
    assert json.loads((directory / "metadata.json").read_text())["work_id"] == "7"


def test_init_answers_where_to_begin(faber: Faber, project: Path) -> None:
    """`run init` names the run, its resume point and the command that begins it."""
    answer = faber("run", "init", "--target", "a faster parser").json
    assert answer["resume_point"] == {"phase": "frame", "step": None, "mode": "start"}
    assert answer["next_command"] == f"faber next {answer['run_id']}"


def test_new_run_ids_come_from_the_git_remote(faber: Faber, git: Callable[..., str]) -> None:
    """A run id is org/project/uuid, org and project read from the remote."""
    git("remote", "add", "origin", "https://user:secret@example.invalid/acme/rocket.git")
    run_id = faber("run", "init", "--work-id", "1").json["run_id"]
    assert run_id.startswith("acme/rocket/")
    assert len(run_id.split("/")[2]) == 36


@pytest.mark.parametrize(
    ("words", "work_id", "target"),
    [
        (("158",), "158", None),
        (("#158",), "158", None),
        (("PROJ-7",), "PROJ-7", None),
        (("add", "a", "CSV", "export"), None, "add a CSV export"),
    ],
)
def test_begin_makes_a_run_once(
    faber: Faber, project: Path, words: tuple[str, ...], work_id: str | None, target: str | None
) -> None:
    """`run begin` makes a run for a work item or for words, and continues it when it is called again."""
    first = faber("run", "begin", *words).json
    again = faber("run", "begin", *words).json
    assert (first["continued"], again["continued"]) == (False, True)
    assert again["run_id"] == first["run_id"]
    state = faber("run", "show", first["run_id"]).json["state"]
    assert (state["work_id"], state["target"]) == (work_id, target)


def test_begin_does_not_pick_among_several(faber: Faber, run: str) -> None:
    """Where two runs are open for a work item, `run begin` names them and makes none."""
    faber("run", "init", "--run-id", "other", "--work-id", "7")
    answer = faber("run", "begin", "7")
    assert (answer.status, answer.code) == (2, "ambiguous_run")
    assert sorted(answer.json["error"]["candidates"]) == ["demo/one/run", "other"]


def test_init_ignores_what_is_not_meant_to_be_committed(faber: Faber, git: Callable[..., str], run: str) -> None:
    """After `run init` git sees nothing of the store."""
    assert git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "other", ["acme/one/run", "acme/one", "acme", "acme/one/run2"], ids=["same", "prefix", "shorter prefix", "sibling"]
)
def test_no_run_id_is_a_prefix_of_another(faber: Faber, other: str) -> None:
    """An id that is taken, or that is a prefix of another, is refused; a sibling is not."""
    faber("run", "init", "--run-id", "acme/one/run")
    answer = faber("run", "init", "--run-id", other)
    if other == "acme/one/run2":
        assert answer.status == 0
    else:
        assert (answer.status, answer.code) == (4, "run_exists")


def test_a_run_cannot_lie_inside_another(faber: Faber, project: Path) -> None:
    """`a/b` is refused where `a` is a run."""
    assert faber("run", "init", "--run-id", "a").status == 0
    assert faber("run", "init", "--run-id", "a/b").code == "run_exists"


@pytest.mark.parametrize(
    "run_id",
    [
        "../../etc",
        "/etc/x",
        "-rf",
        ".git",
        "a\nb",
        "a b",
        "%2e%2e/x",
        "ａｂｃ",
        "a/b/c/d",
        "",
        "a//b",
        "a/events",
        "a.lock",
        "a..b",
        "x" * 129,
    ],
)
@pytest.mark.parametrize("command", [("run", "show"), ("context",), ("run", "init", "--run-id")])
def test_run_ids_that_could_escape_are_refused(
    faber: Faber, project: Path, command: tuple[str, ...], run_id: str
) -> None:
    """A run id that could leave its directory or confuse git ends with exit 2 and touches nothing."""
    arguments = [*command, f"--run-id={run_id}"] if command[-1] == "--run-id" else [*command, "--", run_id]
    answer = faber(*[a for a in arguments if a != "--run-id"])
    assert (answer.status, answer.code) == (2, "invalid_run_id")
    assert list(project.iterdir()) == []


def test_an_unknown_run_says_where_it_looked(faber: Faber, project: Path) -> None:
    """A run that is not there is exit 1 with the directory and the way out."""
    answer = faber("run", "show", "no/such/run")
    assert (answer.status, answer.code) == (1, "run_not_found")
    assert "Run directory not found" in answer.json["error"]["message"]
    assert "faber run list" in answer.json["error"]["recovery"]


def test_a_unique_part_names_a_run(faber: Faber, run: str) -> None:
    """Any part of a run id that fits one run alone names it."""
    assert faber("run", "show", "one").json["run_id"] == run


def test_an_ambiguous_part_lists_the_candidates(faber: Faber, run: str) -> None:
    """A part that fits two runs is exit 2 with both."""
    faber("run", "init", "--run-id", "demo/two/run")
    answer = faber("run", "show", "demo")
    assert (answer.status, answer.code) == (2, "ambiguous_run")
    assert answer.json["error"]["candidates"] == ["demo/one/run", "demo/two/run"]


def test_latest_is_the_most_recently_active_open_run(faber: Faber, run: str) -> None:
    """`latest` follows activity and passes over cancelled runs."""
    faber("run", "init", "--run-id", "demo/two/run")
    faber("step", "start", run, "frame:fetch-work")
    assert faber("run", "show", "latest").json["run_id"] == run
    faber("run", "cancel", run, "--reason", "changed plans")
    assert faber("run", "show", "latest").json["run_id"] == "demo/two/run"


def test_latest_without_an_index_scans(faber: Faber, run: str, project: Path) -> None:
    """`latest` still answers where the index was deleted."""
    import shutil

    shutil.rmtree(project / ".fractary/faber/index")
    assert faber("run", "show", "latest").json["run_id"] == run


def test_latest_without_an_open_run_is_an_error(faber: Faber, project: Path) -> None:
    """`latest` in an empty project is exit 1."""
    assert faber("context", "latest").code == "run_not_found"


def test_a_run_completes_only_when_every_step_is_complete(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """`run complete` names the unfinished steps (exit 4) until there are none."""
    advance(run, "release:open-pr")
    answer = faber("run", "complete", run)
    assert (answer.status, answer.code) == (4, "steps_unfinished")
    assert answer.json["error"]["unfinished"] == ["release:open-pr"]
    faber("step", "start", run, "release:open-pr")
    faber("step", "complete", run, "release:open-pr")
    assert faber("run", "complete", run).json["status"] == "completed"


def test_a_run_of_skipped_steps_alone_does_not_complete(faber: Faber, run: str) -> None:
    """At least one step must be completed, not skipped."""
    for phase in ("frame", "architect", "build", "evaluate", "release"):
        assert faber("phase", "skip", run, phase).status == 0
    assert faber("run", "complete", run).code == "steps_unfinished"


@pytest.mark.parametrize("ending", [("complete",), ("cancel", "--reason", "enough")])
def test_an_ended_run_refuses_everything_but_reading(
    faber: Faber, run: str, advance: Callable[..., None], ending: tuple[str, ...], run_dir: Callable[[str], Path]
) -> None:
    """A completed or cancelled run answers exit 4 to every writer, names `run rerun`, and stays readable."""
    advance(run, "end")
    assert faber("run", ending[0], run, *ending[1:]).status == 0
    before = (run_dir(run) / "state.json").read_bytes()
    for command in (
        ("run", "resume", run),
        ("run", "fail", run, "--error", "x"),
        ("step", "start", run, "frame:fetch-work"),
        ("phase", "start", run, "frame"),
        ("event", "emit", run, "--type", "checkpoint"),
        ("session", "save", run, "--accomplished", "x"),
    ):
        answer = faber(*command)
        assert (answer.status, answer.code) == (4, "illegal_transition"), command
        assert "run rerun" in answer.json["error"]["recovery"]
    assert faber("context", run).status == 0
    assert faber("context", run).json["resume_point"] is None
    assert (run_dir(run) / "state.json").read_bytes() == before


def test_completing_twice_is_one_fact(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """Repeating `run complete` answers the first event again."""
    advance(run, "end")
    first = faber("run", "complete", run).json
    second = faber("run", "complete", run)
    assert second.status == 0
    assert second.json["repeated"] is True
    assert second.json["recorded"] == first["recorded"]


def test_rerun_links_a_new_run_with_the_same_plan(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """`run rerun` makes a new pending run that names the old one and keeps its plan and work item."""
    advance(run, "build:implement")
    faber("run", "cancel", run, "--reason", "start over")
    answer = faber("run", "rerun", run, "--autonomy", "assist").json
    shown = faber("run", "show", answer["run_id"]).json
    assert shown["metadata"]["relationships"] == {"rerun_of": run}
    assert shown["metadata"]["autonomy"] == "assist"
    assert shown["state"]["work_id"] == "7"
    assert shown["plan"] == faber("run", "show", run).json["plan"]
    events = faber("event", "list", answer["run_id"]).json["events"]
    assert [(e["event_id"], e["type"]) for e in events] == [(1, "workflow_rerun")]
    assert shown["state"]["status"] == "pending"


def test_rerun_of_a_run_that_goes_on_is_refused(faber: Faber, run: str) -> None:
    """An open run is continued, not run again."""
    faber("run", "resume", run)
    assert faber("run", "rerun", run).status == 4


def test_failing_and_resuming(faber: Faber, run: str) -> None:
    """`run fail` stops the run, `run resume` takes it up, and a retry points to the unfinished step."""
    faber("step", "start", run, "frame:fetch-work")
    assert faber("run", "fail", run, "--error", "the machine is on fire").json["status"] == "failed"
    assert faber("context", run).json["resume_point"] == {"phase": "frame", "step": "fetch-work", "mode": "retry"}
    assert faber("step", "complete", run, "frame:fetch-work").code == "illegal_transition"
    assert faber("run", "resume", run).json["status"] == "in_progress"


def test_resume_of_a_waiting_run_needs_a_person(faber: Faber, run: str) -> None:
    """A run that waits for an answer is not resumed by a command: exit 3."""
    assert faber("feedback", "request", run, "--prompt", "Ship it?").json["status"] == "awaiting_feedback"
    answer = faber("run", "resume", run)
    assert (answer.status, answer.code) == (3, "awaiting_feedback")
    assert answer.json["error"]["prompt"] == "Ship it?"


def test_list_filters_by_status_and_shows_damage(faber: Faber, run: str, run_dir: Callable[[str], Path]) -> None:
    """`run list` shows every run, filters by status, and names a damaged one instead of hiding it."""
    faber("run", "init", "--run-id", "demo/two/run")
    faber("run", "resume", "demo/two/run")
    (run_dir(run) / "state.json").write_text("{")
    answer = faber("run", "list").json
    assert [r["run_id"] for r in answer["runs"]] == ["demo/two/run"]
    assert [(d["run_id"], d["error"]["code"]) for d in answer["damaged"]] == [(run, "state_corrupt")]
    assert faber("run", "list", "--status", "pending").json["runs"] == []


def test_a_plan_is_frozen(faber: Faber, project: Path) -> None:
    """Editing a workflow does not reach the runs that began with it."""
    definition = project / "flow.yaml"
    definition.write_text("phases:\n  - id: only\n    steps: [{id: one}]\n")
    run_id = faber("run", "init", "--run-id", "r", "--workflow", "flow.yaml").json["run_id"]
    definition.write_text("phases:\n  - id: other\n    steps: [{id: two}]\n")
    assert faber("step", "start", run_id, "only:one").status == 0


@pytest.mark.parametrize(
    ("workflow", "code"),
    [
        ("", "invalid_input"),
        ("nonsense", "unknown_workflow"),
        ("../outside.yaml", "unknown_workflow"),
        ("/etc/passwd.yaml", "unknown_workflow"),
    ],
)
def test_unknown_workflows_are_refused_with_the_known_ones(
    faber: Faber, project: Path, workflow: str, code: str
) -> None:
    """A workflow that is not there, or lies outside the project, is exit 2 with the known names."""
    (project.parent / "outside.yaml").write_text("phases: [{id: a, steps: [{id: b}]}]")
    answer = faber("run", "init", "--workflow", workflow)
    assert (answer.status, answer.code) == (2, code)
    assert code == "invalid_input" or "default" in answer.json["error"]["known"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("phases: []", "phases"),
        ("phases: [{id: a}]", "steps"),
        ("phases: [{id: a, steps: [{id: b, instrction: x}]}]", "instruction"),
        ("phases: [{id: a, steps: [{id: b}, {id: b}]}]", "twice"),
        ("phases: &x [*x]", "alias"),
        ("phases: !!python/object:os.system {}", "tag"),
        ("a: 1\na: 2", "twice"),
        ("{", "flow.yaml"),
    ],
)
def test_a_bad_definition_names_file_and_place(faber: Faber, project: Path, text: str, says: str) -> None:
    """A definition that its schema refuses is exit 2 and says where and why; no run is made."""
    (project / "flow.yaml").write_text(text)
    answer = faber("run", "init", "--workflow", "flow.yaml")
    assert (answer.status, answer.code) == (2, "invalid_definition")
    assert "flow.yaml" in answer.json["error"]["message"]
    assert says in json.dumps(answer.json)
    assert faber("run", "list").json["runs"] == []
