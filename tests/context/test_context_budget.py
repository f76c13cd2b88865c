"""Fitting a context into a budget."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faber.context.context_budget import fit, size

NEVER_CUT = (
    "resume_point",
    "feedback_request",
    "session_summary.decisions",
    "unresolved_errors",
    "decisions",
    "run_id",
    "status",
    "next_steps.command",
    "next_steps.instruction",
    "artifacts.branch_name",
)
# What may be cut, and what of it stays whatever the budget: the floor of each list, None for texts and objects.
FLOORS: dict[str, int | None] = {
    "events": 0,
    "session_history.all_summaries": 0,
    "session_history.latest.summary.files_changed": 0,
    "session_history.latest.summary.decisions": 10,
    "session_history.latest.summary.accomplished": 0,
    "session_history.latest.summary.remaining_phases": 0,
    "session_history.latest.summary.context_notes": None,
    "session_summary.files_changed": 0,
    "session_summary.accomplished": 0,
    "session_summary.remaining_phases": 0,
    "session_summary.context_notes": None,
    "spec.content": None,
    "spec.front_matter": None,
    "spec.technical_approach": None,
    "spec.files_to_modify": 0,
    "spec.phases": 0,
    "spec.functional_requirements": None,
    "spec.goals": None,
    "spec.summary": None,
    "spec.acceptance_criteria": 0,
    "issue.comments": 0,
    "issue.labels": 0,
    "issue.description": None,
    "branch.files_changed": 5,
    "branch.dirty_files": 5,
    "branch.commits": 1,
    "branch.commits_since_session": 1,
    "decisions_made": 0,
    "next_steps.remaining": 3,
    "warnings": 5,
    "artifacts": None,
}

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
        "events": [
            {"event_id": number, "message": message} | ({"notable": True} if number % 3 == 0 else {})
            for number, message in enumerate(draw(lists(texts()))[:20], 1)
        ],
        "session_history": draw(
            st.none() | st.fixed_dictionaries({"latest": st.just({"summary": summary}), "all_summaries": lists()})
        ),
        "session_summary": draw(st.none() | st.just({**summary, "decisions": summary["decisions"][-10:]})),
        "feedback_request": draw(st.none() | st.fixed_dictionaries({"prompt": words})),
        "resume_point": {"phase": "a", "step": "s", "mode": "continue"},
        "next_steps": {"command": "faber step start r a:s", "instruction": draw(words), "remaining": draw(lists())},
        "unresolved_errors": draw(st.lists(st.fixed_dictionaries({"message": words}), max_size=5)),
        "decisions_made": draw(st.lists(words, max_size=10)),
        "warnings": draw(lists(st.fixed_dictionaries({"severity": severities, "message": words}))),
        "decisions": draw(st.lists(st.fixed_dictionaries({"prompt": words}), max_size=2)),
        "omitted": [],
    }


budgets = st.sampled_from([0, 500, 4_000, 8_000, 24_000]) | st.integers(0, 20_000)
slow = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


def at(value: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def count(value: Any) -> int:
    """How many items, entries or paragraphs."""
    if isinstance(value, str):
        return len(value.split("\n\n"))
    return len(value or ())


def a_context_fits_or_nothing_is_left_to_cut(fitted: dict[str, Any], budget: int) -> None:
    """What is fitted is within the budget, unless all that may be cut is at its floor."""
    if size(fitted) <= budget:
        return
    for path, floor in FLOORS.items():
        value = at(fitted, path)
        if path == "artifacts":
            assert set(value) <= {"branch_name", "spec_path"}
        elif path == "warnings":
            assert all(warning["severity"] != "INFO" for warning in value)
            assert len(value) <= 5
        else:
            assert count(value) <= (floor or 0) or not value, path


def what_is_never_cut_is_there_whole(context: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Resume point, feedback request, the last session's decisions and unresolved errors survive any budget."""
    for path in NEVER_CUT:
        assert at(fitted, path) == at(context, path)


def every_cut_is_listed_with_true_counts(context: dict[str, Any], fitted: dict[str, Any]) -> None:
    """`omitted` has one entry for each thing that lost something, and for no other, with what is left of how many."""
    listed = {entry["what"]: entry for entry in fitted["omitted"]}
    assert len(listed) == len(fitted["omitted"])
    assert set(listed) == {path for path in FLOORS if at(fitted, path) != at(context, path)}
    for path, entry in listed.items():
        assert entry["kept"] == count(at(fitted, path)), path
        assert entry["of"] == count(at(context, path)), path
        assert entry["kept"] < entry["of"]
        assert entry["command"].startswith("faber ")
        assert context["run_id"] in entry["command"]


def a_larger_budget_keeps_at_least_as_much(small: dict[str, Any], large: dict[str, Any]) -> None:
    """Nothing that a smaller budget keeps is lost in a larger one."""
    for path in FLOORS:
        assert count(at(small, path)) <= count(at(large, path)) or not at(small, path), path


def what_is_kept_is_kept_in_order(context: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Cutting takes whole items away and never moves or changes one."""
    for path in FLOORS:
        value, before = at(fitted, path), at(context, path)
        if isinstance(value, list):
            left = iter(before)
            assert all(item in left for item in value), path
        elif isinstance(value, str):
            assert before.startswith(value), path


def what_fits_is_not_touched(context: dict[str, Any]) -> None:
    """Without a limit, and within one, the context is returned as it is."""
    assert fit(context, None) == context
    assert fit(context, size(context)) == context


@slow
@given(contexts(), budgets, st.integers(0, 5_000))
def test_any_context_is_fitted_into_any_budget(context: dict[str, Any], budget: int, more: int) -> None:
    """Every property of fitting holds for any context; to generate one costs far more than to check them all."""
    kept = copy.deepcopy(context)
    fitted = fit(context, budget)
    assert context == kept, "the context that was handed in has changed"
    a_context_fits_or_nothing_is_left_to_cut(fitted, budget)
    what_is_never_cut_is_there_whole(context, fitted)
    every_cut_is_listed_with_true_counts(context, fitted)
    a_larger_budget_keeps_at_least_as_much(fitted, fit(context, budget + more))
    what_is_kept_is_kept_in_order(context, fitted)
    what_fits_is_not_touched(context)


def test_size_is_the_length_of_what_is_printed() -> None:
    """Characters are counted in compact JSON that does not escape other scripts."""
    assert size({"a": "é\n"}) == len('{"a":"é\\n"}')
    assert json.loads('{"a":"é\\n"}') == {"a": "é\n"}


@pytest.mark.parametrize("budget", [4_000, 6_000])
def test_events_that_say_how_something_ended_stay_longest(budget: int) -> None:
    """Events that only say that something began go before those that say how it ended."""
    events = [
        {"event_id": n, "type": "x", "message": "m" * 300} | ({"notable": True} if n % 2 else {}) for n in range(20)
    ]
    bare: dict[str, Any] = {"run_id": "r", "events": events, "warnings": [], "omitted": []}
    left = fit(bare, budget)["events"]
    kept = [event["event_id"] for event in left]
    assert kept[-3:] == [17, 18, 19]
    assert {n for n in range(20) if n % 2} <= set(kept) or not any(n % 2 == 0 for n in kept[:-3])
    assert size(fit(bare, budget)) <= budget
