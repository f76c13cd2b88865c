"""A reaction to the comment that asks: whose counts, what it says, and that nothing else does anything."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.test_from_event import OUTSIDER, PERSON, RUN, World
from cli.test_from_event import world as world
from github.comments import write_event
from github.fake import Fault
from github.fake_reactions import react

COLLEAGUE = "colleague"


class Asked(NamedTuple):
    """A run's request that was posted."""

    world: World
    request_id: str
    comment_id: int

    def react(self, content: str, login: str | None = PERSON, **more: Any) -> int:
        return react(self.world.github, self.comment_id, content, login, **more)

    def look(self) -> Any:
        event = write_event(self.world.project.parent, {"schedule": "*/15 * * * *"})
        return self.world.faber("feedback", "from-event", "--event-path", event)


@pytest.fixture(autouse=True)
def _scheduled(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """GitHub started the job because it was time to."""
    monkeypatch.setenv("GITHUB_EVENT_NAME", "schedule")
    world.github.permissions[COLLEAGUE] = ("write", "write")


def ask(world: World, kind: str = "approval", *options: str) -> Asked:
    """A request on the run's issue."""
    request_id = world.ask("--type", kind, "--post", *options)
    return Asked(world, request_id, max(world.github.comments))


def newest(world: World) -> Any:
    """The newest event of the run."""
    return json.loads((world.events / world.log()[-1]).read_bytes())


@pytest.mark.parametrize(
    ("kind", "content", "response"),
    [
        ("approval", "+1", "approve"),
        ("approval", "-1", "reject"),
        ("confirmation", "+1", "confirm"),
        ("confirmation", "-1", "cancel"),
        ("review", "+1", "approve"),
        ("review", "-1", None),
        ("error_resolution", "+1", None),
        ("clarification", "-1", None),
        ("approval", "heart", None),
        ("approval", "rocket", None),
    ],
)
def test_a_reaction_says_yes_or_no(world: World, kind: str, content: str, response: str | None) -> None:
    """Thumbs mean what `yes` and `no` mean for the request, which says so in its comment; other signs nothing."""
    asked = ask(world, kind)
    said = world.github.bodies(7)[0]
    before = world.log()
    asked.react(content)
    told = asked.look().json
    if response is None:
        assert (told["result"] != "recorded", world.log()) == (True, before), told
        assert f"{'👍' if content == '+1' else '👎'} means" not in said or content not in ("+1", "-1")
        return
    assert (told["result"], told["request_id"], told["response"]) == ("recorded", asked.request_id, response)
    assert f"{'👍' if content == '+1' else '👎'} means `{response}`" in said
    assert world.writes()[1:] == []


def test_a_reaction_is_recorded_once_with_who_made_it(world: World) -> None:
    """One event, known by the reaction's id, with login and link; looking again records nothing."""
    asked = ask(world)
    number = asked.react("+1")
    assert asked.look().json["resume"] is True
    event = newest(world)
    assert (event["actor"], event["key"]) == ("person", f"reaction-{number}")
    assert event["metadata"]["responder"] == {
        "name": PERSON,
        "source": "reaction",
        "url": world.github.comments[asked.comment_id]["html_url"],
        "comment_id": number,
    }
    before = world.log()
    again = asked.look()
    assert (again.status, again.json["reason"], world.log()) == (0, "no_reaction", before)


def _older(asked: Asked) -> None:
    asked.react("+1", at="2020-01-01T00:00:00Z")


def _of_another_request(asked: Asked) -> None:
    asked.world.github.comments[asked.comment_id]["body"] = "Lunch?\n\n<!-- faber:request fr-20200101-00000000 -->"
    asked.react("+1")


def _on_an_outsiders_comment(asked: Asked) -> None:
    comment = asked.world.github.comments[asked.comment_id]
    comment["user"] |= {"login": OUTSIDER, "type": "User"}
    asked.react("+1")


def _by_both(asked: Asked) -> None:
    asked.react("+1")
    asked.react("-1", COLLEAGUE)


def _by_one(asked: Asked) -> None:
    asked.react("-1")
    asked.react("+1")


def _by_many(asked: Asked) -> None:
    for number in range(30):
        asked.react("+1", f"nobody-{number}")


ATTACKS = {
    "an outsider": (lambda asked: asked.react("+1", OUTSIDER), "ignored", "no_reaction"),
    "a bot": (lambda asked: asked.react("+1", "some-app[bot]", kind="Bot"), "ignored", "no_reaction"),
    "faber itself": (lambda asked: asked.react("+1", "faber-helper[bot]", kind="Bot"), "ignored", "no_reaction"),
    "a login that is nobody's": (lambda asked: asked.react("+1", "n0body"), "ignored", "no_reaction"),
    "an impossible login": (lambda asked: asked.react("+1", "../../user"), "ignored", "no_reaction"),
    "an account that is gone": (lambda asked: asked.react("+1", None), "ignored", "no_reaction"),
    "older than the request": (_older, "ignored", "no_reaction"),
    "of another request": (_of_another_request, "ignored", "no_reaction"),
    "on an outsider's comment": (_on_an_outsiders_comment, "ignored", "no_reaction"),
    "yes and no by one person": (_by_one, "ambiguous", "contradictory_reactions"),
    "yes and no by two people": (_by_both, "ambiguous", "contradictory_reactions"),
    "a crowd": (_by_many, "ambiguous", "too_many_reactions"),
}


def test_what_does_not_count_changes_nothing(world: World) -> None:
    """Reactions are under the checks of a comment: who made them, on what, when, and that they agree."""
    asked = ask(world)
    posted, before, written = json.dumps(world.github.comments[asked.comment_id]), world.log(), world.writes()
    for name, (act, result, reason) in ATTACKS.items():
        world.github.reactions.clear()
        world.github.seen.clear()
        world.github.comments[asked.comment_id] = json.loads(posted)
        act(asked)
        answer = asked.look()
        assert (answer.json["result"], answer.json["reason"]) == (result, reason), name
        assert answer.status == (4 if result == "ambiguous" else 0), name
        assert (world.log(), len(world.github.seen) < 6) == (before, True), name
        assert world.writes() == [], name
    assert len(written) == 1


def test_an_outsider_contradicts_nobody(world: World) -> None:
    """Only people who may answer count, also against another reaction."""
    asked = ask(world)
    asked.react("-1", OUTSIDER)
    asked.react("+1")
    assert asked.look().json["response"] == "approve"


def test_people_who_disagree_are_told_once(world: World) -> None:
    """With `post_refusals`, one reply says that neither reaction counts, however often they are read."""
    world.configure(refusals=True)
    asked = ask(world)
    _by_both(asked)
    for _ in range(2):
        assert asked.look().status == 4
    (_, reply) = world.github.bodies(7)
    assert "both 👍 and 👎" in reply


def test_a_comment_that_is_gone_stops_no_other(world: World) -> None:
    """A deleted request is passed over; all requests of one run that people reacted to are answered at once."""
    gone, second, third = (ask(world) for _ in range(3))
    gone.react("+1")
    del world.github.comments[gone.comment_id]
    second.react("+1")
    third.react("+1", COLLEAGUE)
    told = second.look().json
    assert (told["request_id"], told["resume"]) == (third.request_id, False)
    assert [each["request_id"] for each in world.faber("feedback", "show", RUN).json["open"]] == [gone.request_id]


def test_the_calls_are_bounded_and_every_run_has_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What one look leaves out is said; the next one begins with another run. One run's answers are taken at a time."""
    outputs = tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    for number in (8, 9):
        world.github.add_issue(number)
        assert world.faber("run", "init", "--run-id", f"other/{number}/x", "--work-id", str(number)).status == 0
        assert world.faber("feedback", "request", f"other/{number}/x", "--prompt", "Ship?", "--post").status == 0
    asked = ask(world)
    for first, reads in ((0, 2), (2, 2)):
        monkeypatch.setattr("faber.github.reactions.MOST_CALLS", reads)
        monkeypatch.setattr("random.randrange", lambda runs, first=first: first)
        told = asked.look().json
        assert (told["reason"], told["runs_left"]) == ("no_reaction", 1)
    asked.react("+1")
    monkeypatch.setattr("faber.github.reactions.MOST_CALLS", 60)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_dispatch")
    told = asked.look().json
    assert (told["run_id"], told["runs_left"]) == (RUN, 1)
    named = f"run_id={RUN}\nrequest_id={asked.request_id}\n"
    assert outputs.read_text().endswith(f"result=recorded\nresume=true\npull_request=false\n{named}")


def test_reactions_that_cannot_be_read_are_an_error(world: World) -> None:
    """An outage is said as such: it is neither no reaction nor a refused one."""
    asked = ask(world)
    asked.react("+1")
    before = world.log()
    world.github.faults = [Fault(status=403, path="/permission")]
    answer = asked.look()
    assert (answer.status, answer.code, world.log()) == (3, "work_item_unauthorised", before)


def test_nobody_is_heard_where_comments_are_not(world: World) -> None:
    """`from_comments: never` holds for reactions, too; an agent reads none."""
    asked = ask(world)
    asked.react("+1")
    world.configure(comments="never")
    assert asked.look().json["reason"] == "switched_off"
