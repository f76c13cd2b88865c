"""What a nebula's events change in its run's state, and the file that the state stands for."""

import copy
import subprocess
import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.errors import InvalidInput
from faber.events.event_types import known_types
from faber.model.acceptance import accept
from faber.model.documents import Metadata, Plan, State
from faber.model.ids import MAX_PHASE_ID
from faber.model.model_errors import UnknownPlace
from faber.model.nebula_documents import NEBULA_STATUSES
from faber.model.reducer import fold, grow, initial_state, touched
from faber.model.validation import check_state
from faber.nebula.plan.parse import MAX_PHASES
from faber.nebula.plan.plan_errors import NebulaStateUnreadable
from faber.nebula.plan.state_file import NebulaFile, PhaseRecord, StateWriter, load_state, parse_state, project
from faber.store import strict_json
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.files import MAX_STATE
from faber.store.layout import Layout
from faber.store.load import load
from faber.store.schema import problems
from faber.text.safe_text import encodable

SCRIPTS = Path(__file__).parents[3] / "scripts"
METADATA: Metadata = {
    "schema_version": 1,
    "run_id": "r",
    "work_id": None,
    "target": None,
    "workflow_id": "nebula",
    "autonomy": "autonomous",
    "created_at": "2026-01-01T00:00:00.000Z",
    "created_by": "test",
    "relationships": {},
}
PLAN: Plan = {"schema_version": 1, "workflow_id": "nebula", "phases": []}
START = {"type": "nebula_start", "metadata": {"nebula": "n", "phases": {"a": "d1", "b": "d2"}, "directory": "x"}}


def after(*drafts: dict[str, Any], state: State | None = None) -> State:
    """The state after these drafts."""
    state = state or initial_state(METADATA, PLAN)
    first = state["last_event_id"] + 1
    events: Any = [
        {"schema_version": 1, "event_id": n, "timestamp": f"2026-01-02T00:00:{n % 60:02}.000Z", "run_id": "r", **draft}
        for n, draft in enumerate(drafts, first)
    ]
    return fold(state, events)


def of(kind: str, phase: str = "a", *, metadata: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    """A draft about a phase."""
    return {"type": kind, "phase": phase, **({"metadata": metadata} if metadata else {}), **rest}


# As a worker may report them; other names, and values that are not counts, are left out.
TOKENS = {
    "input_tokens": 4,
    "cache_read_input_tokens": 5,
    "output_tokens": -1,
    "other": 1,
    "cache_creation_input_tokens": "x",
}
CYCLE = [
    of("phase_start", metadata={"branch": "faber/n/1/phase/a", "base": "b0"}),
    of("cycle_start", metadata={"cycle": 1}),
    of(
        "agent_turn",
        metadata={
            "role": "coder",
            "cost_usd": 0.5,
            "tokens": {"input_tokens": 2, "output_tokens": 3},
            "denials": 2,
            "denied": ["Bash: x"],
        },
    ),
    of("cycle_commit", metadata={"cycle": 1, "commit": "c1"}),
    of("filter_run", metadata={"filter": "test"}, status="passed"),
    of("agent_turn", metadata={"role": "reviewer", "cost_usd": 0.25, "tokens": TOKENS}),
    of("review", metadata={"findings": 0}, status="approved"),
    of("cycle_complete", metadata={"cycle": 1, "findings": 0}),
    of("phase_merge", metadata={"commit": "m1"}),
    of("phase_complete", message="All done."),
]


def test_a_phase_from_its_start_to_its_merge() -> None:
    """A phase's status, branch, cycle, cost, commits and report, and what the run has spent, follow its events."""
    state = after(START, {"type": "workflow_start"}, *CYCLE)
    assert state["status"] == "in_progress"
    assert state["current_phase"] is None
    assert state["phases"] == {}
    nebula = state["nebula"]
    assert nebula["phases"]["b"] == {"status": "pending", "digest": "d2"}
    assert nebula["phases"]["a"] == {
        "status": "done",
        "digest": "d1",
        "started_at": "2026-01-02T00:00:03.000Z",
        "ended_at": "2026-01-02T00:00:12.000Z",
        "cycle": 1,
        "cycles_done": 1,
        "cost": 0.75,
        "turns": 2,
        "tokens": state["nebula"]["spent"]["tokens"],
        "denials": 2,
        "denied": ["Bash: x"],
        "branch": "faber/n/1/phase/a",
        "base": "b0",
        "commit": "c1",
        "merged": "m1",
        "findings": 0,
        "report": "All done.",
        "event": 12,
    }
    tokens = {"input_tokens": 6, "cache_read_input_tokens": 5, "output_tokens": 3}
    assert nebula["spent"] == {"cost": 0.75, "healing_cost": 0.0, "turns": 2, "tokens": tokens}
    check_state(state, "r")
    assert problems("state", state) == []


def test_a_failed_phase_stops_no_other() -> None:
    """The run continues while a phase of it failed; the error is kept until the phase is started again."""
    failing = of("filter_run", metadata={"filter": "test"}, status="failed")
    state = after(
        START, {"type": "workflow_start"}, *CYCLE[:4], failing, of("phase_error", error={"message": "m" * 999})
    )
    assert state["status"] == "in_progress"
    phase = state["nebula"]["phases"]["a"]
    assert (phase["status"], phase["failing_filter"]) == ("failed", "test")
    assert len(phase["reason"]) == 200
    assert [error["phase"] for error in state["errors"]] == ["a"]
    skipped = after(of("phase_skip", "b", message="It waits for a."), state=state)
    assert skipped["nebula"]["phases"]["b"]["status"] == "skipped"
    again = after(of("phase_reset", message="--retry-failed"), CYCLE[0], state=skipped)
    assert again["errors"] == []
    phase = again["nebula"]["phases"]["a"]
    assert (phase["status"], phase["cost"]) == ("in_progress", 0.5)
    assert "commit" not in phase


def test_a_workflows_phases_are_what_they_were() -> None:
    """In a run without a nebula the phase events mean what they meant: the phase fails, the run stops."""
    plan: Plan = {"schema_version": 1, "workflow_id": "w", "phases": [{"id": "a", "name": "a", "steps": []}]}
    state = after(
        {"type": "workflow_start"}, of("phase_error", error={"message": "m"}), state=initial_state(METADATA, plan)
    )
    assert (state["status"], state["phases"]["a"]["status"]) == ("failed", "failed")
    assert "nebula" not in state


def test_healing_is_counted_and_charged() -> None:
    """Attempts belong to the failed phase, the remediation joins the phases, what it costs is healing's."""
    state = after(
        START,
        CYCLE[0],
        of("phase_error", error={"message": "m"}),
        of("healing_start", metadata={"kind": "max_cycles"}),
        of("agent_turn", metadata={"role": "architect", "cost_usd": 0.1}),
        of("healing_plan", metadata={"remediation": "heal-a"}),
        of("healing_insert", metadata={"remediation": "heal-a", "digest": "d3", "rewired": ["b"]}),
        of("phase_start", "heal-a"),
        of("agent_turn", "heal-a", metadata={"role": "coder", "cost_usd": 0.2}),
    )
    phases = state["nebula"]["phases"]
    assert (phases["a"]["heal_attempts"], phases["a"]["remediation"]) == (1, "heal-a")
    assert (phases["heal-a"]["remedies"], phases["heal-a"]["digest"]) == ("a", "d3")
    assert state["nebula"]["spent"] == {"cost": 0.3, "healing_cost": 0.3, "turns": 2}
    reset = after(of("phase_reset", message="again"), state=state)
    assert reset["nebula"]["phases"]["a"]["heal_attempts"] == 1


def test_a_nebula_taken_again_keeps_what_happened() -> None:
    """Resumed with another set of files, phases that were started are kept, pending ones that are gone are not."""
    state = after(START, *CYCLE)
    again = after(
        {"type": "nebula_start", "metadata": {"nebula": "n", "phases": {"c": "d9"}}},
        state=state,
    )
    assert {name: phase["status"] for name, phase in again["nebula"]["phases"].items()} == {"c": "pending", "a": "done"}
    assert again["nebula"]["spent"]["cost"] == 0.75


def test_every_process_that_folds_knows_the_rules() -> None:
    """Who imports the reducer alone folds a nebula's events, without loading anything of nebulas."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from faber.model.reducer import RULES\nfrom faber.events.event_types import known_types\n"
            "assert {'nebula_start', 'cycle_commit', 'healing_insert'} <= set(RULES) & set(known_types())\n"
            "loaded = [n for n in sys.modules if n.startswith(('faber.nebula', 'dataclasses'))]\n"
            "assert not loaded, loaded",
            str(SCRIPTS),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


KINDS = [kind for kind in known_types() if kind.startswith(("nebula_", "cycle_", "healing_"))] + [
    "phase_start",
    "phase_complete",
    "phase_skip",
    "phase_error",
    "phase_reset",
    "phase_merge",
    "checkpoint_verdict",
    "agent_turn",
    "filter_run",
    "review",
]
drafts = st.builds(
    lambda kind, phase, number, word: {
        "type": kind,
        "phase": phase,
        "status": word,
        "message": word * 400,
        "error": {"message": word * 3000},
        "metadata": {
            "nebula": word,
            "phases": {"a": word, "c": None},
            "cycle": number,
            "findings": number,
            "commit": word,
            "branch": word,
            "filter": word * 300,
            "role": "coder",
            "cost_usd": number / 7,
            "tokens": {"input_tokens": number},
            "denials": number,
            "denied": [word * 300] * number,
            "remediation": f"heal-{phase}",
            "kind": word,
            "reason": word,
            "verdict": word,
        },
    },
    st.sampled_from(KINDS),
    st.sampled_from("abc"),
    st.integers(0, 9),
    st.sampled_from(["passed", "failed", "approved"]),
)


@given(st.lists(drafts, max_size=25))
def test_any_events_fold_into_a_state_of_the_schema(events: list[dict[str, Any]]) -> None:
    """Whatever comes in whatever order, the state conforms to the schema, and folds the same in steps."""
    state = after(START, *events)
    check_state(state, "r")
    assert problems("state", state) == []
    stepwise = after(START)
    for event in events:
        stepwise = after(event, state=stepwise)
    assert {**stepwise, "updated_at": "", "recent_events": []} == {**state, "updated_at": "", "recent_events": []}
    assert set(KINDS) <= set(known_types())


asking = st.builds(
    lambda phase, word: {
        "type": "feedback_request",
        "metadata": {"request_id": word, "prompt": "?", "context": {"nebula_phase": phase, "commit": word}},
    },
    st.sampled_from(["a", "b", "z", None]),
    st.sampled_from(["q1", "q2"]),
)
heard = st.builds(
    lambda word: {"type": "feedback_received", "metadata": {"request_id": word, "response": "yes"}},
    st.sampled_from(["q1", "q2"]),
)
ends = st.sampled_from(
    [{"type": "workflow_start"}, {"type": "workflow_complete"}, {"type": "nebula_land", "metadata": {"commit": "c"}}]
)


@given(st.lists(st.one_of(drafts, asking, heard, ends), max_size=25))
def test_growing_is_folding_and_changes_nothing_before(events: list[dict[str, Any]]) -> None:
    """Sharing what an event leaves alone gives the state that copying gives, no earlier state is changed by it, and no
    phase differs that is not said to be touched."""
    states = [after(START)]
    copies = [copy.deepcopy(states[0])]
    for draft in events:
        before = states[-1]
        event: Any = {"schema_version": 1, "event_id": before["last_event_id"] + 1, "run_id": "r", **draft}
        event["timestamp"] = "2026-01-02T00:00:00.000Z"
        grown = grow(before, event)
        assert grown == fold(before, [event])
        only = touched(before, event)
        if only is not None:
            was, now = before["nebula"]["phases"], grown["nebula"]["phases"]
            assert {name for name in now if was.get(name) is not now[name]} <= only
        states.append(grown)
        copies.append(copy.deepcopy(grown))
    assert states == copies


def test_thousands_of_phases_fit_into_the_state() -> None:
    """As many phases as a nebula may have, with names and reports as long as may be, are within the state's limit;
    phases that have not started cost next to nothing."""
    names = [f"{n:05}".rjust(MAX_PHASE_ID, "n") for n in range(MAX_PHASES)]
    state = after({"type": "nebula_start", "metadata": {"nebula": "n", "phases": dict.fromkeys(names, "d" * 16)}})
    assert len(strict_json.dumps(state)) < MAX_STATE / 6
    full = after(START, *CYCLE[:-1], of("phase_complete", message="m" * 999))["nebula"]["phases"]["a"]
    full |= {"commit": "c" * 40, "base": "b" * 40, "merged": "m" * 40, "branch": "faber/n/12345678/phase/" + names[0]}
    state["nebula"]["phases"] = dict.fromkeys(names, full)
    assert len(strict_json.dumps(state)) < MAX_STATE


def test_the_store_keeps_a_nebulas_run(tmp_path: Path) -> None:
    """A run of the store takes a nebula's events, refuses one whose values no reader could take, and is read again."""
    layout = Layout(str(tmp_path))
    create_run(
        layout,
        NewRun(run_id="r", plan=PLAN, work_id=None, target=None, autonomy="autonomous", created_by="test", first=None),
    )
    for draft in (START, {"type": "workflow_start"}, *CYCLE):
        commit(layout, "r", lambda state, plan, draft=draft: [draft])  # type: ignore[misc]
    with pytest.raises(InvalidInput):
        commit(layout, "r", lambda state, plan: [of("cycle_start", metadata={"cycle": "two"})])  # type: ignore[list-item]
    state = load(layout, "r").state
    assert state["nebula"]["phases"]["a"]["status"] == "done"
    assert problems("plan", load(layout, "r").plan) == []


def test_a_person_is_asked_about_a_phase_of_a_nebula() -> None:
    """A feedback request may be about a phase that the nebula has, and about no other."""
    state = after(START)
    request: Any = of(
        "feedback_request", metadata={"request_id": "q", "prompt": "Merge?", "resume_point": {"phase": "a"}}
    )
    assert accept(state, PLAN, request) == [request]
    with pytest.raises(UnknownPlace):
        accept(state, PLAN, {**request, "phase": "zz"})


# --- nebula.state.toml -----------------------------------------------------------------------------


FOREIGN = """\
version = 1
nebula_name = 'checkpoint-resume'
total_cost_usd = 12.5
lifecycle_stage = 'nursery'

[phases]
[phases.first]
bead_id = 'quasar-1a'
status = 'done'
created_at = 2026-02-01T10:00:00.5Z
updated_at = 2026-02-01T11:00:00Z

[phases.first.report]
satisfaction = 'high'
risk = 'low'
needs_human_review = false
summary = 'Fine.'

[phases.second]
bead_id = ''
status = 'somewhere'
"""


def test_another_tools_file_is_read_and_kept() -> None:
    """Keys of another tool are kept on rewriting; an unknown status counts as pending, and is reported."""
    state, notices = parse_state(FOREIGN)
    assert (state.nebula_name, state.total_cost_usd) == ("checkpoint-resume", 12.5)
    assert state.phases["first"].status == "done"
    assert state.phases["first"].extra == {"bead_id": "quasar-1a"}
    assert state.phases["first"].report["summary"] == "Fine."
    assert state.phases["second"].status == "pending"
    assert [notice.code for notice in notices] == ["nebula_state_odd"]
    again, _ = parse_state(StateWriter().text(state))
    assert again == state
    assert again.extra == {"lifecycle_stage": "nursery"}


def test_another_tools_types_are_written_back() -> None:
    """Times are TOML's own, with their offset, and a report is a table: another tool loads what is written, whether
    faber wrote the entry first or only kept it."""
    text = FOREIGN.replace("10:00:00.5Z", "10:00:00.5-05:00").replace("bead_id = ''", "seen = 2026-02-01T10:00:00Z")
    kept = tomllib.loads(StateWriter().text(parse_state(text)[0]))["phases"]
    assert kept["first"] == tomllib.loads(text)["phases"]["first"]
    assert kept["second"]["seen"] == datetime(2026, 2, 1, 10, tzinfo=UTC)
    made = tomllib.loads(StateWriter().text(project(after(START, *CYCLE))))["phases"]["a"]
    assert made["report"] == {"summary": "All done."}
    assert made["started_at"] == datetime(2026, 1, 2, 0, 0, 2, tzinfo=UTC)
    assert {type(made[key]) for key in ("created_at", "updated_at", "ended_at")} == {datetime}


def test_the_legacy_table_is_read() -> None:
    """A file that calls its phases tasks is read, and written with phases."""
    legacy = FOREIGN.replace("[phases", "[tasks")
    state, notices = parse_state(legacy)
    assert state.phases == parse_state(FOREIGN)[0].phases
    assert "nebula_state_legacy" in [notice.code for notice in notices]
    assert "tasks" not in StateWriter().text(state)


@pytest.mark.parametrize(
    "text", ["version = 9", "phases = 3", "[phases]\na = 1", "[phases.a]\ncycle = 'x'", "last_event_id = 1.5"]
)
def test_odd_values_are_passed_over_and_said(text: str) -> None:
    """What does not fit is a notice, and the rest is read."""
    _, notices = parse_state(text)
    assert len(notices) == 1


def test_a_damaged_file_is_an_error_and_stays(tmp_path: Path) -> None:
    """A file that is not TOML is refused by its path and left as it is; no file is no state."""
    assert load_state(str(tmp_path)) == (None, [])
    (tmp_path / "nebula.state.toml").write_text("[phases")
    with pytest.raises(NebulaStateUnreadable):
        load_state(str(tmp_path))
    assert (tmp_path / "nebula.state.toml").read_text() == "[phases"


words = st.text(max_size=8).map(encodable)
records = st.builds(
    PhaseRecord,
    status=st.sampled_from(NEBULA_STATUSES),
    created_at=words,
    cycle=st.integers(0, 99),
    cost_usd=st.floats(0, 99),
    branch=words,
    heal_attempts=st.integers(0, 3),
    reason=words,
    report=st.none() | words.filter(bool) | st.dictionaries(words, words, min_size=1, max_size=2),
    extra=st.dictionaries(st.sampled_from(["bead_id", "x y"]), words | st.integers() | st.lists(words), max_size=2),
)
files = st.builds(
    NebulaFile,
    nebula_name=words,
    run_id=words,
    last_event_id=st.integers(0, 10**6),
    total_cost_usd=st.floats(0, 99),
    phases=st.dictionaries(words, records, max_size=4),
    extra=st.dictionaries(
        st.sampled_from(["stage", "t"]), words | st.dictionaries(st.sampled_from("ab"), words, max_size=2), max_size=2
    ),
)


@given(st.lists(files, min_size=1, max_size=3))
def test_what_is_written_is_read(states: list[NebulaFile]) -> None:
    """Any state of a nebula is read as it was written, by a writer that wrote others before too."""
    writer = StateWriter()
    for state in states:
        text = writer.text(state)
        assert parse_state(text) == (state, [])
        assert text == StateWriter().text(state)
        phases = {name: replace(record, cycle=record.cycle + 1) for name, record in state.phases.items()}
        assert parse_state(writer.text(replace(state, phases=phases)))[0].phases == phases


def test_the_file_is_what_the_run_says(tmp_path: Path) -> None:
    """The projection has each phase's status, times, cycle, cost, branch, commits, report and heal attempts; what
    another tool wrote of a phase stays."""
    before, _ = parse_state(FOREIGN.replace("phases.first", "phases.a"))
    state = after(START, *CYCLE)
    made = project(state, before)
    StateWriter().save(str(tmp_path), made)
    back, notices = load_state(str(tmp_path))
    assert back == made
    assert notices == []
    assert (made.run_id, made.last_event_id, made.nebula_name) == ("r", 11, "n")
    phase = made.phases["a"]
    assert (phase.status, phase.cycle, phase.cost_usd, phase.branch) == ("done", 1, 0.75, "faber/n/1/phase/a")
    assert (phase.commit, phase.merged, phase.report) == ("c1", "m1", "All done.")
    assert (phase.started_at, phase.ended_at) == ("2026-01-02T00:00:02.000Z", "2026-01-02T00:00:11.000Z")
    assert phase.extra == {"bead_id": "quasar-1a"}
    assert phase.created_at == "2026-02-01T10:00:00.500Z"
    assert made.phases["b"].status == "pending"
    assert (made.earlier_cost_usd, made.total_cost_usd) == (12.5, 13.25)
    assert made.phases["second"].extra == {"bead_id": ""}
    assert project(state, made) == made
    assert project(state, replace(before, extra={"stage": "x"})).extra == {"stage": "x"}
