"""Two copies of a run that continued apart: refused, told apart, joined, and nothing lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sync.clones import MAIN, REF, RUN, Clone, MakeClone, ask, work


def test_a_push_over_unknown_events_is_refused(a: Clone, b: Clone) -> None:
    """Work at the remote that this copy lacks refuses the push, with both sides' last events; nothing changes."""
    work(b, "B's way")
    b.must("sync", "push", RUN)
    work(a, "A's way")
    before, remote = a.events(), a.git("ls-remote", "origin")
    for command in (("push",), ("push", "--merge"), ("pull",), ("pull", "--merge")):
        refused = a.faber("sync", command[0], RUN, *command[1:])
        assert (refused.status, refused.error["code"]) == (4, "diverged")
        assert refused.error["mergeable"] is False
        assert refused.error["local"]["type"] == refused.error["remote"]["type"] == "decision_point"
        assert refused.error["local"]["event_id"] == refused.error["remote"]["event_id"]
        assert refused.error["local"]["timestamp"] != refused.error["remote"]["timestamp"]
        assert refused.error["remote"]["actor"] == "person"
    assert a.events() == before
    assert a.git("ls-remote", "origin") == remote
    assert a.relation() == "diverged"


def test_a_copy_that_is_only_behind_is_told_to_pull(a: Clone, b: Clone) -> None:
    """A copy without events of its own is refused too, with the way out; with --merge it takes them."""
    work(b, "B's way")
    b.must("sync", "push", RUN)
    a.must("sync", "status", RUN)  # so that it knows what the remote has
    refused = a.faber("sync", "push", RUN)
    assert (refused.error["relation"], refused.error["ahead"], refused.error["behind"]) == ("behind", 0, 1)
    assert "sync pull" in refused.error["recovery"]
    assert a.must("sync", "push", RUN, "--merge")["result"] == "equal"
    assert a.events() == b.events()


def test_a_person_can_park_what_only_this_copy_has(a: Clone, b: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """--park-mine takes the remote's log and keeps the events that made way; an agent is refused it."""
    work(b, "B's way")
    work(b, "B's second way")
    b.must("sync", "push", RUN)
    work(a, "A's way")
    mine = dict(a.events())
    with monkeypatch.context() as agent:
        agent.setenv("CLAUDECODE", "1")
        assert a.faber("sync", "pull", RUN, "--park-mine").error["code"] == "person_required"
    # The refusal itself is in the log now: two events make way.
    assert a.must("sync", "pull", RUN, "--park-mine")["parked"] == 2
    assert a.events() == b.events()
    (parked,) = (a.run_dir / "parked").iterdir()
    assert {file.name for file in parked.iterdir()} >= set(mine) - set(dict(b.events()))
    assert a.must("doctor", RUN)["healthy"] is True


def answers(where: Clone) -> list[tuple[str, bool]]:
    """The answers to the run's only request, in the log's order, and whether each counted."""
    (request,) = where.must("feedback", "history", RUN)["requests"]
    return [(answer["response"], answer["counted"]) for answer in request["answers"]]


def test_both_answered(a: Clone, b: Clone) -> None:
    """The first answer to arrive counts; the other is parked in the log with who gave it, and both have both."""
    ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    b.must("feedback", "respond", RUN, "approve")
    a.must("feedback", "respond", RUN, "reject", "--comment", "Too early")
    b.must("sync", "push", RUN)
    refused = a.faber("sync", "push", RUN)
    assert (refused.error["code"], refused.error["mergeable"]) == ("diverged", True)
    assert "--merge" in refused.error["recovery"]
    mine = a.events()[-1][1]
    pushed = a.must("sync", "push", RUN, "--merge")
    assert (pushed["result"], pushed["merged"]) == ("pushed", True)
    b.must("sync", "pull", RUN)
    assert a.events() == b.events()
    assert answers(a) == answers(b) == [("approve", True), ("reject", False)]
    assert a.must("status", RUN, "--format", "json")["status"] == "in_progress"
    parked = json.loads(a.events()[-1][1])
    original = json.loads(mine)
    assert parked["type"] == "feedback_superseded"
    assert {**parked["metadata"], "origin_id": None} == {**original["metadata"], "origin_id": None}
    assert parked["metadata"]["origin_id"].startswith(f"{original['event_id']}-")
    assert parked["timestamp"] == original["timestamp"]
    assert (next((a.run_dir / "parked").rglob("*.json"))).read_bytes() == mine


def test_i_answered_and_the_remote_worked(a: Clone, b: Clone) -> None:
    """An answer given here follows the work done there, under a new id, and still opens what it answers."""
    ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    work(b, "Meanwhile")
    b.must("sync", "push", RUN)
    a.must("feedback", "respond", RUN, "approve")
    assert a.faber("sync", "pull", RUN).error["code"] == "diverged"
    assert a.must("sync", "pull", RUN, "--merge")["result"] == "merged"
    assert a.types()[-3:] == ["feedback_request", "decision_point", "feedback_received"]
    assert a.relation() == "ahead"
    a.must("sync", "push", RUN)
    assert b.must("sync", "pull", RUN)["result"] == "pulled"
    assert a.events() == b.events()
    assert answers(b) == [("approve", True)]


def test_i_worked_and_the_remote_answered(a: Clone, b: Clone) -> None:
    """An answer at the remote follows the work done here; who gave it gets the joined log by a plain pull."""
    ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    b.must("feedback", "respond", RUN, "approve")
    b.must("sync", "push", RUN)
    work(a, "Meanwhile")
    work(a, "And more")
    assert a.must("sync", "pull", RUN, "--merge")["result"] == "merged"
    assert a.types()[-3:] == ["decision_point", "decision_point", "feedback_received"]
    assert a.relation() == "ahead"
    assert a.must("sync", "pull", RUN)["result"] == "ahead"
    a.must("sync", "push", RUN)
    assert b.relation() == "behind"
    assert b.must("sync", "pull", RUN)["result"] == "pulled"
    assert a.events() == b.events()
    assert answers(b) == [("approve", True)]
    assert a.must("doctor", RUN)["healthy"] is b.must("doctor", RUN)["healthy"] is True
    work(b, "Afterwards")
    b.must("sync", "push", RUN)
    assert a.must("sync", "pull", RUN)["result"] == "pulled"


def test_work_upon_an_answer_that_came_second_is_not_joined(a: Clone, b: Clone) -> None:
    """Where work here may depend on an answer that somebody else gave first at the remote, a person decides."""
    ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    b.must("feedback", "respond", RUN, "reject")
    b.must("sync", "push", RUN)
    a.must("feedback", "respond", RUN, "approve")
    work(a, "As approved")
    refused = a.faber("sync", "push", RUN, "--merge")
    assert (refused.error["code"], refused.error["mergeable"]) == ("diverged", False)
    assert "depends on an answer" in refused.error["message"]


def test_another_run_of_the_same_id_is_never_joined(a: Clone, clone: MakeClone) -> None:
    """Two runs that were made under one id are told apart by what never changes about them."""
    c = clone("c")
    c.must("run", "init", "--run-id", RUN)
    work(c, "Mine")
    for command in (("push", "--merge"), ("pull", "--merge")):
        refused = c.faber("sync", command[0], RUN, *command[1:])
        assert (refused.status, refused.error["code"]) == (4, "remote_run_invalid")


def test_a_run_made_again_is_not_taken_for_the_old_one(a: Clone) -> None:
    """A store that was deleted and a run of the same id made in it do not push over the remote's."""
    import shutil

    shutil.rmtree(a.path / ".fractary")
    a.must("run", "init", "--run-id", RUN)
    work(a, "Again")
    assert a.faber("sync", "push", RUN).error["code"] == "remote_run_invalid"
    shutil.rmtree(a.path / ".fractary")
    assert a.must("sync", "pull", RUN)["result"] == "created"


def test_a_ref_deleted_at_the_remote_is_made_again(a: Clone, bare: Path) -> None:
    """What was deleted there comes back whole with the next push."""
    subprocess.run(["git", "-C", bare, "update-ref", "-d", REF], check=True)
    work(a, "Still here")
    assert a.must("sync", "push", RUN)["events"] == len(a.events())


@pytest.mark.parametrize("count", [5, pytest.param(10, marks=pytest.mark.full)])
def test_answers_at_once(a: Clone, b: Clone, count: int) -> None:
    """Clones answer one request and push at the same moment: one answer decides, all are in everybody's history."""
    ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    machines = [Clone(Path(shutil.copytree(b.path, b.path.with_name(f"m{number}")))) for number in range(count)]
    for number, machine in enumerate(machines):
        machine.must(
            "feedback", "respond", RUN, "approve" if number % 2 else "reject", "--comment", f"machine {number}"
        )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_AUTHOR", "FABER_"))}
    started = [
        subprocess.Popen(
            [sys.executable, "-I", MAIN, "sync", "push", RUN, "--merge"],
            cwd=machine.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for machine in machines
    ]
    said = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    assert [entry.get("result") for entry in said] == ["pushed"] * count, said
    for machine in (a, machines[0], machines[-1]):
        machine.must("sync", "pull", RUN, "--merge")
        (request,) = machine.must("feedback", "history", RUN)["requests"]
        assert sorted(answer["comment"] for answer in request["answers"]) == [f"machine {n}" for n in range(count)]
        assert [answer["counted"] for answer in request["answers"]] == [True] + [False] * (count - 1)
        assert machine.must("doctor", RUN)["healthy"] is True
    assert a.events() == machines[0].events() == machines[-1].events()
