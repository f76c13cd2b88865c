"""Recording what a context shows: that it was loaded, its open decisions as requests, and a person's decisions."""

import os

from faber.context.context_document import ConsolidatedContext, OpenDecision
from faber.context.questions import ABORT, NOT_ASKED, QUESTIONS, request_about
from faber.errors import FaberError, Notice, Refused, Severity
from faber.events.drafts import Draft
from faber.events.feedback_events import decision_point
from faber.events.record_events import context_loaded
from faber.events.workflow_events import workflow_cancelled
from faber.feedback.requests import NewRequest, new_request_id, open_request, respond
from faber.foreign.open_run import open_run
from faber.model import acceptance
from faber.model.answers import Responder
from faber.model.documents import CLOSED, Plan, State
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.load import Run
from faber.text.safe_text import shorten


class NothingToDecide(Refused):
    """The decision answered is not open."""

    code = "nothing_to_decide"
    recovery = "Run `faber context RUN` without --decide to see what is open."

    def __init__(self, code: str) -> None:
        super().__init__(f"{code} is not open on this run.", decision=code)


def record_loaded(run: Run, context: ConsolidatedContext, writer: Writer) -> Committed | Notice:
    """Append `context_loaded` once a session, and ask people about open decisions, each once.

    Returns the commit, or a notice that says why nothing was recorded. Raises what an agent's sandbox refused.
    """
    if run.foreign or run.state["status"] in CLOSED:
        why = "made by another tool" if run.foreign else run.state["status"]
        message = f"Nothing was recorded: the run is {why}."
        return Notice("not_recorded", Severity.INFO, message, source=run.run_id)
    session = writer.session_id
    codes = [{"code": w["code"], "severity": w["severity"]} for w in context["warnings"] if w["severity"] != "INFO"]

    def decide(state: State, plan: Plan) -> acceptance.Decision:
        drafts = _requests(state, plan, context["decisions"])
        if session and session in state["context_sessions"]:
            return drafts
        return [*drafts, context_loaded(codes[:50])]

    try:
        return commit(run.layout, run.run_id, decide, writer, known=run)
    except FaberError as error:
        from faber.agents.sandbox import explained

        if explained(error, os.environ, run.layout.root) is not error:
            raise  # or an agent would be told again and again to load the context
        return Notice("not_recorded", Severity.WARNING, error.message, error.recovery, run.run_id)


def _requests(state: State, plan: Plan, decisions: list[OpenDecision]) -> list[Draft]:
    """A request for each decision that has none yet."""
    if any(decision["code"] in NOT_ASKED for decision in decisions):
        return []
    drafts: list[Draft] = []
    for decision in decisions:
        if request_about(state, decision["code"]) is not None:
            continue
        about = f" ({shorten(decision['about'], 300)})" if decision["about"] else ""
        asked = NewRequest(
            new_request_id(),
            "error_resolution",
            decision["prompt"] + about,
            options=[option["option"] for option in decision["options"]],
            context={"question": {"code": decision["code"], "subject": decision["about"]}},
        )
        opened = open_request(state, plan, asked)
        drafts += opened if isinstance(opened, list) else []
    return drafts


def record_decisions(
    run: Run, context: ConsolidatedContext, answers: dict[str, str], writer: Writer, responder: Responder
) -> Run:
    """Record the options that a person chose (decision code to option), and carry them out; the run afterwards.

    Raises `NothingToDecide` for a code that `context` does not warn about. Of another tool's run nothing is recorded:
    the answers hold for this output only.
    """
    subjects = {warning["code"]: warning["source"] for warning in context["warnings"]}
    for code, option in answers.items():
        if code not in subjects:
            raise NothingToDecide(code)
        if run.foreign:
            continue
        if code == "feedback_mismatch" and option == "repair":
            from faber.repair.repair import repair_run  # brings the doctor, for this one answer

            repair_run(run.layout, run.run_id)
        _settle(run, code, option, subjects[code], writer, responder)
    return open_run(run.layout, run.run_id)


def _settle(run: Run, code: str, option: str, subject: str | None, writer: Writer, responder: Responder) -> None:
    """Answer the request that asks this, or record a decision if none does."""
    message = f"{code}: {QUESTIONS[code].options[option]}"
    draft = decision_point(message, question=code, option=option, subject=subject)

    def decide(state: State, plan: Plan) -> acceptance.Decision:
        asked = request_about(state, code)
        if asked is not None:
            return respond(
                state, plan, request_id=asked["request_id"], response=option, comment=None, responder=responder
            )
        drafts = acceptance.emit(state, plan, draft)
        if option == ABORT and isinstance(drafts, list):
            drafts = [*drafts, workflow_cancelled(f"Aborted by a person over {code}.")]
        return drafts

    commit(run.layout, run.run_id, decide, writer)
