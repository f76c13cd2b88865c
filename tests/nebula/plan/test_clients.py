"""What a nebula says of its agents' clients, and what they cannot do for it."""

import pytest

from faber.errors import Severity
from faber.nebula.plan.agent_choice import ROLES, InClient, UnknownClient, choice_of_words
from faber.nebula.plan.parse import Parsed, parse_nebula
from faber.nebula.plan.phase_file import parse_phase, write_phase
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import other_client, with_clients
from faber.nebula.plan.validate import Programs, validate

HERE = Programs(lambda name: True, lambda path: True)


def parsed(execution: str, header: str = "") -> Parsed:
    """A nebula of one phase."""
    manifest = f'[nebula]\nname = "n"\n[[filter]]\nname = "f"\ncommand = "make"\n[execution]\n{execution}\n'
    return parse_nebula("d", {"nebula.toml": manifest, "a.md": f'+++\nid = "a"\ntitle = "A"\n{header}\n+++\nDo it.\n'})


def found(execution: str, header: str = "", programs: Programs = HERE) -> list[tuple[str, str, int | None]]:
    """Its problems: category, severity, line."""
    return [(each.category, each.severity.value, each.line) for each in _problems(execution, header, programs)]


def _problems(execution: str, header: str, programs: Programs) -> list[NebulaProblem]:
    return validate(parsed(execution, header), programs)


def test_one_client_for_all_or_one_for_each_role() -> None:
    """Both forms are read; a phase overrides what it names, and nothing else."""
    nebula = parsed('agents = "codex"', 'agents = { coder = "opencode:a/b" }').nebula
    agents = nebula.settings(nebula.phases[0]).agents
    assert (agents.of("coder"), agents.of("reviewer")) == (InClient("opencode", "a/b"), InClient("codex"))
    assert agents.of("architect") == InClient("codex")
    assert nebula.clients == ["opencode", "codex"]
    assert parsed("").nebula.clients == ["claude"]
    assert parsed('fallback = "codex"').nebula.clients == ["claude", "codex"]


def test_the_command_line_chooses_for_all_phases() -> None:
    """`--agents` overrides the nebula and its phases."""
    nebula = parsed('agents = "codex"', 'agents = { coder = "opencode" }').nebula
    other = with_clients(nebula, choice_of_words("coder=claude"), InClient("opencode"))
    assert (other.clients, other.execution.fallback) == (["claude", "codex", "opencode"], InClient("opencode"))


def test_a_model_stays_in_its_client() -> None:
    """An agent that moves to another client does not take along a model that only the first one knows; one that stays
    keeps it. Nor does a phase in another client take the nebula's."""
    nebula = parsed('model = "opus"', 'model = "haiku"').nebula

    def models(words: str) -> list[str]:
        moved = with_clients(nebula, choice_of_words(words), None)
        chosen = moved.settings(moved.phases[0])
        assert chosen.model is None
        return [str(chosen.agents.of(role)) for role in ROLES]

    assert models("codex") == ["codex", "codex"]
    assert models("coder=codex") == ["codex", "claude:haiku"]
    assert models("claude") == ["claude:haiku", "claude:haiku"]
    assert models("claude:opus") == ["claude:opus", "claude:opus"]
    other = parsed('model = "opus"', 'agents = "codex"').nebula
    assert other.settings(other.phases[0]).model is None


def test_what_an_agent_may_not_choose_is_known_for_each_role() -> None:
    """A reviewer's client is not named for the coder, which could do more in it; a fallback is named for all."""
    nebula = parsed('agents = { reviewer = "codex" }').nebula
    assert other_client(nebula, choice_of_words("codex"), None) == "codex"
    assert other_client(nebula, None, InClient("codex")) == "codex"
    assert other_client(nebula, choice_of_words("coder=claude,reviewer=codex"), None) is None
    named = parsed('fallback = "codex"').nebula
    assert other_client(named, choice_of_words("codex"), InClient("codex")) is None


@pytest.mark.parametrize(
    "execution",
    [
        'agents = "gemini"',
        'fallback = "codex:--yolo"',
        'fallback = "codex:a\\u0000"',
        'agents = { tester = "codex" }',
        "agents = { coder = 3 }",
        'fallback = "x"',
    ],
)
def test_an_unknown_client_is_an_error(execution: str) -> None:
    """Also one for an unknown role."""
    assert ("unknown_client", "ERROR", 7) in found(execution)


def test_an_unknown_client_of_the_command_line_is_named() -> None:
    """With those that there are."""
    with pytest.raises(UnknownClient, match="'gemini'; expected one of claude, codex, opencode"):
        choice_of_words("coder=gemini")


def test_a_phase_file_keeps_its_agents() -> None:
    """What is written is read again, as for remediations."""
    problems: list[NebulaProblem] = []
    spec = parsed("", 'agents = { reviewer = "codex:m" }').nebula.phases[0]
    assert parse_phase("a.md", write_phase(spec), problems)[0] == spec
    assert problems == []


@pytest.mark.parametrize(
    ("execution", "header", "severity"),
    [
        ('agents = "codex"\nmax_run_budget_usd = 5', "", Severity.ERROR),
        ('agents = "codex"', "max_budget_usd = 1", Severity.ERROR),
        ('agents = { reviewer = "codex" }\nmax_run_budget_usd = 5', "", Severity.WARNING),
        ('fallback = "codex"\nmax_run_budget_usd = 5', "", Severity.WARNING),
        ('agents = "codex"', "", None),
        ('agents = "opencode"\nmax_run_budget_usd = 5', "", None),
        ("max_run_budget_usd = 5", "", None),
    ],
)
def test_a_limit_that_nobody_keeps_is_refused(execution: str, header: str, severity: Severity | None) -> None:
    """Codex reports no dollars: a limit is an error where all agents are in it, and a warning where some are."""
    said = [each.severity for each in _problems(execution, header, HERE) if each.category == "budget_unbound"]
    assert said == ([] if severity is None else [severity])


def test_a_coder_that_runs_any_command_is_named() -> None:
    """`agent_tools` binds no coder in Codex, which works in a sandbox; a reviewer there runs nothing that writes."""
    assert ("tools_unbound", "INFO", 7) in found('agent_tools = ["Bash(make *)"]\nagents = "codex"')
    assert not any(each[0] == "tools_unbound" for each in found('agents = { reviewer = "codex" }'))


def test_a_client_that_is_not_here_is_a_warning() -> None:
    """The machine that applies may be another one."""
    lacks = HERE._replace(lacks_client=lambda client: client == "codex")
    assert ("missing_client", "WARNING", 7) in found('agents = "codex"', programs=lacks)
    assert not any(each[0] == "missing_client" for each in found("", programs=lacks))
