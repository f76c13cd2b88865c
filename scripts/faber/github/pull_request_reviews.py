"""What a review of the run's pull request says to faber.

Approving answers `approve`, requesting changes `request_changes` with the review's words and its comments on lines. A
command in the review's text counts like one in a comment, unless it says something else than the review.
"""

from faber.feedback.answer_matching import APPROVING
from faber.github.comment_events import NewComment
from faber.github.comment_parser import MAX_TEXT, Ambiguous, CommentCommand, Ignored, parse_comment
from faber.sources.work_items import LineComment
from faber.text.safe_text import shorten

VERBS_OF_STATES = {"approved": "approve", "changes_requested": "request_changes"}
# A review is about the work: it answers these, and never a question of another kind that happens to be open.
ANSWERED = ("approval", "review")
MOST_LINES = 50


def said_in(comment: NewComment, mention: str) -> CommentCommand | Ignored | Ambiguous:
    """What the comment or review says to faber."""
    found = parse_comment(comment.body, mention)
    verb = VERBS_OF_STATES.get(comment.state)
    if verb is None:
        return found
    if isinstance(found, Ignored) and found.reason in ("no_command", "hidden"):
        words = comment.body.strip()
        return CommentCommand(verb, None, shorten(words, MAX_TEXT) if words else None, 1)
    if isinstance(found, CommentCommand):
        same = found.verb == verb or (verb == "approve" and found.verb in APPROVING)
        return found if same else Ambiguous([found.line])
    return found


def with_lines(text: str, comments: list[LineComment]) -> str:
    """The text of a review followed by its comments on lines, as many as an answer may be long."""
    shown = [f"{each.path}{f':{each.line}' if each.line else ''}: {each.body.strip()}" for each in comments]
    return shorten("\n".join(part for part in (text, *shown[:MOST_LINES]) if part), MAX_TEXT)
