"""Comments that arrive on several machines: each counts once, wherever its event is delivered and however often."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from github.comments import PERSON, environment, event, settings, write_event
from github.fake import FakeGitHub
from sync.clones import RUN, Clone, ask, work

Take = Callable[..., dict[str, Any]]


@pytest.fixture
def take(a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Take]:
    """`take(a, 1, "@faber approve")`: comment 1 arrives there; returns its outcome. A's request is on both machines."""
    with FakeGitHub() as github:
        github.permissions = {PERSON: ("write", "write")}
        for name, value in {**environment(github), "GH_REPO": f"127.0.0.1/{github.slug}"}.items():
            monkeypatch.setenv(name, value)
        for machine in (a, b):
            (machine.path / ".fractary" / "faber" / "config.yaml").write_text(settings(github))
        ask(a)
        a.must("sync", "push", RUN)
        b.must("sync", "pull", RUN)

        def arrive(where: Clone, comment: int, body: str) -> dict[str, Any]:
            path = write_event(tmp_path, event(github, body, comment_id=comment))
            return where.must("feedback", "from-event", "--event-path", path)

        yield arrive
        assert github.violations == []


def heard(where: Clone) -> list[tuple[int, bool]]:
    """The comments that answered the only request, in the log's order, and whether each counted."""
    (request,) = where.must("feedback", "history", RUN)["requests"]
    return [(answer["responder"]["comment_id"], answer["counted"]) for answer in request["answers"]]


def test_a_comment_is_known_after_a_merge(a: Clone, b: Clone, take: Take) -> None:
    """An answer that a merge parked is still that comment's: delivered again anywhere, it was recorded before."""
    assert take(a, 1, "@faber approve")["counted"] is True
    take(b, 2, "@faber reject")
    b.must("sync", "push", RUN)
    assert a.must("sync", "push", RUN, "--merge")["merged"] is True
    b.must("sync", "pull", RUN)
    assert heard(a) == heard(b) == [(2, True), (1, False)]
    before = a.events()
    for machine in (a, b):
        for comment, body, counted in ((1, "@faber approve", False), (2, "@faber reject", True)):
            again = take(machine, comment, body)
            assert (again["result"], again["reason"]) == ("recorded", "recorded_before")
            assert (again["repeated"], again["counted"]) == (True, counted)
            assert again["resume"] is False or counted
        assert machine.events() == before
        assert machine.must("doctor", RUN)["healthy"] is True


def test_one_comment_on_two_machines_is_one_answer(a: Clone, b: Clone, take: Take) -> None:
    """The same comment taken on both machines is one answer after they were joined, and work upon it goes along."""
    take(a, 1, "@faber approve")
    take(b, 1, "@faber approve")
    work(a, "As approved")
    b.must("sync", "push", RUN)
    assert a.faber("sync", "push", RUN, "--merge").status == 0
    b.must("sync", "pull", RUN, "--merge")
    assert heard(a) == heard(b) == [(1, True)]
    assert a.types() == b.types()
    assert b.types()[-1] == "decision_point"
    assert take(b, 1, "@faber approve")["reason"] == "recorded_before"
