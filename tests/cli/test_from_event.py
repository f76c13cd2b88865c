"""A comment on an issue: whose answers count, what is a command, and that nothing else does anything."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from faber.github.comment_events import name_of
from faber.store.layout import METADATA, PLAN, STATE
from github.comments import (
    OUTSIDER,
    PERSON,
    WEBHOOKS,
    ended,
    environment,
    event,
    examples,
    on_line,
    remote,
    review,
    settings,
    write_event,
)
from github.fake import FakeGitHub, Fault
from support.opens import CONFIG, opened
from support.repositories import add_remote

Faber = Callable[..., Any]
RUN = "demo/one/run"


class World(NamedTuple):
    """A run that asks, its issue, and how a comment arrives."""

    github: FakeGitHub
    faber: Faber
    project: Path
    events: Path

    def arrive(self, payload: Any) -> Any:
        return self.faber("feedback", "from-event", "--event-path", write_event(self.project.parent, payload))

    def comment(self, body: str, **more: Any) -> Any:
        return self.arrive(event(self.github, body, **more))

    def log(self) -> list[str]:
        return sorted(file.name for file in self.events.iterdir())

    def writes(self) -> list[str]:
        return [asked for asked in self.github.asked() if not asked.startswith("GET")]

    def ask(self, *options: str) -> str:
        done = self.faber("feedback", "request", RUN, "--prompt", "Ship it?", *options)
        assert done.status == 0, done.out
        opened = self.faber("feedback", "show", RUN).json["open"]
        return str(opened[-1]["request_id"])

    def configure(self, **chosen: Any) -> None:
        (self.project / ".fractary" / "faber" / "config.yaml").write_text(settings(self.github, **chosen))


@pytest.fixture
def world(
    project: Path,
    faber: Faber,
    git: Callable[..., str],
    run: str,
    run_dir: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """A run in progress for issue #7, which one person may answer and one may only read."""
    for name in [name for name in os.environ if name.startswith(("GH_", "GITHUB_"))]:
        monkeypatch.delenv(name)
    with FakeGitHub() as github:
        github.add_issue(7)
        github.permissions = {PERSON: ("write", "write"), OUTSIDER: ("read", "read")}
        for name, value in environment(github).items():
            monkeypatch.setenv(name, value)
        add_remote(project, remote(github))
        made = World(github, faber, project, run_dir(run) / "events")
        made.configure()
        assert faber("run", "resume", run).status == 0
        yield made
        assert github.violations == []


def test_the_payloads_are_githubs() -> None:
    """What the tests start from fits the schema of GitHub's payloads, and still does as it is moved here."""
    schema = json.loads((WEBHOOKS / "schema.json").read_text("utf-8"))
    with FakeGitHub() as github:
        for payload in [
            *examples(),
            event(github, "@faber approve"),
            review(github, "approved", None),
            on_line(github, "@faber approve", 1),
            ended(github, "check_run", 1),
            ended(github, "workflow_run", 1, "timed_out"),
        ]:
            name = name_of(payload)
            validator = jsonschema.Draft7Validator({"$ref": f"#/definitions/{name}${payload['action']}", **schema})
            assert [problem.message for problem in validator.iter_errors(payload)] == []


@pytest.mark.parametrize("words", ["@faber approve", "@faber status"])
def test_a_comment_costs_one_reading(world: World, words: str) -> None:
    """A comment that answers, or asks for the progress, opens the run's documents and the configuration once,
    and state.json once more to find the run."""
    world.configure(post="all", refusals=True)
    world.ask()
    event_path = write_event(world.project.parent, event(world.github, words))
    command = ["feedback", "from-event", "--event-path", event_path]
    [counted] = opened(world.project, command, environment=dict(os.environ))
    assert counted == {STATE: 2, METADATA: 1, PLAN: 1, CONFIG: 1}


def test_an_answer_is_recorded_with_who_gave_it(world: World) -> None:
    """A person with write permission approves: one event, with login, comment and link, and the run continues."""
    asked = world.ask()
    answer = world.comment(f"@faber approve {asked} looks good")
    assert answer.status == 0
    told = answer.json
    assert {key: told[key] for key in ("result", "reason", "run_id", "request_id", "action", "resume", "repeated")} == {
        "result": "recorded",
        "reason": "answered",
        "run_id": RUN,
        "request_id": asked,
        "action": "continue",
        "resume": True,
        "repeated": False,
    }
    newest = json.loads((world.events / world.log()[-1]).read_bytes())
    assert newest["actor"] == "person"
    assert newest["key"] == "comment-5000"
    assert newest["metadata"] == {
        "request_id": asked,
        "response": "approve",
        "action": "continue",
        "comment": "looks good",
        "responder": {
            "name": PERSON,
            "source": "issue_comment",
            "url": event(world.github, "")["comment"]["html_url"],
            "comment_id": 5_000,
        },
    }
    assert world.writes() == []


@pytest.mark.parametrize(
    ("kind", "options", "body", "response", "action", "comment"),
    [
        ("approval", (), "@faber reject not yet", "reject", "abort", "not yet"),
        ("confirmation", (), "@faber approve", "confirm", "continue", None),
        ("review", (), " @Faber: LGTM, thanks!", "approve", "continue", "thanks!"),
        ("approval", (), "@faber yes.", "approve", "continue", None),
        ("error_resolution", (), "@faber try again", "retry", "retry", None),
        ("review", (), "Hm.\n@faber request_changes\n- a\n- b", "request_changes", "revise", "- a\n- b"),
        ("error_resolution", (), "@faber retry", "retry", "retry", None),
        ("error_resolution", (), "@faber skip", "skip", "skip", None),
        ("error_resolution", (), "@faber abort", "abort", "abort", None),
        ("selection", ("red", "blue"), "@faber answer Blue\nIt is calm.", "blue", "continue", "It is calm."),
        ("clarification", (), "@faber answer Tabs.\r\nAlways.", "Tabs.\nAlways.", "continue", None),
    ],
)  # fmt: skip
def test_every_command_answers(
    world: World, kind: str, options: tuple[str, ...], body: str, response: str, action: str, comment: str | None
) -> None:
    """Each verb answers what is asked, in the words of the request."""
    world.ask("--type", kind, *(part for option in options for part in ("--option", option)))
    answer = world.comment(body)
    assert (answer.status, answer.json["result"]) == (0, "recorded"), answer.out
    newest = json.loads((world.events / world.log()[-1]).read_bytes())["metadata"]
    assert (newest["response"], newest["action"], newest.get("comment")) == (response, action, comment)


def _changed(**where: Any) -> Callable[[Any], None]:
    """A mutation of the payload: `comment__user__type="Bot"`."""

    def change(payload: Any) -> None:
        for path, value in where.items():
            *way, last = path.split("__")
            place = payload
            for step in way:
                place = place[step]
            if value is None and last not in ("body",):
                del place[last]
            else:
                place[last] = value

    return change


def _by(login: str, kind: str = "User", **more: Any) -> Callable[[Any], None]:
    def change(payload: Any) -> None:
        for account in (payload["comment"]["user"], payload["sender"]):
            account |= {"login": login, "type": kind}
        payload["comment"] |= more

    return change


def _written(at: str) -> Callable[[Any], None]:
    return lambda payload: payload["comment"].update(created_at=at, updated_at=at)


def _replace(payload: Any, old: str, new: str) -> None:
    payload.update(json.loads(json.dumps(payload).replace(old, new)))


def _same(payload: Any) -> None:
    """As it is."""


GOOD = "@faber approve {asked}"
ATTACKS: dict[str, tuple[str, Callable[[Any], None], str, str]] = {
    # what hides a command
    "quoted": ("> @faber approve {asked}", _same, "ignored", "hidden"),
    "lazily quoted": ("> he said\n@faber approve {asked}", _same, "ignored", "doubtful"),
    "fenced": ("```\n@faber approve {asked}\n```", _same, "ignored", "hidden"),
    "fenced with tildes": ("~~~~\n@faber approve {asked}\n~~~\n", _same, "ignored", "hidden"),
    "fence in a fence": ("````\n```\n@faber approve {asked}\n```\n````", _same, "ignored", "hidden"),
    "fence left open": ("```sh\nls\n\n@faber approve {asked}", _same, "ignored", "hidden"),
    "fence of a list": ("- a\n  ```\nb\n  ```\n\n@faber approve {asked}", _same, "ignored", "doubtful"),
    "indented": ("text\n\n    @faber approve {asked}", _same, "ignored", "doubtful"),
    "inline code": ("`a\n@faber approve {asked}\nb`", _same, "ignored", "doubtful"),
    "inline code in the line": ("`@faber approve {asked}`", _same, "ignored", "hidden"),
    "HTML comment": ("<!-- \n@faber approve {asked}\n-->", _same, "ignored", "doubtful"),
    "HTML comment left open": ("<!--\n\n@faber approve {asked}", _same, "ignored", "doubtful"),
    "details": ("<details>\n\n@faber approve {asked}\n\n</details>", _same, "ignored", "doubtful"),
    "pre": ("<pre>\n@faber approve {asked}\n</pre>", _same, "ignored", "doubtful"),
    "HTML attribute": ('<a title="\n@faber approve {asked}\n">x</a>', _same, "ignored", "doubtful"),
    "link title": ('[a](b "\n@faber approve {asked}\n")', _same, "ignored", "doubtful"),
    "link definition": ('[a]: /b "\n@faber approve {asked}\n"', _same, "ignored", "doubtful"),
    "image": ("![\n@faber approve {asked}\n](b)", _same, "ignored", "doubtful"),
    "mathematics": ("$$\n@faber approve {asked}\n$$", _same, "ignored", "doubtful"),
    "struck through": ("~~no\n@faber approve {asked}\nno~~", _same, "ignored", "doubtful"),
    "mid-sentence": ("I would say @faber approve {asked}", _same, "ignored", "inside_text"),
    "in a list": ("- @faber approve {asked}", _same, "ignored", "inside_text"),
    "after a line separator": ("x\u2028@faber approve {asked}", _same, "ignored", "inside_text"),
    # what is another word
    "zero-width": ("@fa\u200bber approve {asked}", _same, "ignored", "no_command"),
    "zero-width in front": ("\u200b@faber approve {asked}", _same, "ignored", "inside_text"),
    "zero-width in the verb": ("@faber app\u200drove {asked}", _same, "ignored", "malformed"),
    "zero-width in the id": ("@faber approve \u2060{asked}", _same, "ignored", "malformed"),
    "look-alike": ("@f\u0430ber approve {asked}", _same, "ignored", "no_command"),
    "full-width": ("\uff20faber approve {asked}", _same, "ignored", "no_command"),
    "full-width verb": ("@faber \uff41pprove {asked}", _same, "ignored", "malformed"),
    "look-alike id": ("@faber approve fr\u20102026", _same, "ignored", "malformed"),
    "another account": ("@faber-bot approve {asked}", _same, "ignored", "hidden"),
    "an approval with a condition": ("@faber approve {asked} but only the parser", _same, "ignored", "conditional"),
    "a condition below": ("@faber lgtm!\nif CI is green", _same, "ignored", "conditional"),
    "a guess": ("@faber no idea", _same, "ignored", "malformed"),
    "a question": ("@faber yes?", _same, "ignored", "malformed"),
    "no verb": ("@faber", _same, "ignored", "malformed"),
    "an unknown verb": ("@faber merge {asked}", _same, "ignored", "malformed"),
    "a right-to-left override": ("@faber approve \u202e{asked}", _same, "ignored", "malformed"),
    # more than one
    "approve and reject": (GOOD + "\n@faber reject {asked}", _same, "ambiguous", "several_commands"),
    "the same twice": (GOOD + "\n\n" + GOOD, _same, "ambiguous", "several_commands"),
    "a doubtful second": (GOOD + "\n<b>\n\n@faber reject {asked}", _same, "ambiguous", "several_commands"),
    "a misspelled second": (GOOD + "\n\n@faber rejct {asked}", _same, "ambiguous", "several_commands"),
    # who
    "an outsider": (GOOD, _by(OUTSIDER), "denied", "no_permission"),
    "an outsider called an owner": (GOOD, _by(OUTSIDER, author_association="OWNER"), "denied", "no_permission"),
    "an outsider's resume": ("@faber resume", _by(OUTSIDER), "denied", "no_permission"),
    "an outsider's status": ("@faber status", _by(OUTSIDER), "denied", "no_permission"),
    "a login that is nobody's": (GOOD, _by("C0dertocat"), "denied", "permission_unknown"),
    "a login in other letters": (GOOD, _by("codertocat"), "denied", "not_the_user"),
    "a bot": (GOOD, _by("some-app[bot]", "Bot"), "denied", "bot"),
    "a bot that calls itself a user": (GOOD, _by("some-app[bot]", "User"), "denied", "permission_unknown"),
    "an organization": (GOOD, _by(PERSON, "Organization"), "denied", "bot"),
    "somebody else sent it": (GOOD, _changed(sender__login=OUTSIDER), "denied", "sender"),
    "a bot sent it": (GOOD, _changed(sender__type="Bot"), "denied", "bot"),
    "somebody else wrote it": (GOOD, _changed(comment__user__login=OUTSIDER), "denied", "sender"),
    "written by an app": (GOOD, _changed(comment__performed_via_github_app={"id": 1}), "denied", "app"),
    "faber's own comment": (GOOD + "\n<!-- faber:request {asked} -->", _same, "ignored", "own_comment"),
    # where
    "another repository": (
        GOOD,
        lambda payload: _replace(payload, "acme/widgets", "acme/gadgets"),
        "denied",
        "repository",
    ),
    "another host": (
        GOOD,
        lambda payload: _replace(payload, "https://127.0.0.1/", "https://github.com/"),
        "denied",
        "repository",
    ),
    "another issue": (
        GOOD,
        lambda payload: _replace(payload, "/issues/7", "/issues/8") or payload["issue"].update(number=8),
        "ignored",
        "no_run",
    ),
    # what
    "another request": ("@faber approve fr-20200101-00000000", _same, "stale", "not_open"),
    "an edited comment": (GOOD, _changed(comment__updated_at="2099-01-01T00:05:00Z"), "ignored", "edited"),
    "an edit": (GOOD, _changed(action="edited"), "ignored", "not_created"),
    "a deletion": (GOOD, _changed(action="deleted"), "ignored", "not_created"),
    "an older comment without an id": ("@faber approve", _written("2020-01-01T00:00:00Z"), "stale", "asked_later"),
    "no option": ("@faber retry {asked}", _same, "denied", "not_an_option"),
    "a review's comment": (GOOD, _changed(issue=None), "ignored", "not_a_comment"),
}  # fmt: skip
STATUS = {"ignored": 0, "denied": 4, "stale": 4, "ambiguous": 4}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_changes_nothing(world: World, name: str) -> None:
    """The comment is refused or passed over, as the table says: no event is appended and nothing is posted."""
    body, change, result, reason = ATTACKS[name]
    asked = world.ask()
    before = world.log()
    payload = event(world.github, body.format(asked=asked))
    change(payload)
    answer = world.arrive(payload)
    assert (answer.json["result"], answer.json["reason"], answer.status) == (result, reason, STATUS[result])
    assert answer.json["resume"] is False
    assert world.log() == before
    assert world.writes() == []


@pytest.mark.parametrize("permission", ["admin", "write", "maintain"])
@pytest.mark.parametrize("role", ["admin", "maintain", "write", "release-engineer"])
def test_who_may_write_may_answer(permission: str, role: str) -> None:
    """Admin, maintain and write are heard, and a custom role as far as its permission goes."""
    from faber.feedback.permission import permission_problem
    from faber.sources.work_items import Permission

    assert permission_problem(Permission(permission, role, "a", "User"), "a") is None


@pytest.mark.parametrize(
    ("permission", "role", "login", "kind"),
    [
        ("read", "read", "a", "User"),
        ("read", "triage", "a", "User"),
        ("none", None, "a", "User"),
        ("", "write", "a", "User"),
        ("write", "triage", "a", "User"),
        ("owner", "admin", "a", "User"),
        ("WRITE", "write", "a", "User"),
        ("write", "write", "A", "User"),
        ("write", "write", "a", "Bot"),
        ("write", "write", "a", ""),
        ("write", "write", "a", "Organization"),
    ],
)
def test_nobody_else_may(permission: str, role: str | None, login: str, kind: str) -> None:
    """Every other answer of the API denies."""
    from faber.feedback.permission import permission_problem
    from faber.sources.work_items import Permission

    assert permission_problem(Permission(permission, role, login, kind), "a")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=403, message="Resource not accessible"),
        Fault(status=404, message="Not Found"),
        Fault(status=200, body=b'{"permission": "admin"}'),
        Fault(status=200, body=b'{"permission": 1, "user": {"login": "Codertocat", "type": "User"}}'),
        Fault(status=200, body=b"[]"),
        Fault(status=200, body=b"<html>"),
    ],
)
def test_an_answer_that_cannot_be_understood_denies(world: World, fault: Fault) -> None:
    """Errors and unknown answers about the permission deny."""
    asked = world.ask()
    world.github.faults.append(fault._replace(path="/permission"))
    answer = world.comment(f"@faber approve {asked}")
    assert (answer.status, answer.json["result"], answer.json["reason"]) == (4, "denied", "permission_unknown")
    assert "feedback_received" not in world.log()[-1]


def test_the_same_comment_twice_is_one_answer(world: World) -> None:
    """The comment's id is the key: a repetition returns what was recorded, even if another request is open."""
    asked = world.ask()
    assert world.comment("@faber approve").json["repeated"] is False
    before = world.log()
    again = world.comment("@faber approve")
    assert again.status == 0
    assert (again.json["result"], again.json["reason"], again.json["request_id"]) == (
        "recorded",
        "recorded_before",
        asked,
    )
    world.ask()
    before = world.log()
    assert world.comment("@faber approve").json["request_id"] == asked
    assert world.log() == before


def test_another_comment_on_an_answered_request_is_stale(world: World) -> None:
    """A closed request takes no second answer, with its id or without."""
    asked = world.ask()
    world.comment(f"@faber approve {asked}")
    before = world.log()
    for body, reason in ((f"@faber reject {asked}", "answered"), ("@faber reject", "nothing_asked")):
        answer = world.comment(body, comment_id=6_000)
        assert (answer.status, answer.json["result"], answer.json["reason"]) == (4, "stale", reason)
    assert world.faber("run", "cancel", RUN, "--reason", "x").status == 0
    answer = world.comment("@faber approve", comment_id=6_001)
    assert (answer.json["result"], answer.json["reason"]) == ("stale", "run_closed")
    assert len(world.log()) == len(before) + 1


def test_without_an_id_there_must_be_one_to_mean(world: World) -> None:
    """Two open requests, or two open runs of one issue, need the request's id."""
    first = world.ask()
    world.ask()
    answer = world.comment("@faber approve")
    assert (answer.status, answer.json["reason"]) == (4, "several_requests")
    assert world.comment(f"@faber approve {first}").json["result"] == "recorded"
    assert world.faber("run", "init", "--run-id", "other", "--work-id", "7").status == 0
    answer = world.comment("@faber approve", comment_id=5_001)
    assert (answer.status, answer.json["result"], answer.json["reason"]) == (4, "ambiguous", "several_runs")
    assert len(answer.json["open_requests"]) == 1


def test_a_request_of_another_issues_run_is_not_answered(world: World) -> None:
    """A request id counts only on the issue of its run."""
    assert world.faber("run", "init", "--run-id", "other", "--work-id", "8").status == 0
    assert world.faber("feedback", "request", "other", "--prompt", "Ship the other?").status == 0
    (asked,) = world.faber("feedback", "show", "other").json["open"]
    answer = world.comment(f"@faber approve {asked['request_id']}")
    assert (answer.status, answer.json["result"], answer.json["reason"]) == (4, "stale", "not_open")
    assert asked["request_id"] not in json.dumps(answer.json)
    assert world.faber("feedback", "show", "other").json["open"] == [asked]


def test_a_comment_on_a_pull_request_is_one(world: World) -> None:
    """A run whose work item is a pull request is answered there, by the same event."""
    asked = world.ask()
    payload = event(world.github, f"@faber approve {asked}")
    payload["issue"]["pull_request"] = {"url": f"{world.github.root}/repos/{world.github.slug}/pulls/7"}
    payload["comment"]["html_url"] = payload["comment"]["html_url"].replace("/issues/7", "/pull/7")
    assert world.arrive(payload).json["result"] == "recorded"


def test_a_run_that_is_elsewhere_is_fetched_first(world: World) -> None:
    """Where no run of the issue is, the answer says how to get one that is on another machine."""
    payload = event(world.github, "@faber approve")
    _replace(payload, "/issues/7", "/issues/8")
    payload["issue"]["number"] = 8
    answer = world.arrive(payload)
    assert (answer.status, answer.json["reason"]) == (0, "no_run")
    assert "faber sync pull --all" in answer.json["recovery"]


def test_status_and_resume_record_nothing(world: World) -> None:
    """`status` says how the run stands, `resume` has it continued, unless it waits for an answer."""
    before = world.log()
    told = world.comment("@faber status")
    assert (told.status, told.json["reason"], told.json["resume"]) == (0, "status", False)
    assert told.json["standing"]["status"] == "in_progress"
    again = world.comment("@faber resume")
    assert (again.status, again.json["reason"], again.json["resume"]) == (0, "resume", True)
    assert world.log() == before
    assert world.writes() == []
    world.ask()
    waiting = world.comment("@faber resume")
    assert (waiting.status, waiting.json["reason"], waiting.json["resume"]) == (4, "awaiting_feedback", False)


def test_a_comment_resumes_a_failed_run(world: World) -> None:
    """`resume` of a run that failed is its person's decision to continue; an agent then gets the step to do."""
    assert world.faber("run", "fail", RUN, "--error", "broke").status == 0
    told = world.comment("@faber resume").json
    assert (told["result"], told["resume"], told["status"]) == ("recorded", True, "in_progress")
    assert [name for name in world.log() if name.endswith("workflow_resumed.json")]
    assert world.comment("@faber resume").json["resume"] is True


def test_record_only_starts_no_work(world: World) -> None:
    """In `record-only` an answer is recorded and the second job is not told to continue; `never` hears nobody."""
    world.configure(comments="record-only")
    world.ask()
    told = world.comment("@faber approve").json
    assert (told["result"], told["resume"]) == ("recorded", False)
    assert world.comment("@faber resume", comment_id=5_001).json["resume"] is False
    world.configure(comments="never")
    world.ask()
    assert world.comment("@faber approve", comment_id=5_002).json["reason"] == "switched_off"


def test_an_agent_forges_no_event(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an agent's session the command is refused: an event file is written by anybody."""
    asked = world.ask()
    before = world.log()
    for name in ("CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "FABER_CHILD"):
        with monkeypatch.context() as patched:
            patched.setenv(name, "1")
            answer = world.comment(f"@faber approve {asked}")
            assert (answer.status, answer.code) == (4, "person_required")
    assert world.log() == before


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b'{"action": NaN}',
        b'{"action": "created", "action": "edited"}',
        b"[" * 100_000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
        b"\xff\xfe{}",
        b'{"action": "created", "issue": {}, "comment": {}}',
        b'{"action": 1, "issue": {}, "comment": {}}',
        b" " * (4 * 1024 * 1024 + 1),
    ],
    ids=range(12),
)
def test_what_is_no_event_file_is_a_usage_error(world: World, data: bytes) -> None:
    """Damaged, hostile and oversized event files end in one error, and change nothing."""
    before = world.log()
    answer = world.arrive(data)
    assert answer.status in (1, 2)
    assert answer.code in ("invalid_input", "unsafe_file")
    assert world.log() == before


@pytest.mark.parametrize(
    "field", ["repository", "sender", "comment__user", "comment__id", "comment__issue_url", "comment__body"]
)
@pytest.mark.parametrize("value", [None, 7, [], "x\ny"])
def test_a_payload_without_what_it_must_have_is_none(world: World, field: str, value: Any) -> None:
    """Each field that is read has to be there and of its kind."""
    payload = event(world.github, "@faber approve")
    *way, last = field.split("__")
    place = payload
    for step in way:
        place = place[step]
    place[last] = value
    answer = world.arrive(payload)
    if answer.status == 0:  # a body may be any text, and an id any number
        assert answer.json["result"] == "ignored" or field == "comment__id"
    else:
        assert answer.json.get("error", {}).get("code") == "invalid_input" or answer.json["result"] in (
            "denied",
            "stale",
        )


def test_the_environment_names_the_event_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another event's name is believed over the payload's shape."""
    asked = world.ask()
    monkeypatch.setenv("GITHUB_EVENT_NAME", "commit_comment")
    assert world.comment(f"@faber approve {asked}").json["reason"] == "not_a_comment"
    monkeypatch.setenv("GITHUB_EVENT_NAME", "issue_comment")
    monkeypatch.setenv(
        "GITHUB_EVENT_PATH", write_event(world.project.parent, event(world.github, f"@faber approve {asked}"))
    )
    assert world.faber("feedback", "from-event").json["result"] == "recorded"


def test_a_steps_outputs_hold_nothing_of_the_event(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The outputs are five fixed keys; no text of a comment or a request is among them."""
    outputs = tmp_path / "outputs"
    outputs.write_text("earlier=1\n")
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    asked = world.ask()
    world.comment(f"@faber approve {asked} result=x\rresume=maybe")
    said = f"result=recorded\nresume=true\npull_request=false\nrun_id={RUN}\nrequest_id={asked}\n"
    assert outputs.read_text() == f"earlier=1\n{said}"


def test_no_secret_reaches_an_event(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential in a comment, by its pattern or because the environment calls it secret, is not kept."""
    monkeypatch.setenv("DEPLOY_PASSWORD", "correct horse battery")
    world.ask()
    token = "ghp_" + "a1" * 18
    assert world.comment(f"@faber approve use {token} and correct horse battery").json["result"] == "recorded"
    kept = "".join(file.read_text() for file in world.events.iterdir())
    assert token not in kept
    assert "correct horse" not in kept
    assert "use [REDACTED] and [REDACTED]" in kept


def test_refusals_are_posted_only_where_configured(world: World) -> None:
    """A person who may answer is told why not, once a comment; an outsider never makes faber write."""
    world.configure(refusals=True)
    asked = world.ask()
    for _ in range(2):
        assert world.comment("@faber approve fr-20200101-00000000").status == 4
    said = world.github.bodies(7)
    assert len(said) == 1
    assert said[0].startswith("No open request of this issue has this id.")
    payload = event(world.github, f"@faber approve {asked}")
    _by(OUTSIDER)(payload)
    assert world.arrive(payload).json["result"] == "denied"
    assert len(world.github.bodies(7)) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("@faber merge", "After `@faber` write one of `approve`, `reject`"),
        ("@faber yes, but rename it", "This approves under a condition"),
        ("Hello @faber, approve", "begin a line with `@faber`"),
        ("> a\n@faber approve", "GitHub may show this as a quotation"),
        ("@faber approve\n\n@faber reject", "more than one command"),
        ("@faber skip", "Write `@faber` and one of `approve`, `reject`."),
    ],
)
def test_nobody_who_speaks_to_faber_meets_silence(world: World, body: str, said: str) -> None:
    """What is addressed to faber and not understood gets one short reply that says what to write."""
    world.configure(refusals=True)
    world.ask()
    before = world.log()
    for _ in range(2):
        world.comment(body)
    assert (len(world.github.bodies(7)), world.log()) == (1, before)
    assert said in world.github.bodies(7)[0]


def test_another_mention(world: World) -> None:
    """`feedback.mention` names what a comment begins with, and what a posted request says to write."""
    config = world.project / ".fractary" / "faber" / "config.yaml"
    config.write_text(settings(world.github, post="requests").replace("post: ", "mention: '@acme/bots', post: "))
    asked = world.ask()
    assert f"@acme/bots approve {asked}" in world.github.bodies(7)[0]
    assert world.comment("@faber approve").json["reason"] == "no_command"
    assert world.comment("@Acme/Bots yes").json["result"] == "recorded"


def test_no_agent_is_allowed_it_unasked() -> None:
    """The hook that lets calls pass does not know from-event, nor posting."""
    from faber.hooks.grants import ASKS, PEOPLE, REFUSED_OPTIONS

    assert ("feedback", "from-event") in PEOPLE
    assert ("feedback", "post") in ASKS
    assert "--post" in REFUSED_OPTIONS


def test_a_run_of_another_provider_is_not_answered(world: World) -> None:
    """If work items are files, every GitHub event is refused."""
    asked = world.ask()
    (world.project / ".fractary" / "faber" / "config.yaml").write_text("work_items: {provider: file}\n")
    answer = world.comment(f"@faber approve {asked}")
    assert (answer.status, answer.code) == (4, "no_commenting")


def test_two_processes_take_one_comment_once(world: World, tmp_path: Path) -> None:
    """The same event at the same time in several processes: one answer."""
    import sys

    world.ask()
    path = write_event(tmp_path, event(world.github, "@faber approve"))
    main = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"
    command = [sys.executable, str(main), "feedback", "from-event", "--event-path", path]
    started = [subprocess.Popen(command, cwd=world.project, stdout=subprocess.PIPE) for _ in range(4)]
    said = [json.loads(process.communicate()[0]) for process in started]
    assert {answer["result"] for answer in said} == {"recorded"}, said
    assert sorted(answer["repeated"] for answer in said) == [False, True, True, True]
    assert sum("feedback_received" in name for name in world.log()) == 1


@pytest.fixture
def request_url(world: World) -> str:
    """The address of the run's pull request, number 9, which the run knows."""
    url = f"https://127.0.0.1/{world.github.slug}/pull/9"
    assert world.faber("event", "emit", RUN, "--type", "pr_create", "--metadata", f'{{"url": "{url}"}}').status == 0
    return url


@pytest.mark.usefixtures("request_url")
@pytest.mark.parametrize(
    ("kind", "state", "body", "response", "comment"),
    [
        ("approval", "approved", None, "approve", None),
        ("review", "APPROVED", "Nice, if a little long.", "approve", "Nice, if a little long."),
        ("review", "approved", "@faber lgtm", "approve", None),
        ("review", "changes_requested", "Two things.", "request_changes", "Two things.\na.py:3: Why?\nb.py:8: No `x`."),
        ("review", "commented", "@faber yes, thanks", "approve", "thanks"),
        ("review", "approved", "@faber reject", None, None),
        ("review", "commented", "Nice.", None, None),
        ("review", "dismissed", None, None, None),
        ("confirmation", "approved", None, None, None),
        ("error_resolution", "approved", None, None, None),
    ],
)
def test_a_review_of_the_pull_request_answers(
    world: World, kind: str, state: str, body: str | None, response: str | None, comment: str | None
) -> None:
    """A review approves or asks for changes, with its comments on lines; a question about something else stays open."""
    world.ask("--type", kind)
    before = world.log()
    payload = review(world.github, state, body)
    world.github.comment_on_line(payload["review"]["id"], "a.py", 3, "Why?")
    world.github.comment_on_line(payload["review"]["id"], "b.py", 8, "No `x`.")
    told = world.arrive(payload).json
    if response is None:
        assert (told["result"] != "recorded", world.log()) == (True, before), told
        return
    assert told["result"] == "recorded", told
    newest = json.loads((world.events / world.log()[-1]).read_bytes())
    assert newest["key"] == f"review-{payload['review']['id']}"
    given = newest["metadata"]
    assert (given["response"], given.get("comment"), given["responder"]["source"]) == (
        response,
        comment,
        "pull_request_review",
    )
    assert world.arrive(payload).json["repeated"] is True


@pytest.mark.parametrize("attack", ["outsider", "bot", "edited", "dismissed", "another pull request", "asked later"])
@pytest.mark.usefixtures("request_url")
def test_a_review_that_does_not_count(world: World, attack: str) -> None:
    """A review answers under the checks of a comment: who wrote it, where, and that it came after the question."""
    world.ask()
    before = world.log()
    payload = review(world.github, "approved", None)
    if attack in ("outsider", "bot"):
        for account in (payload["review"]["user"], payload["sender"]):
            account |= {"login": OUTSIDER} if attack == "outsider" else {"type": "Bot"}
    elif attack in ("edited", "dismissed"):
        payload["action"] = attack
    elif attack == "another pull request":
        payload = review(world.github, "approved", None, number=10)
    else:
        payload = review(world.github, "approved", None, at="2020-01-01T00:00:00Z")
    assert world.arrive(payload).json["result"] != "recorded"
    assert world.log() == before


def test_comments_on_the_pull_request_count(world: World, request_url: str) -> None:
    """A comment on the run's pull request answers like one on its issue, and the reply to it is posted there."""
    world.configure(refusals=True)
    world.ask()
    world.github.add_issue(9)
    payload = event(world.github, "@faber merge it", comment_id=5_001)
    _replace(payload, "/issues/7", "/issues/9")
    payload["issue"] |= {"number": 9, "pull_request": {"url": request_url}}
    assert world.arrive(payload).json["reason"] == "malformed"
    assert (len(world.github.bodies(9)), len(world.github.bodies(7))) == (1, 0)
    payload["comment"] |= {"id": 5_002, "body": "@faber lgtm"}
    assert world.arrive(payload).json["result"] == "recorded"


def test_lines_that_cannot_be_read_lose_no_answer(world: World, request_url: str) -> None:
    """If GitHub does not give a review's comments on lines, the answer is recorded without them, and that is said."""
    world.ask("--type", "review")
    world.github.faults = [Fault(status=404, path="/reviews/")]
    told = world.arrive(review(world.github, "changes_requested", "See the lines.")).json
    assert (told["result"], told["warnings"][0]["code"]) == ("recorded", "line_comments_not_read")
