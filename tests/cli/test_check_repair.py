"""A failed check of the run's pull request: which ones re-open the run, with what, and how often."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.events.pull_request_events import pull_request_recorded
from faber.events.workflow_events import run_reopened
from faber.model.loop_rules import KEPT_LOOPS
from faber.store.commit import commit as commit_to
from faber.store.layout import Layout
from github.comments import PERSON, ended, environment, on_line, remote, review, settings, write_event
from github.fake import FakeGitHub, Fault
from support.repositories import add_remote

Faber = Callable[..., Any]
RUN = "demo/one/run"
FIRST, SECOND = "a" * 40, "b" * 40


class World(NamedTuple):
    """A completed run with a pull request, and how a check's end arrives."""

    github: FakeGitHub
    faber: Faber
    project: Path
    events: Path

    def arrive(self, kind: str, number: int, **more: Any) -> Any:
        path = write_event(self.project.parent, ended(self.github, kind, number, **more))
        return self.faber("feedback", "from-event", "--event-path", path)

    def log(self) -> list[str]:
        return sorted(file.name for file in self.events.iterdir())

    def must(self, *arguments: str) -> Any:
        done = self.faber(*arguments)
        assert done.status == 0, done.out
        return done.json


@pytest.fixture
def world(
    project: Path,
    faber: Faber,
    git: Callable[..., str],
    run_dir: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """A completed run of a small workflow, whose pull request #9 is at the commit `FIRST`."""
    for name in [name for name in os.environ if name.startswith(("GH_", "GITHUB_"))]:
        monkeypatch.delenv(name)
    workflows = project / ".fractary" / "faber" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "short.yaml").write_text(WORKFLOW)
    with FakeGitHub() as github:
        github.add_issue(7)
        github.add_issue(9)
        github.permissions = {PERSON: ("write", "write")}
        for name, value in environment(github).items():
            monkeypatch.setenv(name, value)
        add_remote(project, remote(github))
        git("switch", "-qc", "work/seven")
        made = World(github, faber, project, run_dir(RUN) / "events")
        (project / ".fractary" / "faber" / "config.yaml").write_text(settings(github))
        made.must("run", "init", "--run-id", RUN, "--work-id", "7", "--workflow", "short", "--autonomy", "autonomous")
        made.must("next", RUN)
        made.must("step", "complete", RUN, "frame:classify", "--artifact", "branch_name=work/seven", "--next")
        made.must("step", "complete", RUN, "build:implement", "--next")
        made.must("step", "complete", RUN, "evaluate:test", "--next")
        pushed(made, FIRST)
        made.must("step", "complete", RUN, "release:open-pr", "--next")
        yield made
        assert github.violations == []


WORKFLOW = """
id: short
phases:
  - {id: frame, name: Frame, steps: [{id: classify, name: Classify}]}
  - {id: build, name: Build, steps: [{id: implement, name: Implement}]}
  - id: evaluate
    name: Evaluate
    on_failure: {return_to: build, max_retries: 3}
    steps: [{id: test, name: Test}]
  - {id: release, name: Release, steps: [{id: open-pr, name: Open, pull_request: true}]}
"""


def pushed(world: World, commit: str, number: int = 9) -> None:
    """faber has pushed the commit to the run's pull request."""
    url = f"https://127.0.0.1/{world.github.slug}/pull/{number}"
    draft = pull_request_recorded(url, number, commit=commit, base="main", draft=False, ours=True, known=False)
    commit_to(Layout(str(world.project)), RUN, lambda state, plan: [draft])
    world.github.checks.pull(number, "work/seven", commit)


def test_a_failed_check_reopens_the_run(world: World) -> None:
    """A completed run is sent back to where its workflow sends failures, and the step shows what failed."""
    world.github.checks.check(31, "lint", FIRST, summary="E501 line too long")
    told = world.arrive("check_run", 31)
    assert (told.status, told.json["result"], told.json["reason"], told.json["resume"]) == (
        0,
        "recorded",
        "reopened",
        True,
    )
    action = world.must("next", RUN)
    assert (action["phase"], action["step"], action["mode"]) == ("build", "implement", "retry")
    assert action["failure"]["evidence"] == [
        {
            "kind": "check",
            "name": "lint",
            "conclusion": "failure",
            "url": f"https://github.com/{world.github.slug}/runs/31",
            "output": "E501 line too long",
            "untrusted": True,
        }
    ]
    assert "lint" in action["failure"]["error"]


LOG = (
    "\ufeff2026-01-01T00:00:00.0000000Z ##[group]Run make test\n"
    "2026-01-01T00:00:01.0000000Z \x1b[36;1mmake test\x1b[0m\n"
    "2026-01-01T00:00:01.1000000Z ##[endgroup]\n"
    "2026-01-01T00:00:01.2000000Z ::add-mask::hunter2-is-masked\n"
    "2026-01-01T00:00:02.0000000Z \x1b[31mFAILED test_one\x1b[0m: token ghp_" + "a1" * 18 + "\n"
    "2026-01-01T00:00:02.1000000Z ::error file=a.py,line=3::assert 1 == 2 <!-- hidden -->\u202e\n"
    "2026-01-01T00:00:03.0000000Z ##[error]Process completed with exit code 2.\n"
    "2026-01-01T00:00:04.0000000Z Post job cleanup.\n"
)  # fmt: skip


def test_a_workflows_failed_jobs_are_the_evidence(world: World) -> None:
    """Of a workflow's run each failed job counts, with the end of its log, which another host gives without the token;
    where the log has expired, with the job's own words."""
    jobs = {41: ("test", "failure", LOG), 42: ("lint", "timed_out", None), 43: ("docs", "success", None)}
    world.github.checks.workflow(40, "CI", FIRST, jobs)
    world.github.checks.annotate(42, "b.py", 7, "too slow")
    told = world.arrive("workflow_run", 40).json
    assert (told["reason"], [each["code"] for each in told["warnings"]]) == ("reopened", ["log_not_read"])
    first, second = world.must("next", RUN)["failure"]["evidence"]
    assert (first["name"], first["conclusion"]) == ("CI / test", "failure")
    assert first["output"] == (
        "Run make test\nmake test\nFAILED test_one: token [REDACTED]\nerror: assert 1 == 2 <!-- hidden -->\n"
        "error: Process completed with exit code 2."
    )
    assert (second["name"], second["output"]) == ("CI / lint", "b.py:7: failure: too slow")
    (fetched,) = world.github.checks.fetched
    assert "authorization" not in fetched
    assert world.github.token not in json.dumps(fetched)


def test_what_cannot_be_read_leaves_the_reopening(world: World) -> None:
    """Without the permission to read jobs and logs, the run is re-opened all the same, with a warning."""
    world.github.checks.workflow(40, "CI", FIRST, {41: ("test", "failure", LOG)})
    world.github.faults.append(Fault(status=403, message="Resource not accessible", path="/jobs"))
    told = world.arrive("workflow_run", 40).json
    assert (told["result"], told["warnings"][0]["code"]) == ("recorded", "jobs_not_read")
    (piece,) = world.must("next", RUN)["failure"]["evidence"]
    assert (piece["name"], piece.get("output")) == ("CI", None)


def test_several_checks_of_a_commit_are_one_repair(world: World) -> None:
    """The first sends the work back and lets it continue; those after it are evidence only, each once."""
    for number, name in ((31, "lint"), (32, "types"), (33, "docs")):
        world.github.checks.check(number, name, FIRST)
    answers = [world.arrive("check_run", number).json for number in (31, 32, 32)]
    assert [each["reason"] for each in answers] == ["reopened", "reopened", "recorded_before"]
    assert [each["resume"] for each in answers] == [True, False, True]
    failure = world.must("next", RUN)["failure"]
    assert [each["name"] for each in failure["evidence"]] == ["lint", "types"]
    # While the agent works, a third is added and nothing is undone.
    world.must("step", "complete", RUN, "build:implement", "--next")
    assert world.arrive("check_run", 33).json["resume"] is False
    action = world.must("next", RUN)
    assert (action["step"], action["mode"], len(action["failure"]["evidence"])) == ("test", "continue", 3)
    world.must("step", "complete", RUN, "evaluate:test", "--next")
    world.must("step", "complete", RUN, "release:open-pr", "--next")
    world.github.checks.check(34, "slow", FIRST)
    late = world.arrive("check_run", 34)
    assert (late.status, late.json["result"], late.json["reason"]) == (4, "stale", "repaired")
    assert "failure" not in world.must("context", RUN)
    assert "reopened" not in world.must("context", RUN)


def done(world: World, commit: str) -> None:
    """The work is done, and faber pushes `commit`."""
    world.must("step", "complete", RUN, "build:implement", "--message", "Fixed it", "--next")
    world.must("step", "complete", RUN, "evaluate:test", "--next")
    pushed(world, commit)
    world.must("step", "complete", RUN, "release:open-pr", "--next")


def again(world: World, commit: str, number: int) -> Any:
    """The same, and a check of it fails."""
    done(world, commit)
    world.github.checks.check(number, "lint", commit, summary="still red")
    return world.arrive("check_run", number).json


def test_after_so_many_repairs_a_person_is_asked(world: World) -> None:
    """`ci_retries` failures are repaired; the next one waits for a person, who is asked once and shown it."""
    world.github.checks.check(31, "lint", FIRST)
    assert world.arrive("check_run", 31).json["resume"] is True
    world.must("next", RUN)
    assert again(world, SECOND, 32)["resume"] is True
    world.must("next", RUN)
    asked = again(world, "c" * 40, 33)
    assert (asked["status"], asked["resume"]) == ("awaiting_feedback", False)
    world.github.checks.check(34, "types", "c" * 40)
    assert world.arrive("check_run", 34).json["request_id"] == asked["request_id"]
    (request,) = world.must("feedback", "show", RUN)["open"]
    assert (request["type"], request["options"]) == ("error_resolution", ["retry", "abort"])
    assert "after 2 repairs" in request["prompt"]
    assert request["context"]["failure"] == "still red"
    world.must("feedback", "respond", RUN, "retry")
    action = world.must("next", RUN)
    assert (action["step"], [each["name"] for each in action["failure"]["evidence"]]) == (
        "implement",
        ["lint", "types"],
    )


def test_many_returns_for_other_reasons_are_no_new_repairs(world: World) -> None:
    """The limit counts a run's repairs from its log: the state remembers only the newest returns."""
    world.github.checks.check(31, "lint", FIRST)
    assert world.arrive("check_run", 31).json["resume"] is True
    for number in range(KEPT_LOOPS):
        review = run_reopened(
            ("release", "open-pr"), "No", return_to="build", source=f"review-{number}", commit=FIRST, evidence=[]
        )
        commit_to(Layout(str(world.project)), RUN, lambda state, plan, review=review: [review])
    config = world.project / ".fractary" / "faber" / "config.yaml"
    config.write_text(config.read_text().replace("feedback: {", "feedback: {ci_retries: 1, "))
    world.must("next", RUN)
    assert again(world, SECOND, 32)["status"] == "awaiting_feedback"


def test_the_pull_request_is_told_once(world: World) -> None:
    """When the work is complete, one comment on the pull request says what was done, however often it is asked for."""
    (world.project / ".fractary" / "faber" / "config.yaml").write_text(settings(world.github, post="requests"))
    world.github.checks.check(31, "lint @octocat", FIRST)
    world.arrive("check_run", 31)
    world.must("next", RUN)
    assert world.must("feedback", "post", RUN, "--as-configured")["posted"] == []
    done(world, SECOND)
    for _ in range(2):
        world.must("feedback", "post", RUN, "--as-configured")
    (said,) = world.github.bodies(9)
    assert '```text\nThe check "lint @octocat" of the pull request #9 ended with failure' in said
    assert "build:implement: Fixed it" in said
    assert f"/commit/{SECOND}" in said


STALE = {
    "a passed check": ("check_run", {"conclusion": "success"}, {}, "not_failed"),
    "a check that runs again": ("check_run", {}, {"conclusion": None}, "not_failed"),
    "a check that passed since": ("check_run", {}, {"conclusion": "success"}, "not_failed"),
    "a cancelled workflow": ("workflow_run", {"conclusion": "cancelled"}, {}, "not_failed"),
    "another pull request": ("check_run", {}, {"pulls": (8,)}, "no_run"),
    "a commit of nobody": ("check_run", {}, {"commit": "d" * 40}, "older_commit"),
}


def test_a_check_that_is_not_the_runs_changes_nothing(world: World) -> None:
    """Checks that passed, of other pull requests, of forks, of other branches, of commits that faber did not push or
    that are not the newest: nothing is recorded."""
    before = world.log()
    for name, (kind, payload, there, reason) in STALE.items():
        world.github.checks.check(31, "lint", **({"commit": FIRST} | there))
        told = world.arrive(kind, 31, **payload)
        assert told.json["reason"] == reason, name
    # Anybody can offer the run's commit from a fork, against a base where it fails.
    world.github.checks.workflow(40, "CI", FIRST, {}, repository="stranger/widgets")
    assert world.arrive("workflow_run", 40).json["reason"] == "fork"
    world.github.checks.check(31, "lint", FIRST)
    for changed, reason in (
        ({"repository": "octocat/widgets"}, "fork"),
        ({"branch": "main"}, "another_branch"),
        ({"commit": "e" * 40}, "not_pushed_by_faber"),
        ({"state": "closed"}, "pull_request_closed"),
    ):
        world.github.checks.pull(9, **({"branch": "work/seven", "commit": FIRST} | changed))  # type: ignore[arg-type]
        told = world.arrive("check_run", 31)
        assert (told.status, told.json["reason"]) == (4, reason)
    assert world.log() == before
    for fault in (Fault(status=404), Fault(status=200, body=b"[]"), Fault(status=500), Fault(status=403)):
        world.github.faults = [fault._replace(path="/check-runs/")] * 4
        assert world.arrive("check_run", 31).json["reason"] == "check_unknown"
    world.github.faults = []
    assert world.log() == before
    pushed(world, SECOND)
    assert world.arrive("check_run", 31).json["reason"] == "older_commit"


def test_the_settings_decide(world: World) -> None:
    """In `record-only` the failure is recorded and nothing continues; `never` hears no check. A failed run waits for a
    person, and a cancelled one stays cancelled."""
    config = world.project / ".fractary" / "faber" / "config.yaml"
    world.github.checks.check(31, "lint", FIRST)
    config.write_text(settings(world.github, comments="never"))
    assert world.arrive("check_run", 31).json["reason"] == "switched_off"
    config.write_text(settings(world.github, comments="record-only"))
    told = world.arrive("check_run", 31).json
    assert (told["result"], told["resume"], told["status"]) == ("recorded", False, "in_progress")
    world.must("run", "fail", RUN, "--error", "broke")
    world.github.checks.check(32, "types", FIRST)
    assert world.arrive("check_run", 32).json["reason"] == "run_failed"
    world.must("run", "cancel", RUN, "--reason", "enough")
    assert world.arrive("check_run", 32).json["reason"] == "run_closed"


def reviewed(world: World, state: str, body: str | None, number: int = 77, pull: int = 9) -> Any:
    """A review of a run's pull request."""
    payload = review(world.github, state, body, number=pull)
    payload["review"]["id"] = number
    return world.faber("feedback", "from-event", "--event-path", write_event(world.project.parent, payload))


def test_a_review_that_requests_changes_reopens_the_run(world: World) -> None:
    """Its words and its comments on lines are at the first step as a person's answer, and with the steps after it; an
    approval changes nothing, and faber answers only one that speaks to it."""
    world.github.comment_on_line(77, "src/a.py", 12, "Why?")
    config = world.project / ".fractary" / "faber" / "config.yaml"
    config.write_text(settings(world.github, refusals=True))
    for number, body, replies in ((75, "Nice.", 0), (76, "@faber approve", 1)):
        told = reviewed(world, "approved", body, number).json
        assert (told["reason"], len(world.github.bodies(9))) == ("run_closed", replies)
    told = reviewed(world, "changes_requested", "Say what an empty file does.")
    assert (told.status, told.json["reason"], told.json["resume"]) == (0, "reopened", True)
    action = world.must("next", RUN)
    (answer,) = action["feedback"]
    assert (answer["action"], answer["comment"]) == ("revise", "Say what an empty file does.\nsrc/a.py:12: Why?")
    assert answer["responder"]["name"] == PERSON
    assert action["why"].startswith("A person asked for changes")
    assert reviewed(world, "changes_requested", "Say what an empty file does.").json["reason"] == "recorded_before"
    world.must("step", "complete", RUN, "build:implement", "--next")
    action = world.must("next", RUN)
    assert "feedback" not in action
    (piece,) = action["failure"]["evidence"]
    assert (piece["kind"], piece["name"], piece.get("untrusted")) == ("review", PERSON, None)
    # A second one, while the work continues, sends it back once more, and is not counted as a repair.
    reviewed(world, "changes_requested", "And a full one.", 78)
    assert world.must("next", RUN)["step"] == "implement"
    world.github.checks.pull(9, "work/seven", "e" * 40)
    refused = reviewed(world, "changes_requested", "More.", 79)
    assert (refused.status, refused.json["reason"]) == (4, "not_pushed_by_faber")


def test_a_review_is_heard_while_something_else_is_asked(world: World) -> None:
    """Where the open question is not about the work, a review that requests changes re-opens the run, which still
    waits for the answer."""
    world.github.checks.check(31, "lint", FIRST)
    world.arrive("check_run", 31)
    world.must("next", RUN)
    world.must("feedback", "request", RUN, "--type", "clarification", "--prompt", "Tabs?")
    told = reviewed(world, "changes_requested", "Say what an empty file does.").json
    assert (told["reason"], told["status"], told["resume"]) == ("reopened", "awaiting_feedback", False)
    assert world.must("next", RUN)["action"] == "wait"
    world.must("feedback", "respond", RUN, "No.")
    assert {each["response"] for each in world.must("next", RUN)["feedback"]} == {"request_changes", "No."}


def test_a_comment_on_a_line_counts_like_one_on_the_pull_request(world: World) -> None:
    """By itself, with the mention: the answer says which line. As a part of a review that decides, or without the
    mention, it says nothing."""
    world.github.checks.check(31, "lint", FIRST)
    world.arrive("check_run", 31)
    world.must("feedback", "request", RUN, "--prompt", "Like this?", "--type", "review")
    asked = world.must("feedback", "show", RUN)["open"][0]["request_id"]

    def line(body: str, state: str, number: int) -> Any:
        world.github.checks.review(237895671, state)
        payload = on_line(world.github, body, number)
        return world.faber("feedback", "from-event", "--event-path", write_event(world.project.parent, payload)).json

    assert line("Maybe more emoji.", "COMMENTED", 1)["reason"] == "no_command"
    assert line("@faber request changes: more emoji", "CHANGES_REQUESTED", 2)["reason"] == "part_of_review"
    told = line("@faber request changes: more emoji", "COMMENTED", 3)
    assert (told["result"], told["request_id"], told["action"]) == ("recorded", asked, "revise")
    (answer,) = world.must("next", RUN)["feedback"]
    assert answer["comment"] == "README.md:265: more emoji"


def test_approvals_for_opening_the_pull_request_stay(world: World) -> None:
    """What a person approved before the pull request was opened is not asked again: it is open. Other approvals were
    given for work that is now repeated."""
    from faber.model.gates import admits

    assert [
        admits(gate, "release", "open-pr") for gate in ("phase:release", "step:release:open-pr", "before:release:0")
    ]
    assert not any(
        admits(gate, "release", "open-pr") for gate in ("phase:build", "result:release:x", "after:release:0")
    )
    assert not admits("phase:release", "release", None)


def test_the_run_shows_why_it_has_work_again(world: World) -> None:
    """Status, why, the context and the log name the check."""
    world.github.checks.check(31, "lint", FIRST, summary="E501")
    world.arrive("check_run", 31)
    assert 'The check "lint"' in world.faber("status", RUN).out
    why = world.must("why", RUN, "--format", "json")
    assert 'The check "lint"' in why["why"]
    assert [event["type"] for event in why["decided_by"]][-1:] == ["run_reopened"]
    context = world.must("context", RUN)
    assert context["reopened"]["evidence"][0]["output"] == "E501"
    (event,) = [each for each in context["events"] if each["type"] == "run_reopened"]
    assert "metadata" not in event
    assert 'Re-opened: The check "lint"' in world.faber("context", RUN, "--format", "text").out
    assert world.must("doctor", RUN, "--format", "json")["healthy"] is True
    refused = world.faber(
        "event", "emit", RUN, "--type", "run_reopened", "--phase", "build", "--set", "return_to=build"
    )
    assert refused.code == "has_own_command"


@pytest.mark.parametrize("what", ["a failed check", "a review"])
def test_an_approval_that_is_asked_for_is_withdrawn(world: World, what: str) -> None:
    """While a gate asks to approve work that is sent back, the request ends with it, the run continues, and the gate
    asks again; a review that requests changes is no answer to it, and no mistake."""
    world.must("run", "init", "--run-id", "demo/two/run", "--work-id", "8", "--workflow", "short")
    world.must("next", "demo/two/run")
    for step, more in (("frame:classify", ("--artifact", "branch_name=work/eight")), ("build:implement", ())):
        world.must("step", "complete", "demo/two/run", step, *more, "--next")
    gate = world.must("step", "complete", "demo/two/run", "evaluate:test", "--next")
    assert gate["action"] == "wait"
    url = f"https://127.0.0.1/{world.github.slug}/pull/10"
    world.must(
        "event", "emit", "demo/two/run", "--type", "pr_create", "--set", f"url={url}", "--set", f"commit={FIRST}"
    )
    world.github.checks.pull(10, "work/eight", FIRST)
    if what == "a review":
        told = reviewed(world, "changes_requested", "Shorter.", pull=10).json
    else:
        world.github.checks.check(31, "lint", FIRST, pulls=(10,))
        told = world.arrive("check_run", 31).json
    assert (told["reason"], told["resume"], told["request_id"]) == ("reopened", True, None)
    assert world.must("feedback", "show", "demo/two/run")["open"] == []
    assert world.must("next", "demo/two/run")["step"] == "implement"
    world.must("step", "complete", "demo/two/run", "build:implement", "--next")
    assert world.must("step", "complete", "demo/two/run", "evaluate:test", "--next")["action"] == "wait"
