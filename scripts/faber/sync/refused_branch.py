"""A run whose branch the remote refuses: a person is asked before the run goes there alone, so that no copy of it looks
as if its commits were there."""

from hashlib import sha256
from typing import NamedTuple

from faber.feedback.requests import NewRequest, open_request
from faber.model.acceptance import MAX_PROMPT, Decision
from faber.model.documents import Plan, State
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.load import Run
from faber.sync.merging import REFUSED_BRANCH
from faber.sync.sync_errors import BranchNotPushable
from faber.text.safe_text import one_line, shorten

_PLACE = 300


class Kept(NamedTuple):
    """Where the commits of a refused branch are kept, in words for a person, and who asks."""

    place: str
    by: Writer


def ask_a_person(run: Run, tip: str, error: BranchNotPushable, kept: Kept) -> None:
    """Open a request about the branch at commit `tip`, once; a run that was completed waits for the answer, too."""
    request_id = f"{REFUSED_BRANCH}{sha256(f'{run.run_id} {tip}'.encode()).hexdigest()[:12]}"
    land = "`faber sync import RUN FILE`, then do what the message asks for"
    if error.fields.get("reason") == "diverged":  # an import takes no such commits
        land = "`git fetch FILE BRANCH`, merge FETCH_HEAD into the branch"
    how = (
        f"The run is pushed without it: commit {tip[:12]}, which its log rests on, is not there. It is kept in "
        f"{one_line(kept.place, _PLACE)}. To land it from there, in a clone: `faber sync pull RUN`, {land}, and `faber "
        "sync push RUN`. Then answer: continue."
    )
    prompt = f"{shorten(error.message, MAX_PROMPT - len(how) - 1)} {how}"

    def decide(state: State, plan: Plan) -> Decision:
        if state["status"] == "cancelled" or request_id in _asked(state):
            return []
        reopened: State = {**state, "status": "in_progress"} if state["status"] == "completed" else state
        return open_request(reopened, plan, NewRequest(request_id, "error_resolution", prompt, ("continue", "abort")))

    commit(run.layout, run.run_id, decide, kept.by, known=run)


def was_refused(state: State) -> bool:
    """True if a person was asked about the run's branch: the log says that its commits may be nowhere."""
    return any(request_id.startswith(REFUSED_BRANCH) for request_id in _asked(state))


def _asked(state: State) -> set[str]:
    return {each["request_id"] for each in (*state["feedback_queue"], *state["answers"])}
