"""The literal agent in every permission mode, however the plugin was installed, and wherever a session can be."""

from itertools import product
from uuid import uuid4

import pytest

from e2e.bench import SHORT, Bench, Setting
from e2e.client import WINDOW
from e2e.literal import LiteralAgent
from e2e.processes import until
from e2e.replies import Reply, hang, text, tool
from e2e.request import Request
from e2e.typist import Typist

MODES = (("default", 0), ("acceptEdits", 0), ("dontAsk", 0), ("auto", 10), ("auto", 90))
PLACES = ("by option", "from a folder", "in the cache")
# Each mode and each place with either client, each mode in two places.
ALL = [
    Setting(version, mode, harm, PLACES[(number + odd) % 3], apart=True)
    for (odd, version), (number, (mode, harm)) in product(enumerate(WINDOW), enumerate(MODES))
]
TERMINAL = [Setting(version, mode, harm) for version, (mode, harm) in product(WINDOW, MODES)]
every_mode = pytest.mark.parametrize("bench", TERMINAL, indirect=True, ids=str)
both = pytest.mark.parametrize("bench", WINDOW, indirect=True)
pytestmark = pytest.mark.full  # test_literal.py drives the strictest setting of each client


@pytest.mark.parametrize("bench", ALL, indirect=True, ids=str)
def test_a_run_gets_to_its_end(bench: Bench) -> None:
    """Over two gates that a person approves, the second in a session that starts with a plain prompt: nothing that the
    agent is told is refused, and nothing else is granted."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    session = uuid4()
    bench.says("/faber:run Add a CSV export", session_id=session)
    for continued in ({"resume": session}, {}):
        bench.person("feedback", "respond", bench.state["run_id"], "approve")
        bench.says("go on", **continued)
    assert (bench.state["status"], bench.refused) == ("completed", [])
    bench.tries_all()
    result = bench.client.run("/faber:run another", **bench.asked)
    assert bench.setting.checks_let_through or bench.not_asked_for(result) == []


@every_mode
def test_a_person_approves_where_they_are(bench: Bench) -> None:
    """In a terminal the person starts the run, is shown each gate with a code and approves it; they are asked about no
    command that the agent was told to run."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    bench.api.script.always(LiteralAgent(bench.hands))
    mode = ["--permission-mode", bench.setting.mode]
    granted = ["--allowedTools", *bench.setting.craft] if bench.setting.craft else []
    with Typist(bench.client, *mode, *granted) as person:
        person.sees("shortcuts|cycle|Try")
        at = person.types("/faber:run Add a CSV export", clear=False)
        for _ in range(2):
            code = person.sees(r"waits for your answer .* `approve (?P<code>\w{3})`", since=at, timeout=60)["code"]
            at = person.types(f"approve {code}")
        until(lambda: bench.state["status"] == "completed", 60)
        assert "requiresapproval" not in person.shown


@every_mode
def test_a_session_killed_in_a_step_is_resumed(bench: Bench) -> None:
    """After SIGKILL the same session, resumed and only told to continue, does the step that was in progress, and the
    rest; after a compaction, too."""
    bench.workflow(SHORT)
    bench.settings(autonomy="assist")
    agent, session = LiteralAgent(bench.hands), uuid4()

    def building(request: Request) -> bool:
        return any('"action":"step"' in each.text and '"step":"write"' in each.text for each in request.results)

    bench.says("/faber:run Add a CSV export", session_id=session)
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    bench.says("go on", resume=session)
    bench.says("/compact", resume=session)
    bench.person("feedback", "respond", bench.state["run_id"], "approve")
    bench.api.script.always(lambda request: hang() if building(request) else agent(request))
    running = bench.client.start("go on", resume=session, **bench.asked)
    bench.api.wait_for(building, timeout=60)
    running.kill()
    assert bench.state["current_step"] == "write"
    bench.says("go on", resume=session)
    assert (bench.state["status"], bench.refused) == ("completed", [])


@every_mode
def test_the_manager_works_as_a_subagent(bench: Bench) -> None:
    """The manager, started by another model with a plain task, begins with its own rules and gets to the end."""
    bench.workflow(SHORT)
    bench.person("run", "begin", "Add a CSV export")
    run_id = bench.state["run_id"]
    manager = LiteralAgent(bench.hands, reads_system=True)
    bench.api.script.when("You work through one run of a workflow", always=manager)
    start = tool("Agent", subagent_type="faber:faber-manager", description="work", prompt=f"Work on the run {run_id}.")
    bench.api.script.reply(start)
    bench.api.script.always(text("It is at work."))
    running = bench.client.start(None, **bench.asked)
    result = running.turn("Let the manager do it.")
    until(lambda: bench.state["status"] == "completed", 60)
    running.kill()
    assert result.denials == []


@both
@pytest.mark.parametrize("what", ["words", "call"])
def test_a_cut_response_costs_nothing(bench: Bench, what: str) -> None:
    """A response that hits the output limit in the middle of words or of a call is continued, and the run gets to its
    end: each step is done once."""
    bench.workflow(SHORT)
    agent, cuts = LiteralAgent(bench.hands), iter([True])

    def cut(request: Request) -> Reply:
        reply = agent(request)
        if "step complete" in str(reply) and next(cuts, False):
            return (text("I complete the step now.") + reply).cut(40) if what == "call" else text("I complete").cut(6)
        return reply

    session = uuid4()
    bench.api.script.always(cut)
    result = bench.client.run("/faber:run Add a CSV export", session_id=session, max_turns=60, **bench.asked)
    assert (bench.state["status"], result.denials) == ("completed", [])
    assert bench.types.count("step_complete") == 2
