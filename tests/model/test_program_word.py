"""The program's word in answers: faber's own commands are respelled, nothing else is."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.text.program_word import COMMANDS, OWN, PROSE, prose, respelled, shell_word

WORD = "/opt/plugin/bin/faber"


@settings(max_examples=60)
@given(st.text(st.characters(exclude_characters="\x00\n!", codec="utf-8"), min_size=1))
def test_a_path_is_one_word_for_a_shell(path: str) -> None:
    """However a path is spelled, a shell reads one word and it is the path."""
    said = subprocess.run(["sh", "-c", f"printf %s {shell_word(path)}"], capture_output=True, check=True)
    assert said.stdout == path.encode()


def test_a_plain_path_is_not_quoted() -> None:
    """Only a path that needs quotes gets them."""
    assert shell_word(WORD) == WORD
    assert shell_word("/opt/a plugin/bin/faber") == '"/opt/a plugin/bin/faber"'


@pytest.mark.parametrize("key", sorted(COMMANDS))
def test_commands_are_respelled(key: str) -> None:
    """A key that holds a command, or several, holds the caller's spelling."""
    assert respelled({key: "faber next r"}, WORD) == {key: f"{WORD} next r"}
    assert respelled({key: ["faber next r", "git log"]}, WORD) == {key: [f"{WORD} next r", "git log"]}
    assert respelled({key: None}, WORD) == {key: None}


@pytest.mark.parametrize("key", sorted(PROSE))
def test_commands_in_prose_are_respelled(key: str) -> None:
    """In faber's prose each command in backticks is respelled; the name of the program is not."""
    said = {key: "faber says: run `faber repair r`, or `git log`."}
    assert respelled(said, WORD) == {key: f"faber says: run `{WORD} repair r`, or `git log`."}


@pytest.mark.parametrize("key", sorted(OWN))
def test_objects_of_fabers_own_are_respelled_inside(key: str) -> None:
    """Objects that faber makes inside an answer are respelled, too."""
    inner = {"recovery": "Run `faber doctor r`.", "complete_with": "faber next r"}
    assert respelled({key: inner}, "f") == {key: {"recovery": "Run `f doctor r`.", "complete_with": "f next r"}}
    assert respelled({key: [inner]}, "f")[key][0]["complete_with"] == "f next r"


@pytest.mark.parametrize("key", ["issue", "events", "feedback", "plan", "state", "message", "why", "comment", "prompt"])
def test_text_from_outside_is_left_alone(key: str) -> None:
    """Documents, and texts that others wrote, are as they were, whatever their keys are called."""
    told = "`faber feedback respond r approve`"
    given = {key: {"recovery": told, "command": "faber repair r", "instruction": told}, "run_id": "r"}
    assert respelled(given, WORD) == given
    assert respelled({key: told}, WORD) == {key: told}


def test_an_instruction_names_the_run() -> None:
    """RUN in an instruction's command is the answer's run; in prose around it, and elsewhere, it stays."""
    said = {"run_id": "a/b", "instruction": "RUN: `faber event emit RUN --type x`.", "recovery": "`faber doctor RUN`"}
    assert respelled(said, "f") == {
        "run_id": "a/b",
        "instruction": "RUN: `f event emit a/b --type x`.",
        "recovery": "`f doctor RUN`",
    }
    assert respelled({"run_id": "a", "next_steps": {"instruction": "`faber next RUN`"}}, "f")["next_steps"] == {
        "instruction": "`f next a`"
    }


def test_commands_on_lines_of_their_own() -> None:
    """An indented line that is a command is respelled, a sentence with the program's name is not."""
    assert (
        prose("Then:\n\n    faber next RUN\n\nfaber decides.\n", "f") == "Then:\n\n    f next RUN\n\nfaber decides.\n"
    )


@given(st.dictionaries(st.sampled_from([*COMMANDS, *PROSE, *OWN, "x"]), st.text() | st.integers() | st.none()))
def test_a_person_reads_what_the_code_wrote(answer: dict[str, object]) -> None:
    """For a person, who calls faber by its name, an answer without a run is unchanged."""
    assert respelled(answer, "faber") == answer


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("`faber context RUN --record`", f"`{WORD} context r/1 --record`"),
        ("`faber session save RUN --notes 'RUN all tests'`", f"`{WORD} session save r/1 --notes 'RUN all tests'`"),
        ("`faber run init --target DRY-RUN`", f"`{WORD} run init --target DRY-RUN`"),
        ("say RUN, then `make RUN`", "say RUN, then `make RUN`"),
    ],
)
def test_run_is_replaced_where_it_stands_for_the_run(said: str, shown: str) -> None:
    """RUN becomes the run's id as a word of a command of faber, and not in what is quoted there."""
    assert prose(said, WORD, "r/1") == shown
