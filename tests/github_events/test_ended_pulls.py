"""What a schedule finds out about the pull requests of runs."""

from typing import Any

import pytest

from github.comments import write_event
from pull_request.conftest import _person as _person
from pull_request.world import STEP, World, must, start


def look(world: World, patch: pytest.MonkeyPatch) -> Any:
    """GitHub started the job because it was time to."""
    patch.setenv("GITHUB_EVENT_NAME", "schedule")
    return must(world.call, "feedback", "from-event", "--event-path", write_event(world.project.parent, {}))


@pytest.mark.parametrize(("merged", "over"), [(True, True), (False, False)], ids=["merged", "closed"])
def test_what_happened_to_a_pull_request_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch, merged: bool, over: bool
) -> None:
    """A pull request that a person merged or closed is recorded by the next schedule, once, and no agent continues."""
    if over:
        start(world.call, STEP)
    number = world.open("--next").json["pull_request" if over else "number"]
    number = number["number"] if over else number
    assert look(world, monkeypatch)["reason"] == "no_reaction"
    if merged:
        world.github.pulls.merge(number)
    else:
        world.github.pulls.close(number)
    told = look(world, monkeypatch)
    expected = ("recorded", f"pull_request_{'merged' if merged else 'closed'}", False)
    assert (told["result"], told["reason"], told["resume"]) == expected
    assert world.state["artifacts"]["pr_state"] == ("merged" if merged else "closed")
    asked = len(world.github.asked("GET"))
    assert look(world, monkeypatch)["reason"] == "no_reaction"
    assert len(world.github.asked("GET")) == asked
    if not merged:
        world.github.pulls.found[number]["state"] = "open"
        assert world.open().json["result"] == "updated"
        assert world.state["artifacts"]["pr_state"] == ("open" if over else "draft")
