"""A run and its branch as a file: what one machine exports, another imports, and nothing that an agent may not do."""

from pathlib import Path

import pytest

from faber.sync import bundle_file
from sync.clones import RUN, Clone, ask, work


def test_what_one_machine_did_arrives_through_a_file(
    a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run and its branch are on B what they are on A, and B can push them."""
    monkeypatch.setenv("CLAUDECODE", "1")
    work(a, "Use semicolons")
    ahead = a.commit("two.txt")
    file = str(tmp_path / "run.bundle")
    sent = a.must("sync", "export", RUN, file)
    assert (sent["events"], sent["branch"]) == (1, "feat/7")
    taken = b.must("sync", "import", RUN, file)
    assert (taken["result"], taken["events"]) == ("imported", 1)
    assert taken["branch"] == {"branch": "feat/7", "result": "forwarded", "commit": ahead}
    assert b.events() == a.events()
    again = b.must("sync", "import", RUN, file)
    assert (again["result"], again["branch"]["result"]) == ("equal", "equal")
    assert b.must("sync", "push", RUN)["result"] == "pushed"
    a.must("sync", "pull", RUN)
    assert a.relation() == "equal"


def test_a_renamed_branch_arrives_under_its_name(
    a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch that was renamed, once or twice, is exported under the name that the run knows; a push, which a person
    can correct, says what it is called now, and how to continue."""
    monkeypatch.setenv("CLAUDECODE", "1")
    work(a, "Use semicolons")
    ahead = a.commit("two.txt")
    for name in ("feat/seven", "feat/VII"):
        a.git("branch", "-m", name)
    file = str(tmp_path / "run.bundle")
    (a.path / "one.txt").write_text("changed\n")
    sent = a.must("sync", "export", RUN, file)
    told = [each["code"] for each in sent["notices"]]
    assert (sent["branch"], told) == ("feat/7", ["branch_renamed", "not_committed"])
    assert b.must("sync", "import", RUN, file)["branch"] == {
        "branch": "feat/7",
        "result": "forwarded",
        "commit": ahead,
    }
    refused = a.faber("sync", "push", RUN).error
    assert (refused["reason"], "feat/VII" in refused["message"]) == ("missing", True)
    assert "`git branch -m feat/VII feat/7`" in refused["recovery"]
    a.git("branch", "-m", "feat/VII", "feat/7")
    a.git("branch", "-m", "feat/7", "other")
    a.git("branch", "feat/VII", "main")
    assert a.faber("sync", "export", RUN, file).error["reason"] == "missing"


def test_answers_that_the_remote_got_meanwhile_are_kept(
    a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's work follows what was shared, and a question and its answer from another machine follow that."""
    ask(b)
    b.must("feedback", "respond", RUN, "approve")
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        work(a, "Use semicolons")
        a.must("session", "save", RUN, "--accomplished", "All of it")
    file = str(tmp_path / "run.bundle")
    a.must("sync", "export", RUN, file)
    assert b.must("sync", "import", RUN, file)["result"] == "merged"
    assert b.types()[-4:] == ["decision_point", "session_end", "feedback_request", "feedback_received"]
    assert len(b.must("session", "list", RUN)["sessions"]) == 2
    assert b.must("sync", "push", RUN, "--merge")["result"] == "pushed"
    a.must("sync", "pull", RUN)
    assert a.events() == b.events()


def test_work_on_both_sides_is_not_joined(a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the run was continued elsewhere meanwhile, a person decides, as for any other copy."""
    monkeypatch.setenv("CLAUDECODE", "1")
    for machine in (a, b):
        work(machine, f"By {machine.path.name}")
    file = str(tmp_path / "run.bundle")
    a.must("sync", "export", RUN, file)
    before = b.events()
    assert b.faber("sync", "import", RUN, file).error["code"] == "diverged"
    assert b.events()[: len(before)] == before


def test_a_run_gets_its_branch_from_the_agent(
    a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that names no branch takes one that nobody has, whatever its language; not one that exists."""
    made = a.must("run", "init", "--run-id", "acme/shop/two", "--work-id", "8")["run_id"]
    a.must("sync", "push", made)
    b.must("sync", "pull", made)
    monkeypatch.setenv("CLAUDECODE", "1")
    file = str(tmp_path / "run.bundle")
    a.git("branch", "feat/größe", "feat/7")
    a.must("event", "emit", made, "--type", "branch_create", "--metadata", '{"branch": "feat/größe"}')
    a.must("sync", "export", made, file)
    b.git("branch", "feat/größe", "main")
    assert b.faber("sync", "import", made, file).error["reason"] == "taken"
    b.git("branch", "-D", "feat/größe")
    assert b.must("sync", "import", made, file)["branch"]["result"] == "created"
    assert b.git("rev-parse", "feat/größe") == a.git("rev-parse", "feat/7")


def test_a_bundle_is_one_that_git_reads_and_has_a_limit(
    a: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git's own program verifies it; above the limit there is none."""
    a.commit("two.txt")
    file = tmp_path / "run.bundle"
    a.must("sync", "export", RUN, str(file))
    assert "feat/7" in a.git("bundle", "verify", str(file))
    file.unlink()
    monkeypatch.setattr(bundle_file, "MAX_BUNDLE", 100)
    assert a.faber("sync", "export", RUN, str(file)).error["code"] == "bundle_too_large"
    assert not file.exists()
