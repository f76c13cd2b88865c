"""Checkpoints: written, read, judged and set aside; findings and cycle states inside them."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.errors import FaberError
from faber.nebula.phase.checkpoint import Checkpoint, from_toml, load, load_all, park, remove, save, to_toml, validate
from faber.nebula.phase.cycle_state import KEPT_OUTPUT, CycleState, Stage
from faber.nebula.phase.findings import SEVERITIES, STATUSES, Finding, by_severity, finding_id, make_finding
from faber.nebula.phase.phase_errors import CheckpointMoved, IncompatibleCheckpoint, InvalidCheckpoint
from faber.store.store_errors import StoreUnwritable
from faber.text.safe_text import encodable

SHA = "a" * 40
STATE = CycleState(
    task_title="t",
    max_cycles=5,
    cycle=2,
    phase=Stage.REVIEW_COMPLETE,
    total_cost_usd=0.25,
    base_commit_sha="b" * 40,
    cycle_commits=("c" * 40, SHA),
    findings=(make_finding("major", "It is slow.", file="a.py", line=3, cycle=2),),
)
SAVED = Checkpoint("p", "n", "2026-01-01T00:00:00.000Z", SHA, 12, STATE)

# Everything text can hold: control characters, emoji, separators of lines, lone surrogates.
anything = st.text(st.characters() | st.sampled_from("\x00\x1b\x7f\r\n\t\"'\\😀\u2028\ud83d\ude00"), max_size=20)
money = st.floats(0, 1000)
findings = st.builds(
    Finding,
    id=anything,
    severity=st.sampled_from(SEVERITIES),
    description=anything,
    file=anything,
    line=st.none() | st.integers(1, 10**6),
    cycle=st.integers(1, 99),
    status=st.sampled_from(STATUSES),
)
states = st.builds(
    CycleState,
    task_title=anything,
    max_cycles=st.integers(1, 100),
    task_bead_id=anything,
    phase=st.sampled_from(Stage),
    cycle=st.integers(0, 100),
    total_cost_usd=money,
    max_budget_usd=money,
    coder_output=anything,
    review_output=anything,
    lint_output=anything,
    filter_output=anything,
    filter_check_name=anything,
    base_commit_sha=anything,
    cycle_commits=st.lists(anything, max_size=3).map(tuple),
    findings=st.lists(findings, max_size=3).map(tuple),
    all_findings=st.lists(findings, max_size=3).map(tuple),
)


def held(value: Any) -> Any:
    """A value as a file can hold it."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, tuple):
        return tuple(held(item) for item in value)
    if isinstance(value, (CycleState, Finding, Checkpoint)):
        return replace(value, **{name: held(getattr(value, name)) for name in value.__dataclass_fields__})
    return value


@given(st.builds(Checkpoint, st.sampled_from(["p", "a.b-c_d"]), anything, anything, anything, st.integers(0), states))
def test_any_checkpoint_is_read_as_it_was_written(checkpoint: Checkpoint) -> None:
    """Whatever its texts hold, a checkpoint is the same after writing and reading, lone surrogates apart; and
    a second time exactly the same."""
    text = to_toml(checkpoint)
    text.encode()
    back = from_toml(text)
    assert back == held(checkpoint)
    assert to_toml(back) == text


def test_the_file_is_beside_the_state_and_whole(tmp_path: Path) -> None:
    """A checkpoint is `checkpoint.<phase>.toml` in the nebula's directory, replaced at once, with nothing beside it."""
    assert save(str(tmp_path), SAVED) == str(tmp_path / "checkpoint.p.toml")
    save(str(tmp_path), replace(SAVED, event_id=13))
    assert os.listdir(tmp_path) == ["checkpoint.p.toml"]
    assert load(str(tmp_path), "p") == replace(SAVED, event_id=13)
    assert load(str(tmp_path), "other") is None
    assert load(str(tmp_path / "none"), "p") is None


def test_a_long_output_keeps_its_end() -> None:
    """Only the end of a long output is kept, where errors are."""
    state = replace(STATE, coder_output="x" * KEPT_OUTPUT + "the end", filter_output="é" * KEPT_OUTPUT)
    back = from_toml(to_toml(replace(SAVED, state=state))).state
    assert len(back.coder_output) == KEPT_OUTPUT
    assert back.coder_output.endswith("the end")
    assert back.filter_output == state.filter_output


def test_a_checkpoint_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    """Where the file cannot be written the error says so, and what was there before is still there."""
    with pytest.raises(StoreUnwritable):
        save(str(tmp_path / "none"), SAVED)


# --- judging ---------------------------------------------------------------------------------------


def test_a_checkpoint_at_its_commit_is_valid() -> None:
    """Cycle, phase and commit fit: nothing is raised."""
    validate(SAVED, SHA)


def test_another_commit_is_refused_with_both_named() -> None:
    """A checkpoint whose branch has moved says where it belongs and where the branch is."""
    with pytest.raises(CheckpointMoved) as moved:
        validate(SAVED, "d" * 40)
    assert (moved.value.fields["expected"], moved.value.fields["actual"]) == (SHA, "d" * 40)
    assert SHA in moved.value.message
    assert "d" * 40 in moved.value.message


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"version": 2}, IncompatibleCheckpoint),
        ({"state": replace(STATE, cycle=0)}, InvalidCheckpoint),
        ({"state": replace(STATE, cycle=-1)}, InvalidCheckpoint),
        ({"state": replace(STATE, phase=11)}, InvalidCheckpoint),
        ({"state": replace(STATE, max_cycles=0)}, InvalidCheckpoint),
    ],
)
def test_what_is_out_of_range_is_refused(changed: dict[str, Any], error: type[FaberError]) -> None:
    """Another version, a cycle below 1, an unknown phase: each has its own error class, at the right commit too."""
    with pytest.raises(InvalidCheckpoint) as refused:
        validate(replace(SAVED, **changed), SHA)
    assert type(refused.value) is error


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("version = 1", "version = 2", IncompatibleCheckpoint),
        ("version = 1", "version = true", IncompatibleCheckpoint),
        ("version = 1\n", "", IncompatibleCheckpoint),
        ("phase = 7", "phase = 11", InvalidCheckpoint),
        ("phase = 7", "phase = -1", InvalidCheckpoint),
        ("cycle = 2", 'cycle = "2"', InvalidCheckpoint),
        ('severity = "major"', 'severity = "vast"', InvalidCheckpoint),
        ('status = "found"', 'status = "lost"', InvalidCheckpoint),
        ('task_title = "t"\n', "", InvalidCheckpoint),
        ('phase_id = "p"', "phase_id = 3", InvalidCheckpoint),
        ("[state]", "[other]", InvalidCheckpoint),
        ("event_id = 12", "event_id = 1.5", InvalidCheckpoint),
        ("event_id = 12", "event_id = ", InvalidCheckpoint),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, old: str, new: str, error: type[FaberError]) -> None:
    """A file of another version or with a value that does not fit is an error with its phase, never a traceback."""
    text = to_toml(SAVED)
    assert old in text
    (tmp_path / "checkpoint.p.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidCheckpoint) as refused:
        load(str(tmp_path), "p")
    assert type(refused.value) is error
    assert refused.value.fields["phase"] == "p"


@given(st.integers(0, 2000), st.binary(max_size=3))
def test_a_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, at: int, put: bytes) -> None:
    """Wherever a file is damaged or cut, it is read as a checkpoint or refused with an error."""
    directory = tmp_path_factory.mktemp("damaged")
    data = to_toml(SAVED).encode()
    (directory / "checkpoint.p.toml").write_bytes(data[:at] + put + (data[at + 1 :] if put else b""))
    (found,) = load_all(str(directory)).values()
    assert isinstance(found, (Checkpoint, InvalidCheckpoint))


def test_all_are_loaded_the_unreadable_with_their_reason(tmp_path: Path) -> None:
    """`load_all` answers every phase's checkpoint, errors among them; other files are none of it."""
    save(str(tmp_path), SAVED)
    save(str(tmp_path), replace(SAVED, phase_id="q.r"))
    (tmp_path / "checkpoint.bad.toml").write_text("x")
    (tmp_path / "checkpoint.moved.toml").write_text(to_toml(SAVED))
    (tmp_path / "checkpoint.link.toml").symlink_to("checkpoint.p.toml")
    (tmp_path / "checkpoint..toml").write_text("x")
    (tmp_path / "nebula.state.toml").write_text("")
    found = load_all(str(tmp_path))
    assert {name: type(value) for name, value in found.items()} == {
        "bad": InvalidCheckpoint,
        "link": InvalidCheckpoint,
        "moved": InvalidCheckpoint,
        "p": Checkpoint,
        "q.r": Checkpoint,
    }
    assert load_all(str(tmp_path / "none")) == {}


# --- setting aside ---------------------------------------------------------------------------------


def test_removing_is_harmless_to_repeat(tmp_path: Path) -> None:
    """A checkpoint is removed once; a second time there is nothing to remove, and no error."""
    save(str(tmp_path), SAVED)
    assert remove(str(tmp_path), "p") is True
    assert remove(str(tmp_path), "p") is False
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_parking_keeps_everything(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parked checkpoint is whole under a number of its own, an earlier one is kept; where there are no hard
    links too."""
    if not links:

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOTSUP, "Operation not supported")

        monkeypatch.setattr(os, "link", refuse)
    aside = tmp_path / "run" / "parked"
    (tmp_path / "checkpoint.p.toml").write_text("first, and no checkpoint at all")
    assert park(str(tmp_path), "p", str(aside)) == str(aside / "checkpoint.p.1.toml")
    assert park(str(tmp_path), "p", str(aside)) is None
    save(str(tmp_path), SAVED)
    assert park(str(tmp_path), "p", str(aside)) == str(aside / "checkpoint.p.2.toml")
    assert (aside / "checkpoint.p.1.toml").read_text() == "first, and no checkpoint at all"
    assert from_toml((aside / "checkpoint.p.2.toml").read_text()) == SAVED
    assert load(str(tmp_path), "p") is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b", "x" * 121, "a\n"])
def test_no_id_leaves_the_directory(tmp_path: Path, name: str) -> None:
    """An id that no file may carry is refused by everything that would open a file."""
    for act in (
        lambda: load(str(tmp_path), name),
        lambda: save(str(tmp_path), replace(SAVED, phase_id=name)),
        lambda: remove(str(tmp_path), name),
        lambda: park(str(tmp_path), name, str(tmp_path / "parked")),
    ):
        with pytest.raises(InvalidCheckpoint):
            act()


# --- cycle states and findings ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "following"),
    [
        (Stage.CODING, (2, Stage.CODING)),
        (Stage.CODE_COMPLETE, (2, Stage.FILTERING)),
        (Stage.FILTERING, (2, Stage.FILTERING)),
        (Stage.REVIEWING, (2, Stage.REVIEWING)),
        (Stage.REVIEW_COMPLETE, (3, Stage.CODING)),
        (Stage.RESOLVING_ISSUES, (3, Stage.CODING)),
        (Stage.APPROVED, (2, Stage.APPROVED)),
        (Stage.ERROR, (2, Stage.CODING)),
    ],
)
def test_where_a_stopped_cycle_goes_on(stage: Stage, following: tuple[int, Stage]) -> None:
    """What was complete is not done again; a turn that may be incomplete is taken again."""
    assert replace(STATE, phase=stage).next_stage == following


def test_the_stages_have_the_seeds_numbers() -> None:
    """The numbers in a checkpoint mean what they mean to the tool that the format comes from."""
    assert [stage.word for stage in sorted(Stage)] == [
        "idle",
        "bead_created",
        "coding",
        "code_complete",
        "linting",
        "filtering",
        "reviewing",
        "review_complete",
        "resolving_issues",
        "approved",
        "error",
    ]
    assert [int(stage) for stage in sorted(Stage)] == list(range(11))


def test_an_objection_keeps_its_id() -> None:
    """The same objection has the same id in every cycle, whatever its line, spacing or severity; others differ."""
    first = make_finding("major", "Line 12: the lock is  never released.", file="a.py", line=12, cycle=1)
    again = make_finding("minor", "line 40: The lock is never\nreleased.", file="a.py", line=40, cycle=3)
    assert first.id == again.id
    assert first.id != finding_id("Line 12: the lock is never released.", "b.py")
    assert first.id != finding_id("Line 12: the lock is never taken.", "a.py")
    assert first.id.startswith("f-")
    assert len(first.id) == 14


def test_what_stands_in_the_way_of_approval() -> None:
    """Critical and major findings that are open block, gravest first; minor and fixed ones do not."""
    made = [
        replace(make_finding(severity, f"{severity} {status}"), status=status)
        for severity in reversed(SEVERITIES)
        for status in STATUSES
    ]
    found = by_severity(each for each in made if each.is_blocking)
    assert {(one.severity, one.status) for one in found} == {
        (severity, status) for severity in ("critical", "major") for status in ("found", "still_present", "regressed")
    }
    assert [one.severity for one in found] == ["critical"] * 3 + ["major"] * 3
