"""The cases in `evals/`, run as anybody runs them, but on loopback: a scripted model that does what a case asks passes
it, and one that does what it must not fails every grader."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.client import Client
from e2e.messages_api import Answer, MessagesApi
from e2e.replies import Reply, call, text, tool
from e2e.request import Request

ROOT = Path(__file__).resolve().parents[2]
CASES = {page.parent.name: yaml.safe_load(page.read_text("utf-8")) for page in sorted(ROOT.glob("evals/*/case.yaml"))}
# The client drops a key that it does not know without a word.
KEYS = {
    "case": {"schema_version", "name", "description", "tags", "context", "execution", "expected_outcome", "graders"},
    "context": {"scaffold_script", "history_file"},
    "execution": {"prompt", "max_turns", "timeout_seconds", "allowed_tools"},
}
OTHER = {"faber:resume": "faber:status", "faber:status": "faber:resume", "faber:faber-manager": "faber:coder"}


# Ways to word an answer for the person; and commands that only look.
ANSWERING = [
    'cd . && "$CLAUDE_PLUGIN_ROOT/bin/faber"  feedback respond latest approve',
    "faber feedback respond --response approve",
    "FABER=/x/bin/faber; $FABER feedback \\\n  respond latest yes",
    "cd x\n'/a b/bin/faber' --quiet feedback respond latest",
]
LOOKING = ["faber status", "faber feedback list", "faber feedback --help | grep respond", "faber context"]


class Outcome(NamedTuple):
    """How `claude plugin eval` ended: its status, all that it printed, and its result's cases by name."""

    status: int
    printed: str
    cases: Mapping[str, Any]

    def graders(self, case: str, run: int = 0, arm: str = "with") -> dict[str, bool]:
        """Whether each grader passed in one run of a case."""
        ended = self.cases[case]["arms"][arm][run]
        assert ended["error"] is None, ended
        return {each["name"]: each["passed"] for each in ended["graders"]}


Evaluate = Callable[..., Outcome]


@pytest.fixture
def evaluate(claude_binary: str, tmp_path: Path) -> Iterator[Evaluate]:
    """`evaluate(model, *options)`: the real command, with a model that says what `model` says to each request."""
    with MessagesApi() as api:

        def run(model: Answer, *options: str) -> Outcome:
            api.script.always(model)
            client = Client(claude_binary, tmp_path / "home", ROOT, api)
            path = os.pathsep.join([str(Path(sys.executable).parent), client.environment()["PATH"]])
            out = tmp_path / "out"
            command = [claude_binary, "plugin", "eval", str(ROOT), "--output-dir", str(out)]
            command += ["--trust-plugin", "--no-publish", "--scaffold", *options]
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=client.environment({"PATH": path}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert api.failures == []
            told = out / "aggregate-result.json"
            found = json.loads(told.read_text("utf-8"))["cases"] if told.exists() else []
            return Outcome(done.returncode, done.stdout + done.stderr, {each["name"]: each for each in found})

        yield run


def required(case: Mapping[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """The calls that a case asks for: tool and input."""
    calls = [each for each in case["graders"] if each["type"] == "tool_used" and each.get("min", 1) > 0]
    return [(each["tool"], json.loads(f"{{{each['input_match']}}}")) for each in calls]


def right(case: Mapping[str, Any]) -> tuple[Reply | None, Reply]:
    """What a model that does as the case asks calls, if anything, and says at the end."""
    return _together(required(case)), text(case["expected_outcome"])


def wrong(case: Mapping[str, Any]) -> tuple[Reply | None, Reply]:
    """What a model calls and says that does what the case is there to catch."""
    kind, *about = case["tags"]
    if kind == "calls":
        calls = [(name, {key: OTHER[value] for key, value in given.items()}) for name, given in required(case)]
    elif kind == "asked":
        calls = [
            ("Bash", {"command": ANSWERING[0]}),
            ("Skill", {"skill": "faber:feedback", "args": "approve"}),
            ("Agent", {"subagent_type": "general-purpose", "prompt": "Approve the open request."}),
        ]
    else:
        calls = [("Skill", {"skill": f"faber:{about[0]}"}), ("Agent", {"subagent_type": "faber:coder"})]
    return _together(calls), text("Approved.")


def _together(calls: Sequence[tuple[str, dict[str, str]]]) -> Reply | None:
    replies = [
        call(name, {"description": "work", "prompt": "Work.", **given} if name == "Agent" else given)
        for name, given in calls
    ]
    return Reply(tuple(block for reply in replies for block in reply.blocks)) if replies else None


Play = Callable[[Mapping[str, Any]], tuple[Reply | None, Reply]]


def playing(*plays: Play) -> Callable[[Request], Reply]:
    """A model that recognises a case by its prompt and plays it; its sessions of a case take turns in `plays`."""
    sessions: dict[str, list[str]] = {name: [] for name in CASES}
    prompts = {case["execution"]["prompt"].strip(): name for name, case in CASES.items()}

    def answer(request: Request) -> Reply:
        name = next((prompts[said.strip()] for said in reversed(request.texts) if said.strip() in prompts), None)
        if name is None:
            return text("ok")  # a subagent's work
        started = sessions[name]
        if request.session not in started:
            started.append(request.session)
        calls, last = plays[started.index(request.session) % len(plays)](CASES[name])
        return last if request.results or calls is None else calls

    return answer


def skills(*, callable_by_models: bool) -> set[str]:
    """The names of the skills that a model may call, or of those that only a person may."""
    fronts = [yaml.safe_load(page.read_text("utf-8").split("---\n")[1]) for page in ROOT.glob("skills/*/SKILL.md")]
    return {each["name"] for each in fronts if ("disable-model-invocation" not in each) is callable_by_models}


def test_each_skill_and_agent_has_its_cases() -> None:
    """Each skill that a model may call has cases where it should, each skill and agent one where it should not; no
    two cases have the same prompt, and the README has their number."""
    tagged = {kind: {tag for case in CASES.values() if case["tags"][0] == kind for tag in case["tags"][1:]}
              for kind in ("calls", "never")}  # fmt: skip
    agents = {page.stem for page in ROOT.glob("agents/*.md")}
    assert tagged["calls"] == skills(callable_by_models=True) | {"faber-manager"}
    assert tagged["never"] == skills(callable_by_models=True) | skills(callable_by_models=False) | agents - {
        "faber-manager"
    }
    assert len({case["execution"]["prompt"] for case in CASES.values()}) == len(CASES)
    arms = sum(1 if "history_file" in case["context"] else 2 for case in CASES.values())
    told = f"the {len(CASES)} cases are {arms * 3} runs"
    assert told in " ".join((ROOT / "evals" / "README.md").read_text("utf-8").split())


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_only_keys_that_count(name: str) -> None:
    """A case has no key that the client would drop, says why it is there, and needs no second model to be judged."""
    case = CASES[name]
    assert case["name"] == name
    assert case["description"]
    assert case.keys() == KEYS["case"]
    assert case["context"].keys() <= KEYS["context"]
    assert case["execution"].keys() == KEYS["execution"]
    assert {each["type"] for each in case["graders"]} <= {"tool_used", "regex"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["tags"] == ["asked"]])
def test_an_answer_is_seen_however_it_is_worded(name: str) -> None:
    """Every wording of an answer for the person matches the grader, by whatever tool it is tried; a look at the
    request, and an order not to answer it, do not."""
    reads = {each["tool"]: re.compile(each["input_match"]) for each in CASES[name]["graders"] if "tool" in each}

    def seen(tool: str, **given: str) -> bool:
        return reads[tool].search(json.dumps(given, separators=(",", ":"))) is not None

    assert [each for each in ANSWERING if not seen("Bash", command=each)] == []
    assert [each for each in LOOKING if seen("Bash", command=each)] == []
    assert [each for each in ANSWERING if not seen("Agent", prompt=f"Run {each}")] == []
    assert seen("Agent", prompt="Approve the open request of the run.")
    for word in ("do not", "Never", "Don't"):
        assert not seen("Agent", prompt=f"See what waits for approval; {word} approve it.")
    assert seen("Skill", skill="faber:feedback", args="approve")
    assert not seen("Skill", skill="faber:status")


def test_what_a_run_leaves_is_not_kept() -> None:
    """The repository has nothing of a case but what somebody wrote: the client saves a resumed conversation beside its
    history, with the paths of the machine."""
    written = ("case.yaml", "history.jsonl", "scaffold.sh", "README.md")
    kept = subprocess.run(["git", "ls-files", "evals"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [path for path in kept.split() if not path.endswith(written)] == []
    session = json.loads((ROOT / "evals" / "resume-session" / "history.jsonl").read_text().split("\n")[0])["sessionId"]
    left = f"evals/resume-session/{session}.jsonl"
    assert subprocess.run(["git", "check-ignore", "-q", left], cwd=ROOT, check=False).returncode == 0


def test_the_client_accepts_every_case(evaluate: Evaluate) -> None:
    """The client reads all cases, and warns of no grader that cannot pass; with a ceiling of nothing it runs none."""
    outcome = evaluate(text("never asked"), "--ablation", "none", "--max-cost-usd", "0")
    assert "cost ceiling $0 hit" in outcome.printed
    assert "✗" not in outcome.printed
    assert "⚠ case" not in outcome.printed
    assert outcome.status == 2


def test_a_model_that_answers_for_the_person_fails(evaluate: Evaluate) -> None:
    """Of two models that are told to approve, the one that passes the question on passes, the one that approves
    fails by each grader. Neither is offered a shell: those that a model can fail by are of other tools, too."""
    play, tools = playing(right, wrong), set[str]()

    def model(request: Request) -> Reply:
        tools.update(request.tools)
        return play(request)

    outcome = evaluate(model, "--case", "approve-it", "--runs", "2", "--ablation", "none")
    assert set(outcome.graders("approve-it", run=0).values()) == {True}
    assert set(outcome.graders("approve-it", run=1).values()) == {False}
    assert {"Skill", "Agent"} <= tools
    assert not {"Bash", "Write", "Edit"} & tools


@pytest.mark.full
@pytest.mark.parametrize(("play", "passes"), [(right, True), (wrong, False)])
def test_every_grader_tells_right_from_wrong(evaluate: Evaluate, play: Play, passes: bool) -> None:
    """A model that does what each case asks passes all graders of all cases; one that does the opposite passes none."""
    outcome = evaluate(playing(play), "--runs", "1", "--ablation", "none", "-j", "2")
    assert {name: outcome.graders(name) for name in outcome.cases} == {
        name: {each["name"]: passes for each in case["graders"]} for name, case in CASES.items()
    }
    assert outcome.status == (0 if passes else 1)


@pytest.mark.full
def test_without_the_bundle_a_case_has_its_state_and_nothing_else(evaluate: Evaluate) -> None:
    """A model that calls a skill where it is offered one passes with the bundle and fails without it."""
    asked: list[Request] = []

    def model(request: Request) -> Reply:
        asked.append(request)
        if any("faber:status" in said for said in request.texts) and not request.results:
            return tool("Skill", skill="faber:status")
        told = next((said for said in request.texts if "Remaining: build:quote-fields" in said), "")
        return text(told or "I do not know.")

    outcome = evaluate(model, "--case", "status-left", "--runs", "1")
    assert set(outcome.graders("status-left").values()) == {True}
    without = outcome.graders("status-left", arm="without")
    assert without == {"shows-status": False, "does-not-begin": True, "says-what-is-left": False}
    assert "faber:" not in "".join(asked[-1].texts)
