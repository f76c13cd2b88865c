"""What the person at the terminal is told, and the model is not: which run this is, what waits for them, and the code
with which they answer."""

from faber.context.resume import resume_point
from faber.feedback.answer_codes import OpenCode, new_code, read_codes
from faber.hooks.hook_call import Call
from faber.hooks.lines import line
from faber.hooks.provenance import has_transcript, misplaced
from faber.hooks.session_brief import point_text
from faber.model.answers import FREE_TEXT
from faber.model.state_parts import FeedbackRequest
from faber.store.load import Run

MAX_PROMPT = 600
MAX_ARTIFACTS = 3
SHORT_OPTION = 20


def position(run: Run) -> str:
    """One line: the run, its work item, where it is and how to continue it."""
    state = run.state
    work = f" (work item {line(state['work_id'], 80)})" if state["work_id"] else ""
    place = point_text(resume_point(state, run.plan))
    return f"faber: run {run.run_id}{work} is at {place}. To continue it: /faber:resume"


def waiting(call: Call, run: Run) -> str | None:
    """The oldest open request of the run and how to answer it here, with a new code; None if none is open.

    No code where something other than the client called this hook: what is printed then is not for the person.
    """
    asked = run.state["feedback_request"]
    if asked is None or not call.session:
        return None
    stands_for = OpenCode(run.run_id, asked["request_id"])
    code = None if misplaced(call.session) else new_code(call.layout, call.session, stands_for, has_transcript(call))
    elsewhere = f"In a terminal: faber feedback respond {run.run_id}"
    answers = f"Type {how(asked, code)} here. {elsewhere}" if code else f"{elsewhere}"
    more = len(run.state["feedback_queue"]) - 1
    return "\n".join(
        [
            f"faber: run {run.run_id} waits for your answer ({line(asked['type'].replace('_', ' '), 40)}):",
            f"  {line(asked['prompt'], MAX_PROMPT)}",
            *_artifacts(asked),
            *(f"  {number}. {option}" for number, option in enumerate(_long(asked), 1)),
            answers,
            *([f"({more} more will be asked after it.)"] if more > 0 else []),
        ]
    )


def marked(call: Call, run: Run) -> None:
    """Note for the session's next prompt that the run waits, unless that is noted: a code that nobody is shown."""
    asked = run.state["feedback_request"]
    if asked is None or not call.session:
        return
    stands_for, known = OpenCode(run.run_id, asked["request_id"]), read_codes(call.layout, call.session)
    if known is None or stands_for not in known.codes.values():
        new_code(call.layout, call.session, stands_for, has_transcript(call))


def how(asked: FeedbackRequest, code: str) -> str:
    """What to type, with the code: `approve 7K2`, `reject 7K2 WHY`."""
    if asked["type"] == FREE_TEXT:
        return f"`answer {code} YOUR WORDS`"
    if options := _long(asked):
        return " or ".join(f"`{number} {code}`" for number in range(1, min(len(options), 3) + 1))
    said = [f"`{option} {code}`" for option in asked["options"]]
    return f"{' or '.join(said)} (a remark may follow)"


def _long(asked: FeedbackRequest) -> list[str]:
    """The options as lines, where they are too long to be typed."""
    if all(len(option) <= SHORT_OPTION and " " not in option for option in asked["options"]):
        return []
    return [line(option, 200) for option in asked["options"]]


def _artifacts(asked: FeedbackRequest) -> list[str]:
    named = asked["context"].get("artifacts")
    return [f"  see {line(path, 300)}" for path in named[:MAX_ARTIFACTS]] if isinstance(named, list) else []
