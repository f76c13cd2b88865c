"""Opening a run's pull request: once, with the run's facts, and never against a person's will."""

from pull_request.world import BRANCH, STEP, World, start
from support.repositories import git


def test_the_step_opens_it(world: World) -> None:
    """In the step that opens it the branch is pushed, the pull request opened and recorded, and the step completed."""
    start(world.call, STEP)
    answer = world.open()
    assert (answer.status, answer.json["result"], answer.json["completed"]) == (0, "created", STEP)
    [number] = world.github.pulls.found
    assert world.github.pulls.found[number]["draft"] is False
    head = git(world.project, "rev-parse", BRANCH)
    assert world.github.pulls.head(BRANCH) == answer.json["commit"] == head
    artifacts = world.state["artifacts"]
    assert artifacts["pr_url"] == f"{world.github.web}/pull/{number}"
    assert (artifacts["pr_number"], artifacts["pr_commit"], artifacts["pr_state"]) == (str(number), head, "open")
    assert [event["metadata"]["commit"] for event in world.events("pr_create")] == [head]
    assert "Closes #7." in world.bodies[number]


def test_show(world: World) -> None:
    """x"""
    import pathlib

    start(world.call, STEP)
    print(world.open().json)
    [b] = world.bodies.values()
    pathlib.Path("/tmp/pr_body.md").write_text(b)
    pathlib.Path("/tmp/pr_title").write_text(next(iter(world.github.pulls.found.values()))["title"])
