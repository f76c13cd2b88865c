"""A nebula's run from beginning to end, with real git and agents that do what a test wrote down."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from faber.agents.environment import agent_environment
from faber.agents.outcome import Outcome, TurnResult
from faber.errors import Exit
from faber.nebula.run.unfinished import NebulaUnfinished
from faber.store.load import load
from support.nebulas import DIAMOND, Author, Project, nebula_files
from support.repositories import git, write

pytestmark = pytest.mark.usefixtures("git_user")


ALL = sorted(f"{name}.txt" for name in DIAMOND)


def integration(applied: Any) -> str:
    """The branch that everything came together on."""
    return str(applied.report["branch"])


def test_a_nebula_is_worked_through(tmp_path: Path) -> None:
    """Every phase is done once, after what it waits for; the integration branch has all their work, main has none."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND)), Author()
    applied = project.apply(author)
    assert (applied.status, applied.exit_code) == ("done", Exit.OK)
    assert sorted(author.asked) == sorted((role, name) for name in DIAMOND for role in ("coder", "reviewer"))
    order = [name for role, name in author.asked if role == "coder"]
    assert all(order.index(needed) < order.index(name) for name, waits in DIAMOND.items() for needed in waits)
    assert [name for name in project.files(integration(applied)) if name.endswith(".txt")] == ALL
    assert project.files("main") == [".gitignore", "README.md"]
    assert project.left() == ["nebula.state.toml"]
    state = load(project.layout, applied.report["run_id"]).state
    assert state["status"] == "completed"
    assert {phase["status"] for phase in state["nebula"]["phases"].values()} == {"done"}
    assert git(project.root, "status", "--porcelain", "--", ":!plan") == ""


def trees(project: Project) -> list[str]:
    """The names of the worktrees that are there, without those in which merges are checked."""
    return sorted(path.name for path in project.root.glob(".fractary/faber/worktrees/*/*/*/[a-z]*"))


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    """Applying a nebula that is done does nothing and says so."""
    project = Project(tmp_path / "p", nebula_files({"a": []}))
    project.apply(Author())
    again = Author()
    assert project.apply(again).status == "done"
    assert again.asked == []


def test_a_failed_phase_stops_only_what_waits_for_it(tmp_path: Path) -> None:
    """b fails: d is skipped by name; a, c, e and f are done. Retried, b and d are done and nothing else again. A failed
    phase keeps its worktree, a merged one does not."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND)), Author()
    crash = lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)  # noqa: E731
    author.deeds["b"] = [crash, crash]
    applied = project.apply(author)
    assert (applied.status, applied.exit_code) == ("failed", Exit.UNFINISHED)
    statuses = {name: phase["status"] for name, phase in applied.report["phases"].items()}
    assert statuses == {"a": "done", "b": "failed", "c": "done", "d": "skipped", "e": "done", "f": "done"}
    assert any("d: skipped: it depends on b" in line for line in project.said)
    assert trees(project) == ["b"]
    with pytest.raises(NebulaUnfinished):
        project.apply(Author())
    assert project.apply(Author(), resume=True).status == "failed"
    again = Author()
    assert project.apply(again, resume=True, retry_failed=True).status == "done"
    assert [name for _, name in again.asked] == ["b", "b", "d", "d"]
    assert trees(project) == []
    assert git(project.root, "worktree", "list").count("\n") == 0
    assert project.left() == ["nebula.state.toml"]


def test_never_more_workers_than_wanted(tmp_path: Path) -> None:
    """With three workers and six free phases, three work at once and never four. A phase's agents, filters and setup
    find one FABER_SLOT, from 0 to 2, which no other phase at work has; a slot is used again."""
    told = tmp_path / "told"
    manifest = f"""[execution]\nsetup = "echo setup $(basename $PWD) $FABER_SLOT >> {told}"
[[filter]]\nname = "tells"\ncommand = "echo filter $(basename $PWD) $FABER_SLOT >> {told}"\n"""
    project, author = Project(tmp_path / "p", nebula_files({f"p{n}": [] for n in range(6)}, manifest)), Author()
    working, most, lock = set[str](), [0], threading.Lock()
    three = threading.Barrier(3)

    def before(role: str, phase: str) -> None:
        with lock:
            working.add(phase) if role == "coder" else working.discard(phase)
            most[0] = max(most[0], len(working))
            with told.open("a") as file:
                file.write(f"{role} {phase} {agent_environment({}, {}, '')['FABER_SLOT']}\n")
        if role == "coder":
            three.wait(30)

    author.before = before
    assert project.apply(author, max_workers=3).status == "done"
    assert most[0] == 3
    lines = [line.split() for line in told.read_text().splitlines()]
    slots = {where: {slot for _, place, slot in lines if place == where} for _, where, _ in lines if where[0] == "p"}
    assert len(slots) == 6
    assert all(len(found) == 1 for found in slots.values())
    turns = [slot for role, _, slot in lines if role == "coder"]
    assert [set(turns[:3]), set(turns[3:])] == [{"0", "1", "2"}] * 2


def test_the_runs_budget_is_a_cap(tmp_path: Path) -> None:
    """Eight workers together spend no more than the run may; the rest fails for its budget."""
    phases: dict[str, list[str]] = {f"p{n}": [] for n in range(8)}
    project, author = Project(tmp_path / "p", nebula_files(phases)), Author(cost=0.3)
    applied = project.apply(author, max_workers=8, max_budget_usd=2.0)
    assert applied.status == "failed"
    assert applied.report["cost_usd"] <= 2.0 + 1e-6
    reasons = {phase.get("reason", "") for phase in applied.report["phases"].values() if phase["status"] == "failed"}
    assert reasons
    assert all("The run has spent" in reason for reason in reasons)


def test_a_merge_conflict_is_solved_by_the_coder(tmp_path: Path) -> None:
    """Two phases change one line: the second's coder gets the conflict, and both lines come together."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": []})), Author()
    both = threading.Barrier(2)

    def first(text: str) -> Any:
        def deed(path: Path, prompt: str) -> None:
            both.wait(30)
            write(path, {"README.md": text})

        return deed

    def solve(path: Path, prompt: str) -> None:
        assert "README.md" in prompt
        write(path, {"README.md": "a and b\n"})

    author.deeds = {"a": [first("a\n"), solve], "b": [first("b\n"), solve]}
    applied = project.apply(author, max_workers=2)
    assert applied.status == "done"
    assert git(project.root, "show", f"{integration(applied)}:README.md") == "a and b"


def test_a_merge_conflict_that_stays_fails_the_phase(tmp_path: Path) -> None:
    """A coder that cannot solve it fails its phase; what was merged stays merged."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": []})), Author()
    both = threading.Barrier(2)

    def first(text: str) -> Any:
        def deed(path: Path, prompt: str) -> None:
            both.wait(30)
            write(path, {"README.md": text})

        return deed

    nothing = lambda path, prompt: "I could not."  # noqa: E731
    author.deeds = {"a": [first("a\n"), nothing], "b": [first("b\n"), nothing]}
    applied = project.apply(author, max_workers=2)
    assert sorted(phase["status"] for phase in applied.report["phases"].values()) == ["done", "failed"]
    assert git(project.root, "show", f"{integration(applied)}:README.md") in ("a", "b")


def test_filters_run_again_on_a_merge_that_is_another_tree(tmp_path: Path) -> None:
    """Two phases that are fine alone and not together: the second's coder is sent back with the filter's output."""
    manifest = (
        '[[filter]]\nname = "one only"\ncommand = "test $(ls *.txt | wc -l) -le 1 || { echo too many; false; }"\n'
    )
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": []}, manifest)), Author()
    both = threading.Barrier(2)

    def deed(name: str) -> Any:
        def write_it(path: Path, prompt: str) -> None:
            both.wait(30)
            write(path, {f"{name}.txt": name})

        return write_it

    def mend(path: Path, prompt: str) -> None:
        assert "too many" in prompt
        for file in sorted(path.glob("*.txt"))[1:]:
            file.unlink()

    author.deeds = {"a": [deed("a"), mend], "b": [deed("b"), mend]}
    assert project.apply(author, max_workers=2).status == "done"


def test_setup_runs_once_in_each_worktree(tmp_path: Path) -> None:
    """`setup` is there before the coder, once a worktree; one that fails fails the phase."""
    manifest = '[execution]\nsetup = "echo x >> ../../../../../setups; echo dep > .dep"\nmax_workers = 1\n'
    files = nebula_files({"a": [], "b": ["a"]}, manifest) | {".gitignore": "/.fractary/\n.dep\n"}
    project, author = Project(tmp_path / "p", files), Author()
    author.deeds["a"] = [lambda path, prompt: (write(path, {"a.txt": (path / ".dep").read_text()}), None)[1]]
    assert project.apply(author).status == "done"
    files = nebula_files({"a": []}, '[execution]\nsetup = "echo no network; exit 7"\n')
    applied = Project(tmp_path / "q", files).apply(Author())
    assert "no network" in applied.report["phases"]["a"]["reason"]


def test_a_gate_waits_for_a_person(tmp_path: Path) -> None:
    """With the gate `review` nothing is merged until a person approves; the others continue meanwhile."""
    from faber.feedback.requests import respond
    from faber.store.commit import commit

    project, author = (
        Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"], "c": []}, c={"gate": "trust"})),
        Author(),
    )
    applied = project.apply(author, gate="review")
    assert (applied.status, applied.exit_code) == ("waiting", Exit.PERSON_NEEDED)
    assert sorted(each["phase"] for each in applied.report["waiting"]) == ["a", "c"]
    run_id = applied.report["run_id"]
    assert load(project.layout, run_id).state["status"] == "awaiting_feedback"
    assert project.files(integration(applied)) == [".gitignore", "README.md"]
    requests = {each["phase"]: each["request_id"] for each in applied.report["waiting"]}
    responder: Any = {"name": "A", "source": "terminal", "url": None, "comment_id": None}

    def answer(request_id: str, response: str, comment: str | None = None) -> None:
        commit(
            project.layout,
            run_id,
            lambda state, plan: respond(
                state, plan, request_id=request_id, response=response, comment=comment, responder=responder
            ),
        )

    answer(requests["a"], "approve")
    answer(requests["c"], "request_changes", "Say c twice.")
    second = Author()
    second.deeds["c"] = [lambda path, prompt: write(path, {"c.txt": "c c\n"})]
    applied = project.apply(second, resume=True, gate="review")
    assert applied.status == "waiting"
    assert [name for role, name in second.asked if role == "coder"].count("a") == 0
    assert any("Say c twice." in prompt for prompt in second.prompts)
    assert "a.txt" in project.files(integration(applied))
    for each in applied.report["waiting"]:
        answer(each["request_id"], "approve")
    last = Author()
    applied = project.apply(last, resume=True, gate="review")
    assert applied.status == "done", "\n".join(project.said)
    assert (project.root / "plan").is_dir()
    assert last.asked == []


def test_a_person_is_asked_again_where_nothing_changed(tmp_path: Path) -> None:
    """A coder that changes nothing for a person, and is approved, does not get the same answer again and again."""
    project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
    first = project.apply(author, gate="review").report["waiting"][0]["request_id"]
    project.answer(first, "request_changes", "Better, please.")
    author.asked.clear()
    author.before = lambda role, phase: project.cancel.set() if len(author.asked) > 4 else None
    again = project.apply(author, resume=True, gate="review")
    assert again.status == "waiting"
    assert again.report["waiting"][0]["request_id"] != first
    assert author.asked == [("coder", "a"), ("reviewer", "a")]


def test_a_rejected_phase_fails(tmp_path: Path) -> None:
    """A person who rejects ends the phase, with the reason that was given."""
    from faber.feedback.requests import respond
    from faber.store.commit import commit

    project = Project(tmp_path / "p", nebula_files({"a": []}))
    applied = project.apply(Author(), gate="review")
    responder: Any = {"name": "A", "source": "terminal", "url": None, "comment_id": None}
    commit(
        project.layout,
        applied.report["run_id"],
        lambda state, plan: respond(
            state, plan, request_id=None, response="reject", comment="Not like this", responder=responder
        ),
    )
    applied = project.apply(Author(), resume=True, gate="review")
    assert applied.status == "failed"
    assert "Not like this" in applied.report["phases"]["a"]["reason"]


def test_the_plan_too_waits_for_a_person(tmp_path: Path) -> None:
    """With the gate `approve` nothing begins before the plan is approved."""
    project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
    applied = project.apply(author, gate="approve")
    assert (applied.status, author.asked) == ("waiting", [])
    assert applied.report["waiting"][0]["phase"] is None


def test_cancelled_and_resumed(tmp_path: Path) -> None:
    """Stopped in the middle: no new phase begins, exit 130; resumed, nothing that was finished is done again."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND)), Author()

    def before(role: str, phase: str) -> None:
        if (role, phase) == ("reviewer", "b"):
            project.cancel.set()

    author.before = before
    applied = project.apply(author, max_workers=1)
    assert (applied.status, applied.exit_code) == ("cancelled", Exit.INTERRUPTED)
    project.cancel = threading.Event()
    again = Author()
    assert project.apply(again, resume=True).status == "done"
    assert ("coder", "b") not in again.asked
    assert ("coder", "a") not in again.asked


def test_without_resume_nothing_is_read_or_altered(tmp_path: Path) -> None:
    """An unfinished run is refused, its checkpoint stays byte for byte; with --fresh it is kept aside."""
    project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
    author.before = lambda role, phase: project.cancel.set() if role == "reviewer" else None
    first = project.apply(author)
    project.cancel = threading.Event()
    checkpoint = Path(project.directory, "checkpoint.a.toml")
    before = checkpoint.read_bytes()
    with pytest.raises(NebulaUnfinished) as raised:
        project.apply(Author())
    assert raised.value.exit_code == Exit.REFUSED
    assert "--resume" in raised.value.recovery
    assert "--fresh" in raised.value.recovery
    assert checkpoint.read_bytes() == before
    fresh = project.apply(Author(), fresh=True)
    assert fresh.status == "done"
    assert fresh.report["run_id"] != first.report["run_id"]
    parked = Path(project.layout.run_dir(first.report["run_id"]), "parked")
    assert [path.read_bytes() for path in parked.iterdir()] == [before]
    assert git(project.root, "rev-parse", first.report["phases"]["a"]["branch"])


def test_an_invalid_checkpoint_is_parked(tmp_path: Path) -> None:
    """Garbage for a checkpoint: a warning, the file set aside, and the phase restarts from its commits."""
    project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
    author.before = lambda role, phase: project.cancel.set() if role == "reviewer" else None
    first = project.apply(author)
    project.cancel = threading.Event()
    Path(project.directory, "checkpoint.a.toml").write_text("no checkpoint")
    again = Author()
    assert project.apply(again, resume=True).status == "done"
    assert again.asked == [("coder", "a"), ("reviewer", "a")]
    assert "An earlier attempt was abandoned" in again.prompts[0]
    assert any("starts over" in line for line in project.said)
    parked = Path(project.layout.run_dir(first.report["run_id"]), "parked")
    assert [path.read_text() for path in parked.iterdir()] == ["no checkpoint"]


def test_edited_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file is no phase of the run; that is said, and the next --resume takes it in."""
    monkeypatch.setattr("faber.nebula.run.file_watch.LOOKS", 0.0)
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
    from support.nebulas import phase_file

    author.before = lambda role, phase: (
        Path(project.directory, "new.md").write_text(phase_file("new", [])) and None if phase == "a" else None
    )
    applied = project.apply(author)
    assert "new" not in applied.report["phases"]
    assert any("new.md is new" in line for line in project.said)


def test_isolation_tree(tmp_path: Path) -> None:
    """One worker in the person's own tree, which is left as it was; the work there is not said to be elsewhere."""
    project, author = (
        Project(
            tmp_path / "p", nebula_files({"a": [], "b": ["a"]}, '[execution]\nisolation = "tree"\nmax_workers = 1\n')
        ),
        Author(),
    )
    applied = project.apply(author)
    assert applied.status == "done"
    assert "Changed outside" not in "\n".join(project.said)
    assert git(project.root, "branch", "--show-current") == "main"
    assert {"a.txt", "b.txt"} <= set(project.files(integration(applied)))


def test_half_written_files_of_a_killed_run_go(tmp_path: Path) -> None:
    """What a kill left of a checkpoint or the state file that was being written is gone after the next run."""
    project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
    author.before = lambda role, phase: project.cancel.set() if role == "reviewer" else None
    project.apply(author)
    project.cancel = threading.Event()
    for name in (".checkpoint.a.toml.123.0a1b2c3d.tmp", ".nebula.state.toml.123.0a1b2c3d.tmp", ".mine.tmp"):
        Path(project.directory, name).write_text("half")
    assert project.apply(Author(), resume=True).status == "done"
    assert project.left() == [".mine.tmp", "nebula.state.toml"]


def test_one_phase_starts_few_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its worktree to its merge, a nebula of one phase starts git at most forty times."""
    project, programs, log = Project(tmp_path / "p", nebula_files({"a": []})), tmp_path / "bin", tmp_path / "log"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {shutil.which("git")} "$@"\n')
    (programs / "git").chmod(0o755)
    with monkeypatch.context() as shimmed:
        shimmed.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        assert project.apply(Author()).status == "done"
    assert 0 < len(log.read_text().splitlines()) <= 40
