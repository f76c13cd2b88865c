"""A pull request whose branch GitHub brought up to date: a merge of the base changes nothing about whose work it is."""

import pytest

from github.comments import ended, write_event
from pull_request.conftest import _person as _person
from pull_request.world import BRANCH, STEP, World, must, start
from support.repositories import commit, git

# What is done to the branch at GitHub, after `main` got two commits: arguments of git on a machine there.
UPDATES = {
    "the button, twice": (["merge --no-ff -q -m U origin/main~1", "merge --no-ff -q -m U origin/main"], "reopened"),
    "the branch of a person, as its base": (["merge --no-ff -q -m U person"], "not"),
    "with a change": (["merge --no-ff --no-commit -q origin/main", "rm -q -f README.md", "commit -q -m U"], "not"),
}
RARE = {
    "the other way round": (["switch -q -C x origin/main", f"merge --no-ff -q -m U {BRANCH}"], "not"),
    "a commit": (["commit -q --allow-empty -m Mine"], "not"),
}


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        *(pytest.param(*each, id=name) for name, each in UPDATES.items()),
        *(pytest.param(*each, id=name, marks=pytest.mark.full) for name, each in RARE.items()),
    ],
)
def test_a_merge_of_the_base_keeps_it_the_runs(world: World, done: list[str], reason: str) -> None:
    """A check that fails at a merge of the base that git makes by itself is the run's to repair, and its work continues
    from there; at any other commit that faber did not push it is not. More such merges are the same repair."""
    start(world.call, STEP)
    number = world.open().json["number"]
    there = world.project.parent / "there"
    git(world.project.parent, "clone", "-q", str(world.project.parent / "projects" / "acme" / "widgets.git"), "there")
    commit(there, {"of/a/person": "x"}, "Another")
    git(there, "switch", "-q", "-c", "person")
    commit(there, {"of/another": "x"}, "Mine alone")
    git(there, "switch", "-q", "main")
    commit(there, {"of/all": "x"}, "More")
    git(there, "push", "-q", "origin", "main", "person")
    git(there, "switch", "-q", BRANCH)
    for arguments in done:
        git(there, *arguments.split())
    git(there, "push", "-q", "-f", "origin", f"HEAD:{BRANCH}")
    git(world.project, "fetch", "-q", "origin")
    head = git(there, "rev-parse", "HEAD")
    if "person" in done[0]:  # who may push a branch may not be who may change the base that faber left
        world.github.pulls.found[number]["base"] = "person"
    world.github.checks.workflow(40, "CI", head, {41: ("test", "failure", "no\n")})
    event = write_event(world.project.parent, ended(world.github, "workflow_run", 40))
    told = world.call("feedback", "from-event", "--event-path", event)
    assert told.json["reason"] == {"not": "not_pushed_by_faber"}.get(reason, reason)
    if reason == "reopened":
        git(there, "switch", "-q", "main")
        commit(there, {"of/all": "y"}, "Even more")
        git(there, "switch", "-q", BRANCH)
        git(there, "merge", "--no-ff", "-q", "-m", "U", "main")
        git(there, "push", "-q", "origin", "main", BRANCH)
        git(world.project, "fetch", "-q", "origin")
        head = git(there, "rev-parse", "HEAD")
        world.github.checks.workflow(50, "CI", head, {51: ("test", "failure", "no\n")})
        event = write_event(world.project.parent, ended(world.github, "workflow_run", 50))
        assert must(world.call, "feedback", "from-event", "--event-path", event)["reason"] == "reopened"
        assert [each["metadata"]["repair"] for each in world.events("run_reopened")] == [1, 1]
        assert head[:12] in world.events("run_reopened")[1]["message"]
        git(world.project, "merge", "-q", "--ff-only", f"origin/{BRANCH}")
        assert must(world.call, "pull-request", told.json["run_id"])["commit"] == head
        assert world.state["artifacts"]["pr_commit"] == head
