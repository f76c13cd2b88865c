"""From an issue to a merged pull request: machine A begins, people and CI answer at GitHub, and the jobs of the example
workflows do the rest, each on a machine of its own. The real client works; its model only does what it is told."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.client import Client
from e2e.github_project import GitHubProject, github_project
from e2e.literal import LiteralAgent, Made
from e2e.messages_api import MessagesApi
from e2e.replies import tool
from github.actions import Failed
from github.comments import NUMBER, PERSON, ended, event, review
from github.fake_reactions import react
from sync.clones import MACHINE_LOCAL, Clone, differing

FLOW = """
phases:
  - id: build
    steps:
      - {id: export, instruction: Write the export and commit it., evidence: [{file: export.txt}, commit]}
  - id: release
    steps:
      - {id: open-pr, instruction: Run `faber pull-request RUN --next`., pull_request: true}
"""
LOG = "$ make test\nAssertionError: the export has no header\n"
# Words of people and of CI, and how the file shows that they were heard.
WISHES = {"Use semicolons": ";", "has no header": "age", "Capitals": "Age"}


DEFAULT = "extends: default\n"


@pytest.fixture
def flow() -> str:
    """The project's workflow, which ends with a pull request that a person has to approve first."""
    return FLOW


@pytest.fixture
def place(flow: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubProject]:
    """The project at GitHub."""
    with github_project(client, tmp_path, monkeypatch, flow, refusals=True) as made:
        yield made


def hands(place: GitHubProject) -> Callable[[str, Mapping[str, Any]], Made]:
    """Hands that write the export as those wish whose words came with the step, and commit it."""
    found: dict[Path, bool] = {}
    heard: dict[Path, str] = {}  # by the session on one machine
    commit = [tool("Bash", command=each) for each in ("git add export.txt", "git commit -q -m Export")]

    def work(instruction: str, answer: Mapping[str, Any]) -> Made:
        words = heard[place.newest] = heard.get(place.newest, "") + json.dumps(answer)
        if not instruction.startswith(("Write the export", "Implement")):
            calls = commit if instruction.startswith("Commit") else []
            return Made(calls, {"branch_name": "feat/7", "spec_path": "README.md"})
        file = place.newest / "export.txt"
        known = file.read_text() if found.setdefault(file, file.exists()) or file.exists() else ""
        semicolons, header, capitals = (wish in words or sign in known for wish, sign in WISHES.items())
        heading = ("Name;Age\n" if capitals else "name;age\n") if header or "age" in known.lower() else ""
        content = heading + ("a;b\n" if semicolons else "a,b\n")
        calls = [tool("Read", file_path=str(file))] if found[file] else []
        calls.append(tool("Write", file_path=str(file), content=content))
        return Made([*calls, *(commit if "commit it" in instruction else [])])

    return work


def begin(a: Clone) -> tuple[str, str]:
    """On A: a run for the issue, its branch, and a question to a person, pushed. Run and request."""
    run = a.must("run", "init", "--work-id", str(NUMBER))["run_id"]
    a.git("switch", "-q", "-c", "feat/7")
    a.must("event", "emit", run, "--type", "branch_create", "--metadata", '{"branch": "feat/7"}')
    a.must("next", run)
    asked = a.must("feedback", "request", run, "--type", "clarification", "--prompt", "Which separator?", "--post")
    a.must("sync", "push", run)
    return run, asked["posted"][0]["request_id"]


def failed_check(place: GitHubProject, number: int) -> Any:
    """CI fails at the newest commit."""
    place.github.checks.workflow(number, "CI", place.head(), {number + 1: ("test", "failure", LOG)})
    return ended(place.github, "workflow_run", number)


def wishes(place: GitHubProject, number: int) -> Any:
    """A person requests changes to the pull request, in a comment on a line."""
    made = review(place.github, "changes_requested", "Nearly.", number=number)
    place.github.comment_on_line(made["review"]["id"], "export.txt", 1, "Capitals, please.")
    return made


def approves(place: GitHubProject, number: int) -> Any:
    """A person approves the pull request."""
    made = review(place.github, "approved", None, number=number)
    made["review"]["id"] += 1
    return made


def events(machine: Clone, run: str) -> list[dict[str, Any]]:
    """The run's log on a machine."""
    place = machine.path / ".fractary" / "faber" / "runs" / run / "events"
    return [json.loads(file.read_bytes()) for file in sorted(place.iterdir())]


def test_from_an_issue_to_a_merged_pull_request(place: GitHubProject, api: MessagesApi) -> None:
    """A question is answered by a comment, a failed check repaired, a request for changes answered, a gate approved by
    a review; the pull request is merged, the run complete, each step done once but those sent back, and A sees it."""
    github, a = place.github, place.a
    api.script.always(LiteralAgent(hands(place), patience=2))
    run, request = begin(a)

    place.happens("issue_comment", event(github, f"@faber answer {request} Use semicolons."))
    ((number, pull),) = github.pulls.found.items()
    assert (place.text(), pull["draft"]) == ("a;b\n", True)
    assert pull["title"] == github.issues[NUMBER]["title"]

    # CI fails, and before the agent gets to it, a person requests changes.
    assert place.decide("workflow_run", failed_check(place, 40))["resume"] == "true"
    place.happens("pull_request_review", wishes(place, number))
    assert (place.text(), pull["draft"]) == ("Name;Age\na;b\n", True)
    told = github.bodies(number)
    assert [f"commit/{place.head()}" in each for each in told] == [True, True]
    assert 'The check "CI"' in told[0]
    assert "requested changes" in told[1]

    # What is left is faber's: no agent works for it.
    assert place.decide("pull_request_review", approves(place, number))["resume"] == "false"
    assert (pull["draft"], pull["state"]) == (False, "open")
    assert not any(asked.has(github.token) for asked in api.turns)

    done = completed(place, run, number)
    assert done == {"build:export": 2, "release:open-pr": 1}
    heard = [each["metadata"]["responder"] for each in events(a, run) if each["type"] == "feedback_received"]
    assert [(who["name"], who["source"]) for who in heard] == [
        (PERSON, "issue_comment"),
        (PERSON, "pull_request_review"),
    ]


@pytest.mark.full
@pytest.mark.parametrize("flow", [DEFAULT], ids=["default"])
def test_the_default_workflow_to_a_merged_pull_request(place: GitHubProject, api: MessagesApi) -> None:
    """The same with the workflow that every project has, one thing after the other: a reaction opens its first gate, a
    failed check and a review send the work back in turn, and another review opens the last gate."""
    github, a = place.github, place.a
    api.script.always(LiteralAgent(hands(place), patience=2, branch="feat/7"))
    run, request = begin(a)
    place.happens("issue_comment", event(github, f"@faber answer {request} Use semicolons."))
    assert github.pulls.found == {}
    asked = max(each for each, comment in github.comments.items() if "faber:request" in comment["body"])
    react(github, asked, "+1", PERSON)
    place.happens("schedule", {"schedule": "7,22,37,52 * * * *"})
    ((number, pull),) = github.pulls.found.items()
    assert (place.text(), pull["draft"]) == ("a;b\n", True)
    place.happens("workflow_run", failed_check(place, 40))
    assert (place.text(), pull["draft"]) == ("name;age\na;b\n", True)
    assert 'The check "CI"' in github.bodies(number)[-1]
    place.happens("pull_request_review", wishes(place, number))
    assert (place.text(), pull["draft"]) == ("Name;Age\na;b\n", True)
    assert "requested changes" in github.bodies(number)[-1]
    # What is left is faber's: no agent works for it.
    assert place.decide("pull_request_review", approves(place, number))["resume"] == "false"
    assert (pull["draft"], pull["state"]) == (False, "open")
    done = completed(place, run, number)
    once = ("frame:fetch-work", "frame:classify", "frame:setup-branch", "architect:write-spec", "release:open-pr")
    again = ("build:implement", "build:commit", "evaluate:test", "evaluate:review", "release:document")
    assert done == dict.fromkeys(once, 1) | dict.fromkeys(again, 3)


@pytest.mark.full
def test_a_branch_that_github_refuses_is_landed_by_a_person(place: GitHubProject, api: MessagesApi) -> None:
    """Job land fails, and nothing is lost: the run waits, the issue says why and where the commits are, and once a
    person has landed them from the artifact and said so, the pull request is opened."""
    github, a = place.github, place.a
    api.script.always(LiteralAgent(hands(place), patience=2))
    run, request = begin(a)
    hook = place.bare / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        '#!/bin/sh\ncase "$1" in refs/heads/*) echo "GH013: Repository rule violations" >&2; exit 1;; esac\n'
    )
    hook.chmod(0o755)
    with pytest.raises(Failed):
        place.happens("issue_comment", event(github, f"@faber answer {request} Use semicolons."))
    (told,) = [body for body in github.bodies(NUMBER) if "GH013" in body]
    assert all(words in told for words in ("Repository rule violations", "artifact faber-work", "sync import"))
    hook.unlink()
    a.git("switch", "-q", "main")
    a.must("sync", "pull", run)
    a.must("sync", "import", run, str(place.bare.parents[2] / "artifacts" / "faber-work" / "run.bundle"))
    a.must("sync", "push", run)
    assert place.text() == "a;b\n"
    gate, asked = (each["request_id"] for each in a.must("feedback", "show", run)["open"])
    for number, said in enumerate((f"answer {asked} continue", f"approve {gate}"), 5_001):
        place.decide("issue_comment", event(github, f"@faber {said}", comment_id=number))
    ((number, _),) = github.pulls.found.items()
    assert github.pulls.head("feat/7") == place.head()
    assert any(f"/pull/{number}" in each["message"] for each in events(Clone(place.newest), run) if "message" in each)


def completed(place: GitHubProject, run: str, number: int) -> Mapping[str, int]:
    """A person merges, and A pulls the completed run; how often each step was completed."""
    github, a = place.github, place.a
    merged = place.merge(number)
    a.must("sync", "pull", run)
    a.git("merge", "-q", "--ff-only", "origin/feat/7")
    a.git("fetch", "-q", "origin", "main")
    assert a.git("rev-parse", "FETCH_HEAD", "FETCH_HEAD^2").split() == [merged, place.head()]
    assert (a.path / "export.txt").read_text() == place.text(branch="main") == "Name;Age\na;b\n"
    there = Clone(place.newest)
    here, elsewhere = (machine.must("context", run, "--full", "--no-fetch") for machine in (a, there))
    assert here["status"] == "completed"
    assert differing(here, elsewhere) <= MACHINE_LOCAL | {("issue", "age_seconds")}
    (progress,) = [body for body in github.bodies(NUMBER) if "faber:progress" in body]
    assert "the run is completed" in progress
    assert f"/pull/{number}" in progress
    done = [each for each in events(a, run) if each["type"] == "step_complete"]
    return Counter(f"{each['phase']}:{each['step']}" for each in done)
