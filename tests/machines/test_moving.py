"""Runs that move between clones of one repository, through a bare one, with real git."""

import json
import os
from typing import Any

import pytest

from faber.store import strictjson
from machines.clones import MAIN, REF, RUN, Clone, MakeClone, ask, work


def test_a_run_arrives_as_it_is(a: Clone, b: Clone) -> None:
    """The other machine has the same events, frame, state and summaries, byte for byte."""
    assert b.events() == a.events()
    for name in ("metadata.json", "plan.json", "state.json"):
        assert (b.run_dir / name).read_bytes() == (a.run_dir / name).read_bytes()
    (summary,) = (a.run_dir / "session-summaries").iterdir()
    assert (b.run_dir / "session-summaries" / summary.name).read_bytes() == summary.read_bytes()
    assert b.must("doctor", RUN)["healthy"] is True
    assert b.relation() == a.relation() == "equal"


# What is this machine's own: when it was asked, and where the branch is checked out.
MACHINE_LOCAL = {("generated_at",), ("branch", "worktree"), ("branch", "checked_out"), ("branch", "dirty_files")}
MACHINE_LOCAL |= {("branch", "dirty_count"), ("branch", "shallow")}


def differing(one: Any, other: Any, at: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The places at which two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        return {place for key in one for place in differing(one[key], other[key], (*at, key))}
    return set() if one == other else {at}


def test_the_context_is_the_same_there(a: Clone, b: Clone) -> None:
    """Every field of the context but the machine-local ones is the same on the machine that pulled."""
    asked = ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    here, there = (machine.must("context", RUN, "--full") for machine in (a, b))
    assert there["feedback_request"]["request_id"] == asked
    assert differing(here, there) <= MACHINE_LOCAL
    assert ("generated_at",) in differing(here, there)
    documentation = (MAIN.parents[2] / "docs" / "sync.md").read_text()
    for place in MACHINE_LOCAL:
        assert f"`{'.'.join(place)}`" in documentation


def test_a_work_item_comes_along(a: Clone, clone: MakeClone) -> None:
    """The work item as last fetched travels, so that the context has it where nobody can ask for it."""
    item = {"id": "7", "title": "Carts", "fetched_at": "2026-01-01T00:00:00Z", "body": "use ghp_" + "a" * 36}
    (a.run_dir / "work-item.json").write_bytes(strictjson.dumps(item))
    work(a, "Take the short way")
    a.must("sync", "push", RUN)
    c = clone("c")
    c.must("sync", "pull", RUN)
    assert json.loads((c.run_dir / "work-item.json").read_text()) == {**item, "body": "use [REDACTED]"}


def test_an_answer_travels_and_the_run_goes_on(a: Clone, b: Clone) -> None:
    """A asks and pushes, B answers and goes on and pushes, A pulls and has all of it, its key of a command included."""
    ask(a)
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    b.must("feedback", "respond", RUN, "approve", "--comment", "Go")
    b.must("step", "complete", RUN, "frame:fetch-work", "--key", "done")
    b.must("sync", "push", RUN)
    pulled = a.must("sync", "pull", RUN)
    assert (pulled["result"], pulled["events"]) == ("pulled", 2)
    assert a.events() == b.events()
    again = a.must("step", "complete", RUN, "frame:fetch-work", "--key", "done")
    assert again["repeated"] is True
    assert a.must("doctor", RUN)["healthy"] is True


def test_nothing_new_is_nothing_pushed(a: Clone) -> None:
    """A second push makes no commit."""
    before = a.git("ls-remote", "origin", REF)
    assert a.must("sync", "push", RUN)["result"] == "equal"
    assert a.git("ls-remote", "origin", REF) == before


def test_one_commit_a_push(a: Clone) -> None:
    """Each push is one commit upon the last; its tree is the run directory without what is the machine's own."""
    work(a, "One table")
    a.must("sync", "push", RUN)
    a.git("fetch", "-q", "origin", f"{REF}:refs/check")
    assert a.git("rev-list", "--count", "refs/check") == "2"
    assert a.git("show", "refs/check~1:metadata.json") == (a.run_dir / "metadata.json").read_text().strip()
    listed = set(a.git("ls-tree", "-r", "--name-only", "refs/check").splitlines())
    local = {str(file.relative_to(a.run_dir)) for file in a.run_dir.rglob("*") if file.is_file()}
    assert local - listed == {"lock", *(path for path in local if path.startswith("keys/"))}
    assert listed <= local


def test_no_tree_no_index_no_branch_is_touched(a: Clone) -> None:
    """A push leaves the index, the working tree, HEAD, branches, tags and the ignored store as they are."""
    (a.path / "one.txt").write_text("changed, not staged")
    (a.path / "staged.txt").write_text("x")
    a.git("add", "staged.txt")
    before = (a.git("status", "--porcelain=v2", "--branch"), a.git("for-each-ref", "refs/heads", "refs/tags"))
    work(a, "One table")
    a.must("sync", "push", RUN)
    assert (a.git("status", "--porcelain=v2", "--branch"), a.git("for-each-ref", "refs/heads", "refs/tags")) == before
    assert a.git("check-ignore", str(a.run_dir / "state.json"))
    assert a.git("for-each-ref", "refs/faber/outgoing") == ""


def test_a_push_needs_no_identity(a: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name in git's configuration the commit is faber's; with one it is that person's."""
    for name in [key for key in os.environ if key.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))]:
        monkeypatch.delenv(name)
    commit = a.git("rev-parse", f"refs/faber/synced/origin/runs/{RUN}")
    assert a.git("log", "-1", "--format=%an <%ae>", commit) == "faber <faber@localhost>"
    a.git("config", "user.name", "Ada <b>")
    work(a, "One table")
    assert a.git("log", "-1", "--format=%an", a.must("sync", "push", RUN)["commit"]) == "Ada b"


def test_latest_and_parts_of_an_id(a: Clone, clone: MakeClone) -> None:
    """Without RUN it is `latest`; a part of an id is looked for here, then at the remote."""
    assert a.must("sync", "push")["run_id"] == RUN
    c = clone("c")
    assert c.must("sync", "pull", "shop")["run_id"] == RUN
    assert c.must("sync", "pull")["result"] == "equal"
    assert clone("d").faber("sync", "pull", "nowhere").error["code"] == "run_not_found"
    assert clone("e").faber("sync", "pull", "acme/shop/two").error["code"] == "run_not_found"


def test_all_runs_at_once(a: Clone, clone: MakeClone) -> None:
    """--all pushes every run and pulls every run; one that fails does not keep the others."""
    a.must("run", "init", "--run-id", "other")
    a.must("run", "init", "--run-id", "third")
    a.must("event", "emit", "other", "--type", "checkpoint")
    a.must("event", "emit", "third", "--type", "branch_create", "--metadata", '{"branch": "not-there"}')
    pushed = a.faber("sync", "push", "--all")
    assert pushed.status == 4
    results = {entry["run_id"]: entry.get("error", {}).get("code", entry["result"]) for entry in pushed.json["runs"]}
    assert results == {RUN: "equal", "other": "created", "third": "branch_not_pushable"}
    c = clone("c")
    assert {entry["run_id"] for entry in c.must("sync", "pull", "--all")["runs"]} == {RUN, "other"}
    status = a.must("sync", "status", "--all")
    assert {entry["run_id"]: entry["relation"] for entry in status["runs"]} == {
        RUN: "equal",
        "other": "equal",
        "third": "local_only",
    }
    assert a.faber("sync", "pull", RUN, "--all").status == 2
