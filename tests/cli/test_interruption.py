"""benchmarks/interruption.py: its rules can fail, and docs/worth.md says what it measured."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATES = "Dates stay in ISO 8601: the import of accounting reads nothing else."
QUESTION = "Start phase release (Release)?"
BRIEF = "Status: in_progress. Resume point: {next} (continue).\nDone, do not repeat: frame (all 3 steps), {done}\n"
NOTES = '# Notes on "x"\n\n- [x] frame:fetch-work\n- [x] {done}\n\nNext: {next}\n'
SAID = "Finished frame:fetch-work: Read. Next is x:y.\nFinished {done}: Written. Next is {next}.\n"
STEP = (
    '{{"action":"step","phase":"build","step":"{step}",'
    '"recorded":[{{"type":"step_complete","phase":"{p}","step":"{s}"}}]}}'
)
FORMS = {"brief": BRIEF, "notes": NOTES, "said": SAID}


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rules."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("interruption_rules")


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rules for the phases of a nebula."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("interruption_phases")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes the page."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("interruption_page")


def truth(rules: Any, **known: Any) -> Any:
    """What is so while the specification is written and the implementation is next, or what is given."""
    usual = {
        "next": "build:implement",
        "finished": ["frame:fetch-work", "architect:write-spec"],
        "decisions": [DATES],
        "failed": True,
        "files": ["export.py"],
    }
    return rules.Truth(**usual | known)


def found(rules: Any, rule: str, words: str, **known: Any) -> list[tuple[bool, bool]]:
    """Of each fact of a rule: whether it is there, and whether it is wrong."""
    return [(fact.present, fact.wrong) for fact in rules.examined([words], truth(rules, **known))[rule]]


@pytest.mark.parametrize("form", FORMS)
def test_the_wrong_next_step_is_seen(rules: Any, form: str) -> None:
    """In a transcript, in notes and in a brief, the step in progress counts as there, and a finished one as wrong."""
    right = FORMS[form].format(done="architect:write-spec", next="build:implement")
    stale = FORMS[form].format(done="architect:write-spec", next="architect:write-spec")
    assert found(rules, "next step", right) == [(True, False)]
    assert found(rules, "next step", stale) == [(False, True)]
    assert found(rules, "next step", stale + right) == [(True, False)]  # the newest counts
    assert found(rules, "next step", right + stale) == [(False, True)]
    assert found(rules, "next step", "Nothing of it.") == [(False, False)]


@pytest.mark.parametrize("form", FORMS)
def test_an_unfinished_step_called_finished_is_wrong(rules: Any, form: str) -> None:
    """A finished step that is not named is missing; a step that is called finished and is not counts as wrong."""
    early = FORMS[form].format(done="build:commit", next="build:implement")
    seen = found(rules, "finished steps", early)
    assert seen[:2] == [(True, False), (False, False)]
    assert (False, True) in seen[2:]


def test_answers_of_faber_are_read(rules: Any) -> None:
    """A JSON answer names the next step and records what is finished; a broken line says nothing."""
    answer = STEP.format(step="implement", p="architect", s="write-spec")
    assert found(rules, "next step", answer) == [(True, False)]
    assert found(rules, "finished steps", answer)[1] == (True, False)
    assert found(rules, "next step", STEP.format(step="commit", p="a", s="b")) == [(False, True)]
    assert found(rules, "next step", '{"action":"step",}') == [(False, False)]


def test_a_failed_step_reopens_what_it_returns_to(rules: Any) -> None:
    """After a failure the steps from the one it returns to on are finished no longer."""
    words = (
        SAID.format(done="build:implement", next="evaluate:test") + "Failed evaluate:test: x. Back to build:implement."
    )
    assert rules.claims(words).done == {"frame:fetch-work"}
    assert rules.claims(words).next == "build:implement"


def test_decisions_count_word_for_word(rules: Any) -> None:
    """A decision in other words is missing."""
    assert found(rules, "decisions", f"Decided: {DATES}") == [(True, False)]
    assert found(rules, "decisions", "Decided: Dates are in ISO 8601.") == [(False, False)]


def test_the_failure_counts_in_either_form(rules: Any) -> None:
    """The words in which it was recorded count, and the output of the failing test; the test's source does not."""
    assert found(rules, "failed approach", "MemoryError: 1001 rows are held in memory") == [(True, False)]
    assert found(rules, "failed approach", "{number} rows are held in memory") == [(False, False)]


def test_a_file_is_not_taken_for_another(rules: Any) -> None:
    """A path that only ends alike is another file."""
    assert found(rules, "files changed", "src/export.py") == [(True, False)]
    assert found(rules, "files changed", "test_export.py") == [(False, False)]


@pytest.mark.parametrize("answer", ["\napprove: Yes.", f"\nAnswered: {QUESTION} -> Yes."])
def test_an_answered_question_is_not_open(rules: Any, answer: str) -> None:
    """A question counts as there while it waits; called open after its answer, it counts as wrong."""
    asked = f"Question: {QUESTION}"
    assert found(rules, "open question", asked, question=QUESTION) == [(True, False)]
    assert found(rules, "open question", asked) == [(False, True)]
    assert found(rules, "open question", asked + answer) == []


PROMPT = "# Phase export: Export\n\n## Task\n\nWrite export.txt.\n\n## Files so far\n\n- export.txt\n"
TOLD = PROMPT + "## Open findings\n\n- f-1 [major] export.txt:1: {objection}\n"


@pytest.mark.parametrize(
    ("words", "turns", "missing"),
    [
        (TOLD, ["export:coder", "export:reviewer", "docs:coder"], {}),
        (PROMPT, ["export:coder"], {"objection": 0}),
        (TOLD.replace("- export.txt\n", "").replace("export.txt:1", ""), ["export:coder"], {"files changed": 0}),
        (TOLD.replace("Write export", "Write docs"), ["export:coder"], {"task": 0}),
        (TOLD, ["docs:coder"], {"next turn": 1}),
        (TOLD, ["rows:coder", "export:coder"], {"next turn": 1, "finished phases": 1}),
        (TOLD, [], {"next turn": 0}),
    ],
)
def test_what_an_agent_of_a_nebula_is_not_told_is_seen(
    phases: Any, words: str, turns: list[str], missing: dict[str, int]
) -> None:
    """By rule: what does not reach the next agent is missing, and another turn or a repeated phase is wrong."""
    truth = phases.stand("export:coder", objected=True, files=["export.txt"])
    seen = phases.Seen(words.format(objection=phases.OBJECTION), turns[0] if turns else "", turns)
    found = phases.examined(seen, truth)
    assert {rule: fact.wrong for rule, facts in found.items() for fact in facts if not fact.present} == missing


def test_results_of_several_ways_make_one(page: Any) -> None:
    """Results that were measured way by way are merged; those that were measured otherwise are refused."""
    data = json.loads(page.DATA.read_text("utf-8"))
    nebula = {**data, "arms": {}, "about": {"every": 7}}
    del data["nebula"]
    parts = [{**data, "arms": {name: row}} for name, row in data["arms"].items()]
    assert page.merged([*reversed(parts), nebula], list(data["arms"])) == data | {"nebula": nebula["nebula"]}
    with pytest.raises(ValueError, match="not measured alike"):
        page.merged([parts[0], {**parts[1], "about": {**data["about"], "every": 7}}], [])


def test_the_page_says_what_was_measured(page: Any) -> None:
    """The table, the picture and the README's line are those of the data."""
    data = json.loads(page.DATA.read_text("utf-8"))
    text = page.PAGE.read_text("utf-8")
    assert page.made(text, data) == text
    assert page.PICTURE.read_text("utf-8") == page.picture(data)
    assert page.telling(data) in " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert "interruption.svg" in text
    for row in [*data["arms"].values(), *data["nebula"]["arms"].values()]:
        parts = row["interruptions"].values()
        assert row["acted"] == row["count"]  # at one moment alone chance would decide which arm ends right
        assert all(row[key] == sum(part[key] for part in parts) for key in ("count", "present", "of", "wrong", "right"))


def test_what_the_page_says_in_words_was_measured(page: Any) -> None:
    """The figures in the page's own sentences, and where it says that faber is not ahead, are those of the data."""
    data = json.loads(page.DATA.read_text("utf-8"))
    text = " ".join(page.PAGE.read_text("utf-8").split())
    bare, _, notes, faber, _ = data["arms"].values()
    moments = faber["interruptions"]["SIGKILL"]["count"]
    assert {row["count"] for row in data["arms"].values()} == {5 * moments}
    assert f"at {moments} moments" in text
    assert set(re.findall(r"`--every (\d+)", text)) <= {str(each["about"]["every"]) for each in (data, data["nebula"])}

    assert "an eighth of the characters" in text
    assert round(faber["characters"] / notes["characters"]) == 8
    missed = sum(notes["missed"].values())
    late = sum(count for name, count in notes["missed"].items() if name.startswith(("open question", "answers")))
    assert round(2 * late / missed) == 1
    assert notes["wrong"] == notes["facts"]["open question"][2]
    unnoted = notes["missed"]["who asked, for what: title"]  # nothing is known at that moment
    none = [count for name, count in notes["missed"].items() if "who asked" in name or "fetch-work" in name]
    assert (unnoted, round(missed / sum(none))) == (5, 6)
    of_nebula = list(data["nebula"]["arms"].values())[-1]["missed"]
    assert of_nebula["task: task of rows"] == 3 * 5
    assert round(sum(of_nebula.values()) / (3 * 5)) == 2

    killed = [row["interruptions"]["SIGKILL"] for row in (bare, notes, faber)]
    assert len({each["right"] for each in killed}) == 1
    assert killed[0]["redone"] == 0 < killed[1]["redone"] == killed[2]["redone"]
    moved = [row["interruptions"]["new machine"] for row in (notes, faber)]
    assert all(f"{each['count'] - each['right']} of {moments} trees lack some" in text for each in moved)
    begun = bare["interruptions"]["new machine"]
    assert (begun["right"], f"does {begun['repeated']} steps again" in text) == (moments, True)
    ours, *plain = (row["interruptions"]["SIGKILL"] for row in data["nebula"]["arms"].values())
    assert page.percent(ours) == page.percent(plain[0]) == page.percent(plain[1])


def test_a_changed_figure_is_noticed(page: Any) -> None:
    """A figure that differs from the page changes the table, the picture and the README's line."""
    data = json.loads(page.DATA.read_text("utf-8"))
    text, picture, line = page.PAGE.read_text("utf-8"), page.picture(data), page.telling(data)
    row = data["arms"]["new session, faber"]
    of_nebula = next(iter(data["nebula"]["arms"].values()))
    before = page.nebula(data)
    for each in (row, *row["interruptions"].values(), of_nebula):
        each["present"] -= each["of"] // 2
    assert page.made(text, data) != text
    assert page.picture(data) != picture
    assert page.telling(data) != line
    assert page.nebula(data) != before


@pytest.mark.full
def test_the_short_mode_runs_every_arm(claude_binary: str) -> None:
    """With the client, the short mode has figures for each arm and each interruption; faber names nothing wrong, and a
    resumed session has all that it had."""
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "interruption.py", "--quick", "--json", "--client", claude_binary],
        env=os.environ | {"FABER_VENV": sys.prefix},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    arms, nebula = result["arms"], result["nebula"]["arms"]
    assert len(nebula) == 4
    assert all(row["of"] > 20 for row in nebula.values())
    assert next(iter(nebula.values()))["wrong"] == 0
    assert len(arms) == 5
    assert all(len(row["interruptions"]) == 5 and row["of"] > 20 for row in arms.values())
    assert arms["new session, faber"]["wrong"] == 0
    assert arms["new session, faber"]["right"] == arms["new session, faber"]["acted"]
    killed = arms["bare `--resume`"]["interruptions"]["SIGKILL"]
    assert (killed["present"], killed["wrong"]) == (killed["of"], 0)
