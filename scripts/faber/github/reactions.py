"""Reactions to the comments with which faber posted its requests: 👍 says `yes` to a request, 👎 says `no`.

GitHub sends no event for a reaction, so they are read on a schedule. A reaction counts under the checks of a comment:
the API says who reacted, whether that is a person who may answer, and when; and the comment has to be the one that
faber posted for the request. The request's options and the words of the terminal decide what `yes` means.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from faber.feedback.permission import permission_problem
from faber.foreign.run_rows import active_runs
from faber.github.api_responses import PER_PAGE
from faber.github.binding import written_before
from faber.github.comment_events import REACTION, Account, NewComment
from faber.github.comment_parser import REACTIONS
from faber.github.issues import ACTIONS_LOGIN
from faber.github.posting import request_marker
from faber.model.state_parts import FeedbackRequest
from faber.sources.work_items import Commenting, PostedComment, Reaction, WorkItemInvalid, WorkItemNotFound
from faber.store.layout import Layout
from faber.store.load import Run

# A workflow's token has 1,000 calls in an hour, for all jobs of the repository.
MOST_CALLS = 60
MOST_PEOPLE = 20  # to one request


class Reacted(NamedTuple):
    """What the reactions to one open request say: `said` is the first that counts, and `word` what it says.

    With `problem`, `contradictory_reactions` or `too_many_reactions`, nothing is said.
    """

    run: Run
    request: FeedbackRequest
    said: NewComment
    word: str
    problem: str | None = None


Outcome = Mapping[str, object]


class _Exhausted(Exception):
    """No more calls may be made this time."""


def read_reactions(source: Commenting, layout: Layout, take: Callable[[Reacted], Outcome]) -> Outcome:
    """Read the reactions to open requests, in `MOST_CALLS` calls, until `take` has recorded what people say to a run.

    Returns the outcome that `take` recorded last, else the first one, with `runs_left`, how many runs were not looked
    at. Raises `WorkItemError` and what `take` raises.
    """
    runs = [run for run in active_runs(layout) if not run.foreign and _number(run).isdecimal() and _posted(run)]
    # Each time from another one on: what is left out this time is read another time.
    first = random.randrange(len(runs)) if runs else 0
    reader, left = _Reader(source), len(runs)
    taken: list[Outcome] = []
    try:
        for run in [*runs[first:], *runs[:first]]:
            taken += map(take, reader.read(run))
            left -= 1
            if any(outcome["result"] == "recorded" for outcome in taken):
                break
    except _Exhausted:
        pass
    recorded = [outcome for outcome in taken if outcome["result"] == "recorded"]
    told = next(iter([*reversed(recorded), *taken]), {"result": "ignored", "reason": "no_reaction"})
    return {**told, "runs_left": left}


class _Reader:
    """Reads reactions to requests of runs; raises `_Exhausted` where that would take one call too many."""

    def __init__(self, source: Commenting) -> None:
        self._source = source
        self._left = MOST_CALLS
        self._host, _, self._repository = source.web().removeprefix("https://").partition("/")
        self._allowed: dict[str, bool] = {}

    def read(self, run: Run) -> Iterator[Reacted]:
        """What people say to the requests of a run, where they say anything."""
        for request in _posted(run):
            try:
                found = self._read(run, request)
            except WorkItemNotFound:
                continue  # somebody deleted the comment
            if found:
                yield found

    def _read(self, run: Run, request: FeedbackRequest) -> Reacted | None:
        comment_id = request["notification_sent"]["comment_id"]
        self._call()
        listed = self._source.reactions(comment_id)
        meant = [
            each
            for each in listed
            if each.content in REACTIONS
            and each.author_type == "User"
            and not written_before(request, None, each.created_at)
        ]
        if not meant:
            return None
        self._call()
        comment = self._source.comment(comment_id)
        if not self._is_ours(comment, request):
            return None
        many = len(listed) >= PER_PAGE or len({each.author for each in meant}) > MOST_PEOPLE
        # Outsiders can react, too, and each of them would cost a call.
        counted = meant if many else [each for each in meant if self._may_answer(each.author)]
        if not counted:
            return None
        problem = "contradictory_reactions" if len({each.content for each in counted}) > 1 else None
        first = min(counted, key=lambda each: each.id)
        said = self._as_comment(run, comment, first)
        return Reacted(run, request, said, REACTIONS[first.content][1], "too_many_reactions" if many else problem)

    def _is_ours(self, comment: PostedComment, request: FeedbackRequest) -> bool:
        """True if faber posted this comment for the request: with the credential in use, in a job, or for a person who
        may answer."""
        if comment.body.rstrip().rpartition("\n")[2] != request_marker(request["request_id"]):
            return False
        if comment.author == ACTIONS_LOGIN:
            return True
        self._call()
        return comment.author == self._source.account() or self._may_answer(comment.author)

    def _may_answer(self, login: str) -> bool:
        if login not in self._allowed:
            self._call()
            try:
                self._allowed[login] = permission_problem(self._source.permission(login), login) is None
            except (WorkItemInvalid, WorkItemNotFound):
                self._allowed[login] = False
        return self._allowed[login]

    def _call(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Exhausted

    def _as_comment(self, run: Run, comment: PostedComment, reaction: Reaction) -> NewComment:
        """The reaction as if it were a comment on the run's issue."""
        account = Account(reaction.author, reaction.author_type)
        return NewComment(
            event=REACTION,
            state="",
            on_pull_request=False,
            repository=self._repository,
            host=self._host,
            number=int(_number(run)),
            comment_id=reaction.id,
            body="",
            author=account,
            sender=account,
            app=False,
            edited=False,
            created_at=reaction.created_at,
            url=comment.url,
        )


def _posted(run: Run) -> list[FeedbackRequest]:
    return [
        asked for asked in run.state["feedback_queue"] if isinstance(asked["notification_sent"].get("comment_id"), int)
    ]


def _number(run: Run) -> str:
    return (run.state["work_id"] or "").removeprefix("#")
