"""Opening a run's pull request: once, with the run's facts, and never against a person's will."""

from collections.abc import Callable
from typing import Any

import pytest

from faber.github.pull_requests import PullRequests
from faber.pull_request import opening
from faber.pull_request.pr_record import Recorded
from github.fake import Fault
from pull_request.world import BRANCH, RUN, STEP, World, must, start
from support.repositories import commit, git


def only(world: World) -> dict[str, Any]:
    """The one pull request that there is."""
    [found] = world.github.pulls.found.values()
    return found


def posts(world: World) -> list[str]:
    """The pull requests that faber asked for."""
    return [asked for asked in world.github.asked("POST") if asked.endswith("/pulls")]


def test_the_step_opens_it_once(world: World) -> None:
    """In the step that opens it the branch is pushed, the pull request opened and recorded, and the step completed;
    the same command again does nothing twice."""
    start(world.call, STEP)
    answer = world.open()
    assert (answer.status, answer.json["result"], answer.json["completed"]) == (0, "created", STEP)
    assert (only(world)["draft"], only(world)["title"]) == (False, "Export orders as CSV")
    head = git(world.project, "rev-parse", BRANCH)
    assert world.github.pulls.head(BRANCH) == answer.json["commit"] == head
    artifacts = world.state["artifacts"]
    number = str(answer.json["number"])
    assert artifacts["pr_url"] == f"{world.github.web}/pull/{number}"
    assert (artifacts["pr_number"], artifacts["pr_commit"], artifacts["pr_state"]) == (number, head, "open")
    again = world.open()
    assert (again.status, again.json["result"], again.json["completed"]) == (0, "updated", None)
    assert [event["metadata"]["commit"] for event in world.events("pr_create", "pr_update")] == [head]
    assert len(posts(world)) == 1


KILLS = [pytest.param(name, marks=pytest.mark.full) for name in ("push_branch", "complete_due_step")]


@pytest.mark.parametrize("dies", ["create", "record_open", *KILLS])
def test_a_kill_at_any_moment_leaves_one(world: World, dies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the push, after the pull request was opened, or before it or the step is recorded: the repeated
    command ends with one pull request, one event and the completed step."""
    start(world.call, STEP)
    owner: Any = PullRequests if dies == "create" else opening
    real: Callable[..., Any] = getattr(owner, dies)

    def killed(*arguments: Any, **named: Any) -> None:
        if dies in ("push_branch", "create"):
            real(*arguments, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, dies, killed)
        assert world.open().status == 130
    answer = world.open()
    assert (answer.status, answer.json["completed"]) == (0, STEP)
    assert (len(posts(world)), len(world.events("pr_create", "pr_update")), only(world)["draft"]) == (1, 1, False)


def test_two_at_once_open_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that both found none open one; whoever comes second takes the first one's."""
    start(world.call, STEP)
    real = PullRequests.of_branch
    asked: list[int] = []

    def late(self: PullRequests, owner: str, branch: str) -> Any:
        asked.append(1)
        return real(self, owner, branch) if len(asked) > 1 else []

    world.open()
    monkeypatch.setattr(PullRequests, "of_branch", late)
    monkeypatch.setattr(opening, "recorded", lambda state: Recorded("", None, "", ""))
    answer = world.open()
    assert (answer.status, answer.json["result"], answer.json["number"]) == (0, "updated", only(world)["number"])


def test_an_answer_that_is_lost_is_looked_for(world: World) -> None:
    """Where GitHub opened it and the answer was lost, it is found and not opened again."""
    start(world.call, STEP)
    world.github.faults.append(Fault(drop="after", method="POST", path="/pulls"))
    answer = world.open()
    assert (answer.status, answer.json["completed"], len(world.github.pulls.found)) == (0, STEP, 1)


def test_it_is_a_draft_until_the_gate_is_open(world: World) -> None:
    """Before a person approved the step it is a draft that says so; then it is marked as ready, and the run ends where
    nothing is left. A new commit is pushed and recorded."""
    assert world.call("next", RUN).json["action"] == "wait"
    first = world.open("--as-configured").json
    assert (first["result"], first["draft"], first["completed"]) == ("created", True, None)
    assert "> **Not ready to merge:**" in only(world)["body"]
    world.call("feedback", "respond", RUN, "approve")
    head = commit(world.project, {"shop/more.py": "pass\n"}, "Answer the review")
    second = world.open("--as-configured").json
    assert (second["result"], second["draft"], second["completed"], second["status"]) == (
        "updated",
        False,
        STEP,
        "completed",
    )
    assert (only(world)["draft"], "Not ready" in only(world)["body"]) == (False, False)
    assert [event["metadata"]["commit"] for event in world.events("pr_update")] == [head]
    assert world.state["artifacts"]["pr_commit"] == head == world.github.pulls.head(BRANCH)


def test_what_a_person_chose_since_stays(world: World) -> None:
    """A draft that a person marked as ready is not made a draft again; what they wrote around faber's part stays."""
    world.open()
    found = only(world)
    found["draft"] = False
    found["body"] = f"My own words.\r\n\r\n{found['body']}\r\n\r\nAnd more."
    found["title"] = "My title"
    commit(world.project, {"shop/more.py": "pass\n"}, "More")
    assert world.open().json["result"] == "updated"
    assert world.open().json["draft"] is False
    assert (found["draft"], found["title"]) == (False, "My title")
    assert found["body"].startswith("My own words.\n\n<!-- faber:pull-request ")
    assert found["body"].endswith("<!-- /faber:pull-request -->\n\nAnd more.")
    assert "3 commits" in found["body"]


def test_an_owners_name_has_no_case(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the configuration or the remote writes the repository in capitals, its pull request is found."""
    number = world.open().json["number"]
    monkeypatch.setenv("GH_REPO", f"127.0.0.1/{world.github.slug.title()}")
    answer = world.open()
    assert (answer.status, answer.json.get("number"), len(posts(world))) == (0, number, 1)
    assert "another_branch" not in [warning["code"] for warning in answer.json["warnings"]]


def test_another_base_is_taken(world: World) -> None:
    """--base moves the run's pull request that is open to another base, one that GitHub has; a person's own keeps its
    base."""
    world.open()
    git(world.project, "push", "-q", "origin", "main:next")
    assert (world.open("--base", "next").json["base"], only(world)["base"]) == ("next", "next")
    assert world.events("pr_update")[-1]["metadata"]["base"] == "next"
    assert world.open().json["base"] == "next"
    refused = world.open("--base", "nowhere")
    assert (refused.code, only(world)["base"]) == ("pull_request_refused", "next")
    only(world)["body"] = "My own words."
    kept = world.open("--base", "main").json
    assert (kept["base"], kept["warnings"][0]["code"], only(world)["base"]) == ("next", "body_kept", "next")


def test_what_a_person_wrote_leaves_less_room(world: World) -> None:
    """faber's part and what a person wrote around it are together at most as long as GitHub allows."""
    world.open()
    only(world)["body"] = f"{'My own words. ' * 4_600}\n\n{only(world)['body']}"
    assert world.open().status == 0
    assert only(world)["body"].startswith("My own words. ")
    assert 60_000 < len(only(world)["body"]) <= 65_536


def test_a_persons_own_is_adopted(world: World) -> None:
    """A pull request that a person opened for the branch is recorded as the run's; its text and state stay."""
    git(world.project, "push", "-q", "origin", BRANCH)
    world.github.pulls.add(BRANCH, body="Please look.", draft=True)
    start(world.call, STEP)
    answer = world.open()
    assert (answer.status, answer.json["result"], answer.json["completed"]) == (0, "adopted", STEP)
    assert [warning["code"] for warning in answer.json["warnings"]] == ["body_kept"]
    assert (only(world)["body"], only(world)["draft"]) == ("Please look.", True)
    assert world.events("pr_create")[0]["metadata"]["ours"] is False


def test_a_merged_one_is_the_end(world: World) -> None:
    """A merged pull request is recorded, also when the run is completed, and no second one is opened."""
    start(world.call, STEP)
    number = world.open("--next").json["pull_request"]["number"]
    assert world.state["status"] == "completed"
    merged = world.github.pulls.merge(number)
    commit(world.project, {"shop/more.py": "pass\n"}, "Too late")
    for _ in range(2):
        answer = world.open()
        assert (answer.status, answer.json["result"], len(posts(world))) == (0, "merged", 1)
        assert [warning["code"] for warning in answer.json["warnings"]] == ["commits_after_merge"]
    assert [event["metadata"]["commit"] for event in world.events("pr_merge")] == [merged]
    assert (world.state["artifacts"]["pr_state"], world.state["status"]) == ("merged", "completed")


def test_a_branch_that_was_deleted_after_the_merge_stays_deleted(world: World) -> None:
    """Once the pull request is merged, the run is pushed and exported without the branch, here or not; commits that
    were made since are pushed."""
    start(world.call, STEP)
    world.github.pulls.merge(world.open().json["number"])
    must(world.call, "sync", "push", RUN)
    assert world.open().json["result"] == "merged"
    git(world.project, "push", "-q", "origin", "--delete", BRANCH)
    told = must(world.call, "sync", "push", RUN)
    assert (told["result"], told["branch"], world.github.pulls.head(BRANCH)) == ("pushed", None, None)
    git(world.project, "switch", "-q", "main")
    git(world.project, "branch", "-q", "-m", BRANCH, "aside")
    file = str(world.project.parent / "run.bundle")
    assert must(world.call, "sync", "export", RUN, file)["branch"] is None
    git(world.project, "branch", "-q", "-m", "aside", BRANCH)
    git(world.project, "switch", "-q", BRANCH)
    commit(world.project, {"shop/more.py": "pass\n"}, "More")
    assert must(world.call, "sync", "push", RUN)["branch"] == BRANCH


def test_a_merged_draft_completes_no_step_behind_a_gate(world: World) -> None:
    """Merged before a person approved the step, the pull request is recorded; the step is not said to be completed."""
    world.github.pulls.merge(world.open().json["number"])
    answer = world.open("--as-configured")
    assert (answer.json["result"], answer.json["completed"]) == ("merged", None)
    assert world.state["status"] == "awaiting_feedback"


def test_a_closed_one_is_not_opened_again(world: World) -> None:
    """A pull request that a person closed is neither reopened nor followed by another one: a person decides. One that
    they open instead is the run's from then on."""
    number = world.open().json["number"]
    world.github.pulls.close(number)
    answer = world.open()
    assert (answer.status, answer.code, answer.json["error"]["number"]) == (3, "pull_request_closed", number)
    assert (only(world)["state"], len(posts(world))) == ("closed", 1)
    other = world.github.pulls.add(BRANCH)
    answer = world.open()
    assert (answer.json["result"], answer.json["number"], len(posts(world))) == ("adopted", other, 1)


def test_what_github_does_not_allow_is_a_warning(world: World) -> None:
    """Where the repository has no drafts, or the token may not change one, the pull request is there all the same."""
    world.github.pulls.drafts = False
    answer = world.open()
    assert (answer.status, answer.json["draft"]) == (0, False)
    assert [warning["code"] for warning in answer.json["warnings"]] == ["draft_refused"]
    world.github.pulls.drafts, world.github.pulls.graphql = True, False
    answer = world.open()
    assert (answer.status, answer.json["draft"]) == (0, False)
    assert [warning["code"] for warning in answer.json["warnings"]] == ["draft_refused"]
    assert "Resource not accessible by integration" in answer.json["warnings"][0]["message"]


REFUSALS = {
    "base": ((), ("--base", "nowhere"), 4, "pull_request_refused"),
    "renamed": (
        (Fault(307, "Moved", {"location": "/repositories/1/pulls"}, method="POST", path="/pulls"),),
        (),
        4,
        "pull_request_refused",
    ),
    "limited": (
        (Fault(403, "Limit", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4102444800"}, path="/pulls"),),
        (),
        1,
        "work_item_rate_limited",
    ),
}


@pytest.mark.parametrize(("faults", "options", "status", "code"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_records_nothing(
    world: World, faults: tuple[Fault, ...], options: tuple[str, ...], status: int, code: str
) -> None:
    """What GitHub refuses has a code and a recovery, and leaves the run as it was."""
    start(world.call, STEP)
    before = world.state
    world.github.faults += faults
    answer = world.open(*options)
    assert (answer.status, answer.code, bool(answer.json["error"]["recovery"])) == (status, code, True)
    assert (world.state, world.github.pulls.found) == (before, {})


def test_a_branch_without_commits_is_nothing_to_merge(world: World) -> None:
    """A branch that has what its base has is not sent for review."""
    git(world.project, "push", "-q", "origin", f"{BRANCH}:main")
    assert world.open().code == "nothing_to_merge"


ELSEWHERE = {
    "told not to": ({"FABER_NO_FETCH": "1"}, 3, "github_out_of_reach"),
    "no credential": ({"GH_ENTERPRISE_TOKEN": ""}, 3, "github_out_of_reach"),
}


@pytest.mark.parametrize(("environment", "status", "code"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_an_agent_without_a_credential_stops(
    world: World, environment: dict[str, str], status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that may not call GitHub is told to stop, and named no command."""
    start(world.call, STEP)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = world.open()
    assert (answer.status, answer.code) == (status, code)
    assert answer.json["error"]["recovery"].startswith("Stop here")
    assert "`" not in answer.json["error"]["recovery"]
    assert world.github.seen == []


def test_elsewhere_than_on_github_it_says_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without GitHub the command names the one that hands in an address; with --as-configured it does nothing."""
    (world.project / ".fractary" / "faber" / "config.yaml").unlink()
    for name in ("GH_REPO", "GH_HOST", "GH_ENTERPRISE_TOKEN"):
        monkeypatch.delenv(name)
    start(world.call, STEP)
    answer = world.open()
    assert (answer.status, answer.code) == (4, "not_on_github")
    assert f"`faber step complete {RUN} {STEP} --next --artifact pr_url=URL`" in answer.json["error"]["recovery"]
    assert world.open("--as-configured").json["reason"] == "not_on_github"


def test_an_agent_opens_it_only_in_its_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the step is in progress, which a person approves, an agent opens nothing."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s")
    answer = world.open()
    assert (answer.status, answer.code, world.github.seen) == (4, "pull_request_not_due", [])


def test_no_branch_but_its_own_is_touched(world: World) -> None:
    """A protected branch is not pushed, whatever the run says it works on; a pull request of another branch that the
    run was handed stays as it is."""
    other = world.github.pulls.add("other", body="Not yours.")
    start(world.call, STEP)
    handed = f'{{"url": "{world.github.web}/pull/{other}"}}'
    world.call("event", "emit", RUN, "--type", "pr_create", "--metadata", handed)
    git(world.project, "branch", "-f", "main", BRANCH)
    before = world.github.pulls.head("main")
    world.call("event", "emit", RUN, "--type", "branch_create", "--set", "branch=main")
    assert (world.open().code, world.github.pulls.head("main")) == ("nothing_to_merge", before)
    world.call("event", "emit", RUN, "--type", "branch_create", "--set", f"branch={BRANCH}")
    answer = world.open()
    assert [warning["code"] for warning in answer.json["warnings"]] == ["another_branch"]
    assert (answer.json["result"], world.bodies[other]) == ("created", "Not yours.")
    assert world.state["artifacts"]["pr_number"] == str(answer.json["number"])


def test_a_gate_after_it_is_asked_at_once(world: World) -> None:
    """Where a person is to approve what follows, no agent is needed to ask: the pull request waits as a draft."""
    workflows = world.project / ".fractary" / "faber" / "workflows"
    workflows.mkdir(exist_ok=True)
    (workflows / "gated.yaml").write_text(GATED)
    must(world.call, "run", "init", "--run-id", "gated", "--work-id", "7", "--workflow", "gated", *AUTONOMOUS)
    must(world.call, "event", "emit", "gated", "--type", "branch_create", "--set", f"branch={BRANCH}")
    must(world.call, "next", "gated")
    told = must(world.call, "pull-request", "gated", "--as-configured")
    assert (told["completed"], told["draft"], told["status"]) == ("release:open-pr", True, "awaiting_feedback")
    assert told["waits"] == ["A person has to answer: Announce it?"]
    must(world.call, "feedback", "respond", "gated", "approve")
    assert must(world.call, "pull-request", "gated", "--as-configured")["draft"] is False


AUTONOMOUS = ("--autonomy", "autonomous")
GATED = """
phases:
  - {id: release, steps: [{id: open-pr, instruction: Open it., pull_request: true}]}
  - {id: after, gates: [{prompt: "Announce it?"}], steps: [{id: announce, instruction: Announce it.}]}
"""
