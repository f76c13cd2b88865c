"""Runs that move between clones of one repository, through a bare one, with real git."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from faber.model.reducer import fold
from faber.store import strict_json
from faber.store.layout import Layout
from faber.store.load import load
from faber.sync import branches, pull, remotes
from faber.sync.remotes import Remote
from sync.clones import MACHINE_LOCAL, MAIN, REF, RUN, Clone, MakeClone, ask, differing, work


def test_a_run_arrives_as_it_is(a: Clone, b: Clone) -> None:
    """The other machine has the same events, frame, state and summaries, byte for byte."""
    assert b.events() == a.events()
    for name in ("metadata.json", "plan.json", "state.json"):
        assert (b.run_dir / name).read_bytes() == (a.run_dir / name).read_bytes()
    (summary,) = (a.run_dir / "session-summaries").iterdir()
    assert (b.run_dir / "session-summaries" / summary.name).read_bytes() == summary.read_bytes()
    assert b.must("doctor", RUN)["healthy"] is True
    assert b.relation() == a.relation() == "equal"


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


def told(machine: Clone) -> str:
    """What a session that starts there is told."""
    given = json.dumps({"session_id": "s", "cwd": str(machine.path), "source": "startup"}).encode()
    hook = MAIN.parent / "hooks" / "__main__.py"
    done = subprocess.run([sys.executable, str(hook), "session-start"], input=given, capture_output=True, check=True)
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


@pytest.mark.parametrize("branch", ["here", "not at the remote"])
def test_a_pulled_run_is_announced(
    a: Clone, clone: MakeClone, bare: Path, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    """A session in the worktree that a run was pulled into is told of it, although its branch is not checked out, or
    did not come along."""
    if branch != "here":
        subprocess.run(["git", "-C", str(bare), "update-ref", "-d", "refs/heads/feat/7"], check=True)
    c = clone("c")
    monkeypatch.chdir(c.path)
    assert told(c) == ""
    assert c.must("sync", "pull", RUN)["result"] == "created"
    assert f"an unfinished run belongs to this session: {RUN}" in told(c)
    assert "ELSEWHERE: the run's branch feat/7 is not checked out anywhere (here is main)" in told(c)


@pytest.mark.parametrize(
    ("machine", "module", "results"),
    [("c", pull, ("equal", "equal")), ("b", branches, ("pulled", "forwarded"))],
)
def test_two_pulls_at_once_do_the_same(
    a: Clone,
    b: Clone,
    c: Clone,
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    module: ModuleType,
    results: tuple[str, str],
) -> None:
    """A pull that another one overtakes finds everything as it should be, and asks a person for nothing."""
    there = {"b": b, "c": c}[machine]
    commit = a.commit("two.txt")
    work(a, "And on")
    a.must("sync", "push", RUN)
    overtaken: list[bool] = []

    def fetch(remote: Remote, wanted: Iterable[tuple[str, str]]) -> None:
        overtaken.append(True)
        if len(overtaken) == 1:
            there.must("sync", "pull", RUN)
        remotes.fetch(remote, wanted)

    monkeypatch.setattr(module, "fetch", fetch)
    answer = there.must("sync", "pull", RUN)
    assert overtaken
    assert (answer["result"], answer["branch"]["result"]) == results
    assert there.git("rev-parse", f"refs/heads/{answer['branch']['branch']}") == commit


def test_many_pulled_runs_are_not_announced(a: Clone, clone: MakeClone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `pull --all` a session is told only if one run came: several may be everybody's."""
    c, d = clone("c"), clone("d")
    monkeypatch.chdir(c.path)
    c.must("sync", "pull", "--all")
    assert RUN in told(c)
    a.must("run", "init", "--run-id", "acme/shop/two")
    a.must("sync", "push", "acme/shop/two")
    monkeypatch.chdir(d.path)
    assert len(d.must("sync", "pull", "--all")["runs"]) == 2
    assert told(d) == ""


def test_a_work_item_comes_along(a: Clone, clone: MakeClone) -> None:
    """The work item as last fetched travels, so that the context has it where nobody can ask for it."""
    item = {"id": "7", "title": "Carts", "fetched_at": "2026-01-01T00:00:00Z", "body": "use ghp_" + "a" * 36}
    (a.run_dir / "work-item.json").write_bytes(strict_json.dumps(item))
    work(a, "Take the short way")
    a.must("sync", "push", RUN)
    c = clone("c")
    c.must("sync", "pull", RUN)
    assert json.loads((c.run_dir / "work-item.json").read_text()) == {**item, "body": "use [REDACTED]"}


def test_an_answer_travels_and_the_run_goes_on(a: Clone, b: Clone) -> None:
    """A asks and pushes; B answers, continues and pushes; A pulls and has all of it, its key of a command included."""
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


def test_a_pulled_run_waits_for_no_session_of_another_machine(
    a: Clone, b: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was handed over by push and pull is taken at once there; where its holder works, others wait."""

    def asked(machine: Clone, name: str) -> object:
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", name)
        machine.must("context", RUN, "--record", "--no-fetch")
        return machine.must("next", RUN, "--peek")["action"]

    assert asked(a, "one") == "step"
    a.must("next", RUN)
    assert asked(a, "two") == "wait"
    a.must("sync", "push", RUN)
    b.must("sync", "pull", RUN)
    assert asked(b, "three") == "step"
    b.must("next", RUN)
    assert asked(b, "four") == "wait"
    assert asked(a, "two") == "wait"


def test_an_answer_that_is_pulled_leaves_the_holder(a: Clone, b: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull that brings an answer to the machine on which a session works takes the run from nobody."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "one")
    a.must("context", RUN, "--record", "--no-fetch")
    a.must("next", RUN)
    ask(a)
    a.must("sync", "push", RUN)
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    b.must("sync", "pull", RUN)
    b.must("feedback", "respond", RUN, "approve")
    b.must("sync", "push", RUN)
    assert a.must("sync", "pull", RUN)["result"] == "pulled"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "two")
    a.must("context", RUN, "--record", "--no-fetch")
    assert a.must("next", RUN, "--peek")["action"] == "wait"


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


def lengthen(machine: Clone, events: int) -> None:
    """Bring the run to that many events, written in bulk as faber would have written them."""
    run = load(Layout(str(machine.path)), RUN)
    state, made = run.state, []
    for event_id in range(state["last_event_id"] + 1, events):
        event: Any = {"schema_version": 1, "event_id": event_id, "type": "checkpoint", "run_id": RUN}
        event |= {"timestamp": "2026-01-01T00:00:00.000Z", "message": f"Number {event_id}"}
        (machine.run_dir / "events" / f"{event_id:06d}-checkpoint.json").write_bytes(strict_json.dumps(event))
        made.append(event)
    (machine.run_dir / "state.json").write_bytes(strict_json.dumps(fold(state, made)))
    work(machine, "The last one")


@pytest.mark.parametrize("events", [1_500, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_long_run_travels_and_one_event_more_is_small(a: Clone, b: Clone, events: int) -> None:
    """A long run arrives whole, at once; one event more sends a handful of objects and reads no old event again."""
    lengthen(a, events)
    a.must("sync", "push", RUN)
    assert b.must("sync", "pull", RUN)["last_event_id"] == events
    assert b.events() == a.events()
    assert len(b.events()) == events
    old = a.git("rev-parse", f"refs/faber/synced/origin/runs/{RUN}")
    for name, _ in a.events()[:-1]:
        (a.run_dir / "events" / name).chmod(0)
    if os.geteuid() == 0:  # who may read anything must not find it
        (a.run_dir / "events" / a.events()[5][0]).write_text("{}")
    work(a, "One more")
    new = a.must("sync", "push", RUN)["commit"]
    sent = a.git("rev-list", "--objects", new, f"^{old}").splitlines()
    assert {line.partition(" ")[2].partition("/")[0] for line in sent} == {"", "events", "state.json"}
    assert len(sent) == 5  # the commit, two trees, the event, the state
    pack = subprocess.run(
        ["git", "-C", a.path, "pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q"],
        input=f"{new}\n^{old}\n".encode(),
        check=True,
        capture_output=True,
    )
    assert len(pack.stdout) < 4_000
    assert b.must("sync", "pull", RUN)["events"] == 1


def test_a_persons_own_hook_has_a_say(a: Clone) -> None:
    """The `pre-push` hook of the clone runs for the branch; where it refuses, nothing is pushed."""
    hook = a.path / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'Not on a Friday' >&2; exit 1\n")
    hook.chmod(0o755)
    work(a, "More")
    before = a.git("ls-remote", "origin")
    refused = a.faber("sync", "push", RUN)
    assert (refused.status, refused.error["code"]) == (1, "sync_failed")
    assert a.git("ls-remote", "origin") == before


def test_a_sync_starts_few_gits(a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start of git takes longer than what it answers, and each `fetch` connects once more: what is here already
    is not fetched."""
    log = tmp_path / "log"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f'#!/bin/sh\necho "$*" >>"{log}"\nexec "{shutil.which("git")}" "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    a.commit("two.txt")
    work(a, "And on")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for machine, way, most, fetches in ((a, "push", 6, 0), (b, "pull", 13, 2), (b, "pull", 9, 0)):
        log.write_text("")
        machine.must("sync", way, RUN)
        words = [line.split() for line in log.read_text().splitlines()]
        assert (len(words) <= most, sum("fetch" in each for each in words)) == (True, fetches), words
