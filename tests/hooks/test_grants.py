"""The table of who may run what: complete, and the only source of the skills' permissions."""

import re
from pathlib import Path

import click
import pytest

from faber.cli.app import COMMANDS, faber
from faber.hooks.grants import ASKS, FREE, PEOPLE, READS_FILES, REFUSED_OPTIONS, SKILLS, TYPED

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "${CLAUDE_PLUGIN_ROOT}/bin/faber"


def commands() -> set[tuple[str, ...]]:
    """Every command of the command line, by its words."""
    found: set[tuple[str, ...]] = set()
    for name in COMMANDS:
        command = faber.get_command(click.Context(faber), name)
        found |= {(name, inner) for inner in command.commands} if isinstance(command, click.Group) else {(name,)}
    return found


def front_and_body(skill: str) -> tuple[str, str]:
    """The frontmatter of a skill, and its text."""
    _, front, body = (ROOT / "skills" / skill / "SKILL.md").read_text().split("---\n", 2)
    return front, body


def called(text: str) -> list[str]:
    """What a skill's text tells an agent to run, without the program."""
    return re.findall(rf'"{re.escape(PROGRAM)}" ([^`\n]+)', text)


def test_every_command_is_in_the_table_once() -> None:
    """Each command is free, asks, or is for people; the table names no other."""
    assert commands() == FREE | ASKS | PEOPLE
    assert len(FREE) + len(ASKS) + len(PEOPLE) == len(commands())
    assert all(any(command[: len(few)] == few for command in FREE) for few in READS_FILES)
    assert TYPED <= ASKS


def test_refused_options_exist() -> None:
    """Each option that is never approved is one of the command line's."""
    found = set()
    for words in commands():
        command = faber.get_command(click.Context(faber), words[0])
        if isinstance(command, click.Group):
            command = command.commands[words[1]]
        assert command is not None
        found |= {name for parameter in [*command.params, *faber.params] for name in parameter.opts}
    assert set(REFUSED_OPTIONS) <= found


def expected(skill: str) -> list[str]:
    """The rules that the table gives a skill. An inlined command has one spelling, quoted; an agent uses either."""
    rules = []
    for granted in SKILLS[skill]:
        rules.append(f'  - Bash("{PROGRAM}" {granted})')
        if granted.endswith(" *"):
            rules.append(f"  - Bash({PROGRAM} {granted})")
    return rules


def test_each_skill_is_in_the_table() -> None:
    """The table has each skill of the bundle, and no other."""
    assert set(SKILLS) == {path.parent.name for path in (ROOT / "skills").glob("*/SKILL.md")}


@pytest.mark.parametrize("skill", sorted(SKILLS))
def test_a_skill_grants_what_the_table_says(skill: str) -> None:
    """The frontmatter's permissions are those of the table, line for line."""
    front, _ = front_and_body(skill)
    _, _, rules = front.partition("allowed-tools:\n")
    assert rules.splitlines() == expected(skill)
    assert ("allowed-tools" in front) == bool(SKILLS[skill])


@pytest.mark.parametrize("skill", sorted(SKILLS))
def test_a_skill_grants_only_what_its_text_names(skill: str) -> None:
    """Each permission is for a command that the text inlines or names; each inlined command has one."""
    _, body = front_and_body(skill)
    inlined = re.findall(rf'^!`"{re.escape(PROGRAM)}" ([^`]+)`$', body, re.MULTILINE)
    exact = [granted for granted in SKILLS[skill] if not granted.endswith(" *")]
    assert sorted(exact) == sorted(inlined)
    told = called(body)
    protocol = (ROOT / "workflows" / "auto-healing.md").read_text() if "protocol auto-healing" in body else ""
    told += re.findall(r"^ {4}faber (.+)$", protocol, re.MULTILINE)
    told += ["step complete X"] if "protocol step-loop" in body else []
    for granted in set(SKILLS[skill]) - set(exact):
        assert any(line.startswith(granted.removesuffix("*")) for line in told), granted


@pytest.mark.parametrize("skill", sorted(SKILLS))
def test_a_skill_tells_only_what_is_allowed(skill: str) -> None:
    """What a skill tells an agent to run is free, granted by it, typed by the user, or said to depend on them."""
    _, body = front_and_body(skill)
    asked = {("doctor", "repair RUN")}  # only if the user asks for it: the client asks them as well
    for line in called(body):
        words = tuple(line.removeprefix("--exit-zero ").split())
        free = {words[:1], words[:2]} & (FREE | TYPED)
        granted = any(
            line == rule or (rule.endswith(" *") and f"{line} ".startswith(rule[:-1])) for rule in SKILLS[skill]
        )
        assert free or granted or (skill, line) in asked, line


@pytest.mark.parametrize("skill", sorted(SKILLS))
def test_what_the_model_may_call_grants_nothing(skill: str) -> None:
    """A skill that a model may call grants nothing: with a permission the client would ask about the skill."""
    front, body = front_and_body(skill)
    if "disable-model-invocation: true" not in front:
        assert SKILLS[skill] == ()
        assert "!`" not in body


def test_consent_is_typed() -> None:
    """Only a person can call a skill that spends money, moves runs or speaks with people."""
    callable_by_model = {skill for skill in SKILLS if "disable-model-invocation" not in front_and_body(skill)[0]}
    assert callable_by_model == {"resume", "status"}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("skills/*/SKILL.md")), *sorted(ROOT.glob("agents/*.md"))])
def test_nobody_reads_a_file_of_the_plugin(page: Path) -> None:
    """Skills and agents name nothing in the plugin's folder but its program: the client refuses to read the rest."""
    text = page.read_text()
    assert text.count("CLAUDE_PLUGIN_ROOT") == text.count(PROGRAM)
