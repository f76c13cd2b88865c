"""Who continues a run after an answer on GitHub."""

import pytest

from github.comments import event, write_event
from pull_request.conftest import _person as _person
from pull_request.world import BRANCH, RUN, STEP, World, must, start

FLOW = """
phases:
  - {id: release, steps: [{id: open-pr, instruction: Open it., pull_request: true, EVIDENCE}, OTHER]}
  - {id: after, GATES steps: [{id: announce, instruction: Announce it.}]}
"""
OTHER = "{id: tag, instruction: Tag it.}"


def said(world: World, words: str) -> tuple[bool, bool]:
    """Whether a comment lets an agent continue the run, and whether faber opens the pull request before."""
    payload = event(world.github, words)
    told = must(world.call, "feedback", "from-event", "--event-path", write_event(world.project.parent, payload))
    return told["resume"], told["pull_request"]


def test_an_approval_leaves_no_work_to_an_agent(world: World) -> None:
    """Where only the pull request is left, faber opens it, and no agent is paid for a step that it cannot do."""
    must(world.call, "next", RUN)
    assert said(world, f"@faber approve {world.state['feedback_request']['request_id']}") == (False, True)
    must(world.call, "pull-request", RUN, "--as-configured")
    assert world.state["status"] == "completed"


@pytest.mark.parametrize(
    ("asks", "comments", "status"),
    [(True, "resume", "completed"), (False, "resume", "completed"), (True, "record-only", "in_progress")],
)
def test_a_run_of_which_only_the_end_is_left_is_completed(world: World, asks: bool, comments: str, status: str) -> None:
    """faber completes it, where answers continue runs: no agent starts for that."""
    start(world.call, STEP)
    world.open()
    words = "@faber resume"
    if asks:
        must(world.call, "feedback", "request", RUN, "--prompt", "All well?")
        words = "@faber approve"
    world.configure(comments=comments)
    assert said(world, words) == (False, False)
    assert world.state["status"] == status


def test_a_gate_at_the_end_is_asked_without_an_agent(world: World) -> None:
    """Where a comment continues a run and only a person's approval is left, faber asks for it, and no agent starts."""
    last = FLOW.splitlines()[-1]
    run = begin(world, {last: "", "OTHER": "", "id: release,": 'id: release, gates: [{prompt: "Well?", when: after}],'})
    must(world.call, "pull-request", run)
    assert said(world, "@faber resume") == (False, False)
    assert must(world.call, "run", "show", run)["state"]["status"] == "awaiting_feedback"


@pytest.mark.parametrize("ci", [True, False])
def test_who_reads_the_progress_is_told_how_steps_after_it_continue(
    world: World, ci: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody works on a run when a job of CI ends, so that the progress says what to write; elsewhere somebody may."""
    if ci:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
    world.configure(post="all", comments="resume")
    run = begin(world, {"OTHER": OTHER, "GATES": ""})
    must(world.call, "pull-request", run, "--as-configured")
    must(world.call, "feedback", "post", run, "--as-configured")
    (progress,) = [body for body in world.github.bodies(7) if f"faber:progress {run}" in body]
    assert ("Steps are left. To let an agent continue, write a comment: `@faber resume`" in progress) is ci


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({"OTHER": OTHER, "GATES": ""}, (True, True)),
        ({"OTHER": "", "GATES": ""}, (True, True)),
        ({"OTHER": "", "GATES": 'gates: [{prompt: "Announce it?"}],'}, (False, True)),
        ({"OTHER": "", "GATES": "", "EVIDENCE": "evidence: [commit]"}, (True, False)),
    ],
    ids=["another step", "another phase", "a gate", "evidence"],
)
def test_what_follows_decides(world: World, replaced: dict[str, str], expected: tuple[bool, bool]) -> None:
    """An agent continues after the pull request if a step is left that no gate keeps from it, or does what else the
    step asks for."""
    begin(world, replaced)
    assert said(world, "@faber resume") == expected


def begin(world: World, replaced: dict[str, str]) -> str:
    """A run of that workflow whose first step is in progress, which opens the pull request."""
    flow = FLOW
    for old, new in ({"EVIDENCE": ""} | replaced).items():
        flow = flow.replace(old, new)
    workflows = world.project / ".fractary" / "faber" / "workflows"
    workflows.mkdir(exist_ok=True)
    (workflows / "other.yaml").write_text(flow)
    must(world.call, "run", "cancel", RUN, "--reason", "Another one.")
    must(world.call, "run", "init", "--work-id", "7", "--workflow", "other", "--autonomy", "autonomous")
    (run,) = {each["run_id"] for each in must(world.call, "run", "list")["runs"]} - {RUN}
    must(world.call, "event", "emit", run, "--type", "branch_create", "--set", f"branch={BRANCH}")
    must(world.call, "next", run)
    return str(run)
