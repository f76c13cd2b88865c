"""Phases that are worked on elsewhere, from what is pushed: real git, real worktrees, workers that are directories."""

import json
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faber.errors import Exit, InvalidInput
from faber.git.programs import Git
from faber.nebula.cluster.leader import Fleet
from faber.nebula.cluster.messages import Job, Pushed, Report, ReportedEvent, pushed_of
from faber.nebula.cluster.shared_repository import NoSharedRepository, Shared, Superseded, checked_url, url_of
from faber.nebula.cluster.worker import work
from faber.nebula.plan.names import names_of
from faber.responses.recovery_log import entries, rebuild
from faber.store.layout import Layout
from faber.store.load import load, refold
from support import remote_agents
from support.clusters import Directories, SharedProject
from support.nebulas import Author
from support.repositories import git

pytestmark = pytest.mark.usefixtures("git_user")


@pytest.fixture(autouse=True)
def _script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FABER_TEST_SCRIPT", str(tmp_path / "script"))


@pytest.fixture
def cluster(tmp_path: Path) -> Directories:
    """Workers that are directories."""
    return Directories(tmp_path / "workers")


def consistent(project: SharedProject, run_id: str) -> Any:
    """The run's state, which must be the fold of its whole log."""
    run = load(project.layout, run_id)
    assert run.state == refold(run.directory, run.metadata, run.plan)
    return run.state


def test_a_nebula_is_worked_through_elsewhere(tmp_path: Path, cluster: Directories) -> None:
    """Every phase is done once, by workers; what they recorded is in the run, what they made is merged here, and the
    shared repository keeps the branches and no checkpoint."""
    phases: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    project = SharedProject(tmp_path, phases)
    applied = project.over(cluster)
    assert (applied.status, applied.exit_code) == ("done", Exit.OK), project.said
    assert project.coded() == sorted(f"{name} 1" for name in phases)
    made = [name for name in project.files(applied.report["branch"]) if name.endswith(".txt")]
    assert made == sorted(f"{name}.txt" for name in phases)
    state = consistent(project, applied.report["run_id"])
    assert state["nebula"]["spent"] == {"cost": 0.8, "healing_cost": 0.0, "turns": 8}
    assert {phase["cycles_done"] for phase in state["nebula"]["phases"].values()} == {1}
    refs = project.refs()
    assert [ref for ref in refs if ref.startswith("refs/faber/")] == []
    assert sum("/phase/" in ref for ref in refs) == len(phases)
    assert project.left() == ["nebula.state.toml"]


@pytest.mark.full
def test_a_worker_keeps_no_worktree_of_a_merged_phase(
    tmp_path: Path, cluster: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its next job a worker removes the worktrees of phases that were merged; its phases have slots from 0."""
    place, told = tmp_path / "worker", tmp_path / "told"
    monkeypatch.setattr(cluster, "worker", lambda: str(place))
    manifest = f'[[filter]]\nname = "tells"\ncommand = "echo slot $FABER_SLOT >> {told}"\n'
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]}, manifest)
    assert project.over(cluster).status == "done", project.said
    assert [path.name for path in place.glob("faber-*/.fractary/faber/worktrees/*/*/*/[a-z]*")] == ["b"]
    assert set(told.read_text().splitlines()) == {"slot 0"}


def test_a_worker_that_dies_is_followed_by_one_that_goes_on(tmp_path: Path, cluster: Directories) -> None:
    """The phase continues in its second cycle: the first is not coded again, and is paid and recorded once."""
    project = SharedProject(tmp_path, {"a": []})
    project.say("cycles-a", "2")
    project.say("die-coder-a-2")
    applied = project.over(cluster)
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1", "a 2", "a 2"]
    state = consistent(project, applied.report["run_id"])
    assert state["nebula"]["spent"]["turns"] == 4
    assert len(project.events(applied.report["run_id"], "review")) == 2
    assert git(project.root, "show", f"{applied.report['branch']}:a.txt") == "a 2"


@pytest.mark.parametrize("role", ["coder", "reviewer"])
def test_what_a_dead_worker_had_told_nobody_is_recorded_from_what_it_pushed(
    tmp_path: Path, cluster: Directories, role: str
) -> None:
    """With every message lost, the events up to the last push are recorded all the same."""
    project = SharedProject(tmp_path, {"a": []})
    project.say("cycles-a", "2")
    project.say(f"die-{role}-a-2")
    cluster.deaf = True
    applied = project.over(cluster)
    assert applied.status == "done"
    state = consistent(project, applied.report["run_id"])
    assert state["nebula"]["spent"] == {"cost": 0.4, "healing_cost": 0.0, "turns": 4}
    assert [event["metadata"]["cycle"] for event in project.events(applied.report["run_id"], "review")] == [1, 2]


def test_a_recovery_on_a_worker_is_in_the_run(tmp_path: Path, cluster: Directories) -> None:
    """A response that was cut on a worker leaves its event in the run and its row in the recovery log, once."""
    project = SharedProject(tmp_path, {"a": []})
    project.say("recover-a")
    applied = project.over(cluster)
    assert applied.status == "done", project.said
    (event,) = project.events(applied.report["run_id"], "response_recovered")
    assert (event["status"], event["metadata"]["task_id"]) == ("RESOLVED", "a")
    (row,) = entries(project.layout)
    assert (row["task_id"], row["final_status"], row["timestamp"]) == ("a", "RESOLVED", event["timestamp"])
    assert rebuild(project.layout) == {"actions": [], "moved": []}
    consistent(project, applied.report["run_id"])


def test_workers_that_die_again_and_again_are_too_many(tmp_path: Path, cluster: Directories) -> None:
    """A phase that kills its workers is given up after five."""
    project = SharedProject(tmp_path, {"a": [], "b": []})
    cluster.alter = lambda each: replace(each, executions=2) if isinstance(each, Job) else each

    project.say("die-coder-a-1")
    before = cluster.worker

    def worker() -> str:
        if project.turns() and not (project.script / "die-coder-a-1").exists():
            project.say("die-coder-a-1")
        return before()

    cluster.worker = worker  # type: ignore[method-assign]
    applied = project.over(cluster, max_workers=1)
    phases = applied.report["phases"]
    assert phases["a"]["status"] == "failed"
    assert "2 workers that had the phase were lost" in phases["a"]["reason"]
    assert phases["b"]["status"] == "done"


def job_of(project: SharedProject, cluster: Directories) -> Job:
    """The job of phase `a`, as a leader made it, for which nothing was done yet."""

    class Kept(Exception):
        pass

    def keep(job: Job, *rest: Any) -> Report:
        cluster.jobs.append(job)
        raise Kept

    run, cluster.run = cluster.run, keep  # type: ignore[method-assign, assignment]
    project.over(cluster)
    cluster.run = run  # type: ignore[method-assign]
    return cluster.jobs.pop()


class Quiet:
    """A link to nobody."""

    def __init__(self) -> None:
        self.stop = False

    def send(self, message: Mapping[str, object]) -> None:
        """Do nothing."""

    def stop_wanted(self) -> bool:
        return self.stop


def test_of_two_executions_of_one_job_the_later_counts(tmp_path: Path, cluster: Directories) -> None:
    """The earlier one, cut off for a while, cannot push any more: it stops, and nothing of the branch is its own."""
    project = SharedProject(tmp_path, {"a": []})
    job = job_of(project, cluster)
    project.say("cycles-a", "2")
    hold = project.say("hold-coder-a-2")
    reports: list[Report] = []
    stale = threading.Thread(target=lambda: reports.append(work(job, Quiet(), cluster.worker())))
    stale.start()
    project.await_turn("coder", "a", "2")
    shared = Shared(Git(str(project.root), str(project.root / ".git")), job.url, names_of("demo", job.run_id))
    first = project.refs()[shared.checkpoint_ref("a")]
    later = threading.Thread(target=lambda: reports.append(work(job, Quiet(), cluster.worker())))
    later.start()
    while project.refs()[shared.checkpoint_ref("a")] == first:
        pass
    hold.unlink()
    later.join(60)
    stale.join(60)
    superseded = [report for report in reports if report.superseded]
    (counts,) = [report for report in reports if report.result is not None]
    assert len(superseded) == 1
    assert counts.result is not None
    assert counts.result.approved
    heads, pushed = shared.read("a")
    assert heads[shared.branch_ref("a")] == counts.result.commit
    assert pushed is not None
    assert (pushed.execution, pushed.executions) == (counts.execution, 2)
    assert git(project.origin, "rev-list", "--count", f"main..{counts.result.commit}") == "2"


def test_a_job_of_an_earlier_leader_does_not_begin_after_a_later_one(tmp_path: Path, cluster: Directories) -> None:
    """What a scheduler kept from a leader that is gone gives up as soon as a newer job has the phase."""
    project = SharedProject(tmp_path, {"a": []})
    old = job_of(project, cluster)
    new = replace(old, attempt=old.attempt + 5, token="newer")
    assert work(new, Quiet(), cluster.worker()).result is not None
    before = project.refs()
    report = work(old, Quiet(), cluster.worker())
    assert report.superseded
    assert project.refs() == before


def test_only_the_newest_result_is_accepted(tmp_path: Path, cluster: Directories) -> None:
    """A report of another execution than the one that pushed last is refused, and nothing of it is merged."""
    project = SharedProject(tmp_path, {"a": []})
    cluster.alter = lambda each: replace(each, execution="another") if isinstance(each, Report) else each
    applied = project.over(cluster)
    assert applied.status == "failed"
    assert "not the newest" in applied.report["phases"]["a"]["reason"]
    assert "a.txt" not in project.files(applied.report["branch"])


def test_a_job_runs_only_with_the_leaders_version(tmp_path: Path, cluster: Directories) -> None:
    """A worker with another faber refuses, and says which it has."""
    project = SharedProject(tmp_path, {"a": []})
    cluster.alter = lambda each: replace(each, faber="0.0.1") if isinstance(each, Job) else each
    applied = project.over(cluster)
    assert "the leader 0.0.1" in applied.report["phases"]["a"]["reason"]
    assert project.turns() == []


def test_nothing_of_the_leaders_environment_goes_over_the_wire(
    tmp_path: Path, cluster: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job holds no variable's value, and of the nebula no other phase's text."""
    import pickle

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary-1234567890")
    project = SharedProject(tmp_path, {"a": [], "b": []})
    project.over(cluster)
    for job in cluster.jobs:
        sent = pickle.dumps(job)
        assert b"sk-canary" not in sent
        other = {"a": b"Write b.txt", "b": b"Write a.txt"}[job.spec.id]
        assert other not in sent
        assert b"PATH" not in sent


def test_a_conflict_is_resolved_elsewhere(tmp_path: Path, cluster: Directories) -> None:
    """Two phases change one line: the second's coder gets the conflict at a worker, and the merge is made here."""
    project = SharedProject(tmp_path, {"a": [], "b": []})
    for name in "ab":
        project.say(f"text-{name}", json.dumps({"README.md": name}))
    holds = [project.say(f"hold-reviewer-{name}-1") for name in "ab"]
    both = threading.Thread(target=lambda: [project.await_turn("reviewer", name, "1") for name in "ab"])
    both.start()
    freed = threading.Thread(target=lambda: (both.join(), [hold.unlink() for hold in holds]))
    freed.start()
    applied = project.over(cluster, max_workers=2)
    assert applied.status == "done", project.said
    assert [job.task for job in cluster.jobs].count("resolve") == 1
    assert project.coded() == sorted(["a 1", "b 1", *([f"{cluster.jobs[-1].spec.id} 2"])])


def test_a_persons_changes_are_made_elsewhere(tmp_path: Path, cluster: Directories) -> None:
    """A phase at its gate is revised by a worker, and merged when the person is content."""
    from faber.feedback.requests import respond
    from faber.store.commit import commit

    project = SharedProject(tmp_path, {"a": []})
    applied = project.over(cluster, gate="review")
    assert applied.status == "waiting"
    run_id = applied.report["run_id"]
    responder: Any = {"name": "A", "source": "terminal", "url": None, "comment_id": None}

    def answer(response: str, comment: str | None = None) -> None:
        commit(
            project.layout,
            run_id,
            lambda state, plan: respond(
                state, plan, request_id=None, response=response, comment=comment, responder=responder
            ),
        )

    answer("request_changes", "Say it twice.")
    applied = project.over(cluster, gate="review", resume=True)
    assert applied.status == "waiting", project.said
    assert project.coded() == ["a 1", "a 2"]
    answer("approve")
    assert project.over(cluster, gate="review", resume=True).status == "done"
    assert project.coded() == ["a 1", "a 2"]


def test_a_leader_that_stops_goes_on_later(tmp_path: Path, cluster: Directories) -> None:
    """Stopped in the second cycle, the turn is ended; resumed, the first is not done again, and paid once."""
    project = SharedProject(tmp_path, {"a": []})
    project.say("cycles-a", "2")
    hold = project.say("hold-coder-a-2")
    stop = threading.Thread(target=lambda: (project.await_turn("coder", "a", "2"), project.cancel.set()))
    stop.start()
    applied = project.over(cluster)
    stop.join()
    assert applied.status == "cancelled"
    assert project.await_turn("coder", "a", "2", file="ended")[-1] == "stopped"
    hold.unlink()
    project.cancel.clear()
    applied = project.over(cluster, resume=True)
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1", "a 2", "a 2"]
    state = consistent(project, applied.report["run_id"])
    assert state["nebula"]["spent"]["cost"] == pytest.approx(0.4)


def test_a_lost_scheduler_stops_the_run_and_fails_no_phase(tmp_path: Path, cluster: Directories) -> None:
    """Nothing new begins; with a cluster again, `--resume` continues."""
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]})
    cluster.lost = True
    applied = project.over(cluster)
    assert applied.status == "cancelled"
    assert any("The scheduler was lost" in line for line in project.said)
    cluster.lost = False
    project.cancel.clear()
    assert project.over(cluster, resume=True).status == "done"


def test_a_limit_on_a_worker_stops_the_run_and_fails_no_phase(tmp_path: Path, cluster: Directories) -> None:
    """A worker waits as long as the leader would; then the run stops, and `--resume` repeats no finished turn."""
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]})
    limit = project.say("limit-a")
    applied = project.over(cluster, wait_hours=0.0)
    assert (applied.status, applied.report["phases"]["a"]["status"]) == ("stopped", "in_progress"), project.said
    assert "The limit is reached." in "\n".join(project.said)
    assert [job.wait for job in cluster.jobs] == [0.0]
    limit.unlink()
    assert project.over(cluster, resume=True).status == "done"
    assert project.coded() == ["a 1", "b 1"]


@pytest.mark.parametrize(("what", "hopeless"), [("limit", False), ("missing", True)])
def test_a_limit_on_one_workers_account_is_that_workers(
    tmp_path: Path, cluster: Directories, what: str, hopeless: bool
) -> None:
    """A worker that the service refuses, or that has no client, hands its job back; another repeats the turn, and the
    first gets no more."""
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]})
    cluster.names = ["poor", "rich"]
    limit = project.say(f"{what}-a")
    taken: list[str] = []

    def after(each: Any) -> Any:
        if isinstance(each, Report):
            taken.append(each.ended)
            limit.unlink(missing_ok=True)
        return each

    cluster.alter = after
    applied = project.over(cluster, wait_hours=0.0)
    assert applied.status == "done", project.said
    assert taken == ["ServiceClosed", "", ""]
    assert [report.rest > 50 for report in cluster.reports] == [True, False, False]
    assert [report.hopeless for report in cluster.reports] == [hopeless, False, False]
    assert cluster.avoided == [set(), {"poor"}, {"poor"}]
    assert project.coded() == ["a 1", "b 1"]
    assert applied.report["cost_usd"] == pytest.approx(0.4)


def test_a_worker_that_rests_takes_no_job(tmp_path: Path, cluster: Directories) -> None:
    """It reports at once for how long it rests and why, and the phase's refs are as before."""
    project = SharedProject(tmp_path, {"a": []})
    job, place = replace(job_of(project, cluster), wait=0.0), cluster.worker()
    limit = project.say("limit-a")
    first = work(job, Quiet(), place)
    limit.unlink()
    before = project.refs()
    second = work(replace(job, token="other"), Quiet(), place)
    assert (first.ended, second.ended, second.reason) == ("ServiceClosed", "ServiceClosed", first.reason)
    assert 0 < second.rest <= first.rest <= 65
    assert not second.hopeless
    assert project.refs() == before


def test_two_jobs_of_one_phase_at_one_worker_do_not_meet(tmp_path: Path, cluster: Directories) -> None:
    """The later one stops the earlier and waits until it has ended, instead of failing because the tree is in use."""
    project = SharedProject(tmp_path, {"a": []})
    job, place = job_of(project, cluster), cluster.worker()
    hold = project.say("hold-reviewer-a-1")
    reports: dict[str, Report] = {}
    early = threading.Thread(target=lambda: reports.update(early=work(job, Quiet(), place)))
    early.start()
    project.await_turn("reviewer", "a", "1")
    later = replace(job, attempt=job.attempt + 1, token="later", resume=True)
    late = threading.Thread(target=lambda: reports.update(late=work(later, Quiet(), place)))
    late.start()
    early.join(30)
    hold.unlink()
    late.join(30)
    assert reports["early"].superseded
    assert reports["late"].result is not None, reports["late"].error
    assert project.coded() == ["a 1"]


def test_a_fresh_clone_gets_merged_work_from_the_shared_repository(tmp_path: Path, cluster: Directories) -> None:
    """With the run's files but none of its commits, a resume fetches what was merged and rebuilds the branch; the
    shared branch follows, and what it had is kept."""
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]}, "[execution]\nmax_review_cycles = 1\n")
    project.say("cycles-b", "2")
    branch = project.over(cluster).report["branch"]
    other = git(project.origin, "commit-tree", "-m", "other", f"{branch}^{{tree}}")
    git(project.origin, "update-ref", f"refs/heads/{branch}", other)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--no-local", "--single-branch", "--branch", "main", str(project.origin), str(clone))
    shutil.copytree(project.root / ".fractary", clone / ".fractary", ignore=shutil.ignore_patterns("worktrees"))
    shutil.copy(project.root / "plan/nebula.state.toml", clone / "plan")
    project.root, project.directory, project.layout = clone, str(clone / "plan"), Layout(str(clone))
    project.say("cycles-b", "1")
    applied = project.over(cluster, resume=True, retry_failed=True)
    assert applied.status == "done", project.said
    made = [name for name in project.files(branch) if name.endswith(".txt")]
    assert made == ["a.txt", "b.txt"]
    assert project.coded() == ["a 1", "b 1", "b 1"]
    assert other in git(clone, "for-each-ref", "--format=%(objectname)", "refs/faber/parked/")


def test_a_run_that_was_begun_here_goes_on_elsewhere(tmp_path: Path, cluster: Directories) -> None:
    """A worker resumes a phase from this machine's checkpoint and commits."""
    project, author = SharedProject(tmp_path, {"a": []}), Author()
    author.verdicts["a"] = [{"verdict": "not_approved", "findings": [{"severity": "major", "description": "Not yet."}]}]

    def before(role: str, phase: str) -> None:
        if [each for each, _ in author.asked].count("coder") == 2:
            project.cancel.set()

    author.before = before
    assert project.apply(author).status == "cancelled"
    project.cancel.clear()
    project.say("cycles-a", "2")
    applied = project.over(cluster, resume=True)
    assert applied.status == "done", project.said
    assert project.coded() == ["a 2"]


def test_phases_that_failed_are_begun_afresh(tmp_path: Path, cluster: Directories) -> None:
    """Retried, a phase does not continue from what its failed attempt pushed; that stays on a ref."""
    project = SharedProject(tmp_path, {"a": []}, "[execution]\nmax_review_cycles = 2\n")
    project.say("cycles-a", "3")
    applied = project.over(cluster)
    assert applied.report["phases"]["a"]["status"] == "failed"
    failed = applied.report["phases"]["a"]["commit"]
    assert git(project.root, "rev-parse", f"{applied.report['phases']['a']['branch']}") == failed
    project.say("cycles-a", "1")
    applied = project.over(cluster, resume=True, retry_failed=True)
    assert applied.status == "done", project.said
    assert project.coded() == ["a 1", "a 1", "a 2"]
    assert failed in git(project.root, "for-each-ref", "--format=%(objectname)", "refs/faber/parked/")


def test_the_runs_budget_is_a_cap_for_workers(tmp_path: Path, cluster: Directories) -> None:
    """Shares never come to more than the budget; a phase whose share is spent gets another while there is more."""
    project = SharedProject(tmp_path, {"a": [], "b": []})
    for name in "ab":
        project.say(f"cycles-{name}", "2")
    project.say("cost", "1.25")
    applied = project.over(cluster, max_workers=2, max_budget_usd=15.0)
    assert applied.status == "done", project.said
    assert applied.report["cost_usd"] == pytest.approx(10.0)
    assert len(cluster.jobs) > 2
    assert all(job.budget is not None and job.budget <= 7.5 for job in cluster.jobs[:2])
    applied = project.over(cluster, max_workers=2, max_budget_usd=4.2, fresh=True)
    assert applied.status == "failed"
    assert applied.report["cost_usd"] <= 4.2 + 1e-6


def test_a_remediation_goes_on_elsewhere_from_the_failed_work(tmp_path: Path, cluster: Directories) -> None:
    """The failed phase's commits reach the worker of its remediation, which builds on them; both are merged here."""
    project = SharedProject(tmp_path, {"a": [], "b": ["a"]}, "[execution]\nhealing = true\nmax_review_cycles = 1\n")
    project.say("cycles-a", "9")
    author, fleet = Author(), Fleet(cluster, agents=remote_agents.make, poll=0.1)  # type: ignore[arg-type]
    applied = project.apply(author, fleet)
    assert applied.status == "done", project.said
    assert author.asked == [("architect", "a")]
    assert project.coded() == ["a 1", "b 1", "heal-a 1"]
    healing = next(job for job in cluster.jobs if job.spec.id == "heal-a")
    assert healing.start.remedies
    assert healing.start.guards
    assert git(project.root, "show", f"{applied.report['branch']}:a.txt") == "a 1"
    assert [ref for ref in project.refs() if ref.startswith("refs/faber/")] == [
        "refs/faber/checkpoints/" + applied.report["run_id"] + "/a"
    ]


def test_stopping_is_heard_from_the_leader(tmp_path: Path, cluster: Directories) -> None:
    """A worker whose leader wants it stopped, or is gone, ends its turn and reports what is pushed."""
    project = SharedProject(tmp_path, {"a": []})
    job = job_of(project, cluster)
    project.say("hold-reviewer-a-1")
    link, reports = Quiet(), list[Report]()
    working = threading.Thread(target=lambda: reports.append(work(job, link, cluster.worker())))
    working.start()
    project.await_turn("reviewer", "a", "1")
    link.stop = True
    working.join(30)
    assert [report.ended for report in reports] == ["PhaseCancelled"]


# --- what comes from outside -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "--upload-pack=touch x",
        "ext::sh -c id",
        "fd::7",
        "https://user:secret@example.com/x.git",
        "a\nb",
        "x" * 3000,
    ],
)
def test_urls_that_are_none_are_refused(url: str) -> None:
    """What git would take for an option or a program, and what holds a password, is no shared repository."""
    with pytest.raises(InvalidInput):
        checked_url(url)


def test_the_remote_is_a_name_or_a_url(tmp_path: Path) -> None:
    """A remote's name stands for its URL, a relative directory for its path; an unknown name is refused."""
    project = SharedProject(tmp_path, {"a": []})
    here = Git(str(project.root), str(project.root / ".git"))
    assert url_of(here, "origin") == str(project.origin.resolve())
    assert url_of(here, "../origin.git") == str(project.origin.resolve())
    assert url_of(here, "ssh://git@example.com/x.git") == "ssh://git@example.com/x.git"
    with pytest.raises(NoSharedRepository):
        url_of(here, "upstream")


def test_what_is_pushed_is_read_again() -> None:
    """A pushed document is read as it was written; anything else is none, and events of other types are left out."""
    told = ReportedEvent("t.e.0", "agent_turn", None, None, {"cost_usd": 0.5, "role": "coder"})
    pushed = Pushed(7, "t", "t.e", 2, "version = 1\n", (told,))
    assert pushed_of(pushed.to_json()) == pushed
    raw = json.loads(pushed.to_json())
    raw["events"] += [{"id": "x", "type": "workflow_complete", "metadata": {}}, {"id": "", "type": "review"}, 7]
    assert pushed_of(json.dumps(raw)) == pushed
    for text in (
        "",
        "{}",
        "[]",
        "null",
        json.dumps(raw | {"version": 9}),
        json.dumps(raw | {"attempt": None}),
        "[" * 9999,
    ):
        assert pushed_of(text) is None


def test_a_fetch_waits_for_a_worktree_that_is_being_created(tmp_path: Path) -> None:
    """A HEAD that names no commit yet stops git's fetch; faber's repeats it."""
    project = SharedProject(tmp_path, {"a": []})
    shared = Shared(Git(str(project.root), str(project.root / ".git")), str(project.origin), names_of("demo", "x/y/z"))
    other = git(project.origin, "commit-tree", "-m", "other", "main^{tree}")
    git(project.origin, "update-ref", "refs/heads/other", other)
    git(project.root, "worktree", "add", "-q", "--detach", "../scratch")
    head = project.root / ".git/worktrees/scratch/HEAD"
    commit = head.read_text()
    head.write_text("0" * 40 + "\n")
    threading.Timer(0.2, lambda: head.write_text(commit)).start()
    shared.fetch({"refs/heads/other": other})
    assert shared.git.commit_of(other) == other


def test_a_push_from_elsewhere_than_it_was_left_is_refused(tmp_path: Path) -> None:
    """Two writers that know the same beginning: the second is told, and what the first pushed stays."""
    project = SharedProject(tmp_path, {"a": []})
    shared = Shared(
        Git(str(project.root), str(project.root / ".git")), str(project.origin), names_of("demo", "local/demo/x")
    )
    head = git(project.root, "rev-parse", "HEAD")
    known = shared.push("a", head, Pushed(1, "t", "one", 1, None), {}, branch=True)
    with pytest.raises(Superseded):
        shared.push("a", head, Pushed(1, "t", "two", 1, None), {}, branch=True)
    assert shared.read("a")[0] == known
    assert shared.push("a", head, Pushed(1, "t", "one", 1, None), known, branch=True)
    assert remote_agents.COST
