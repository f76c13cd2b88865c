"""`faber protocol`, and how faber's commands are spelled for an agent and for a person."""

import os
from pathlib import Path

import pytest

from cli.conftest import Faber
from e2e import literal
from faber.agents.known_clients import CLIENTS, KnownClient
from faber.hooks.hook_call import Call
from faber.hooks.start import session_start
from faber.store.bundle import PROGRAM
from faber.store.layout import Layout
from faber.text.program_word import shell_word

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "workflows").glob("*.md"))
WORD = shell_word(PROGRAM)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is an agent."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")


def test_protocols_are_listed(faber: Faber) -> None:
    """Without a name every protocol is listed with its title."""
    listed = faber("protocol", "--format", "json").json["protocols"]
    assert sorted(listed) == NAMES
    assert listed["step-loop"] == "The step loop"
    assert [line.split(":")[0] for line in faber("protocol").out.splitlines()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_reads_commands_that_it_can_run(faber: Faber, agent: None, name: str) -> None:
    """Each command of a protocol has the program's path; nothing else of the text is changed."""
    said = faber("protocol", name).out
    assert "`faber " not in said
    assert "    faber " not in said
    assert said.replace(WORD, "faber") == (ROOT / "workflows" / f"{name}.md").read_text()


def test_a_person_reads_the_protocol_as_it_is(faber: Faber) -> None:
    """In a terminal the commands are spelled `faber`."""
    assert faber("protocol", "step-loop").out == (ROOT / "workflows" / "step-loop.md").read_text()


@pytest.mark.parametrize("name", ["nothing", "../README", "step-loop.md", ""])
def test_an_unknown_protocol_is_refused(faber: Faber, name: str) -> None:
    """Another name is an error that lists the protocols; no other file can be read."""
    answer = faber("protocol", name)
    assert (answer.status, answer.code) == (2, "invalid_input")
    assert answer.json["error"]["known"] == NAMES


@pytest.mark.parametrize("skill", ["resume", "run", "next"])
def test_a_skill_says_no_half_of_a_command(skill: str) -> None:
    """Whoever runs the commands of a skill to the letter runs only faber: what depends on an answer is named by its
    key."""
    said = (ROOT / "skills" / skill / "SKILL.md").read_text().replace("${CLAUDE_PLUGIN_ROOT}", "/plugin")
    orders = literal.orders(said)
    assert orders
    assert [order for order in orders if "/plugin/bin/faber" not in order] == []


def test_an_error_tells_an_agent_the_programs_path(faber: Faber, agent: None) -> None:
    """An error's recovery can be followed to the letter, on stdout and on stderr."""
    answer = faber("status", "no-such-run")
    assert f"`{WORD} run list`" in answer.json["error"]["recovery"]
    assert f"`{WORD} run list`" in answer.err


def test_a_person_reads_the_programs_name(faber: Faber) -> None:
    """In a terminal the same recovery calls faber by its name."""
    assert "`faber run list`" in faber("status", "no-such-run").json["error"]["recovery"]


def test_text_for_an_agent_has_the_programs_path(faber: Faber, agent: None) -> None:
    """What is printed as text names the program's path, too."""
    run = faber("run", "begin", "158").json
    assert run["next_command"].startswith(f"{WORD} ")
    assert f"Next    {WORD} " in faber("status", run["run_id"]).out
    assert f"With: {WORD} " in faber("context", run["run_id"], "--format", "text").out.replace("\n    ", " ")


@pytest.mark.parametrize("client", [each for each in CLIENTS if each.program], ids=lambda each: str(each.name))
def test_each_client_is_told_what_its_shell_can_run(
    faber: Faber, project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], client: KnownClient
) -> None:
    """In any client what is handed out calls the program by its absolute path, and neither an answer nor the brief of a
    session names a command of one client's prompt."""
    monkeypatch.delenv("CLAUDE_PLUGIN_ROOT", raising=False)
    for sign in client.signs:
        monkeypatch.setenv(sign, "s-1")
    begun = faber("run", "begin", "--next", "An export")
    assert os.path.isabs(PROGRAM)
    assert os.access(PROGRAM, os.X_OK)
    assert begun.json["complete_with"].startswith(f"{WORD} step complete ")
    refused = faber("step", "start", "test:nothing")
    assert f"`{WORD} " in refused.json["error"]["recovery"]
    session_start(Call({"source": "startup"}, "s-2", Layout(str(project)), str(project), PROGRAM))
    brief = capfd.readouterr().out
    assert f"{WORD} " in brief
    assert "/faber:" not in begun.out + refused.out + brief


def test_what_others_wrote_is_printed_as_it_is(faber: Faber, agent: None) -> None:
    """A command in an event's message is not made a command that an agent can run."""
    run = faber("run", "begin", "158").json["run_id"]
    told = "`faber feedback respond r approve`"
    faber("event", "emit", run, "--type", "decision_point", "--message", told)
    assert told in [event.get("message") for event in faber("event", "list", run).json["events"]]
    assert told in faber("context", run).out


def test_metadata_by_options(faber: Faber) -> None:
    """An event's metadata, artifacts and error can be given as plain options, and mixed with the JSON form."""
    run = faber("run", "begin", "158").json["run_id"]
    faber("event", "emit", run, "--type", "branch_create", "--set", "branch=feat/158", "--set", "why=a=b")
    emitted = ("event", "emit", run, "--type", "artifact_create")
    faber(*emitted, "--artifact", "page=a.md", "--artifact", '{"name": "b", "value": "c"}')
    faber("event", "emit", run, "--type", "test_run", "--status", "failed", "--error", "2 of 7 fail")
    events = faber("event", "list", run).json["events"]
    assert events[0]["metadata"] == {"branch": "feat/158", "why": "a=b"}
    assert events[1]["artifacts"] == [{"name": "page", "value": "a.md"}, {"name": "b", "value": "c"}]
    assert events[2]["error"] == {"message": "2 of 7 fail"}
    assert faber("event", "emit", run, "--type", "branch_create", "--set", "branch").status == 2
