"""What may go wrong around a nebula's run: branches that moved, files that changed, disks and agents that fail."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import Outcome, TurnResult
from faber.errors import Exit
from faber.git.git_errors import NoRepository
from faber.nebula.phase import door
from faber.nebula.plan.state_file import load_state
from faber.nebula.worktrees.tree_errors import RepositoryUnusable, TreeInUse
from faber.store.load import load
from faber.store.log import after
from faber.store.store_errors import StoreUnwritable
from support.nebulas import Author, Project, nebula_files, phase_file
from support.repositories import commit, git, write
from support.scripted_agents import writes

pytestmark = pytest.mark.usefixtures("git_user")
OBJECTION = {"severity": "major", "description": "More.", "file": "a.txt", "line": 1}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume waits for the rest of a pause: for nothing here."""
    monkeypatch.setattr(door, "FIRST_PAUSE", 0.01)


class Stopped:
    """A nebula of one phase, stopped while the reviewer of `cycle` worked; `tree` is the phase's."""

    def __init__(self, path: Path, cycle: int = 1) -> None:
        self.project, self.author = Project(path, nebula_files({"a": []})), Author()
        objection = {"severity": "major", "description": "Better, please", "file": "a.txt", "line": 1}
        self.author.verdicts["a"] = [{"verdict": "not_approved", "findings": [objection]}] * (cycle - 1)
        self.author.verdicts["a"] += [{"verdict": "approved"}]
        self.author.deeds["a"] = [lambda tree, prompt, n=n: write(tree, {"a.txt": f"a {n}\n"}) for n in range(cycle)]
        reviews = [0]

        def before(role: str, phase: str) -> None:
            reviews[0] += role == "reviewer"
            if reviews[0] == cycle:
                self.project.cancel.set()

        self.author.before = before
        self.first = self.project.apply(self.author).report
        self.project.cancel = threading.Event()
        self.tree = Path(self.project.layout.worktree(self.first["run_id"], "a"))
        self.checkpoint = Path(self.project.directory, "checkpoint.a.toml")
        assert self.checkpoint.is_file()

    def resume(self, **wanted: Any) -> tuple[list[str], list[str], str]:
        """The roles asked, the verdicts recorded, and what was said; the run is then done and leaves nothing."""
        again, since = Author(), load(self.project.layout, self.first["run_id"]).state["last_event_id"]
        self.project.said.clear()
        applied = self.project.apply(again, resume=True, **wanted)
        assert applied.status == "done", self.project.said
        assert self.project.left() == ["nebula.state.toml"]
        events = after(self.project.layout.run_dir(self.first["run_id"]), since)
        verdicts = [event["metadata"]["verdict"] for event in events if event["type"] == "checkpoint_verdict"]
        self.prompts = again.prompts
        return [role for role, _ in again.asked], verdicts, "\n".join(self.project.said)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("moved", "wanted", "roles", "verdict", "words"),
        [
            (lambda tree: None, {}, ["reviewer"], "same", "a resumes: the branch is at the checkpoint's commit"),
            (lambda tree: commit(tree, {"x": "1"}), {}, ["coder", "reviewer"], "ahead_others", "a starts over: 1 of"),
            (lambda tree: commit(tree, {"x": "1"}), {"force": True}, ["reviewer"], "ahead_others", "a resumes: 1 of 1"),
            (
                lambda tree: git(tree, "commit", "-q", "--amend", "-m", "other"),
                {},
                ["coder", "reviewer"],
                "diverged",
                "a starts over: the checkpoint's commit",
            ),
            (
                lambda tree: git(tree, "commit", "-q", "--amend", "-m", "other"),
                {"force": True},
                ["coder", "reviewer"],
                "diverged",
                "is not in the history",
            ),
            (
                lambda tree: write(tree, {"half.txt": "half"}),
                {},
                ["reviewer"],
                "dirty",
                "uncommitted work is kept at refs/faber/parked/",
            ),
        ],
        ids=["same", "others", "others-forced", "diverged", "diverged-forced", "dirty"],
    )
    def test_each_is_obeyed_recorded_and_shown(
        self, tmp_path: Path, moved: Callable[[Path], Any], wanted: Any, roles: list[str], verdict: str, words: str
    ) -> None:
        """What a resume does with a branch that stands so, what the log says of it, and what a person is told."""
        stopped = Stopped(tmp_path / "p")
        moved(stopped.tree)
        asked, verdicts, said = stopped.resume(**wanted)
        assert (asked, verdicts) == (roles, [verdict])
        assert words in said
        every = git(stopped.project.root, "log", "--all", "--format=%s", "--name-only")
        assert ("half.txt" in every) == (verdict == "dirty")  # nothing uncommitted is thrown away

    def test_ahead_by_its_own_cycles(self, tmp_path: Path) -> None:
        """A checkpoint of the first cycle on a branch with the second: its filters and review come next."""
        stopped = Stopped(tmp_path / "p", cycle=2)
        old = stopped.checkpoint.read_text()
        own = git(stopped.tree, "rev-parse", "HEAD~1")
        head = git(stopped.tree, "rev-parse", "HEAD")
        assert head in old
        lines = old.replace(f'git_sha = "{head}"', f'git_sha = "{own}"').replace("phase = 6", "phase = 7")
        stopped.checkpoint.write_text(lines.replace("cycle = 2\n", "cycle = 1\n", 1))
        asked, verdicts, said = stopped.resume()
        assert (asked, verdicts) == (["reviewer"], ["ahead_own"])
        assert "this phase added 1 commit after" in said

    def test_what_was_given_up_is_told_and_kept(self, tmp_path: Path) -> None:
        """A fresh start tells the coder of the attempt's commits, which are still there."""
        stopped = Stopped(tmp_path / "p")
        given_up = commit(stopped.tree, {"x": "1"})
        stopped.resume()
        assert given_up[:12] in stopped.prompts[0]
        assert git(stopped.project.root, "for-each-ref", "--contains", given_up)

    @pytest.mark.parametrize("cycle", [1, 2])
    def test_what_a_killed_turn_wrote_is_told_and_kept(self, tmp_path: Path, cycle: int) -> None:
        """A coder that is asked again after a kill is told what its last turn wrote, and which commit has it."""
        project, author, again = Project(tmp_path / "p", nebula_files({"a": []})), Author(), Author()
        author.verdicts["a"] = [{"verdict": "not_approved", "findings": [OBJECTION]}]

        def killed(tree: Path, prompt: str) -> TurnResult:
            write(tree, {"half.txt": "half"})
            project.cancel.set()
            return TurnResult(Outcome.CANCELLED)

        author.deeds["a"] = [*[writes({"a.txt": "a"})] * (cycle - 1), killed]
        project.apply(author)
        project.cancel.clear()
        assert project.apply(again, resume=True).status == "done"
        assert "half.txt" in again.prompts[0]
        (kept,) = git(project.root, "for-each-ref", "--format=%(objectname)", "refs/faber/parked").splitlines()
        assert kept[:12] in again.prompts[0]
        assert not any("half.txt" in prompt for prompt in again.prompts[1:] if cycle == 2)

    def test_a_repository_alone_is_no_commit_to_look_at(self, tmp_path: Path) -> None:
        """A killed turn that left nothing but a repository of its own, which no commit can have, is not told of one."""
        project, author, again = Project(tmp_path / "p", nebula_files({"a": []})), Author(), Author()
        author.verdicts["a"] = [{"verdict": "not_approved", "findings": [OBJECTION]}]

        def killed(tree: Path, prompt: str) -> TurnResult:
            (tree / "inner").mkdir()
            git(tree / "inner", "init", "-q")
            project.cancel.set()
            return TurnResult(Outcome.CANCELLED)

        author.deeds["a"] = [writes({"a.txt": "a"}), killed]
        project.apply(author)
        project.cancel.clear()
        assert project.apply(again, resume=True).status == "done"
        assert "was interrupted" not in again.prompts[0]

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda text: text.replace("version = 1", "version = 9", 1),
            lambda text: text.replace("cycle = 1\n", "cycle = 0\n", 1),
            lambda text: text.replace("phase = 6", "phase = 60", 1),
            lambda text: text[:100],
            lambda text: text.replace('phase_id = "a"', 'phase_id = "b"', 1),
        ],
        ids=["version", "cycle", "phase", "cut", "another"],
    )
    def test_what_is_invalid_is_parked(self, tmp_path: Path, spoil: Callable[[str], str]) -> None:
        """A checkpoint that cannot be trusted: a warning, the file kept as it was, the phase restarted."""
        stopped = Stopped(tmp_path / "p")
        text = spoil(stopped.checkpoint.read_text())
        stopped.checkpoint.write_text(text)
        asked, verdicts, said = stopped.resume()
        assert (asked, verdicts) == (["coder", "reviewer"], ["invalid"])
        assert "starts over" in said
        parked = Path(stopped.project.layout.run_dir(stopped.first["run_id"]), "parked")
        assert [path.read_text() for path in parked.iterdir()] == [text]


def test_stale_checkpoints_are_cleaned_up(tmp_path: Path) -> None:
    """On --resume those of done phases go, those of failed ones are kept in the run's directory."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": []})), Author()
    crash = lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)  # noqa: E731
    author.deeds["b"] = [crash, crash]
    run_id = project.apply(author).report["run_id"]
    parked = Path(project.layout.run_dir(run_id), "parked")
    assert [path.name for path in parked.iterdir()] == ["checkpoint.b.1.toml"]
    for name in "ab":
        shutil.copy(next(parked.iterdir()), Path(project.directory, f"checkpoint.{name}.toml"))
    applied = project.apply(Author(), resume=True)
    assert applied.status == "failed"
    assert project.left() == ["nebula.state.toml"]
    assert sorted(path.name for path in parked.iterdir()) == ["checkpoint.b.1.toml", "checkpoint.b.2.toml"]


def test_done_is_saved_in_the_state_file(tmp_path: Path) -> None:
    """After a resumed run nebula.state.toml says done of every phase, with its commit and its merge."""
    stopped = Stopped(tmp_path / "p")
    before, _ = load_state(stopped.project.directory)
    assert before
    assert before.phases["a"].status == "in_progress"
    stopped.resume()
    record = (load_state(stopped.project.directory)[0] or before).phases["a"]
    assert record.status == "done"
    assert record.commit
    assert record.merged


class TestEdits:
    def test_a_phase_in_progress_gets_its_new_text(self, tmp_path: Path) -> None:
        """What was coded for the old text is not reviewed for the new: its coder is asked first, and told the text."""
        stopped = Stopped(tmp_path / "p")
        path = Path(stopped.project.directory, "a.md")
        path.write_text(path.read_text() + "\nAnd a second line.\n")
        asked, verdicts, said = stopped.resume()
        assert (asked, verdicts) == (["coder", "reviewer"], ["same"])
        assert "And a second line." in stopped.prompts[0]
        assert "The file of a changed since it was started: its next cycle uses the new text" in said

    def test_an_approval_is_not_one_of_a_new_text(self, tmp_path: Path) -> None:
        """Approved and not merged when its file was edited: coded and reviewed again."""
        project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
        run_id = project.apply(author, gate="review").report["run_id"]
        path = Path(project.directory, "a.md")
        path.write_text(path.read_text() + "\nMore.\n")
        again = Author()
        applied = project.apply(again, resume=True, gate="review")
        assert (applied.status, applied.report["run_id"]) == ("waiting", run_id)
        assert again.asked == [("coder", "a"), ("reviewer", "a")]

    def test_a_done_phase_is_not_done_again(self, tmp_path: Path) -> None:
        """Edited after it was done, it is said and nothing else."""
        project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
        author.before = lambda role, phase: project.cancel.set() if phase == "b" else None
        project.apply(author)
        project.cancel = threading.Event()
        path = Path(project.directory, "a.md")
        path.write_text(path.read_text() + "\nMore.\n")
        again = Author()
        assert project.apply(again, resume=True).status == "done"
        assert {phase for _, phase in again.asked} == {"b"}
        assert any("The file of a changed" in line and "does not run again" in line for line in project.said)

    def test_a_new_file_joins_on_resume_and_one_that_is_gone_leaves(self, tmp_path: Path) -> None:
        """A failed phase whose file is removed keeps the nebula from being done no longer; a new one is worked on."""
        project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": []})), Author()
        crash = lambda path, prompt: TurnResult(Outcome.AGENT_ERROR, error="it broke", cost_usd=0.0)  # noqa: E731
        author.deeds["b"] = [crash, crash]
        assert project.apply(author).status == "failed"
        Path(project.directory, "b.md").unlink()
        Path(project.directory, "new.md").write_text(phase_file("new", ["a"]))
        again = Author()
        assert project.apply(again, resume=True).status == "done"
        assert {phase for _, phase in again.asked} == {"new"}

    def test_while_it_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Changed files and nebula.toml are named once each; the phases that come later still get the old text."""
        monkeypatch.setattr("faber.nebula.run.file_watch.LOOKS", 0.0)
        project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()

        def before(role: str, phase: str) -> None:
            if phase == "a":
                for name in ("b.md", "nebula.toml"):
                    path = Path(project.directory, name)
                    path.write_text(path.read_text().replace("Write b.txt.", "Write z.txt.").replace("demo", "other"))

        author.before = before
        assert project.apply(author).status == "done"
        said = [line for line in project.said if "the run continues with the files as they were" in line]
        assert sorted(line.split()[2] for line in said) == ["b.md", "nebula.toml"]
        assert not any("z.txt" in prompt for prompt in author.prompts)

    def test_the_whole_directory_is_gone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Deleted under the run: its phases are done all the same, and what cannot be written is said."""
        monkeypatch.setattr("faber.nebula.run.file_watch.LOOKS", 0.0)
        project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"]})), Author()
        author.before = lambda role, phase: shutil.rmtree(project.directory, ignore_errors=True)
        applied = project.apply(author)
        assert applied.status == "done"
        assert any("b.md is gone" in line for line in project.said)


class TestTwo:
    def test_a_second_apply_is_refused(self, tmp_path: Path) -> None:
        """While one works, no other begins, resumes or restarts; the holder is named and nothing is disturbed."""
        project, author = Project(tmp_path / "p", nebula_files({"a": []})), Author()
        refused: list[TreeInUse] = []

        def before(role: str, phase: str) -> None:
            for wanted in ({}, {"resume": True}, {"fresh": True}) if role == "coder" else ():
                with pytest.raises(TreeInUse) as raised:
                    Project(tmp_path / "p").apply(Author(), **wanted)
                refused.append(raised.value)

        author.before = before
        applied = project.apply(author)
        assert applied.status == "done"
        assert [f"process {os.getpid()}" in error.message for error in refused] == [True] * 3
        assert project.layout.run_ids() == [applied.report["run_id"]]


class TestPlaces:
    def test_no_repository(self, tmp_path: Path) -> None:
        """Refused with what to do, and nothing is written."""
        project = Project(tmp_path / "p", nebula_files({"a": []}))
        shutil.rmtree(project.root / ".git")
        with pytest.raises(NoRepository, match="not in a git repository") as raised:
            project.apply(Author())
        assert "git init" in raised.value.recovery
        assert not (project.root / ".fractary").exists()
        assert project.left() == []

    def test_no_commits(self, tmp_path: Path) -> None:
        """The same in a repository without a commit."""
        project = Project(tmp_path / "p", nebula_files({"a": []}))
        shutil.rmtree(project.root / ".git")
        git(project.root, "init", "-q")
        with pytest.raises(RepositoryUnusable):
            project.apply(Author())
        assert not (project.root / ".fractary").exists()


class TestDisks:
    def test_a_checkpoint_that_cannot_be_written_is_a_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The work continues, and the person is told."""

        def full(directory: str, checkpoint: Any) -> None:
            raise StoreUnwritable("No space left on device.")

        monkeypatch.setattr("faber.nebula.run.phase_worker.save", full)
        project = Project(tmp_path / "p", nebula_files({"a": []}))
        assert project.apply(Author()).status == "done"
        assert any("The checkpoint of a could not be written" in line for line in project.said)

    @pytest.mark.parametrize("at", [8, 12, 17])
    def test_an_event_that_cannot_be_written_ends_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
    ) -> None:
        """No phase fails for it, the turns that run are ended, and everything is resumed."""
        from faber.nebula.run import recorder

        project, author, written, really = (
            Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"], "c": []})),
            Author(),
            [0],
            recorder.commit,
        )

        def commit(*given: Any, **named: Any) -> Any:
            written[0] += 1
            if written[0] == at:
                raise StoreUnwritable("No space left on device.")
            return really(*given, **named)

        monkeypatch.setattr(recorder, "commit", commit)
        with pytest.raises(StoreUnwritable) as raised:
            project.apply(author, max_workers=2)
        assert raised.value.exit_code == 1
        assert any("--resume` continues it" in line for line in project.said)
        project.cancel = threading.Event()
        state = load(project.layout, project.layout.run_ids()[0]).state
        assert not {phase["status"] for phase in state["nebula"]["phases"].values()} & {"failed", "skipped"}
        assert project.apply(Author(), resume=True).status == "done"


def test_a_closed_service_stops_the_run(tmp_path: Path) -> None:
    """Where no turn can begin, nothing fails, starts or is healed; --resume continues."""
    healing = "[execution]\nmax_workers = 1\nhealing = true\n"
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": ["a"], "c": []}, healing)), Author()
    author.deeds["b"] = [lambda path, prompt: TurnResult(Outcome.CLIENT_MISSING, error="Nobody answers.", cost_usd=0.0)]
    stopped = project.apply(author, wait_hours=0.0)
    assert (stopped.status, stopped.exit_code) == ("stopped", Exit.PERSON_NEEDED)
    assert stopped.report["phases"]["b"]["status"] == "in_progress"  # type: ignore[index]
    assert stopped.report["next_steps"] == [f"faber nebula apply {project.directory} --resume"]
    assert "Nobody answers." in "\n".join(project.said)
    assert ("architect", "b") not in author.asked
    again = Author()
    done = project.apply(again, resume=True)
    assert done.status == "done"
    assert not {("coder", "a"), ("reviewer", "a")} & set(again.asked)
    assert done.report["cost_usd"] == pytest.approx(0.6)


def test_a_limit_during_a_conflict_is_no_conflict(tmp_path: Path) -> None:
    """A limit that meets the coder of a merge stops the run; --resume resolves the merge and repeats no other turn."""
    project, author = (
        Project(tmp_path / "p", nebula_files({"a": [], "b": []}, "[execution]\nmax_workers = 2\n")),
        Author(),
    )
    together = threading.Barrier(2)

    def deed(name: str) -> Any:
        def do(path: Path, prompt: str) -> None:
            together.wait(30)
            write(path, {"same.txt": f"{name}\n"})

        return do

    refused = TurnResult(Outcome.LIMITED, error="It is full.", cost_usd=0.0)
    for name in "ab":
        author.deeds[name] = [deed(name), lambda path, prompt: refused]
    stopped = project.apply(author, wait_hours=0.0)
    assert stopped.status == "stopped", project.said
    assert sorted(each["status"] for each in stopped.report["phases"].values()) == ["done", "in_progress"]  # type: ignore[attr-defined]
    again = Author()
    for name in "ab":
        again.deeds[name] = [lambda path, prompt: write(path, {"same.txt": "both\n"})]
    assert project.apply(again, resume=True).status == "done"
    assert [role for role, _ in again.asked] == ["coder", "reviewer"]


def test_a_limit_in_the_persons_own_tree(tmp_path: Path) -> None:
    """With isolation = "tree", a turn that a limit ended leaves its work in the tree; --resume continues there."""
    files = nebula_files({"a": []}, '[execution]\nisolation = "tree"\nmax_workers = 1\n')
    project, author = Project(tmp_path / "p", files), Author()

    def deed(path: Path, prompt: str) -> TurnResult:
        write(path, {"half.txt": "half\n"})
        return TurnResult(Outcome.LIMITED, error="It is full.", cost_usd=0.0)

    author.deeds["a"] = [deed]
    assert project.apply(author, wait_hours=0.0).status == "stopped"
    assert (project.root / "half.txt").exists()
    assert project.apply(Author(), resume=True).status == "done"
