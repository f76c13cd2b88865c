"""UserPromptSubmit: a person answers a run's request in the session, with the code they were shown."""

import json
import os
import re
from typing import NamedTuple

from faber.errors import FaberError
from faber.feedback.answer_codes import AnswerCodes, OpenCode, count_wrong, is_code, meant_by, read_codes, void
from faber.hooks.hook_call import Call, say
from faber.hooks.provenance import doubt, from_a_person

ANSWER = "answer"  # the word before the code of a question that is answered in the person's own words
MAX_ANSWER = 4_000
MAX_HEAD = 200
MAX_WORDS = 6  # words shaped like a code that are tried
DEADLINE = 3.0  # seconds for the run's lock
ASKING = 2.0  # seconds for the person's name


class TypedAnswer(NamedTuple):
    """A prompt cut at a code: `said` before it, `rest` after it."""

    said: str
    code: str
    rest: str


def user_prompt_submit(call: Call) -> None:
    """Record the prompt if it is an answer with a code of this session. With any other prompt tell the model what was
    answered elsewhere meanwhile."""
    known = read_codes(call.layout, call.session) if call.session else None
    if known is None:
        return
    prompt = call.given.get("prompt")
    found = cuts(prompt) if isinstance(prompt, str) and len(prompt) <= MAX_ANSWER else []
    if not (found and _typed(call, known, found)):
        _answered_elsewhere(call, known)


def _answered_elsewhere(call: Call, known: AnswerCodes) -> None:
    """A person answered a request of this session in a terminal of their own or on the issue: the model, which stopped
    for it, cannot know. Told once."""
    from faber.context import session_record
    from faber.hooks.session_brief import next_command
    from faber.model.documents import CLOSED
    from faber.store.load import load

    for run_id in dict.fromkeys(code.run_id for code in known.codes.values()):
        try:
            state = load(call.layout, run_id).state
        except FaberError:
            continue
        open_requests = {asked["request_id"] for asked in state["feedback_queue"]}
        gone = {code.request_id for code in known.codes.values() if code.run_id == run_id} - open_requests
        for request_id in gone:
            void(call.layout, call.session or "", read_codes(call.layout, call.session or "") or known, request_id)
        told = session_record.read(call.layout, call.session or "")
        if told and (told.run_id, told.event_id) == (run_id, state["last_event_id"]):
            continue  # the session has just been told, when it was resumed
        if gone and not open_requests and state["status"] not in (*CLOSED, "failed"):
            _add(
                f"faber: a person answered the request that run {run_id} waited for. To continue the run: "
                f"{next_command(call.faber, run_id)}"
            )
            return


def _typed(call: Call, known: AnswerCodes, found: list[TypedAnswer]) -> bool:
    """Take the prompt as an answer; False if it is not one and nothing was said about it."""
    if not from_a_person(call):
        if not any(meant_by(known, cut.code) for cut in found):
            return False
        _add("faber recorded nothing: an answer counts only where a person types it in a terminal session.")
        return True
    for cut in found:
        if meant := meant_by(known, cut.code):
            try:
                _take(call, known, cut, meant)
            except FaberError as error:
                _block(f"faber: NOT recorded. {error.message}")
            return True
    return _wrong(call, known, found)


def cuts(prompt: str) -> list[TypedAnswer]:
    """The ways to read `prompt` as an answer: one for each word that is shaped like a code.

    None for what the client itself sends: messages of agents and notices of tasks come in tags.
    """
    if prompt.lstrip().startswith("<"):
        return []
    found: list[TypedAnswer] = []
    for match in re.finditer(r"\S+", prompt):
        said = prompt[: match.start()].strip()
        if len(said) > MAX_HEAD or "\n" in said or len(found) == MAX_WORDS:
            break
        word = match[0].strip("`")
        if is_code(word):
            found.append(TypedAnswer(said.strip("`").strip(), word, prompt[match.end() :].strip().strip("`").strip()))
    return found


def _take(call: Call, known: AnswerCodes, cut: TypedAnswer, meant: OpenCode) -> None:
    from faber.feedback.answer_matching import read_answer
    from faber.hooks.waiting import how, waiting
    from faber.model.answers import FREE_TEXT
    from faber.model.model_errors import NotAnOption
    from faber.store.load import load

    run = load(call.layout, meant.run_id)
    asked = next((each for each in run.state["feedback_queue"] if each["request_id"] == meant.request_id), None)
    if asked is None:
        void(call.layout, call.session or "", known, meant.request_id)
        _block(f"faber: nothing new was recorded; request {meant.request_id} was answered before.")
        return
    if why := doubt(call, cut.code, known.transcript):
        void(call.layout, call.session or "", known, meant.request_id)
        again = waiting(call, load(call.layout, meant.run_id)) or ""
        _block(f"faber: NOT recorded: {why}. If you typed it, type it again with the new code.\n{again}")
        return
    if asked["type"] == FREE_TEXT and cut.said.casefold() != ANSWER:
        _block(f"faber: NOT recorded. Type {how(asked, cut.code.upper())}.")
        return
    said, remark = _read(asked["type"], asked["options"], cut)
    try:
        answer = read_answer(asked, said)
    except NotAnOption as error:
        _block(f"faber: NOT recorded. {error.message} Type {how(asked, cut.code.upper())}.")
        return
    if answer.action == "revise" and not remark:
        _block(f"faber: NOT recorded yet. Say what to change: `{said} {cut.code.upper()} WHAT TO CHANGE`.")
        return
    _record(call, known, meant, said, remark)


def _read(kind: str, options: list[str], cut: TypedAnswer) -> tuple[str, str | None]:
    """The answer and the remark on it."""
    from faber.model.answers import FREE_TEXT

    if kind == FREE_TEXT:
        return cut.rest, None
    said, remark = (cut.said, cut.rest) if cut.said else (cut.rest, "")
    if said not in options and said.isascii() and said.isdigit() and 0 < int(said[:3]) <= len(options):
        said = options[int(said[:3]) - 1]
    return said, remark or None


def _record(call: Call, known: AnswerCodes, meant: OpenCode, said: str, remark: str | None) -> None:
    from faber.agents.known_clients import client_of
    from faber.feedback.requests import respond
    from faber.feedback.responder import terminal_responder
    from faber.hooks.session_brief import next_command
    from faber.hooks.waiting import waiting
    from faber.model.documents import CLOSED
    from faber.notify.news import announce
    from faber.steps.holding import answered_in
    from faber.store.appending import Writer
    from faber.store.commit import commit
    from faber.text.credentials import secret_values
    from faber.text.safe_text import inert, without

    secrets, client = secret_values(os.environ), client_of(os.environ)
    said = without(inert(said), secrets)
    remark = without(inert(remark), secrets) if remark is not None else None
    responder = terminal_responder(call.layout.root, seconds=ASKING)
    made = commit(
        call.layout,
        meant.run_id,
        answered_in(
            call.session,
            lambda state, plan: respond(
                state, plan, request_id=meant.request_id, response=said, comment=remark, responder=responder
            ),
        ),
        Writer(None, "person", deadline=DEADLINE, client=client.name if client else None, tell=announce),
    )
    void(call.layout, call.session or "", known, meant.request_id)
    _post(call, meant.run_id)
    state = made.state
    recorded = f"faber: recorded your answer to {meant.request_id}: {said}{f' ({remark})' if remark else ''}."
    if state["feedback_request"] is not None and state["status"] not in CLOSED:
        _block(f"{recorded}\n{waiting(call, made.run) or ''}")
    elif state["status"] in (*CLOSED, "failed"):
        ended = "is cancelled" if state["status"] == "cancelled" else f"is {state['status']}"
        again = "" if state["status"] in CLOSED else " To continue it later: /faber:resume"
        _block(f"{recorded} The run {ended}.{again}")
    else:
        context = (
            f"faber recorded the person's answer to request {meant.request_id} of run {meant.run_id} "
            f"(they typed it in this session; do not record it again).\nContinue the run now: "
            f"{next_command(call.faber, meant.run_id)}"
        )
        _add(context, recorded)


def _wrong(call: Call, known: AnswerCodes, found: list[TypedAnswer]) -> bool:
    """Say that a code is wrong, where the prompt reads as an answer to a request of this session; False if it does not.

    Any prompt may hold a word like a code (`no e2e tests please`): it is blocked only if it is nothing but an answer
    with a code as faber writes it. Every word that was tried counts.
    """
    cut = next((cut for cut in found if _is_try(cut) and _is_answer(call, known, cut)), None)
    if cut is None:
        return False
    left = count_wrong(call.layout, call.session or "", known, len(found))
    tries = f"{left} more {'try' if left == 1 else 'tries'}." if left else "All codes are void now."
    wrong = f"{cut.code.upper()} is not a code of an open request in this session. {tries}"
    if _is_bare(cut) and cut.code.isupper():
        last = "Type the code that faber showed last; after the next turn it shows a new one."
        _block(f"faber: NOT recorded: {wrong} {last}")
    else:
        say(json.dumps({"systemMessage": f"faber: nothing was recorded: {wrong}"}) + "\n")
    return True


def _is_try(cut: TypedAnswer) -> bool:
    return _is_bare(cut) or cut.code.isupper()


def _is_bare(cut: TypedAnswer) -> bool:
    """True for `WORD CODE`, `CODE WORD` and `CODE`: nothing but an answer."""
    return not (cut.said and cut.rest)


def _is_answer(call: Call, known: AnswerCodes, cut: TypedAnswer) -> bool:
    if not cut.said and not cut.rest:
        return cut.code.isupper()
    from faber.feedback.answer_matching import read_answer
    from faber.model.answers import FREE_TEXT
    from faber.store.load import load

    for run_id in {code.run_id for code in known.codes.values()}:
        try:
            queue = load(call.layout, run_id).state["feedback_queue"]
        except FaberError:
            continue
        for asked in queue:
            if asked["type"] == FREE_TEXT:
                if cut.said.casefold() == ANSWER:
                    return True
                continue
            said, _ = _read(asked["type"], asked["options"], cut)
            try:
                read_answer(asked, said)
            except FaberError:
                continue
            return True
    return False


def _post(call: Call, run_id: str) -> None:
    """Post what the configuration wants on the issue, in a process of its own: it may take seconds, and packages."""
    from faber.agents.known_clients import persons
    from faber.processes.detached import start_detached
    from faber.processes.runner import Program

    if not os.path.exists(call.layout.config):  # by default nothing is posted
        return
    # On the person's behalf, not the agent's.
    command = [call.faber, "--root", call.layout.root, "feedback", "post", run_id, "--as-configured"]
    start_detached(Program(command, persons(os.environ)))


def _block(reason: str) -> None:
    """Show the person `reason`; the prompt goes nowhere, and stays out of the transcript."""
    quiet = {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": True}
    say(json.dumps({"decision": "block", "reason": reason, "hookSpecificOutput": quiet}) + "\n")


def _add(context: str, shown: str | None = None) -> None:
    """Give the model `context` with the prompt, and show the person `shown`."""
    added = {"hookEventName": "UserPromptSubmit", "additionalContext": context}
    say(json.dumps({**({"systemMessage": shown} if shown else {}), "hookSpecificOutput": added}) + "\n")
