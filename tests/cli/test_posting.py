"""Telling people on the issue: once, after it was recorded, and never at the command's expense."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from github.comments import PERSON, environment, event, remote, settings, write_event
from github.fake import FakeGitHub, Fault
from support.repositories import add_remote

Faber = Callable[..., Any]
RUN = "demo/one/run"
ASK = ("feedback", "request", RUN, "--prompt", "Ship it?", "--key", "ask")


class Place(NamedTuple):
    """A run with an issue."""

    github: FakeGitHub
    faber: Faber
    project: Path
    events: Path

    def configure(self, **chosen: Any) -> None:
        (self.project / ".fractary" / "faber" / "config.yaml").write_text(settings(self.github, **chosen))

    def request(self) -> Any:
        return self.faber("feedback", "show", RUN).json["open"][0]

    def types(self) -> list[str]:
        return [name.partition("-")[2].removesuffix(".json") for name in sorted(os.listdir(self.events))]

    def writes(self) -> list[str]:
        return [asked.partition(" ")[0] for asked in self.github.asked() if not asked.startswith("GET")]


@pytest.fixture
def place(
    project: Path,
    faber: Faber,
    git: Callable[..., str],
    run: str,
    run_dir: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    """A run of issue #7, on the GitHub of the tests."""
    for name in [name for name in os.environ if name.startswith(("GH_", "GITHUB_"))]:
        monkeypatch.delenv(name)
    with FakeGitHub() as github:
        github.add_issue(7)
        github.permissions = {PERSON: ("admin", "admin")}
        for name, value in environment(github).items():
            monkeypatch.setenv(name, value)
        # A write is spaced from the one before it; here nobody else is asked to wait.
        monkeypatch.setattr("faber.github.api_calls.WRITE_SPACING", 0)
        add_remote(project, remote(github))
        made = Place(github, faber, project, run_dir(run) / "events")
        made.configure()
        assert faber("run", "resume", run).status == 0
        yield made
        assert github.violations == []


def test_a_request_is_posted_and_remembers_where(place: Place) -> None:
    """`--post` writes one comment, and the open request says where it is."""
    answer = place.faber(*ASK, "--post")
    assert answer.status == 0
    (body,) = place.github.bodies(7)
    asked = place.request()
    assert f"@faber approve {asked['request_id']}" in body
    assert asked["notification_sent"] == {
        "cli": True,
        "issue_comment": True,
        "comment_url": answer.json["posted"][0]["comment_url"],
        "comment_id": answer.json["posted"][0]["comment_id"],
    }
    assert place.types()[-2:] == ["feedback_request", "feedback_notified"]
    assert place.faber("feedback", "show", RUN).json["open"] == [asked]


@pytest.mark.parametrize("asking", ["next", "complete"])
def test_a_gate_is_posted_by_the_command_that_asks(place: Place, git: Callable[..., str], asking: str) -> None:
    """`next`, and a completion with `--next`, post the request of the gate that they open, once."""
    place.configure(post="requests")
    git("checkout", "-q", "-b", "feat/7")
    faber = place.faber
    for _ in range(8):
        completing = faber("next", RUN, "--only").json["complete_with"].split()[1:]
        last = faber(*completing, *(["--next"] if asking == "complete" else [])).json
    answer = faber("next", RUN).json if asking == "next" else last
    assert answer["action"] == "wait"
    assert [posted["request_id"] for posted in answer["posted"]] == [place.request()["request_id"]]
    assert faber("next", RUN).json["action"] == "wait"
    assert place.writes() == ["POST"]


def test_repeating_posts_nothing_twice(place: Place) -> None:
    """The same command again, and `feedback post`, find that it is posted."""
    place.faber(*ASK, "--post")
    for again in ((*ASK, "--post"), ("feedback", "post", RUN)):
        assert place.faber(*again).status == 0
    assert place.writes() == ["POST"]
    assert place.types().count("feedback_notified") == 1


@pytest.mark.parametrize("job", [False, True])
def test_what_a_killed_command_posted_is_found(place: Place, job: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Posted but not remembered: the marker is found among faber's own comments, and an outsider's is not."""
    if job:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        place.github.job, place.github.login = True, "github-actions[bot]"
    assert place.faber(*ASK).status == 0
    marker = f"<!-- faber:request {place.request()['request_id']} -->"
    place.github.add_comment(7, f"Mine\n\n{marker}", "mallory")
    own = place.github.add_comment(7, f"What was asked\n\n{marker}", place.github.login, "Bot")
    place.github.add_comment(7, f"> {marker}", place.github.login, "Bot")
    answer = place.faber(*ASK, "--post")
    assert answer.json["posted"][0]["comment_id"] == own
    assert place.writes() == []


def test_an_outsiders_marker_keeps_nothing_from_being_posted(place: Place) -> None:
    """A marker that somebody else wrote earlier is not mistaken for the posted request."""
    assert place.faber(*ASK).status == 0
    place.github.add_comment(7, f"<!-- faber:request {place.request()['request_id']} -->", "mallory")
    assert place.faber("feedback", "post", RUN).status == 0
    assert place.writes() == ["POST"]
    assert len(place.github.bodies(7)) == 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=403, message="Resource not accessible", method="POST"),
        Fault(status=422, message="Validation Failed", method="POST"),
        Fault(drop="before", method="POST"),
        Fault(status=410, message="Gone", method="POST"),
    ],
)
def test_a_failed_post_is_a_warning(place: Place, fault: Fault) -> None:
    """The request stays open, the command succeeds and says how to post it later; then it is posted once."""
    place.github.faults.append(fault)
    answer = place.faber(*ASK, "--post")
    assert answer.status == 0
    assert answer.json["posted"] == []
    (warning,) = answer.json["warnings"]
    assert (warning["code"], warning["severity"]) == ("comment_not_posted", "WARNING")
    assert f"faber feedback post {RUN}" in warning["recovery"]
    assert place.request()["notification_sent"]["issue_comment"] is False
    assert place.faber("feedback", "post", RUN).status == 0
    assert len(place.github.bodies(7)) == 1


def test_a_post_that_may_have_arrived_is_looked_for(place: Place) -> None:
    """The connection broke after the comment was written: it is found, not written again."""
    place.github.faults.append(Fault(drop="after", method="POST"))
    answer = place.faber(*ASK, "--post")
    assert answer.json["warnings"] == []
    assert len(place.github.bodies(7)) == 1
    assert place.request()["notification_sent"]["issue_comment"] is True


def test_without_credential_or_issue_it_is_a_warning(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is missing, and the request is open anyway."""
    monkeypatch.delenv("GH_ENTERPRISE_TOKEN")
    answer = place.faber(*ASK, "--post")
    assert (answer.status, answer.json["warnings"][0]["code"]) == (0, "comment_not_posted")
    assert place.faber("feedback", "post", RUN).status == 1
    assert place.faber("run", "init", "--run-id", "no-issue").status == 0
    answer = place.faber("feedback", "request", "no-issue", "--prompt", "x", "--post")
    assert (answer.status, "--work-id" in answer.json["warnings"][0]["recovery"]) == (0, True)


def test_nothing_is_posted_unless_it_is_wanted(place: Place) -> None:
    """Without `--post` and with `post: never`, GitHub is not even asked."""
    place.faber(*ASK)
    place.faber("feedback", "respond", RUN, "approve")
    for step in ("frame:fetch-work", "frame:classify", "frame:setup-branch"):
        place.faber("step", "start", RUN, step)
        answer = place.faber("step", "complete", RUN, step)
        assert "posted" not in answer.json
    assert place.github.asked() == []


def test_progress_is_one_comment_that_is_edited(place: Place) -> None:
    """With `post: all` the first phase that ends writes a comment, and each later one edits it."""
    place.configure(post="all")
    for step in ("frame:fetch-work", "frame:classify", "frame:setup-branch", "architect:write-spec"):
        assert place.faber("step", "start", RUN, step).status == 0
        assert place.faber("step", "complete", RUN, step).status == 0
    (body,) = place.github.bodies(7)
    assert "| `frame` | done | 3 of 3 |" in body
    assert "| `architect` | done | 1 of 1 |" in body
    assert place.writes() == ["POST", "PATCH"]
    assert place.types().count("progress_notified") == 1
    assert place.faber("run", "fail", RUN, "--error", "disk full: ghp_" + "a1" * 18).status == 0
    (body,) = place.github.bodies(7)
    assert "disk full: [REDACTED]" in body


def test_progress_is_posted_again_where_it_was_deleted(place: Place) -> None:
    """A progress comment that somebody deleted is written again; one that was not remembered is found."""
    place.configure(post="all")
    assert place.faber("feedback", "post", RUN, "--progress").status == 0
    (first,) = place.github.comments
    del place.github.comments[first]
    assert place.faber("feedback", "post", RUN, "--progress").status == 0
    (second,) = place.github.comments
    assert first != second
    assert place.types().count("progress_notified") == 2


def test_progress_that_was_not_remembered_is_found(place: Place) -> None:
    """Killed after posting: the comment is found by its marker and brought up to date."""
    marker = f"<!-- faber:progress {RUN} -->"
    place.github.add_comment(7, f"old\n\n{marker}", "mallory")
    place.github.add_comment(7, f"old\n\n{marker}", place.github.login, "Bot")
    assert place.faber("feedback", "post", RUN, "--progress").status == 0
    assert place.writes() == ["PATCH"]
    assert place.github.bodies(7)[0].startswith("old")
    assert place.github.bodies(7)[1].startswith("**faber**")


def test_a_phase_ends_though_github_fails(place: Place) -> None:
    """An unreachable GitHub is a warning at the end of a phase."""
    place.configure(post="all")
    for step in ("frame:fetch-work", "frame:classify"):
        place.faber("step", "start", RUN, step)
        place.faber("step", "complete", RUN, step)
    place.faber("step", "start", RUN, "frame:setup-branch")
    place.github.faults.append(Fault(status=403, message="no", path="/issues/7"))
    answer = place.faber("step", "complete", RUN, "frame:setup-branch")
    assert (answer.status, answer.json["warnings"][0]["code"]) == (0, "comment_not_posted")


def test_no_lock_is_held_while_posting(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """During a request to GitHub, another command can write to the run."""
    from faber.github.issues import GitHubWorkItems
    from faber.store.layout import LOCK
    from faber.store.lock import locked

    held = []
    post = GitHubWorkItems.post_comment

    def watched(self: Any, work_id: str, body: str) -> Any:
        with locked(str(place.events.parent / LOCK), deadline=0.1):
            held.append(False)
        return post(self, work_id, body)

    monkeypatch.setattr(GitHubWorkItems, "post_comment", watched)
    assert place.faber(*ASK, "--post").json["warnings"] == []
    assert held == [False]


def test_an_answer_to_a_posted_request_is_newer_than_it(place: Place) -> None:
    """Without an id, a comment counts only if it was written after the request's own comment."""
    posted = place.faber(*ASK, "--post").json["posted"][0]["comment_id"]
    for number, result in ((posted - 1, "stale"), (posted + 1, "recorded")):
        path = write_event(place.project.parent, event(place.github, "@faber approve", comment_id=number))
        assert place.faber("feedback", "from-event", "--event-path", path).json["result"] == result


def test_status_brings_the_progress_up_to_date_where_it_is_posted(place: Place) -> None:
    """`@faber status` is answered by the progress comment, and only with `post: all`."""
    path = write_event(place.project.parent, event(place.github, "@faber status"))
    assert place.faber("feedback", "from-event", "--event-path", path).json["reason"] == "status"
    assert place.writes() == []
    place.configure(post="all")
    assert place.faber("feedback", "from-event", "--event-path", path).json["posted"][0]["progress"] is True
    assert place.writes() == ["POST"]


def test_events_of_posting_are_no_agents(place: Place) -> None:
    """What says where comments are is recorded by posting alone."""
    for kind in ("feedback_notified", "progress_notified"):
        answer = place.faber(
            "event", "emit", RUN, "--type", kind, "--metadata", json.dumps({"comment_id": 1, "request_id": "x"})
        )
        assert answer.code == "has_own_command"


def test_whatever_asks_is_posted(place: Place) -> None:
    """With `post: requests` a step that is refused too often posts the question whether to waive its evidence."""
    place.configure(post="requests")
    flow = {"phases": [{"id": "b", "steps": [{"id": "c", "evidence": [{"artifact": "report"}]}]}]}
    (place.project / "flow.json").write_text(json.dumps(flow))
    assert place.faber("run", "init", "--run-id", "r", "--work-id", "7", "--workflow", "flow.json").status == 0
    assert place.faber("step", "start", "r", "b:c").status == 0
    answers = [place.faber("step", "complete", "r", "b:c") for _ in range(3)]
    assert [len(answer.json["error"].get("posted", [])) for answer in answers] == [0, 0, 1]
    (body,) = place.github.bodies(7)
    assert f"@faber answer {answers[2].json['error']['request_id']} waive" in body


def test_the_doctor_finds_nothing_wrong(place: Place) -> None:
    """A run that was posted about and answered by a comment is a sound one."""
    place.configure(post="all")
    place.faber(*ASK)
    place.faber("feedback", "post", RUN, "--progress")
    path = write_event(place.project.parent, event(place.github, "@faber approve"))
    assert place.faber("feedback", "from-event", "--event-path", path).json["result"] == "recorded"
    answer = place.faber("doctor", RUN)
    assert (answer.status, answer.json.get("findings", [])) == (0, []), answer.out
    (place.events.parent / "state.json").unlink()
    assert place.faber("repair", RUN).status == 0
    assert place.faber("feedback", "history", RUN).json["requests"][0]["answers"][0]["responder"]["name"] == PERSON


@pytest.mark.parametrize(
    ("mode", "markers"), [("never", []), ("requests", ["request"]), ("all", ["request", "progress"])]
)
def test_what_is_configured_is_posted_later(place: Place, mode: str, markers: list[str]) -> None:
    """`feedback post --as-configured` posts what the settings want and could not be posted before, each once."""
    place.faber(*ASK)
    place.configure(post=mode)
    for _ in range(2):
        answer = place.faber("feedback", "post", RUN, "--as-configured")
        assert (answer.status, answer.json["warnings"]) == (0, [])
    assert [body.rpartition("<!-- faber:")[2].partition(" ")[0] for body in place.github.bodies(7)] == markers
    assert place.faber("feedback", "post", RUN, "--as-configured", "--progress").status == 2


def test_no_secret_reaches_a_comment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was recorded before it was known to be one: no token and no value of a variable is posted."""
    monkeypatch.setenv("LATE_TOKEN", place.github.token)
    said = f"Deploy with correct horse battery, {place.github.token} and ghp_{'a1' * 18}?"
    place.faber("feedback", "request", RUN, "--prompt", said, "--option", "correct horse battery", "--option", "no")
    monkeypatch.setenv("DEPLOY_PASSWORD", "correct horse battery")
    assert place.faber("run", "fail", RUN, "--error", said).status == 0
    assert place.faber("feedback", "post", RUN, "--progress").status == 0
    sent = "".join(request.body.decode() for request in place.github.seen)
    assert sent.count("[REDACTED]") > 3
    for secret in ("correct horse", place.github.token, "ghp_"):
        assert secret not in sent
