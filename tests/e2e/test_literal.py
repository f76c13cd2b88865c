"""An agent that does exactly what it is told gets to the end, in both ends of the window of clients: nothing that faber
shows it is refused, and nothing beyond what its skill is about is granted.

The agent (e2e/literal.py) acts only on text that reached it in the client's requests.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.bench import GUARDED, SHORT, Bench, Setting
from e2e.literal import LiteralAgent
from e2e.nebulas import Model
from e2e.replies import hang
from e2e.repositories import git
from e2e.request import Request
from faber.hooks.grants import SKILLS
from github.comments import environment, settings
from github.fake import FakeGitHub
from support.nebulas import nebula_files

ASKING = """
phases:
  - id: frame
    steps:
      - id: format
        instruction: >-
          Ask `faber feedback request --type selection --prompt 'Which format?' --option CSV --option TSV` and stop.
  - id: make
    steps:
      - {id: write, instruction: Write the export., evidence: [{file: export.txt}, {command: grep -q a export.txt}]}
"""
CALLS = 14  # of faber, for the default workflow with its two gates
SIZE = 1_200  # characters of an answer
TOKENS = 300


# Both ends of the window; where the road is the same, the oldest is driven by the long run alone.
newest = pytest.mark.parametrize("bench", ["newest", pytest.param("oldest", marks=pytest.mark.full)], indirect=True)


STRICT = [
    pytest.param(Setting("oldest", "dontAsk", installed="from a folder", apart=True), marks=pytest.mark.full),
    Setting("newest", "dontAsk", installed="in the cache", apart=True),
]


@pytest.fixture
def github(bench: Bench, tmp_path: Path) -> Iterator[FakeGitHub]:
    """The GitHub that the project is on, whose credential the client has."""
    with FakeGitHub() as github:
        github.projects = tmp_path / "projects"
        where = github.projects / f"{github.slug}.git"
        git(tmp_path, "clone", "-q", "--bare", "--template=", str(bench.project), str(where))
        git(bench.project, "remote", "add", "origin", str(where))
        named = environment(github) | {"GH_REPO": f"127.0.0.1/{github.slug}"}
        bench.client.extra_environment = {**bench.client.extra_environment, **named}
        place = bench.project / ".fractary" / "faber"
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.yaml").write_text(settings(github))
        yield github
        assert github.violations == []


@pytest.mark.parametrize("bench", STRICT, indirect=True, ids=str)
def test_the_default_workflow_to_its_end(bench: Bench, github: FakeGitHub) -> None:
    """From `/faber:run` over two gates, which a person approves in a terminal, to the pull request at GitHub and the
    end: nothing is refused, in at most 14 calls of faber, with small answers; also where the client refuses whatever is
    not granted, installed into a root with a space, and with another program `faber` earlier on PATH. What the
    plugin adds to every session is at most 300 tokens, as the client projects it."""
    details = bench.client.command("plugin", "details", "faber")
    assert (found := re.search(r"[Aa]lways[- ]on[^0-9~]*~?([0-9,]+)", details)), details
    assert int(found[1].replace(",", "")) <= TOKENS, details
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    for _ in range(2):
        assert bench.state["status"] == "awaiting_feedback", bench.api.shown()
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        bench.hears("continue", resume=session)
    assert bench.state["status"] == "completed"
    assert bench.refused == []
    assert len(bench.answers) <= CALLS, [each.command for each in bench.answers]
    assert [each.command for each in bench.answers if len(each.result or "") > SIZE] == []
    [opened] = github.pulls.found.values()
    assert (opened["head"], opened["draft"], bench.state["artifacts"]["pr_number"]) == ("feat/csv", False, "101")


@pytest.mark.full  # test_plugin.py::test_the_transcript_is_current and test_three_clients.py kill in a step, too
@newest
def test_a_session_killed_in_a_step_is_continued_by_the_next(bench: Bench) -> None:
    """After SIGKILL a new session that is only told to continue does the step that was in progress, and the rest."""
    bench.workflow(SHORT)
    agent = LiteralAgent(bench.hands)

    def building(request: Request) -> bool:
        return any('"action":"step"' in each.text and '"step":"write"' in each.text for each in request.results)

    bench.api.script.always(lambda request: hang() if building(request) else agent(request))
    running = bench.client.start("/faber:run Add a CSV export", **bench.asked)
    bench.api.wait_for(building)
    running.kill()
    assert bench.state["current_step"] == "write"
    bench.says("continue", session_id=uuid4())
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@newest
def test_a_question_is_asked_and_its_answer_reaches_the_step(bench: Bench) -> None:
    """A step that says which question to ask has it asked word for word; while it waits, `/faber:checkpoint` hands in
    a summary by options, so that no JSON has to pass the shell; a later session gets the answer with the step. There
    nobody typed a skill, so the client asks before a command of the plan proves the next step; the first session, in
    which the person did, resumed, completes it unasked."""
    bench.workflow(ASKING)
    session = uuid4()
    bench.hears("/faber:run Add a CSV export", session_id=session)
    assert bench.state["feedback_request"]
    assert bench.state["feedback_request"]["prompt"] == "Which format?"
    bench.hears("/faber:checkpoint")
    assert bench.state["session_summaries"]["latest_file"]
    bench.person("feedback", "respond", bench.state["run_id"], "TSV")
    assert bench.refused == []
    bench.says("continue", session_id=uuid4())
    assert any('"response":"TSV"' in (each.result or "") for each in bench.answers)
    assert len(bench.refused) == 1
    assert (bench.state["status"], bench.state["current_step"]) == ("in_progress", "write")
    bench.refused.clear()
    bench.says("continue", resume=session)
    assert (bench.state["status"], bench.refused) == ("completed", [])


@newest
def test_a_step_that_failed_is_healed(bench: Bench) -> None:
    """A step that cannot be done is recorded so; `/faber:heal` diagnoses it. Resumed, the run gets to its end, though a
    compaction has left nothing of it but the short brief."""
    bench.workflow(SHORT)
    session = uuid4()
    bench.broken = "The disk is full."
    bench.hears("/faber:run Add a CSV export", session_id=session)
    assert (bench.state["status"], bench.refused) == ("failed", [])
    bench.broken = ""
    bench.hears("/faber:heal")
    bench.person("run", "resume", bench.state["run_id"])
    bench.leaves()  # after a compaction the client sends the skills again that were typed since its start
    bench.hears("/compact", resume=session)
    bench.hears("continue")
    assert len(bench.api.compactions) == 1
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@pytest.mark.full  # tests/e2e/test_issue_to_merge.py continues a run in other clones, too
@newest
def test_a_run_moves_to_a_second_clone(bench: Bench, tmp_path: Path) -> None:
    """`/faber:sync push` here and `/faber:sync pull` in another clone; there a plain prompt gets the run to its end."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    git(bench.project, "remote", "add", "origin", str(remote))
    git(bench.project, "push", "-q", "origin", "main")
    bench.hears("/faber:run Add a CSV export")
    bench.hears("/faber:sync push")
    git(tmp_path, "clone", "-q", str(remote), "second")
    bench.move(tmp_path / "second")
    bench.workflow(SHORT)
    bench.says("/faber:sync pull")
    for _ in range(2):
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        bench.says("continue")
    assert bench.state["status"] == "completed"
    assert bench.refused == []


@newest
def test_a_nebula_is_planned_and_then_applied(bench: Bench) -> None:
    """`/faber:nebula DIR` starts nothing; typing `/faber:nebula apply DIR` runs its phases with agents of their own."""
    for path, content in nebula_files({"a": []}).items():
        (bench.project / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.project / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    git(bench.project, "add", "--all")
    git(bench.project, "commit", "-q", "-m", "Plan")
    model = Model()
    phase = re.compile(r"^# (?:Review of phase|Phase) ", re.MULTILINE)
    bench.api.script.when(lambda request: any(phase.search(each) for each in request.texts), always=model)
    bench.hears("/faber:nebula plan")
    assert (model.asked, bench.refused) == ([], [])
    result = bench.hears("/faber:nebula apply plan")
    assert model.asked == [("coder", "a"), ("reviewer", "a")], result.tool_results
    assert bench.refused == []


# What is granted with any arguments, and what only if its words were typed; tests/hooks/test_grants.py holds the
# permissions of each against the table.
KINDS = ("sync", "nebula")


@newest
@pytest.mark.parametrize("skills", [KINDS, pytest.param(sorted({*SKILLS} - {*KINDS}), marks=pytest.mark.full)], ids=len)
def test_each_skill_grants_what_it_is_about_and_nothing_else(bench: Bench, skills: Sequence[str]) -> None:
    """After each skill a model that tries all that changes more than its own work is refused each command but those
    that the person typed the skill for."""
    bench.workflow(SHORT)
    bench.person("run", "init", "--work-id", "7")
    running = bench.client.start(None)
    for skill in skills:
        granted = SKILLS[skill]
        bench.tries_all()
        result = running.turn(f"/faber:{skill} x" if skill == "run" else f"/faber:{skill}")
        meant = [each for each in GUARDED if any(each.startswith(grant.removesuffix("*")) for grant in granted)]
        assert bench.not_asked_for(result) == meant, skill
    running.kill()
