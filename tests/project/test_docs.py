"""The documents are true: links, commands, paths, keys and tables agree with the code."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest

from faber.cli.app import COMMANDS, faber
from faber.context.questions import QUESTIONS
from faber.events.event_types import known_types
from faber.feedback.answer_matching import ALIASES
from faber.model.answers import ACTIONS, DEFAULT_OPTIONS, MEANINGS

ROOT = Path(__file__).parents[2]
# What an agent reads: protocols, skills, agents. They must not name what is not there.
PROTOCOLS = [path for folder in ("workflows", "skills", "agents") for path in sorted((ROOT / folder).rglob("*.md"))]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *PROTOCOLS,
]


def test_the_cli_reference_is_current() -> None:
    """docs/cli.md is what `--help` prints."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/cli_reference.py", "--check"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link in a document names a file that is there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_named_exist(document: Path) -> None:
    """Every `faber …` command that a document names is one, and has every option that is named with it."""
    text = document.read_text().replace('"${CLAUDE_PLUGIN_ROOT}/bin/faber"', "faber").replace("bin/faber ", "faber ")
    fenced = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`!?(faber [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    indented = re.findall(r"^    (faber .+)$", text, re.MULTILINE)
    lines = [line.strip().lstrip("!`") for block in fenced for line in block.splitlines()] + inline + indented
    for line in lines:
        words = line.split("#")[0].replace("--exit-zero ", "").split()
        if words[:1] != ["faber"] or len(words) < 2 or not re.fullmatch("[a-z][a-z-]+", words[1]):
            continue
        assert words[1] in [*COMMANDS, "hook"], line
        if words[1] == "hook":
            continue
        command = faber.get_command(click.Context(faber), words[1])
        if isinstance(command, click.Group) and len(words) > 2 and re.fullmatch("[a-z]+", words[2]):
            assert words[2] in command.commands, line
            command = command.commands[words[2]]
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        if not isinstance(command, click.Group):
            assert {word.split("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)} <= known, line


def test_an_unknown_option_would_be_found(tmp_path: Path) -> None:
    """The check above fails over a command, a subcommand and an option that do not exist."""
    for wrong in ("faber nxt RUN", "faber run beginn 158", "faber next RUN --fast"):
        page = tmp_path / "page.md"
        page.write_text(f"Run `{wrong}`.\n")
        with pytest.raises(AssertionError):
            test_commands_named_exist(page)


@cache
def sources() -> tuple[str, set[str]]:
    """The text of the modules, and every word that stands in quotes in them and in the schemas."""
    source = "".join(path.read_text() for path in (ROOT / "scripts/faber").rglob("*.py"))
    schemas = "".join(path.read_text() for path in (ROOT / "scripts/faber").rglob("*.json"))
    return source, set(re.findall(r'(?<=")\w+(?=")', source + schemas))


@pytest.mark.parametrize("document", PROTOCOLS, ids=lambda path: str(path.relative_to(ROOT)))
def test_keys_named_exist(document: Path) -> None:
    """Every key of an answer that a protocol names is one that faber answers."""
    source, quoted = sources()
    for key in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", document.read_text()):
        # In quotes, or as the field of a record that is printed whole.
        is_field = re.search(rf"^    {key}: ", source, re.MULTILINE)
        assert key in quoted or is_field, key


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_paths_named_exist(document: str) -> None:
    """Every path that the map and the pages for contributors name exists, from the top or in the package."""
    named = re.findall(r"`((?:\.?\w[\w.-]*/)[\w/.-]*)`", (ROOT / document).read_text())
    assert len(named) > 3
    assert [path for path in named if not ((ROOT / path).exists() or (ROOT / "scripts/faber" / path).exists())] == []


def test_each_cell_about_a_client_has_its_test() -> None:
    """In the table of docs/clients.md each cell names tests that exist, or says `no:` and why; so do the tests that
    the rest of the page names."""
    text = (ROOT / "docs/clients.md").read_text()
    cells = [cell for row in table("docs/clients.md", "what works | Claude Code") for cell in row[1:]]
    assert len(cells) > 30
    assert [cell for cell in cells if not re.fullmatch(r"no: \S.*|`tests/\S+::test_\w+`(, `tests/\S+`)*", cell)] == []
    for file, function in re.findall(r"`(tests/[\w/.]+)::(\w+)`", text):
        assert f"def {function}(" in (ROOT / file).read_text(), function


def test_the_map_shows_the_rooms_in_their_order() -> None:
    """ARCHITECTURE.md lists the rooms in the order that test_architecture enforces, and places only in these."""
    rooms = [quoted(row[0])[0] for row in table("ARCHITECTURE.md", "room | concern")]
    source = ast.parse((ROOT / "tests/project/test_architecture.py").read_text())
    (order,) = (
        ast.literal_eval(node.value)
        for node in source.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "ORDER"
    )
    assert rooms == [room.replace(".", "/") for room in order]
    places = {row[0] for row in table("ARCHITECTURE.md", "room | to change")} - {"", "the plugin"}
    assert places <= set(rooms)


def test_what_models_read_is_short() -> None:
    """An agent has fewer than 700 words, a skill fewer than 500 lines, a protocol fewer than 600 words."""
    for folder, limit, unit in (
        ("agents", 700, str.split),
        ("skills", 500, str.splitlines),
        ("workflows", 600, str.split),
    ):
        found = {str(path): len(unit(path.read_text())) for path in PROTOCOLS if path.is_relative_to(ROOT / folder)}
        assert len(found) > 3
        assert {path: size for path, size in found.items() if size >= limit} == {}


def test_every_code_of_the_context_is_documented() -> None:
    """docs/context.md explains every notice that a context can carry."""
    text = (ROOT / "docs/context.md").read_text()
    package = ROOT / "scripts/faber"
    sources = [p for folder in ("sources", "context", "foreign", "git") for p in (package / folder).glob("*.py")]
    sources += [package / "store/sessions.py", package / "cli/context.py"]
    found = set()
    for path in sources:
        found |= set(re.findall(r"(?:Notice|warning|_problem|_warn|_warning)\(\s*\"([a-z_]+)\"", path.read_text()))
    assert len(found) > 15
    assert {code for code in found | set(QUESTIONS) if f"`{code}`" not in text} == set()


def table(document: str, header: str) -> list[list[str]]:
    """The cells of the rows of the table whose header begins so."""
    lines = (ROOT / document).read_text().split(f"| {header}", 1)[1].splitlines()[2:]
    rows = [line for line in lines[: lines.index("")] if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def quoted(cell: str) -> tuple[str, ...]:
    """What is marked as code in a cell."""
    return tuple(re.findall(r"`([^`]+)`", cell))


def test_the_types_of_request_are_documented() -> None:
    """docs/feedback.md and the protocol name every type with its options, and no other."""
    documented = {quoted(row[0])[0]: quoted(row[1]) for row in table("docs/feedback.md", "type |")}
    assert documented == DEFAULT_OPTIONS
    protocol = {quoted(row[0])[0]: row[2] for row in table("workflows/feedback-resume.md", "`--type` |")}
    assert protocol.keys() == DEFAULT_OPTIONS.keys()
    for kind, options in DEFAULT_OPTIONS.items():
        assert ", ".join(options) in protocol[kind]


def test_what_answers_do_is_documented() -> None:
    """docs/feedback.md has each action with exactly the options that mean it, and each alias with its targets."""
    actions = {row[0]: quoted(row[1]) for row in table("docs/feedback.md", "action |")}
    assert tuple(actions) == ACTIONS
    assert {option: action for action, options in actions.items() for option in options} == MEANINGS
    aliases = {word: quoted(row[1]) for row in table("docs/feedback.md", "said |") for word in quoted(row[0])}
    assert aliases == ALIASES


def test_the_readme_names_no_unknown_event_type() -> None:
    """Event types in the README are registered."""
    for kind in re.findall(r"--type ([a-z_]+)", (ROOT / "README.md").read_text()):
        assert kind in known_types()
