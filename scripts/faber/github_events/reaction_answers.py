"""Answers by reactions to requests, which a schedule reads."""

import os
from collections.abc import Mapping
from typing import cast

from faber.github.binding import BoundCommand
from faber.github.comment_parser import CommentCommand
from faber.github.reactions import Reacted, read_reactions
from faber.github.refusal_replies import post_reply
from faber.github.work_item_source import open_commenting
from faber.github_events.check_failures import RepositoryApi
from faber.github_events.comment_command import Arrival, listening, record_answer
from faber.github_events.ended_pulls import record_ended_pulls
from faber.github_events.event_refusals import Refusal
from faber.store.layout import Layout


def handle_schedule(layout: Layout) -> Mapping[str, object]:
    """Take what people say by reactions to requests, of which GitHub tells nobody; if nobody says anything, what
    happened to a run's pull request."""
    config = listening(layout)
    source = open_commenting(config, layout, os.environ)

    def take(reacted: Reacted) -> Mapping[str, object]:
        arrival, (run, request) = Arrival(layout, config, source, reacted.said), reacted[:2]
        try:
            if reacted.problem:
                named = {"run_id": run.run_id, "request_id": request["request_id"], "options": request["options"]}
                raise Refusal("ambiguous", reacted.problem, **named)
            command = CommentCommand(reacted.word, None, None, 1)
            return record_answer(arrival, command, BoundCommand(run.state, request), run)
        except Refusal as refusal:
            if config.at("feedback.post_refusals"):
                refusal.outcome |= post_reply(source, reacted.said, refusal.outcome, mention=arrival.mention)
            return refusal.outcome

    outcome = read_reactions(source, layout, take)
    if outcome["result"] == "recorded":
        return outcome
    ended = record_ended_pulls(cast(RepositoryApi, source), source.web(), layout)
    return {**ended, "runs_left": outcome["runs_left"]} if ended else outcome
