"""`faber doctor` finds damage without touching it; `faber repair` restores what the events tell."""

import fcntl
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.store import log
from support.logs import change_event, rewrite_event

Faber = Callable[..., Any]
RunDir = Callable[[str], Path]
EVENT = "events/000003-step_start.json"


def findings(faber: Faber, *arguments: str) -> dict[str, str]:
    """Code → severity of what the doctor says."""
    answer = faber("doctor", *arguments)
    found = {f["code"]: f["severity"] for report in answer.json["reports"] for f in report["findings"]}
    assert answer.status == (1 if {"CRITICAL", "ERROR"} & set(found.values()) else 0)
    assert answer.json["healthy"] is (answer.status == 0)
    return found


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every file below `directory` but the lock, which names its last holder."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != "lock"}


def busy(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """Give the run a log worth examining."""
    advance(run, "build:implement")
    faber("event", "emit", run, "--type", "checkpoint", "--key", "k1")
    faber("session", "save", run, "--accomplished", "much")


def test_a_healthy_run_has_no_findings(faber: Faber, run: str, advance: Callable[..., None]) -> None:
    """Everything faber writes satisfies its own doctor, schemas included."""
    busy(faber, run, advance)
    assert findings(faber, run) == {}
    assert findings(faber, "--all") == {}
    assert (
        faber("doctor", "--all", "--format", "text").out == f"✓ store: nothing to report\n✓ {run}: nothing to report\n"
    )


def rewrite(path: Path, old: str, new: str) -> None:
    """Replace text in a file that must hold it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


DAMAGE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "state differs": (lambda d: rewrite(d / "state.json", '"work_id":"7"', '"work_id":"8"'), "state_differs", "ERROR"),
    "state corrupt": (lambda d: (d / "state.json").write_text("{"), "state_corrupt", "CRITICAL"),
    "state missing": (lambda d: (d / "state.json").unlink(), "state_missing", "CRITICAL"),
    "metadata missing": (lambda d: (d / "metadata.json").unlink(), "metadata_unreadable", "CRITICAL"),
    "event unreadable": (lambda d: (d / EVENT).write_text("{"), "event_unreadable", "CRITICAL"),
    "event gap": (lambda d: (d / EVENT).unlink(), "event_gap", "CRITICAL"),
    "event twice": (
        lambda d: (d / "events/000003-step_retry.json").write_bytes(
            log.encode({**log.decode((d / EVENT).read_bytes()), "type": "step_retry"})
        ),
        "duplicate_event",
        "CRITICAL",
    ),
    "event of another run": (
        lambda d: change_event(d / EVENT, run_id="demo/two/run"),
        "event_of_other_run",
        "CRITICAL",
    ),
    "event without what it needs": (
        lambda d: rewrite_event(d / EVENT, '"step":', '"stop":'),
        "schema_violation",
        "ERROR",
    ),
    "leftover of a killed writer": (lambda d: (d / "events/.x.1.ab.tmp").write_text("half"), "leftover", "WARNING"),
    "dangling key": (
        lambda d: (d / "keys" / ("0" * 64)).write_text('{"key": "never", "event_id": 99}'),
        "dangling_key",
        "INFO",
    ),
    "secret": (
        lambda d: (d / "work-item.json").write_text('{"title": "ghp_' + "a1" * 20 + '"}'),
        "secret_in_store",
        "WARNING",
    ),
    "summary missing": (
        lambda d: next((d / "session-summaries").iterdir()).unlink(),
        "summary_missing",
        "WARNING",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_damage_is_found_and_nothing_changed(
    faber: Faber, run: str, run_dir: RunDir, advance: Callable[..., None], damage: str
) -> None:
    """Each kind of damage has its code and severity, and the doctor writes nothing."""
    busy(faber, run, advance)
    inflict, code, severity = DAMAGE[damage]
    inflict(run_dir(run))
    before = snapshot(run_dir(run))
    assert findings(faber, run)[code] == severity
    assert snapshot(run_dir(run)) == before


def test_a_state_behind_its_log_is_information(faber: Faber, run: str, run_dir: RunDir) -> None:
    """A writer that was killed before it wrote state.json is reported as INFO."""
    path = run_dir(run) / "state.json"
    before = path.read_bytes()
    faber("event", "emit", run, "--type", "checkpoint")
    path.write_bytes(before)
    assert findings(faber, run) == {"state_behind": "INFO"}


def test_a_state_of_another_version_is_in_order(faber: Faber, run: str, run_dir: RunDir) -> None:
    """The state that an earlier faber wrote lacks what this one keeps; it is folded again, and is no damage."""
    path = run_dir(run) / "state.json"
    state = json.loads(path.read_text())
    del state["holder"]
    path.write_text(json.dumps({**state, "reducer_version": state["reducer_version"] - 1}))
    assert "ERROR" not in findings(faber, run).values()


def test_a_held_lock_is_named(faber: Faber, run: str, run_dir: RunDir) -> None:
    """The doctor says who holds the lock."""
    faber("run", "resume", run)
    with open(run_dir(run) / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate()
        lock.write(json.dumps({"pid": os.getpid(), "command": "test"}))
        lock.flush()
        answer = faber("doctor", run).json
    (finding,) = answer["reports"][0]["findings"]
    assert finding["code"] == "locked"
    assert str(os.getpid()) in finding["message"]


def test_a_stale_index_is_found_and_rebuilt(faber: Faber, run: str, project: Path) -> None:
    """The doctor finds an index that misses a run; `repair --store` rebuilds it."""
    for entry in (project / ".fractary/faber/index/active").iterdir():
        entry.unlink()
    assert findings(faber) == {"stale_index": "WARNING"}
    faber("repair", "--store")
    assert findings(faber) == {}


def test_an_unfinished_creation_is_set_aside(faber: Faber, run: str, project: Path) -> None:
    """What a killed `run init` left is reported, and `repair --store` moves it away."""
    (project / ".fractary/faber/runs/.init-1-abcd").mkdir()
    assert findings(faber) == {"leftover": "WARNING"}
    moved = faber("repair", "--store").json["moved"]
    assert len(moved) == 1
    assert findings(faber) == {}


def test_a_bad_configuration_is_an_error(faber: Faber, run: str, project: Path) -> None:
    """config.yaml is checked with the store."""
    (project / ".fractary/faber/config.yaml").write_text("workflw: default\n")
    assert findings(faber) == {"invalid_config": "ERROR"}


@pytest.mark.parametrize(
    "damage", ["state differs", "state corrupt", "state missing", "summary missing", "leftover of a killed writer"]
)
def test_repair_restores_what_the_events_tell(
    faber: Faber, run: str, run_dir: RunDir, advance: Callable[..., None], damage: str
) -> None:
    """A rebuilt state is byte-identical to the lost one; what it replaced is kept in damaged/."""
    busy(faber, run, advance)
    good = (run_dir(run) / "state.json").read_bytes()
    summaries = {path.name: path.read_bytes() for path in (run_dir(run) / "session-summaries").iterdir()}
    DAMAGE[damage][0](run_dir(run))
    bad = (run_dir(run) / "state.json").read_bytes() if (run_dir(run) / "state.json").exists() else None
    answer = faber("repair", run)
    assert answer.status == 0
    assert answer.json["actions"]
    assert (run_dir(run) / "state.json").read_bytes() == good
    assert {path.name: path.read_bytes() for path in (run_dir(run) / "session-summaries").iterdir()} == summaries
    if bad not in (None, good):
        assert bad in [Path(path).read_bytes() for path in answer.json["moved"]]
    assert findings(faber, run) == {}


@pytest.mark.parametrize("damage", ["event gap", "event unreadable", "event twice", "event of another run"])
def test_repair_never_invents(
    faber: Faber, run: str, run_dir: RunDir, advance: Callable[..., None], damage: str
) -> None:
    """If the log itself is damaged, repair lists the losses and changes nothing."""
    busy(faber, run, advance)
    DAMAGE[damage][0](run_dir(run))
    (run_dir(run) / "state.json").write_text("{")
    before = snapshot(run_dir(run))
    answer = faber("repair", run)
    assert (answer.status, answer.code) == (1, "unrepairable")
    assert answer.json["error"]["losses"]
    assert snapshot(run_dir(run)) == before


def test_only_a_person_accepts_a_loss(
    faber: Faber,
    run: str,
    run_dir: RunDir,
    advance: Callable[..., None],
    session: Callable[[str | None], None],
) -> None:
    """`repair --accept-loss` is refused to an agent; to a person it says what is lost and where the rest is kept."""
    busy(faber, run, advance)
    for event in (run_dir(run) / "events").iterdir():
        event.unlink()
    said = faber("doctor", run, "--format", "text")
    assert "are missing from the log" in said.out
    assert "`faber repair RUN --accept-loss`" in said.out
    before = snapshot(run_dir(run))
    at = json.loads((run_dir(run) / "state.json").read_text())["current_phase"]
    session("s1")
    assert faber("repair", run, "--accept-loss").code == "person_required"
    assert snapshot(run_dir(run)) == before
    session(None)
    answer = faber("repair", run, "--accept-loss").json
    assert answer["lost"][0][0] == 1
    assert (run_dir(run) / answer["kept"]).exists()
    shown = faber("context", run).json
    assert shown["current_phase"] == at
    assert shown["events"][-1]["type"] == "loss_accepted"
    assert faber("repair", "--store", "--accept-loss").status == 2


@pytest.mark.parametrize("kind", ["directory", "link"])
@pytest.mark.parametrize("which", ["the run's", "the store's"])
def test_what_lies_in_the_place_of_a_lock_is_named(
    faber: Faber, run: str, run_dir: RunDir, project: Path, kind: str, which: str
) -> None:
    """A lock that can never be locked is an error with a command that helps, from the doctor and from any writer."""
    faber("event", "emit", run, "--type", "checkpoint")
    lock = run_dir(run) / "lock" if which == "the run's" else project / ".fractary/faber/lock"
    lock.unlink()
    lock.mkdir() if kind == "directory" else lock.symlink_to(project / "elsewhere")
    examined = (run,) if which == "the run's" else ()
    assert findings(faber, *examined)["lock_unusable"] == "ERROR"
    refused = faber("event", "emit", run, "--type", "checkpoint") if examined else faber("run", "init")
    assert refused.json["error"]["message"] == f"The lock is a {kind}."
    (command,) = re.findall("`(mv .*?)`", refused.json["error"]["recovery"])
    subprocess.run(command, shell=True, check=True)
    assert (faber("event", "emit", run, "--type", "checkpoint") if examined else faber("run", "init")).status == 0
    assert findings(faber, *examined) == {}


def test_repair_of_a_healthy_run_does_nothing(faber: Faber, run: str, run_dir: RunDir) -> None:
    """Repairing what is whole leaves it alone and says so."""
    faber("run", "resume", run)
    before = snapshot(run_dir(run))
    answer = faber("repair", run).json
    assert (answer["actions"], answer["problems"]) == ([], [])
    assert snapshot(run_dir(run)) == before


@pytest.mark.parametrize("name", ["../../../../../outside.json", "/outside.json", "summary", ".hidden.json", ""])
def test_repair_writes_summaries_only_into_the_run(
    faber: Faber, run: str, run_dir: RunDir, advance: Callable[..., None], tmp_path: Path, name: str
) -> None:
    """A summary's name that is not a plain file name is reported as a problem, and nothing is written for it."""
    busy(faber, run, advance)
    (path,) = (path for path in (run_dir(run) / "events").glob("*-session_end.json"))
    metadata = log.decode(path.read_bytes())["metadata"]
    named = str(tmp_path / "outside.json") if name == "/outside.json" else name
    change_event(path, metadata={**metadata, "summary_file": named})
    outside = {file for file in tmp_path.rglob("*") if "damaged" not in file.parts}
    answer = faber("repair", run)
    assert answer.status == 0
    assert [problem["code"] for problem in answer.json["problems"]] == ["summary_name_invalid"]
    assert {file for file in tmp_path.rglob("*") if "damaged" not in file.parts} == outside
    assert findings(faber, run)["summary_name_invalid"] == "WARNING"


@pytest.mark.parametrize("arguments", [(), ("a-run", "--store")])
def test_repair_takes_a_run_or_the_store(faber: Faber, project: Path, arguments: tuple[str, ...]) -> None:
    """Neither and both are usage errors."""
    assert faber("repair", *arguments).status == 2


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("echo '2.1.197 (Claude Code)'", {}),
        ("echo '2.1.330 (Claude Code)'", {}),
        ("echo '2.1.196 (Claude Code)'", {"client_too_old": "WARNING"}),
        ("echo '1.99.999 (Claude Code)'", {"client_too_old": "WARNING"}),
        ("echo '2.1.331 (Claude Code)'", {"client_untested": "INFO"}),
        ("echo '2.1.330-beta.1 (Claude Code)'", {}),
        ("echo 'nightly'", {"client_untested": "INFO"}),
        ("exit 1", {"client_untested": "INFO"}),
    ],
)
def test_a_client_outside_the_window_is_named(
    faber: Faber,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    said: str,
    expected: dict[str, str],
) -> None:
    """A client that faber is not tested with is a finding of the store, by the version that it names itself."""
    client = tmp_path / "a client"
    client.write_text(f"#!/bin/sh\n{said}\n")
    client.chmod(0o755)
    monkeypatch.setenv("FABER_CLAUDE", str(client))
    assert findings(faber) == expected


def test_the_client_of_the_session_is_the_one_that_is_examined(
    faber: Faber, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Inside a session it is that session's client, not the one that agents are started with."""
    for name, version in (("old", "2.0.1"), ("new", "2.1.330")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("FABER_CLAUDE", str(tmp_path / "new"))
    monkeypatch.setenv("CLAUDE_CODE_EXECPATH", str(tmp_path / "old"))
    assert findings(faber) == {"client_too_old": "WARNING"}
