"""Fitting a context into a budget."""

import copy
import json
import re
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faber.context.assemble import reconstitute
from faber.context.context_budget import EVERYTHING, PAGED, PARTS, ROWS, Row, fit, items_of, size
from faber.context.context_pages import NoSuchPage, part_page, pieces
from faber.context.context_sources import ContextOptions, ContextSources
from faber.context.render import text
from faber.sources.work_files import FileWorkItems
from faber.store.clock import utc_now
from faber.store.config import DEFAULTS, Config
from faber.store.load import Run
from faber.text.program_word import respelled
from support.long_run import DECISIONS, ERRORS, EVENT_COUNT, RUN_ID, long_run

# Whatever the budget.
NEVER_CUT = (
    "resume_point",
    "run_id",
    "status",
    "next_steps.command",
    "artifacts.branch_name",
)
LEAST = 4_000

words = st.text('abc \n"\\é🎯', max_size=40)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Paragraphs, sometimes many."""
    return "\n\n".join(draw(st.lists(words, max_size=3)) * draw(st.sampled_from([1, 1, 40])))


@st.composite
def lists(draw: st.DrawFn, items: Any = words) -> list[Any]:
    """Items, sometimes hundreds."""
    return draw(st.lists(items, max_size=4)) * draw(st.sampled_from([1, 1, 50]))


maybe = st.none() | texts()


@st.composite
def contexts(draw: st.DrawFn) -> dict[str, Any]:
    """A context of any size, in the shape that the protocol consolidates."""
    summary = {
        "accomplished": draw(lists()),
        "decisions": draw(st.lists(words, max_size=12)),
        "files_changed": draw(lists()),
        "remaining_phases": draw(lists()),
        "context_notes": draw(maybe),
    }
    events = [
        {"event_id": number, "message": message} | ({"notable": True} if number % 3 == 0 else {})
        for number, message in enumerate(draw(lists(texts()))[:20], 1)
    ]
    entry = {"what": "events", "kept": len(events), "of": 500, "unit": "items", "command": "faber x r"}
    severities = st.sampled_from(["INFO", "WARNING", "ERROR"])
    return {
        "schema_version": 1,
        "run_id": draw(st.sampled_from(["r", "org/project/" + "x" * 100])),
        "status": "in_progress",
        "artifacts": draw(st.dictionaries(st.sampled_from(["branch_name", "a", "b", "c"]), texts())),
        "spec": draw(
            st.none()
            | st.fixed_dictionaries(
                {
                    "title": words,
                    "summary": maybe,
                    "goals": maybe,
                    "functional_requirements": maybe,
                    "technical_approach": maybe,
                    "acceptance_criteria": lists(),
                    "files_to_modify": lists(),
                    "phases": lists(),
                    "front_matter": st.dictionaries(words, texts(), max_size=2),
                    "content": texts(),
                }
            )
        ),
        "issue": draw(
            st.none()
            | st.fixed_dictionaries({"title": words, "description": maybe, "labels": lists(), "comments": lists()})
        ),
        "branch": draw(
            st.none()
            | st.fixed_dictionaries(
                {
                    "commits": st.none() | lists(),
                    "commits_since_session": st.none() | lists(),
                    "files_changed": st.none() | lists(),
                    "dirty_files": st.none() | lists(),
                }
            )
        ),
        "events": events,
        "session_history": draw(st.none() | st.fixed_dictionaries({"all_summaries": lists()})),
        "session_summary": draw(st.none() | st.just(summary)),
        "feedback_request": draw(
            st.none()
            | st.fixed_dictionaries({"prompt": texts(), "context": st.dictionaries(words, texts(), max_size=2)})
        ),
        "resume_point": {"phase": "a", "step": "s", "mode": "continue"},
        "next_steps": {"command": "faber step start r a:s", "instruction": draw(words), "remaining": draw(lists())},
        "unresolved_errors": draw(lists(st.fixed_dictionaries({"message": words}))),
        "decisions_made": draw(lists(st.fixed_dictionaries({"decision": words}))),
        "step_messages": draw(lists(st.fixed_dictionaries({"message": words}))),
        "answers": draw(lists(st.fixed_dictionaries({"comment": words}))),
        "feedback": draw(st.lists(st.fixed_dictionaries({"comment": words}), max_size=5)),
        "warnings": draw(lists(st.fixed_dictionaries({"severity": severities, "message": words}))),
        "decisions": draw(st.lists(st.fixed_dictionaries({"prompt": words}), max_size=2)),
        "omitted": draw(st.sampled_from([[], [entry]])),
    }


slow = settings(
    phases=[__import__("hypothesis").Phase.generate],
    deadline=None,
    max_examples=30,
    suppress_health_check=list(HealthCheck),
)


def at(value: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def items_at(context: dict[str, Any], row: Row) -> list[Any]:
    """What stands at a row's path: the entries of a list or object, the items of a text."""
    value = at(context, row.path)
    if isinstance(value, str) and not value.strip():
        return []
    if row.whole:
        return [value] if value else []
    if isinstance(value, dict):
        return [entry for name, entry in value.items() if name not in row.fixed]
    return items_of(value) if isinstance(value, str) and value else list(value or ())


def texts_in(item: Any) -> list[str]:
    """Every text in an item, in order."""
    if isinstance(item, str):
        return [item.rstrip()]
    entries = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return [text for entry in entries for text in texts_in(entry)]


def is_left_of(left: Any, item: Any) -> bool:
    """True if `left` is `item`, some of its texts perhaps shortened."""
    texts, whole = texts_in(left), texts_in(item)
    return len(texts) == len(whole) and all(
        text == full or (text.endswith("…") and full.startswith(text[:-1]))
        for text, full in zip(texts, whole, strict=True)
    )


def what_is_left_is_in_order(context: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Cutting takes items away and shortens texts, and never moves or makes up anything."""
    for row in ROWS:
        before = iter(items_at(context, row))
        for item in items_at(fitted, row):
            assert any(is_left_of(item, whole) for whole in before), row.path


def everything_cut_is_counted(context: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Every item of every part is there or counted in `omitted`, and every shortened one is counted."""
    rows = {row.path: row for row in ROWS}.values()
    never = {entry["what"]: entry["of"] - entry["kept"] for entry in context["omitted"]}
    expected = {}
    for part in PARTS:
        own = [row for row in rows if row.part == part]
        of, kept, shortened = never.get(part, 0), 0, 0
        for row in own:
            before, now = items_at(context, row), items_at(fitted, row)
            of, kept = of + len(before), kept + len(now)
            shortened += sum(all(texts_in(item) != texts_in(whole) for whole in before) for item in now)
        if kept < of or shortened:
            expected[part] = (kept, of, shortened)
    listed = {e["what"]: (e["kept"], e["of"], e.get("shortened", 0)) for e in fitted["omitted"]}
    if EVERYTHING in listed:  # the entries of all parts did not fit
        expected = {EVERYTHING: (sum(e[0] for e in expected.values()), sum(e[1] for e in expected.values()), 0)}
    assert listed == expected


def a_larger_budget_keeps_at_least_as_much(small: dict[str, Any], large: dict[str, Any]) -> None:
    """Of nothing does a smaller budget keep more than a larger one."""
    for row in ROWS:
        assert len(items_at(small, row)) <= len(items_at(large, row)), row.path


def holds(context: dict[str, Any], budget: int, more: int) -> None:
    """Every property of fitting, for one context and budget; to make a context costs far more than to check them."""
    kept = copy.deepcopy(context)
    fitted: Any = fit(cast(Any, context), budget)
    assert context == kept, "the context that was handed in has changed"
    assert size(fitted) < budget or fitted == context
    for path in NEVER_CUT:
        assert at(fitted, path) == at(context, path)
    what_is_left_is_in_order(context, fitted)
    everything_cut_is_counted(context, fitted)
    a_larger_budget_keeps_at_least_as_much(fitted, cast(Any, fit(cast(Any, context), budget + more)))


@slow
@given(contexts(), st.sampled_from([LEAST, 5_000, 24_000]) | st.integers(LEAST, 20_000), st.integers(0, 5_000))
def test_any_context_is_fitted_into_any_budget(context: dict[str, Any], budget: int, more: int) -> None:
    """Any context fits any allowed budget, `omitted` counts what is not there, and more room never shows less."""
    holds(context, budget, more)
    assert fit(cast(Any, context), None) == context
    assert fit(cast(Any, context), size(context) + 1) == context


@given(st.text("ab \n-*1.", max_size=60))
def test_items_are_a_text_in_pieces(text: str) -> None:
    """Joined again, the items of a text are the text."""
    assert "\n".join(items_of(text)) == text


def test_the_entries_of_a_list_are_items() -> None:
    """A list without blank lines has as many items as entries; a paragraph is one, and an entry has all its lines."""
    text = "\nIntro\nin two lines\n\n- one\n- two\n  and more of it\n\n  1. three\n\nEnd"
    assert len(items_of(text)) == 5


def test_size_is_the_length_of_what_is_printed() -> None:
    """Characters are counted in compact JSON that does not escape other scripts."""
    assert size({"a": "é\n"}) == len('{"a":"é\\n"}')
    assert json.loads('{"a":"é\\n"}') == {"a": "é\n"}


def test_events_that_say_how_something_ended_stay_longest() -> None:
    """Events that only say that something began go before those that say how it ended."""
    events = [{"event_id": n, "message": "m" * 190} | ({"notable": True} if n % 2 else {}) for n in range(20)]
    bare: Any = {"run_id": "r", "events": events, "warnings": [], "omitted": []}
    kept = [event["event_id"] for event in fit(bare, LEAST)["events"]]
    assert kept == [1, 3, 5, 7, *range(8, 20)]


# --- a long run ------------------------------------------------------------------------------------

SEED = re.compile(r"#\d+")  # what each text of the long run has that no other has


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with 500 events, 30 sessions, 40 decisions, 12 errors, 200 comments and 40 requirements."""
    return long_run(tmp_path_factory.mktemp("long"))


def sources_of(run: Run) -> ContextSources:
    """The run's sources, its work item among them."""
    options = ContextOptions(lambda: FileWorkItems(run.layout.work_items), {}, utc_now())
    return ContextSources(run, Config(DEFAULTS, None), options, [])


@pytest.fixture(scope="module")
def document(long: Run) -> dict[str, Any]:
    """The long run's context, uncut."""
    sources = sources_of(long)
    return cast(dict[str, Any], reconstitute(long, sources.config, sources.options))


PROGRAM = "/home/somebody/.claude/plugins/cache/a-marketplace/faber/1.2.3/bin/faber"


@pytest.mark.parametrize("budget", [LEAST, 4_321, 5_000, 8_000, 16_000, 24_000, 60_000, 150_000])
def test_a_long_run_fits_every_budget(document: dict[str, Any], budget: int) -> None:
    """The context of a long run fits, `omitted` with its commands included."""
    holds(document, budget, 500)


@pytest.mark.parametrize("budget", [LEAST, 5_000, 24_000])
def test_long_names_fit_too(document: dict[str, Any], budget: int) -> None:
    """So it does with the longest of run ids, a long path of the program, and a long question to a person."""
    named = json.loads(json.dumps(document).replace(RUN_ID, "/".join(["x" * 128] * 3)))
    question = {
        "prompt": "? " * 1_000,
        "options": ["yes", "no"],
        "context": {"why": "w " * 5_000},
        "request_id": "fr-1",
    }
    asked = respelled({**named, "feedback_request": question}, PROGRAM)
    fitted: Any = fit(asked, budget, PROGRAM)
    assert size(fitted) < budget
    everything_cut_is_counted(asked, fitted)
    assert fitted["next_steps"]["command"] == asked["next_steps"]["command"]
    assert all(entry["command"].startswith(PROGRAM) for entry in fitted["omitted"])


@pytest.mark.full
def test_a_long_run_fits_all_budgets(document: dict[str, Any]) -> None:
    """So it does at every fiftieth budget up to its whole length."""
    for budget in range(LEAST, size(document), 50):
        holds(document, budget, 1)


def test_every_decision_and_error_of_a_long_run_is_there(document: dict[str, Any]) -> None:
    """The default budget holds every decision and every unresolved error, the oldest shortened first."""
    fitted: Any = fit(cast(Any, document), 24_000)
    decisions = [entry["decision"] for entry in fitted["decisions_made"]]
    assert [text.split(":")[0] for text in decisions] == [f"Decision {n}" for n in range(DECISIONS)]
    errors = [entry["message"].split(":")[0] for entry in fitted["unresolved_errors"]]
    assert errors == [f"Error {n}" for n in range(ERRORS)]
    cut = [text.endswith("…") for text in decisions]
    assert cut == sorted(cut, reverse=True)


@pytest.mark.parametrize("budget", [None, 24_000, 8_000])
def test_nothing_of_a_long_run_stands_twice(document: dict[str, Any], budget: int | None) -> None:
    """No text stands twice but in the whole specification, which is the first to go."""
    fitted: Any = fit(cast(Any, document), budget)
    found = Counter(SEED.findall(json.dumps({**fitted, "spec": {**fitted["spec"], "content": None}})))
    assert found.most_common(1)[0][1] == 1
    assert budget is None or fitted["spec"]["content"] is None


def test_a_long_run_keeps_what_its_steps_said(document: dict[str, Any]) -> None:
    """What steps were completed with is there, long after their events."""
    said = fit(cast(Any, document), 24_000)["step_messages"]
    assert [f"{entry['phase']}:{entry['step']}" for entry in said] == [
        "frame:fetch-work",
        "frame:classify",
        "frame:setup-branch",
        "architect:write-spec",
    ]
    assert all(str(entry["message"]).startswith("Said of ") for entry in said)


def test_requirements_are_cut_by_items(document: dict[str, Any]) -> None:
    """Of requirements and approach the first items stay, whatever the budget, though they are one paragraph each."""
    for budget in (24_000, 8_000, LEAST):
        spec: Any = fit(cast(Any, document), budget)["spec"]
        for key in ("functional_requirements", "technical_approach"):
            left, before = items_of(spec[key]), items_of(document["spec"][key])
            assert 1 <= len(left) < len(before)
            assert all(is_left_of(item, whole) for item, whole in zip(left, before, strict=False))


def test_the_next_phase_comes_from_the_plan(document: dict[str, Any]) -> None:
    """It is the first unfinished phase, whatever the last session said remains."""
    assert document["session_summary"]["remaining_phases"] == ["release"]
    assert document["next_phase"] == "build"
    assert "  Next Phase:    build\n" in text(cast(Any, document))


# --- one part alone --------------------------------------------------------------------------------


def pages(run: Run, part: str, budget: int) -> list[dict[str, Any]]:
    """Every page of a part."""
    made: list[dict[str, Any]] = []
    while not made or made[-1]["next_command"]:
        page: Any = part_page(sources_of(run), part, len(made) + 1, budget, "faber")
        assert size(page) < budget
        assert page["pages"] >= page["page"] == len(made) + 1
        made.append(page)
    return made


@pytest.mark.parametrize(
    ("part", "budget"), {**dict.fromkeys(PAGED, LEAST), "issue": 24_000, "sessions": 24_000}.items()
)
def test_a_part_is_shown_whole_in_bounded_pages(long: Run, document: dict[str, Any], part: str, budget: int) -> None:
    """The pages of a part hold all of it, each within the budget, and each names the next."""
    made = pages(long, part, budget)
    items = [item for page in made for item in page["items"]]
    if part == "events":
        assert sorted(event["event_id"] for event in items) == list(range(1, EVENT_COUNT + 1))
        assert made[0]["items"][-1]["event_id"] == EVENT_COUNT
        return
    whole = {
        "spec": document["spec"]["content"],
        "issue": document["issue"],
        "sessions": [document["session_summary"], document["session_history"]["all_summaries"]],
        "decisions": document["decisions_made"],
        "errors": document["unresolved_errors"],
        "steps": document["step_messages"],
        "branch": None,
    }[part]
    assert set(SEED.findall(json.dumps(items))) >= set(SEED.findall(json.dumps(whole)))
    if part == "spec":
        lines = [line for line in document["spec"]["content"].split("\n") if line.strip()]
        assert [line for item in items for line in item.split("\n") if line.strip()] == lines


def test_decisions_that_the_state_no_longer_holds_are_in_the_log(long: Run, document: dict[str, Any]) -> None:
    """A context counts them as omitted, and the part has them all."""
    newest: Any = {**long.state, "decisions": long.state["decisions"][-5:]}
    run = long._replace(state=newest)
    shown = reconstitute(run, sources_of(run).config, sources_of(run).options)
    assert {e["what"]: (e["kept"], e["of"]) for e in shown["omitted"]} == {"events": (20, 500), "decisions": (5, 40)}
    assert [item for page in pages(run, "decisions", LEAST) for item in page["items"]] == document["decisions_made"]


def test_a_decision_whose_event_is_lost_is_on_its_page(long: Run) -> None:
    """The part has what the log has, and what only the state still knows, in order."""
    lost: Any = {**long.state["decisions"][-1], "event_id": long.state["decisions"][3]["event_id"] + 0.5}
    newest: Any = {**long.state, "decisions": [lost]}
    (page,) = pages(long._replace(state=newest), "decisions", 90_000)
    assert page["items"][4] == lost
    assert len(page["items"]) == 41


def test_a_page_that_is_not_there_is_named(long: Run) -> None:
    """The error says how many pages there are."""
    with pytest.raises(NoSuchPage) as error:
        part_page(sources_of(long), "decisions", 9, 24_000, "faber")
    assert error.value.fields == {"pages": 1}


nested = st.recursive(st.text("ab\n", max_size=200), lambda inner: st.lists(inner) | st.dictionaries(words, inner))


@settings(max_examples=25)
@given(nested, st.integers(300, 2_000))
def test_an_item_longer_than_a_page_is_divided(item: Any, room: int) -> None:
    """Each piece fits, and the pieces hold every character of the item's texts."""
    made = pieces(item, room)
    assert all(size(piece) <= room for piece in made)
    assert Counter("".join(texts_in(made))) >= Counter("".join(texts_in(item)).replace(" ", ""))
