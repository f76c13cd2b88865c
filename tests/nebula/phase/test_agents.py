"""The agents of a phase as `AgentFactory` starts them, here and on a worker of a cluster."""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faber.agents.claude import PLUGIN
from faber.agents.outcome import Outcome
from faber.nebula.cluster.worker import own_clients
from faber.nebula.phase.agents import ARCHITECT, CODER, REVIEWER, AgentFactory, Role
from faber.nebula.plan.specs import Execution, Nebula, PhaseSpec
from faber.nebula.run.workshop import MakeAgents

SPEC = PhaseSpec(id="a", title="A", body="Write a.txt.")


def nebula(**execution: object) -> Nebula:
    """A nebula of one phase."""
    return Nebula("demo", "plan", execution=replace(Execution(), **execution), phases=(SPEC,))  # type: ignore[arg-type]


def here(of: Nebula) -> MakeAgents:
    """As `faber nebula apply` makes the agents."""
    return AgentFactory(of, "faber-test").agents


def on_a_worker(of: Nebula) -> MakeAgents:
    """As a worker of a cluster makes them."""
    return own_clients(of, "faber-test", lambda recovery: [])


@pytest.mark.parametrize("made", [here, on_a_worker])
def test_a_turn_ends_at_the_nebulas_time_limit(
    made: Callable[[Nebula], MakeAgents], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`turn_timeout` limits the turns of coder and reviewer, wherever they work."""
    script = tmp_path / "client"
    script.write_text(f"#!{sys.executable} -IS\nimport time\ntime.sleep(60)\n")
    script.chmod(0o755)
    monkeypatch.setenv("FABER_CLAUDE", str(script))
    agents = made(nebula(turn_timeout=1))(SPEC, str(tmp_path), threading.Event())
    assert agents.coder("Work.", 1.0).outcome is Outcome.TIMED_OUT
    assert agents.reviewer("Review.", 1.0).outcome is Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("role", "mode", "tools"),
    [(CODER, "acceptEdits", ("Bash(make *)",)), (REVIEWER, "dontAsk", ()), (ARCHITECT, "dontAsk", ())],
)
def test_every_role_gets_the_settings_of_the_phase(role: Role, mode: str, tools: tuple[str, ...]) -> None:
    """Model, time limit, label and plugin are the same for all roles; only the coder gets the granted tools."""
    of = nebula(turn_timeout=7, model="m", agent_tools=("Bash(make *)",))
    options = AgentFactory(of, "faber-test").client(role, SPEC, "/tree", 2.5, threading.Event()).options
    assert (options.agent, options.permission_mode, options.allowed_tools) == (f"faber:{role.name}", mode, tools)
    assert (options.model, options.timeout, options.label) == ("m", 7, "faber-test")
    assert (options.cwd, options.max_budget_usd) == ("/tree", 2.5)


def test_the_plugin_is_where_its_manifest_is() -> None:
    """Agents are started with the plugin that faber is a part of."""
    manifest = json.loads((Path(PLUGIN) / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    assert manifest["name"] == "faber"
