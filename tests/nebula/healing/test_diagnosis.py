"""Why a phase failed, and whether it is healed: seed 001's analyzer and policy."""

import asyncio
import concurrent.futures
import json
from dataclasses import fields, replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.nebula.healing.diagnosis import (
    OUTPUT,
    FailureDiagnosis,
    FailureKind,
    HealingPolicy,
    SkipReason,
    analyze_failure,
    output_end,
    policy_from,
)
from faber.nebula.healing.partial_work import PartialWork
from faber.nebula.phase import outcomes
from faber.nebula.phase.cycle_state import CycleState, Stage
from faber.nebula.phase.findings import Finding, make_finding
from faber.nebula.phase.outcomes import LoopEnded, TaskResult
from faber.nebula.plan.parse import parse_nebula
from faber.nebula.plan.specs import Execution
from faber.nebula.worktrees.tree_errors import ConflictingChanges, TreeLost
from faber.text.safe_text import ending

RESULT = TaskResult("parser", False, 3, 1.25, "b" * 40, "c" * 40, 6, reason="It was not approved in 3 cycles.")
STATE = CycleState(
    "The parser",
    3,
    phase=Stage.REVIEW_COMPLETE,
    cycle=3,
    total_cost_usd=1.25,
    max_budget_usd=2.0,
    coder_output="I wrote it.",
    review_output='{"verdict": "not_approved"}',
    base_commit_sha="b" * 40,
    cycle_commits=("1" * 40, "2" * 40, "c" * 40),
    findings=(make_finding("major", "parse('') returns None", file="p.py", line=3),),
)


def max_cycles(state: CycleState = STATE) -> LoopEnded:
    """Cycles ran out."""
    return outcomes.MaxCyclesReached("It was not approved in 3 cycles.", RESULT, state)


def over_budget() -> LoopEnded:
    """The phase's money is spent."""
    return outcomes.BudgetExceeded("It has spent 1.99 of 2.00 dollars.", RESULT, STATE, spent=1.99, limit=2.0)


def filter_failed() -> LoopEnded:
    """The filter `tests` fails."""
    state = replace(STATE, filter_check_name="tests", filter_output="E   assert 1 == 2")
    return outcomes.FilterFailed("The filter tests still fails after 3 cycles.", RESULT, state)


def conflict() -> LoopEnded:
    """It does not go together with what was merged."""
    return outcomes.MergeConflict("Both changed p.py.", RESULT, STATE)


def wrapped(error: BaseException, times: int = 2) -> BaseException:
    """`error` as the cause of a cause."""
    for number in range(times):
        try:
            raise RuntimeError(f"wrapper {number}") from error
        except RuntimeError as made:
            error = made
    return error


KINDS = [
    (max_cycles, FailureKind.MAX_CYCLES),
    (over_budget, FailureKind.BUDGET),
    (filter_failed, FailureKind.FILTER),
    (conflict, FailureKind.MERGE_CONFLICT),
]


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_every_way_of_failing_is_classified(make: Any, kind: FailureKind) -> None:
    """Cycles, budget, filter and merge conflict are known, each healable, with cycles and money."""
    error = make()
    found = analyze_failure("parser", error, error.result, error.state)
    assert (found.kind, found.healable, found.phase_id) == (kind, True, "parser")
    assert (found.cycles_used, found.budget_spent, found.budget_limit) == (3, 1.25, 2.0)
    assert found.findings == ("[major] p.py:3: parse('') returns None",)
    assert (found.last_coder_out, found.last_review_out) == ("I wrote it.", '{"verdict": "not_approved"}')
    assert found.summary.count("\n") == 0


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_what_wraps_an_error_changes_nothing(make: Any, kind: FailureKind) -> None:
    """Raised from it, or in a group, or both: the diagnosis is the same."""
    plain = analyze_failure("parser", make(), None, None)
    for error in (
        wrapped(make()),
        ExceptionGroup("workers", [ValueError("x"), make()]),
        ExceptionGroup("outer", [ExceptionGroup("inner", [wrapped(make())])]),
        wrapped(ExceptionGroup("workers", [make()])),
    ):
        assert analyze_failure("parser", error, None, None) == plain
    assert plain.kind is kind


def test_the_conflict_of_a_merge_without_a_loop_is_one_too() -> None:
    """The store's own merge conflict, which carries no cycles, is healable with what is known."""
    found = analyze_failure("parser", ConflictingChanges("Both changed p.py.", files=["p.py"]), None, STATE)
    assert (found.kind, found.cycles_used, found.summary) == (FailureKind.MERGE_CONFLICT, 3, "Both changed p.py.")


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(1),
        asyncio.CancelledError(),
        concurrent.futures.CancelledError(),
        outcomes.PhaseCancelled("It was stopped.", RESULT, STATE),
        BaseExceptionGroup("workers", [max_cycles(), KeyboardInterrupt()]),
        wrapped(outcomes.PhaseCancelled("It was stopped.", RESULT, STATE)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_was_cancelled_is_unhealable(error: BaseException) -> None:
    """Whoever stopped it, however it is wrapped: not healable, and the summary says that it was stopped."""
    found = analyze_failure("parser", error, None, STATE)
    assert (found.kind, found.healable) == (FailureKind.UNHEALABLE, False)
    assert "stopped from outside" in found.summary


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("bad luck"), "ValueError): bad luck"),
        (TreeLost("The worktree was deleted."), "TreeLost): The worktree was deleted"),
        (outcomes.AgentFailed("The client is not logged in.", RESULT, STATE), "not logged in"),
        (None, "failed without an error"),
        (ExceptionGroup("many", [OSError("disk"), ValueError("x")]), "ExceptionGroup"),
    ],
)
def test_unknown_errors_are_unhealable_with_their_reason(error: BaseException | None, words: str) -> None:
    """An error that healing knows nothing of is not healed, and its diagnosis says what it was."""
    found = analyze_failure("parser", error, None, None)
    assert (found.kind, found.healable) == (FailureKind.UNHEALABLE, False)
    assert words in found.summary


def test_what_happened_while_another_error_was_handled_is_not_its_cause() -> None:
    """A full disk while a failure is recorded is a full disk, as it would be for `errors.Is`."""
    with pytest.raises(OSError) as caught:  # noqa: PT012 - the implicit context is what is meant
        try:
            raise max_cycles()
        except LoopEnded:
            raise OSError("No space left on device")  # noqa: B904
    assert isinstance(caught.value.__context__, LoopEnded)
    assert analyze_failure("parser", caught.value, None, None).kind is FailureKind.UNHEALABLE


def test_a_budget_diagnosis_names_what_was_spent_and_the_limit() -> None:
    """The phase's own limit, or the run's where that was reached."""
    assert "1.99 of 2.00 dollars" in analyze_failure("parser", over_budget(), None, None).summary
    run = outcomes.BudgetExceeded("No turn can be paid.", RESULT, STATE, spent=9.5, limit=10.0)
    found = analyze_failure("parser", run, None, None)
    assert "9.50 of 10.00 dollars" in found.summary
    assert (found.budget_spent, found.budget_limit) == (1.25, 10.0)


def test_a_failing_filter_at_the_end_is_a_filter_failure() -> None:
    """Also where cycles ran out with it; its name and output are there, and for no other kind."""
    failing = replace(STATE, filter_check_name="lint", filter_output="E501 line too long")
    for error in (max_cycles(failing), outcomes.FilterFailed("It still fails.", RESULT, failing)):
        found = analyze_failure("parser", error, None, None)
        assert (found.kind, found.filter_name, found.filter_output) == (
            FailureKind.FILTER, "lint", "E501 line too long",
        )  # fmt: skip
        assert found.summary.startswith("The filter lint fails.")
    budget = outcomes.BudgetExceeded("It is spent.", RESULT, failing, spent=2.0, limit=2.0)
    found = analyze_failure("parser", budget, None, None)
    assert (found.kind, found.filter_name, found.filter_output) == (FailureKind.BUDGET, "", "")
    assert "lint failed last" in found.summary
    assert analyze_failure("parser", filter_failed(), RESULT, replace(STATE)).filter_name == "an unnamed filter"


def test_recurring_objections_come_most_frequent_then_gravest_first() -> None:
    """Of all cycles; those raised once are left out, and one that was fixed since says so."""
    often = make_finding("minor", "A name misleads", file="a.py")
    grave = make_finding("critical", "Data is lost")
    mild = make_finding("info", "A typo", file="z.py")
    fixed = make_finding("major", "No test")
    once = make_finding("critical", "Raised once")
    state = replace(
        STATE,
        all_findings=(mild, often, grave, fixed, often, once, mild, grave, fixed, often),
        findings=(often, grave, mild, replace(fixed, status="fixed"), once),
    )
    assert analyze_failure("parser", max_cycles(state), None, None).recurring == (
        "[minor] a.py: A name misleads (in 3 cycles)",
        "[critical]: Data is lost (in 2 cycles)",
        "[major]: No test (in 2 cycles, fixed since)",
        "[info] z.py: A typo (in 2 cycles)",
    )


def test_fixed_findings_are_not_open() -> None:
    """What the reviewer found to be fixed is no finding of the final cycle; the gravest comes first."""
    gone = Finding("f-1", "critical", "Old", status="fixed")
    state = replace(STATE, findings=(gone, make_finding("minor", "B"), make_finding("major", "A")))
    assert analyze_failure("parser", max_cycles(state), None, None).findings == ("[major]: A", "[minor]: B")


def test_many_findings_are_counted() -> None:
    """Forty are named, the others counted, and each is bounded."""
    state = replace(STATE, findings=tuple(make_finding("major", chr(97 + n % 26) * n + "x" * 900) for n in range(60)))
    found = analyze_failure("parser", max_cycles(state), None, None).findings
    assert len(found) == 41
    assert found[-1] == "and 20 more"
    assert max(map(len, found)) <= 500


def test_a_diagnosis_as_json_has_every_field() -> None:
    """Nothing that is known is left out where a program reads it."""
    work = PartialWork("parser", ("1" * 40,), cycles_used=1)
    found = replace(analyze_failure("parser", max_cycles(), None, None), partial_work=work)
    told = found.as_dict()
    assert list(told) == [field.name for field in fields(found)]
    assert sorted(told["partial_work"]) == sorted(field.name for field in fields(work))
    assert json.loads(json.dumps(told)) == told


# --- outputs ---------------------------------------------------------------------------------------


def test_outputs_are_cut_to_two_thousand_characters_from_their_end() -> None:
    """Coder's, reviewer's and filter's output keep their end, and say how much went, within the limit."""
    long = "".join(f"line {n}\n" for n in range(5_000)) + "the last line"
    state = replace(
        STATE, coder_output=long, review_output=long, filter_check_name="tests", filter_output=long + "\nE 1"
    )
    found = analyze_failure("parser", max_cycles(state), None, None)
    for text, end in (
        (found.last_coder_out, "the last line"),
        (found.last_review_out, "the last line"),
        (found.filter_output, "\nE 1"),
    ):
        assert len(text) <= OUTPUT
        assert text.endswith(end)
        assert text.startswith("[… 4")
    short = analyze_failure("parser", max_cycles(replace(STATE, coder_output="x" * 2_000)), None, None)
    assert short.last_coder_out == "x" * 2_000


@given(st.text(st.characters(), max_size=400), st.integers(40, 200))
def test_an_ending_is_the_end_and_never_longer_than_its_limit(text: str, limit: int) -> None:
    """What is kept is the end of the text, the notice counts exactly what went, and no character is halved."""
    kept = ending(text, limit)
    assert len(kept) <= limit
    kept.encode()  # a lone surrogate has no encoding
    if kept != text:
        notice, _, rest = kept.partition("\n")
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if len(whole) > limit:
            assert whole.endswith(rest)
            assert notice == f"[… {len(whole) - len(rest)} characters before this]"


def test_surrogate_pairs_are_one_character_and_halves_none() -> None:
    """A pair that came as two halves is joined before anything is cut; a half that stands alone is replaced."""
    assert ending("\ud83d\ude00" * 100, 50).endswith("\n" + "😀" * (50 - len("[… 100 characters before this]\n")))
    assert output_end("a\ud83d") == "a�"
    assert output_end("\ud83d\ude00") == "😀"


def test_a_credential_is_gone_before_the_cut() -> None:
    """A key that the cut would halve is redacted whole."""
    secret = "ghp_" + "a1" * 30
    text = secret + "x" * (OUTPUT - 60)
    kept = output_end(text)
    assert "a1a1" not in kept
    assert output_end(f"key {secret}\x1b[31m") == "key [REDACTED][31m"


# --- policy ----------------------------------------------------------------------------------------

HEALABLE = FailureDiagnosis("parser", FailureKind.MAX_CYCLES, True, "It failed.")
UNHEALABLE = FailureDiagnosis("parser", FailureKind.UNHEALABLE, False, "It was stopped.")
POLICY = HealingPolicy(enabled=True, max_attempts=2, budget_reserve=1.0)


@pytest.mark.parametrize(
    ("policy", "diagnosis", "attempts", "reason"),
    [
        (POLICY, HEALABLE, 0, None),
        (POLICY, HEALABLE, 1, None),
        (replace(POLICY, enabled=False), HEALABLE, 0, SkipReason.POLICY_DISABLED),
        (POLICY, UNHEALABLE, 0, SkipReason.UNHEALABLE),
        (POLICY, HEALABLE, 2, SkipReason.MAX_ATTEMPTS),
        (replace(POLICY, max_attempts=0), HEALABLE, 0, SkipReason.MAX_ATTEMPTS),
        (replace(POLICY, budget_reserve=0.0), HEALABLE, 0, SkipReason.NO_BUDGET),
        (replace(POLICY, budget_reserve=-1.0), HEALABLE, 0, SkipReason.NO_BUDGET),
        (replace(POLICY, budget_reserve=float("nan")), HEALABLE, 0, SkipReason.NO_BUDGET),
        (HealingPolicy(), UNHEALABLE, 9, SkipReason.POLICY_DISABLED),
    ],
)
def test_can_heal_asks_for_all_four_conditions(
    policy: HealingPolicy, diagnosis: FailureDiagnosis, attempts: int, reason: SkipReason | None
) -> None:
    """Enabled, healable, attempts left, a reserve: one that does not hold is named, and only all four permit it."""
    assert policy.why_not(diagnosis, attempts) == reason


def test_money_that_is_gone_is_no_money() -> None:
    """With the reserve used up nothing is healed, whatever the policy would allow; None is no limit."""
    assert POLICY.why_not(HEALABLE, 0, left=0.0) is SkipReason.NO_BUDGET
    assert POLICY.why_not(HEALABLE, 0, left=0.5) is None
    assert POLICY.why_not(HEALABLE, 0, left=None) is None


def test_the_reasons_are_those_of_the_event() -> None:
    """`healing_skipped` has four reasons."""
    assert [reason.value for reason in SkipReason] == ["unhealable", "policy_disabled", "max_attempts", "no_budget"]


@pytest.mark.parametrize(
    ("lines", "policy"),
    [
        ("healing = true", HealingPolicy(True, 1, inf)),
        ("healing = true\nmax_budget_usd = 10.0", HealingPolicy(True, 1, 2.0)),
        ("healing = true\nmax_budget_usd = 10.0\nhealing_budget_reserve = 3.0", HealingPolicy(True, 1, 3.0)),
        ("healing = true\nhealing_budget_reserve = 0.0\nhealing_max_attempts = 3", HealingPolicy(True, 3, 0.0)),
        ("", HealingPolicy(False, 1, inf)),
    ],
)
def test_the_policy_is_what_the_nebula_says(lines: str, policy: HealingPolicy) -> None:
    """A reserve that is not given is a fifth of the budget; without a budget there is headroom without end; 0 is 0."""
    parsed = parse_nebula("d", {"nebula.toml": f'[nebula]\nname = "n"\n[execution]\n{lines}\n'})
    assert policy_from(parsed.nebula.execution) == policy


def test_a_nebula_made_in_a_program_has_the_same_reserve() -> None:
    """An `Execution` with a budget and no reserve counts a fifth, as one that was read."""
    assert policy_from(Execution(max_budget_usd=5.0, healing=True)).budget_reserve == pytest.approx(1.0)
