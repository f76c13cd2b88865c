"""A run asks on one machine, a comment answers it, a job on another machine finishes it, and the first one sees that.

The jobs are those of `examples/github`, command by command; GitHub is the fake, with git beside its API.
"""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.client import Client
from e2e.messages_api import MessagesApi
from e2e.replies import Reply, text, tool
from e2e.request import Request
from github.actions import Failed, Runner, called, jobs
from github.comments import NUMBER, PERSON, environment, event, remote, settings, write_event
from github.fake import FakeGitHub
from support.git_environment import COMMITTER
from sync.clones import MACHINE_LOCAL, Clone, differing

HOSTILE = Path(__file__).parents[1] / "fixtures" / "hostile" / "agent.sh"
FLOW = """
phases:
  - id: plan
    steps:
      - {id: outline, instruction: Say in one sentence how the export is made.}
  - id: build
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}]}
      - {id: commit, instruction: Commit it., evidence: [commit]}
"""


class Place(NamedTuple):
    """The GitHub with repository and issue, machine A, and how a job is run on a machine of its own."""

    github: FakeGitHub
    a: Clone
    run_job: Callable[..., tuple[Any, Runner]]


@pytest.fixture
def place(client: Client, plugin_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A repository at GitHub, with a workflow and settings; machine A's clone of it."""
    import os

    for name in [key for key in os.environ if key.startswith(("GIT_", "GH_", "GITHUB_", "CLAUDE", "FABER_ROOT"))]:
        monkeypatch.delenv(name)
    for name, value in COMMITTER.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("faber.github.api_calls.WRITE_SPACING", 0)
    with FakeGitHub() as github:
        github.add_issue(NUMBER)
        github.permissions = {PERSON: ("write", "write")}
        github.projects = tmp_path / "projects"
        for name, value in environment(github).items():
            monkeypatch.setenv(name, value)
        header = f"AUTHORIZATION: basic {base64.b64encode(f'x:{github.token}'.encode()).decode()}"
        _publish(client.project, github)
        a = Clone(tmp_path / "a")
        git(tmp_path, "-c", f"http.extraHeader={header}", "clone", "-q", remote(github), str(a.path))
        a.git("config", "http.extraHeader", header)

        machines = count(1)
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "claude").symlink_to(client.binary)

        def run_job(name: str, payload: Any, decided: Any = None, event: str = "issue_comment") -> tuple[Any, Runner]:
            """A job of the workflows, on a machine of its own; `decided` are the outputs of job decide."""
            contexts = {
                "github": {
                    "token": github.token,
                    "server_url": github.root,
                    "repository": github.slug,
                    "event_name": event,
                    "event": payload | {"repository": payload["repository"] | {"default_branch": "main"}},
                    "_header": header,
                },
                "secrets": {"ANTHROPIC_API_KEY": "dummy"},
                "vars": {"FABER_ALLOWED_TOOLS": "Bash(git add *),Bash(git commit *)"},
                "needs": {"decide": {"outputs": decided}},
            }
            plain = client.environment()
            given = plain | {
                "PATH": f"{programs}:{plain['PATH']}",
                "GITHUB_ACTIONS": "true",
                "GITHUB_SERVER_URL": github.root,
                "GITHUB_REPOSITORY": github.slug,
                "GITHUB_EVENT_NAME": event,
                "GITHUB_EVENT_PATH": write_event(tmp_path, payload),
            }
            del given["ANTHROPIC_API_KEY"]  # the job's to give
            inner = contexts if decided is None else called(contexts)
            assert inner is not None, decided
            home = tmp_path / f"machine-{next(machines)}"
            if name != "work":  # the client finds its own home ready
                (home / "home").mkdir(parents=True)
                given["HOME"] = str(home / "home")
            place = {"clone_from": remote(github), "plugin": plugin_root, "artifacts": tmp_path / "artifacts"}
            runner = Runner(home, inner, given, **place)
            return runner.job(jobs()[name]), runner

        yield Place(github, a, run_job)
        assert github.violations == []


def git(directory: Path, *arguments: str) -> str:
    """What git prints there."""
    return subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def _publish(seed: Path, github: FakeGitHub) -> None:
    """Put the project at GitHub, as its people set it up for faber."""
    store = seed / ".fractary" / "faber"
    (store / "workflows").mkdir(parents=True)
    (store / "workflows" / "export.yaml").write_text(FLOW)
    (store / "config.yaml").write_text(f"workflow: export\n{settings(github, post='all')}")
    git(seed, "add", "--all")
    git(seed, "commit", "-q", "-m", "Set up faber")
    assert github.projects is not None
    git(seed, "clone", "-q", "--bare", "--template=", str(seed), str(github.projects / f"{github.slug}.git"))
    shutil.rmtree(seed)


def begin_and_ask(place: Place) -> tuple[str, str]:
    """On A: a run is started, one phase of it done, a person asked on the issue, all of it pushed. Run and request."""
    a = place.a
    run = a.must("run", "init", "--work-id", str(NUMBER))["run_id"]
    a.git("switch", "-q", "-c", "feat/7")
    a.commit("notes.txt")
    a.must("event", "emit", run, "--type", "branch_create", "--metadata", '{"branch": "feat/7"}')
    a.must("step", "start", run, "plan:outline")
    a.must("step", "complete", run, "plan:outline", "--message", "A text file")
    a.must("step", "start", run, "build:write")
    asking = ("--type", "review", "--prompt", "Is a text file right?", "--artifact", "notes.txt", "--post")
    asked = a.must("feedback", "request", run, *asking)
    assert asked["warnings"] == []
    assert a.must("sync", "push", run)["result"] == "created"
    return run, asked["posted"][0]["request_id"]


def faber(arguments: str) -> Callable[[Request], Reply]:
    """The model calls faber by the path that the plugin told it."""

    def say(request: Request) -> Reply:
        told = next(match for words in request.texts if (match := re.search(r'"([^"\s]+/bin/faber)"', words)))
        return tool("Bash", command=f'"{told[1]}" {arguments}')

    return say


def finish(api: MessagesApi, run: str, project: Path) -> None:
    """What the model does once it is told to continue: all that is left, as faber hands it out."""
    api.script.reply(
        faber(f"context {run} --record"),
        faber(f"next {run}"),
        tool("Write", file_path=str(project / "export.txt"), content="a;b\n"),
        faber(f"step complete {run} build:write --message 'With semicolons'"),
        faber(f"step start {run} build:commit"),
        tool("Bash", command="git add export.txt"),
        tool("Bash", command="git commit -q -m Export"),
        faber(f"step complete {run} build:commit --message 'Committed'"),
        faber(f"next {run}"),
        text("The run is complete."),
    )


def test_a_comment_answers_and_a_job_finishes_the_run(place: Place, api: MessagesApi, tmp_path: Path) -> None:
    """A asks and pushes; a comment answers, a second machine finishes the run in the client; A pulls and sees it."""
    github, a, run_job = place
    run, request = begin_and_ask(place)
    assert [marker(body) for body in github.bodies(NUMBER)] == [f"progress {run}", f"request {request}"]

    payload = event(github, f"@faber request_changes {request}\nUse semicolons.")
    outputs, runner = run_job("decide", payload)
    assert outputs == {"resume": "true", "run_id": run}, runner.ran

    project = tmp_path / "machine-2" / "project"
    finish(api, run, project)
    before = a.git("ls-remote", "origin")
    run_job("work", payload, outputs)
    assert a.git("ls-remote", "origin") == before  # job work cannot push
    run_job("land", payload, outputs)
    sent = api.turns[-1]
    assert any("Use semicolons." in result.text for result in sent.results)
    assert not any(request.has(github.token) for request in api.turns)
    done = json.loads(sent.results[-1].text)
    assert (done["action"], done["why"]) == ("done", "The run is completed."), sent.results

    pulled = a.must("sync", "pull", run)
    assert (pulled["result"], pulled["branch"]["result"]) == ("pulled", "behind")  # it is checked out, so it stays
    assert "git merge --ff-only origin/feat/7" in pulled["branch"]["message"]
    a.git("merge", "-q", "--ff-only", "origin/feat/7")
    here, there = (machine.must("context", run, "--full", "--no-fetch") for machine in (a, Clone(project)))
    assert here["status"] == "completed"
    assert differing(here, there) <= MACHINE_LOCAL | {("issue", "age_seconds")}  # they were asked one after the other
    assert (a.path / "export.txt").read_text() == "a;b\n"
    (heard,) = a.must("feedback", "history", run)["requests"]
    assert [(said["response"], said["comment"], said["responder"]["name"]) for said in heard["answers"]] == [
        ("request_changes", "Use semicolons.", PERSON)
    ]
    progress, question = github.bodies(NUMBER)
    assert [marker(progress), marker(question)] == [f"progress {run}", f"request {request}"]
    assert "the run is completed" in progress


def test_a_hostile_agent_gains_nothing(place: Place, tmp_path: Path) -> None:
    """Nothing that an agent plants on its machine reaches a token, or anything at the remote but its own branch."""
    github, a, run_job = place
    run = a.must("run", "init", "--work-id", str(NUMBER))["run_id"]
    a.git("switch", "-q", "-c", "feat/7")
    a.commit("notes.txt")
    a.must("event", "emit", run, "--type", "branch_create", "--metadata", '{"branch": "feat/7"}')
    a.must("sync", "push", run)
    before = refs(a)
    agent = tmp_path / "programs" / "claude"
    agent.unlink()
    agent.write_text(HOSTILE.read_text("utf-8").replace("PLACE", str(tmp_path)))
    agent.chmod(0o755)

    payload = event(github, "@faber resume")
    decided = {"resume": "true", "run_id": run}
    with pytest.raises(Failed) as caught:  # the job fails as its agent did, and what it left is kept
        run_job("work", payload, decided)
    shown = caught.value.ran.out.splitlines()
    assert shown[0].startswith("::stop-commands::"), shown
    assert shown[-1] == f"::{shown[0].removeprefix('::stop-commands::')}::"
    assert (tmp_path / "sprung").exists()  # the traps work
    assert refs(a) == before

    _, land = run_job("land", payload, decided)
    after = refs(a)
    assert {ref for ref in before | after if before.get(ref) != after.get(ref)} == {"refs/heads/feat/7"}
    assert not (tmp_path / "canary").exists()
    loot = (tmp_path / "loot").read_text(errors="replace")
    secret = base64.b64encode(f"x-access-token:{github.token}".encode()).decode()
    assert "ANTHROPIC_API_KEY=dummy" in loot
    assert not any(word in loot for word in (github.token, secret, "extraheader"))
    (told,) = land.ran[-1:]
    assert '"result":"equal"' in told.out  # it recorded nothing in the run
    assert github.token not in told.out + told.err


def refs(clone: Clone) -> dict[str, str]:
    """The remote's refs."""
    lines = (line.split("\t") for line in clone.git("ls-remote", "origin").splitlines())
    return {ref: oid for oid, ref in lines}


def marker(body: str) -> str:
    """What a comment of faber's is known by."""
    match = re.search(r"<!-- faber:(.*) -->\Z", body)
    assert match, body
    return match[1]
