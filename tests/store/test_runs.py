"""Reading and writing one run: what commit records, refuses and repeats."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from faber.errors import FaberError, InvalidInput, RunNotFound
from faber.model import acceptance, commands
from faber.model.model_errors import StateCorrupt
from faber.store import files, strict_json
from faber.store.appending import Writer
from faber.store.commit import NOBODY, commit, settle
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import Run, load, refold
from faber.store.pace import Pace
from faber.store.store_errors import NewerSchema, Stale

AWKWARD = "task-implement-authentication-module", "sk-0123456789-abcdefghij-klmnop"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store with the run `r`: two phases of two steps, named as awkwardly as names may be."""
    made = Layout(str(tmp_path))
    steps = [{"id": name, "name": name} for name in AWKWARD]
    plan: Any = {
        "schema_version": 1,
        "workflow_id": "w",
        "phases": [{"id": name, "name": name, "steps": steps} for name in AWKWARD],
    }
    create_run(made, NewRun(run_id="r", plan=plan, work_id=None, target=None, autonomy="guarded", created_by="test"))
    return made


def do(layout: Layout, decide: Any, *arguments: Any, by: Writer = NOBODY, **options: Any) -> Any:
    """Commit what `decide` returns."""
    return commit(layout, "r", lambda state, plan: decide(state, plan, *arguments), by, **options)


def emit(layout: Layout, draft: dict[str, Any], **options: Any) -> Any:
    """Commit an event."""
    return do(layout, acceptance.emit, draft, **options)


class Again:
    """A process that writes to the run again and again: what it knows of it, and when it replaces state.json."""

    def __init__(self, layout: Layout, monotonic: Any = time.monotonic) -> None:
        self.layout = layout
        self.pace = Pace(monotonic)
        self.known: Run | None = None

    def commit(self, decide: Any) -> Any:
        """Commit what `decide` returns, and remember the run."""
        done = commit(self.layout, "r", decide, Writer(pace=self.pace), known=self.known)
        self.known = done.run
        return done

    def emit(self, draft: dict[str, Any]) -> Any:
        """Commit an event."""
        return self.commit(lambda state, plan: acceptance.emit(state, plan, draft))


def on_disk(layout: Layout) -> dict[str, bytes]:
    """Every file of the store but the locks."""
    return {str(p): p.read_bytes() for p in Path(layout.store).rglob("*") if p.is_file() and p.name != "lock"}


def test_a_place_whose_name_looks_like_a_credential_is_still_that_place(layout: Layout) -> None:
    """Phases and steps are recorded under the names the plan gave them, whatever these look like."""
    for phase in AWKWARD:
        for step in AWKWARD:
            do(layout, commands.start_step, phase, step)
            do(layout, commands.complete_step, phase, step, None, [])
    assert do(layout, commands.complete_run).state["status"] == "completed"


def test_credentials_are_not_recorded(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential in a message or in metadata, by its form or a variable's value, is not in the event written."""
    monkeypatch.setenv("DEPLOY_PASSWORD", "correct horse battery")
    for secret in ("ghp_" + "a" * 36, "correct horse battery"):
        metadata = {"with": [secret], secret: 1}
        emit(layout, {"type": "decision_point", "message": f"Use {secret}.", "metadata": metadata})
        assert not any(secret.encode() in content for content in on_disk(layout).values())


BIG = "x" * 900_000
POISON: list[dict[str, Any]] = [
    {"type": "decision_point", "message": "m", "metadata": {"question": "q"}},
    {"type": "decision_point", "message": "m", "metadata": {"question": ["q"], "option": "o"}},
    {"type": "decision_point", "message": "m", "metadata": {"question": "q", "option": 1}},
    {"type": "decision_point", "message": 7},
    {"type": "feedback_request", "metadata": {"request_id": 7, "prompt": "?"}},
    {"type": "feedback_request", "metadata": {"request_id": "r", "prompt": ["?"]}},
    {"type": "feedback_request", "metadata": {"request_id": "r", "prompt": "?", "type": 7}},
    {"type": "feedback_request", "metadata": {"request_id": "r", "prompt": "?", "resume_point": {"phase": 7}}},
    {"type": "feedback_request", "metadata": {"request_id": "r", "prompt": "?", "resume_point": {"phase": "no"}}},
    {"type": "session_end", "metadata": {"summary_file": 7}},
    {"type": "session_end", "metadata": {"summary_file": "../../../stolen.json", "summary": {}}},
    {"type": "session_end", "metadata": {"summary_file": "session-20260101T000000000Z-0001.json"}},
    {"type": "retry_loop_enter", "phase": AWKWARD[0], "metadata": {"return_to": 7}},
    {"type": "retry_loop_enter", "phase": AWKWARD[0], "metadata": {"return_to": [AWKWARD[0]]}},
    {"type": "retry_loop_enter", "phase": AWKWARD[0], "metadata": {"return_to": AWKWARD[1]}},
    {"type": "artifact_create", "artifacts": [{"name": "a", "value": BIG}]},
    {"type": "artifact_create", "artifacts": ["a"]},
    {"type": "artifact_create", "artifacts": [{"name": 7, "value": "x"}]},
    {"type": "branch_create", "metadata": {"branch": BIG}},
    {"type": "feedback_received", "metadata": {"request_id": ["r"], "response": "yes"}},
]


@pytest.mark.parametrize("draft", POISON, ids=lambda draft: f"{draft['type']}-{str(draft)[-30:]}")
def test_an_event_that_no_reader_could_fold_is_refused_before_it_is_written(
    layout: Layout, draft: dict[str, Any]
) -> None:
    """Values of the wrong kind or size are refused by name, change nothing, and leave the run readable."""
    before = on_disk(layout)
    with pytest.raises(FaberError) as caught:
        emit(layout, draft)
    assert caught.value.exit_code in (2, 4)
    assert on_disk(layout) == before


def test_what_the_reducer_cannot_take_is_refused_whatever_let_it_through(layout: Layout) -> None:
    """The fold is tried before the event is written: a later rule's mistake never makes a run unreadable."""
    before = on_disk(layout)
    for draft in (
        (
            {"type": "checkpoint"},
            {"type": "session_end", "metadata": {"summary_file": 7}},
        ),
        ({"type": "decision_point", "message": "m", "metadata": {"question": "q"}},),
    ):
        with pytest.raises(InvalidInput):
            commit(layout, "r", lambda *_, drafts=draft: list(drafts))
    assert on_disk(layout) == before


def test_a_state_never_outgrows_what_readers_read(layout: Layout) -> None:
    """Before state.json would pass the size that readers accept, the event is refused."""
    drafts = [[{"type": "checkpoint", "artifacts": [{"name": f"a{number}", "value": BIG}]}] for number in range(5)]
    for fits in drafts[:4]:
        commit(layout, "r", lambda *_, made=fits: made)
    with pytest.raises(InvalidInput) as caught:
        commit(layout, "r", lambda *_: drafts[4])
    assert caught.value.fields["limit"] == files.MAX_STATE
    assert load(layout, "r").state["last_event_id"] == 4


def test_a_session_and_an_actor_are_noted_on_every_event(layout: Layout) -> None:
    """Session and actor of a command stand on each of its events, the key on its own event alone."""
    made = do(layout, commands.start_step, AWKWARD[0], AWKWARD[0], by=Writer("s", "agent"), key="k")
    assert [event["type"] for event in made.events] == ["workflow_start", "phase_start", "step_start"]
    assert {(event["session_id"], event["actor"]) for event in made.events} == {("s", "agent")}
    assert [event.get("key") for event in made.events] == [None, None, "k"]


def test_a_repeated_key_answers_the_first_event(layout: Layout) -> None:
    """A command repeated under its key records nothing and answers what the first recorded, however long ago."""
    first = emit(layout, {"type": "checkpoint"}, key="k").events
    for _ in range(30):  # past what state.json remembers
        emit(layout, {"type": "checkpoint"})
    again = emit(layout, {"type": "checkpoint"}, key="k")
    assert again.repeated
    assert again.events == first
    assert again.state["last_event_id"] == 31


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_has_1_to_200_characters(layout: Layout, key: str) -> None:
    """An empty key and one past the limit are refused."""
    with pytest.raises(InvalidInput):
        emit(layout, {"type": "checkpoint"}, key=key)


def test_a_writer_that_read_an_older_state_is_refused(layout: Layout) -> None:
    """With `expected`, a run that moved on is not written to."""
    emit(layout, {"type": "checkpoint"}, expected=0)
    with pytest.raises(Stale) as caught:
        emit(layout, {"type": "checkpoint"}, expected=0)
    assert caught.value.fields == {"expected": 0, "last_event_id": 1}


def test_a_newer_runs_files_are_never_written(layout: Layout) -> None:
    """A state of a newer schema is read with a warning and refuses every writer."""
    path = Path(load(layout, "r").directory) / "state.json"
    path.write_bytes(strict_json.dumps(strict_json.loads(path.read_bytes()) | {"schema_version": 99}))
    before = on_disk(layout)
    assert [notice.code for notice in load(layout, "r").notices] == ["newer_schema"]
    with pytest.raises(NewerSchema):
        emit(layout, {"type": "checkpoint"})
    assert on_disk(layout) == before


def test_a_state_of_another_reducer_is_folded_again(layout: Layout) -> None:
    """A state.json that another version of the reducer wrote counts for nothing: the events do."""
    emit(layout, {"type": "decision_point", "message": "m"})
    run = load(layout, "r")
    path = Path(run.directory) / "state.json"
    path.write_bytes(strict_json.dumps(run.state | {"reducer_version": 0, "decisions": [], "last_event_id": 0}))
    assert load(layout, "r").state == run.state


def test_a_state_ahead_of_its_log_is_corrupt(layout: Layout) -> None:
    """A state that counts an event which is not in the log is an error, not a shorter history."""
    emit(layout, {"type": "checkpoint"})
    os.unlink(Path(load(layout, "r").directory) / "events" / "000001-checkpoint.json")
    with pytest.raises(StateCorrupt):
        load(layout, "r")


def test_events_that_state_has_not_seen_are_folded_in(layout: Layout) -> None:
    """After a writer died between its event and its state, readers see the event and say how many they folded."""
    run = load(layout, "r")
    old = (Path(run.directory) / "state.json").read_bytes()
    emit(layout, {"type": "decision_point", "message": "m"})
    (Path(run.directory) / "state.json").write_bytes(old)
    seen = load(layout, "r")
    assert seen.folded == 1
    assert seen.state == refold(run.directory, run.metadata, run.plan)


def test_ids_go_on_past_the_digits_of_a_file_name(layout: Layout) -> None:
    """Event 1,000,000 follows 999,999 although its file name sorts before it."""
    run = load(layout, "r")
    state = dict(run.state, last_event_id=999_998)
    for number in (999_999, 1_000_000):
        event = {"schema_version": 1, "event_id": number, "type": "checkpoint", "timestamp": "2026-01-01T00:00:00Z"}
        path = Path(run.directory) / "events" / f"{number}-checkpoint.json"
        path.write_bytes(strict_json.dumps(event | {"run_id": "r"}))
    state["recent_events"] = [{"event_id": 999_998, "file": "999998-checkpoint.json"}]
    (Path(run.directory) / "events" / "999998-checkpoint.json").write_bytes(b"{}")
    (Path(run.directory) / "state.json").write_bytes(strict_json.dumps(state))
    assert load(layout, "r").state["last_event_id"] == 1_000_000


def test_there_is_no_writing_to_a_run_that_is_not_there(layout: Layout) -> None:
    """A commit never makes a run."""
    with pytest.raises(RunNotFound):
        commit(layout, "other", lambda *_: [{"type": "checkpoint"}])
    assert layout.run_ids() == ["r"]


def test_a_retry_loop_to_a_phase_whose_name_looks_like_a_credential_covers_it(layout: Layout) -> None:
    """Names of the plan are kept wherever an event mentions them."""
    for step in AWKWARD:
        do(layout, commands.skip_step, AWKWARD[0], step, None)
    do(layout, commands.start_step, AWKWARD[1], AWKWARD[0])
    made = emit(layout, {"type": "retry_loop_enter", "phase": AWKWARD[1], "metadata": {"return_to": AWKWARD[1]}})
    assert made.events[0]["metadata"] == {"return_to": AWKWARD[1]}
    assert made.state["current_phase"] == AWKWARD[1]


# --- a run that is kept in memory ------------------------------------------------------------------


class Watch:
    """A clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_event_is_in_the_log_before_state_has_it(layout: Layout) -> None:
    """Of a kept run, state.json is replaced now and then; what was acknowledged is read at once all the same."""
    watch = Watch()
    writer = Again(layout, watch)
    stored = Path(layout.run_dir("r"), "state.json")
    writer.emit({"type": "checkpoint", "message": "1"})
    first = stored.read_bytes()
    for number in range(2, 6):
        done = writer.emit({"type": "checkpoint", "message": str(number)})
        assert stored.read_bytes() == first
        assert load(layout, "r").state == done.state
    assert writer.pace.behind == 4
    watch.now = 0.5
    done = writer.emit({"type": "checkpoint", "message": "6"})
    assert strict_json.loads(stored.read_bytes()) == done.state
    assert writer.pace.behind == 0
    writer.emit({"type": "checkpoint", "message": "7"})
    settle(layout, "r", writer.pace)
    assert strict_json.loads(stored.read_bytes()) == load(layout, "r").state
    assert load(layout, "r").folded == 0
    assert writer.pace.behind == 0


def test_a_kept_run_is_not_read_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two events of one writer neither state nor metadata nor plan is read."""
    writer = Again(layout)
    writer.emit({"type": "checkpoint"})
    monkeypatch.setattr("faber.store.load.read_json", lambda *given: pytest.fail(f"read {given}"))
    writer.emit({"type": "checkpoint"})


def test_what_others_record_is_folded_into_a_kept_run(layout: Layout) -> None:
    """Two processes that write in turn lose nothing, whichever of them keeps the run."""
    writer = Again(layout, Watch())
    one = writer.emit({"type": "checkpoint"})
    other = commit(layout, "r", lambda state, plan: [{"type": "workflow_start"}])
    last = writer.emit({"type": "checkpoint"})
    ids = [done.events[-1]["event_id"] for done in (one, other, last)]
    assert ids == [ids[0], ids[0] + 1, ids[0] + 2]
    assert last.state["status"] == "in_progress"
    run = load(layout, "r")
    assert run.state == refold(run.directory, run.metadata, run.plan) == last.state


def test_a_refused_event_leaves_a_kept_run_as_it_is(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an event that no reader could take, and after a full disk, the next is recorded as ever."""
    writer = Again(layout, Watch())
    writer.emit({"type": "checkpoint"})
    with pytest.raises(InvalidInput):
        writer.emit({"type": "checkpoint", "message": "m" * 2_000_000})
    with monkeypatch.context() as patched:
        patched.setattr("faber.store.log.write_atomic", refuse)
        with pytest.raises(FaberError):
            writer.emit({"type": "checkpoint"})
    done = writer.emit({"type": "checkpoint"})
    run = load(layout, "r")
    assert run.state == refold(run.directory, run.metadata, run.plan) == done.state


def refuse(path: str, data: bytes) -> None:
    """A full disk."""
    raise files.unwritable(OSError(28, "No space left on device"), path)


def test_the_limit_of_the_state_holds_for_a_kept_run(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the size is reckoned, no event is taken that would make the state too large to be read."""
    writer = Again(layout, Watch())
    limit = 40_000
    monkeypatch.setattr("faber.store.appending.MAX_STATE", limit)
    monkeypatch.setattr("faber.store.pace.MAX_STATE", limit)
    taken = 0

    def fill() -> None:
        nonlocal taken
        while taken < 1000:
            artifact = {"name": f"a{taken}", "value": "v" * 300}
            writer.emit({"type": "artifact_create", "artifacts": [artifact]})
            taken += 1

    with pytest.raises(InvalidInput, match="state would have"):
        fill()
    assert limit * 0.9 < len(strict_json.dumps(load(layout, "r").state)) <= limit
    assert taken > 50


def test_a_run_that_was_taken_back_is_read_again(layout: Layout) -> None:
    """Where the newest event that a writer knows is gone from the log, the log is what counts."""
    writer = Again(layout)
    saved = on_disk(layout)
    writer.emit({"type": "checkpoint"})
    for path in set(on_disk(layout)) - set(saved):
        os.unlink(path)
    for path, data in saved.items():
        Path(path).write_bytes(data)
    done = writer.commit(lambda state, plan: [{"type": "workflow_start"}])
    run = load(layout, "r")
    assert run.state == refold(run.directory, run.metadata, run.plan) == done.state
