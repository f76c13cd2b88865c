"""What re-opens a run: a failed check of its pull request, or a review of it that requests changes. Pure."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypedDict

from faber.events import feedback_events
from faber.events.drafts import Draft
from faber.events.workflow_events import run_reopened
from faber.model.acceptance import MAX_MESSAGE, MAX_PROMPT, Decision, Repeated
from faber.model.answers import Responder
from faber.model.documents import Plan, State, is_nebula_run
from faber.model.loop_rules import repair_of
from faber.model.model_errors import IllegalTransition
from faber.model.progress import phase_ids
from faber.text.safe_text import shorten

# Of one commit; more say nothing new, and a state keeps few.
MOST_CHECKS = 5
_ASKED = "fr-checks-"


class CheckEvidence(TypedDict):
    """What is known of a failed check, or of a review: text from outside, bounded, as it may be shown. `output` has the
    last lines of the log, or what the check, or the reviewer, says; empty if there is nothing."""

    kind: str
    name: str
    conclusion: str
    url: str
    output: str
    untrusted: bool


class FailedCheck(NamedTuple):
    """A check of the pull request that failed. `source` is the same for the same check of the same commit; `commit` is
    what faber pushed, and `at` where the check ran, if the branch was brought up to date since."""

    source: str
    name: str
    conclusion: str
    commit: str
    pull_request: int
    evidence: Sequence[CheckEvidence]
    at: str = ""


class ChangesRequested(NamedTuple):
    """A review of the pull request that requests changes; `comment` is all that it says."""

    source: str
    commit: str
    pull_request: int
    comment: str
    responder: Responder
    evidence: Sequence[CheckEvidence]


def reopen_for_check(state: State, plan: Plan, failed: FailedCheck, *, most: int, before: int = 0) -> Decision:
    """The run has work again, because a check of its pull request failed. After `most` repairs a person is asked.

    `before` is how many repairs the log has: the state keeps only the newest returns.
    A second check of the same commit belongs to the same repair. Raises `IllegalTransition` if the check comes too
    late, or the run is not in a state to be repaired.
    """
    if state["status"] == "failed":
        raise IllegalTransition("The run failed; a person decides whether it continues.", reason="run_failed")
    known = _check(state, repair_of(state, failed.commit))
    loops = [loop for loop in state["retry_loops"] if loop.get("commit") == failed.commit and "repair" in loop]
    newest = next((loop["repair"] for loop in reversed(state["retry_loops"]) if "repair" in loop), 0)
    repair = known or max(newest, before) + 1
    phase, step, return_to = sent_back_to(plan)
    what = f'The check "{failed.name}" of the pull request #{failed.pull_request} ended with {failed.conclusion}'
    count = f" (repair {repair} of {most})" if repair <= most else ""
    drafts = []
    earlier = next((loop for loop in loops if loop.get("source") == failed.source), None)
    if earlier is None:
        if len(loops) >= MOST_CHECKS:
            raise IllegalTransition(f"{MOST_CHECKS} failed checks of this commit are known.", reason="enough_checks")
        drafts.append(
            run_reopened(
                (phase, step),
                shorten(f"{what} at commit {(failed.at or failed.commit)[:12]}{count}", MAX_MESSAGE),
                return_to=return_to,
                source=failed.source,
                commit=failed.commit,
                evidence=failed.evidence,
                repair=repair,
            )
        )
    request_id = _request_id(state, failed)
    asked = {request["request_id"] for request in (*state["feedback_queue"], *state["answers"])}
    waits = any(request["request_id"].startswith(_ASKED) for request in state["feedback_queue"])
    if repair > most and request_id not in asked and not waits:
        drafts.append(_ask(plan, failed, request_id, f"{what}, after {repair - 1} repairs.", return_to))
    return drafts if drafts or earlier is None else Repeated(earlier["event_id"])


def _request_id(state: State, failed: FailedCheck) -> str:
    """The same for the same commit, whoever asks."""
    digest = sha256(f"{state['run_id']} {failed.commit}".encode()).hexdigest()
    return f"{_ASKED}{digest[:12]}"


def _ask(plan: Plan, failed: FailedCheck, request_id: str, what: str, return_to: str) -> Draft:
    """The request to a person about the step at which the repair would begin."""
    place = next(((p["id"], s["id"]) for p in plan["phases"] if p["id"] == return_to for s in p["steps"]), None)
    context: dict[str, object] = {"reopened": failed.source}
    for each in failed.evidence[:1]:
        context |= {"url": each["url"][:300], "failure": each["output"][-600:]}
    return feedback_events.feedback_request(
        request_id,
        "error_resolution",
        shorten(f"{what} Try to repair it again, or end the run?", MAX_PROMPT),
        options=["retry", "abort"],
        context=context,
        place=place,
    )


def reopen_for_review(state: State, plan: Plan, review: ChangesRequested) -> Decision:
    """The run has work again, because a person requested changes to its pull request; raises `IllegalTransition`."""
    _check(state, None)
    phase, step, return_to = sent_back_to(plan)
    who = review.responder["name"] or "A person"
    answer: Mapping[str, object] = {
        "response": "request_changes",
        "action": "revise",
        "comment": review.comment or None,
        "responder": review.responder,
    }
    draft = run_reopened(
        (phase, step),
        f"{who} requested changes to the pull request #{review.pull_request}",
        return_to=return_to,
        source=review.source,
        commit=review.commit,
        evidence=review.evidence,
        answer=answer,
    )
    return [draft]


def _check(state: State, known: Mapping[str, object] | None) -> int | None:
    """The number of the repair that `known` belongs to; raises `IllegalTransition` if the run cannot be re-opened."""
    if is_nebula_run(state):
        raise IllegalTransition("A nebula's phases are not repeated.", reason="nebula")
    if state["status"] == "cancelled":
        raise IllegalTransition("The run was cancelled.", reason="run_closed")
    if known is None:
        return None
    if known.get("exited"):
        raise IllegalTransition("A newer commit repairs what this check found.", reason="repaired")
    repair = known.get("repair")
    return repair if isinstance(repair, int) else None


def sent_back_to(plan: Plan) -> tuple[str, str | None, str]:
    """The phase and step that open the pull request (the last phase and None if the plan does not say), and the phase
    that failed checks send the work back to."""
    places = [(p["id"], s["id"]) for p in plan["phases"] for s in p["steps"] if s.get("pull_request")]
    phase, step = places[0] if places else (phase_ids(plan)[-1], None)
    known = plan["phases"][: phase_ids(plan).index(phase) + 1]
    policies = [p["on_failure"]["return_to"] for p in known if "on_failure" in p]
    commits = [p["id"] for p in known for s in p["steps"] if any(e["kind"] == "commit" for e in s.get("evidence", []))]
    return phase, step, next(iter([*reversed(policies), *reversed(commits), phase]))
