"""The comments that faber posts on an issue: a request, a run's progress, a reply to a refused command.

Text from elsewhere (prompts, context, errors, names) is set as code and has no effect: no mention notifies anybody, no
number becomes a link, no image loads, and no command counts. Every comment passes through `outbound` before it is
posted. Pure, but for `Board`.
"""

import re
import textwrap
from collections.abc import Iterable
from typing import NamedTuple, TypedDict

from faber.feedback.answer_matching import read_answer
from faber.github.comment_parser import ANSWERING, REACTIONS, WHOLE
from faber.model.answers import FREE_TEXT
from faber.model.documents import State
from faber.model.model_errors import NotAnOption
from faber.model.state_parts import FeedbackRequest
from faber.sources.work_items import Commenting, PostedComment, WorkItemNetworkError
from faber.store.catalog import pull_request_of
from faber.text.safe_text import inert, shorten, without

MAX_COMMENT = 65_536
WIDTH = 76
MAX_CONTEXT = 600
_OWN = ("artifacts", "gate", "waive", "question")


class Links(NamedTuple):
    """Where the run's files are on the web: the repository's address, and a branch or None."""

    repository: str
    branch: str | None


# --- what goes out ---------------------------------------------------------------------------------


def hidden(text: str, secrets: Iterable[str]) -> str:
    """`text` made inert, without these secrets and anything that looks like a credential."""
    return without(inert(text), secrets)


def outbound(text: str, secrets: Iterable[str]) -> str:
    """A comment as it may be posted: `hidden`, and at most GitHub's 65,536 characters.

    A longer one (this module writes none) is cut and set as code; its last line, the marker, is kept.
    """
    text = hidden(text, secrets)
    if len(text) <= MAX_COMMENT:
        return text
    body, _, marker = text.rpartition("\n")
    return f"{quoted(shorten(body, MAX_COMMENT // 4))}\n\n{shorten(marker, 1_000)}"


def quoted(text: str) -> str:
    """Untrusted text as a code block, wrapped for a small screen, with a fence longer than any in the text."""
    lines = []
    for line in inert(text).strip("\n").split("\n"):
        wrapped = textwrap.wrap(line, WIDTH, replace_whitespace=False, drop_whitespace=False, break_long_words=False)
        lines += [part.strip() if number else part.rstrip() for number, part in enumerate(wrapped)] or [""]
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=2) + 1)
    fence = fence if len(fence) >= 3 else "```"
    return "\n".join([f"{fence}text", *lines, fence])


def code(text: str) -> str:
    """Untrusted text as inline code."""
    plain = " ".join(inert(text).replace("`", "'").split())
    return f"`{shorten(plain, 300) or ' '}`"


# --- a request -------------------------------------------------------------------------------------


def request_marker(request_id: str) -> str:
    """The marker that identifies a request's comment."""
    return f"<!-- faber:request {safe_name(request_id)} -->"


def request_comment(request: FeedbackRequest, run_id: str, links: Links | None, mention: str) -> str:
    """The question, its context, what to look at, how to answer (beginning with `mention`), and the marker as the last
    line."""
    place = ":".join(part for part in request["resume_point"].values() if isinstance(part, str))
    parts = [
        f"**faber asks**{' at ' + code(place) if place else ''} ({request['type'].replace('_', ' ')})",
        quoted(request["prompt"]),
    ]
    context = request["context"]
    why = [f"{key}: {shorten(str(value), MAX_CONTEXT)}" for key, value in context.items() if key not in _OWN]
    if why:
        parts += ["Why:", quoted("\n".join(why))]
    artifacts = context.get("artifacts")
    if isinstance(artifacts, list) and artifacts:
        parts += ["To look at:", "\n".join(f"- {_link(str(path), links)}" for path in artifacts)]
    parts.append("To answer, write a comment that starts with one of these lines:")
    parts += [f"```text\n{line}\n```" for line in commands(request, mention)]
    if signs := _signs(request):
        means = ", ".join(f"{sign} means {code(option)}" for sign, option in signs)
        parts.append(f"Or react to this comment: {means}. Reactions are read from time to time, comments at once.")
    parts.append(f"{_further(request, mention)} Only answers from people with write access to this repository count.")
    parts += [f"Run {code(run_id)}", request_marker(request["request_id"])]
    return "\n\n".join(parts)


def _further(request: FeedbackRequest, mention: str) -> str:
    """How to add a remark. After `answer`, the rest of the line is the answer itself."""
    if request["type"] == FREE_TEXT:
        return "The answer may continue on the following lines."
    verbs = {line.split()[1] for line in commands(request, mention)}
    if verbs == {"answer"}:
        return "Add remarks on the following lines."
    if "answer" in verbs:
        return "Add remarks after it: for `answer` on the following lines, otherwise on the same line."
    below = " The changes you ask for may continue on the following lines." if verbs & set(WHOLE) else ""
    return f"Remarks on the same line are recorded with the answer.{below}"


def _signs(request: FeedbackRequest) -> list[tuple[str, str]]:
    """The signs of `REACTIONS` that answer `request`, and with what."""
    found = []
    for sign, word in REACTIONS.values():
        try:
            if request["type"] != FREE_TEXT:
                found.append((sign, read_answer(request, word).option))
        except NotAnOption:
            continue
    return found


def commands(request: FeedbackRequest, mention: str) -> list[str]:
    """The answers to `request` as lines to copy."""
    named = request["request_id"]
    if request["type"] == FREE_TEXT:
        return [f"{mention} answer {named} YOUR ANSWER"]
    return [
        f"{mention} {option} {named}"
        if option in ANSWERING and option != "answer"
        else f"{mention} answer {named} {option}"
        for option in request["options"]
    ]


def _link(path: str, links: Links | None) -> str:
    if links is None or links.branch is None:
        return code(path)
    from urllib.parse import quote

    return f"[{code(path)}]({links.repository}/blob/{quote(links.branch)}/{quote(path)})"


# --- a run's progress ------------------------------------------------------------------------------

_SIGNS = {"completed": "done", "skipped": "skipped", "failed": "failed", "in_progress": "in progress", "pending": "-"}
MAX_PHASES = 200


def progress_marker(run_id: str) -> str:
    """The marker that identifies a run's progress comment."""
    return f"<!-- faber:progress {safe_name(run_id)} -->"


def progress_comment(state: State, resume: str | None = None) -> str:
    """The run's progress, phase by phase, and the marker as the last line. `resume` is the comment that lets an agent
    continue it, where nobody does and one could."""
    rows = ["| phase | | steps |", "|---|---|---|"]
    for name, phase in list(state["phases"].items())[:MAX_PHASES]:
        done = sum(step["status"] in ("completed", "skipped") for step in phase["steps"].values())
        rows.append(f"| {code(name)} | {_SIGNS[phase['status']]} | {done} of {len(phase['steps'])} |")
    status = state["status"].replace("_", " ")
    parts = [f"**faber**: the run is {status}.", "\n".join(rows)]
    url = pull_request_of(state)
    if _WEB.fullmatch(url):
        parts.append(f"Its pull request: {url}")
    if resume:
        parts.append(f"Steps are left. To let an agent continue, write a comment: {code(resume)}")
    if asked := state["feedback_request"]:
        posted = asked["notification_sent"].get("comment_url")
        where = f" ({posted})" if isinstance(posted, str) and _WEB.fullmatch(posted) else ""
        parts.append(f"It waits for an answer to {code(asked['request_id'])}{where}.")
    if state["error"]:
        parts += ["It stopped:", quoted(shorten(str(state["error"].get("message", "")), 1_000))]
    parts += [f"Run {code(state['run_id'])}", progress_marker(state["run_id"])]
    return "\n\n".join(parts)


_WEB = re.compile(r"https?://[A-Za-z0-9./?#=&_:%~-]{1,400}")

# --- a reply ---------------------------------------------------------------------------------------


def reply_comment(words: str, to: str) -> str:
    """A reply to a comment or review, with nothing quoted from it; `to` tells replies apart."""
    return f"{words}\n\n<!-- faber:reply {safe_name(to)} -->"


def safe_name(name: str) -> str:
    """A name that cannot end the HTML comment around it, and that is not redacted as a credential."""
    return re.sub(r"[^A-Za-z0-9._/-]", "_", name).replace("--", "-%2D")


# --- posting once ----------------------------------------------------------------------------------


class Board(NamedTuple):
    """The comments of one issue. Posting the same text again posts nothing new. `secrets` are never posted."""

    source: Commenting
    work_id: str
    secrets: Iterable[str]

    def post(self, text: str, *, perhaps_posted: bool) -> PostedComment:
        """Post `text`, whose last line is its marker; returns the comment, or the one that was posted before.

        `perhaps_posted`: an earlier attempt may have been killed after posting, so search the issue first. Raises
        `WorkItemError`.
        """
        body = outbound(text, self.secrets)
        marker = body.rpartition("\n")[2]
        if perhaps_posted and (found := self._own(marker)):
            return found
        try:
            return self.source.post_comment(self.work_id, body)
        except WorkItemNetworkError as error:
            if not error.fields.get("uncertain"):
                raise
            if found := self._own(marker):
                return found
            raise

    def edit(self, comment_id: int, text: str) -> PostedComment:
        """Replace the text of a comment of faber's own; raises `WorkItemError`."""
        return self.source.edit_comment(comment_id, outbound(text, self.secrets))

    def _own(self, marker: str) -> PostedComment | None:
        """The first comment by faber's own account that ends with `marker`; anybody else could write one too."""
        marked = [comment for comment in self.source.comments(self.work_id) if _marked(comment.body, marker)]
        if not marked:
            return None
        account = self.source.account()
        return next((comment for comment in marked if comment.author == account), None)


def _marked(body: str, marker: str) -> bool:
    return body.rstrip().rpartition("\n")[2].strip() == marker


class CommentReference(TypedDict):
    """How an event names a posted comment."""

    comment_id: int
    comment_url: str | None


def notification(posted: PostedComment) -> CommentReference:
    """The reference that an event keeps to a posted comment."""
    url = posted.url if 0 < len(posted.url) <= 500 and inert(posted.url) == posted.url else None
    return {"comment_id": posted.id, "comment_url": url}
