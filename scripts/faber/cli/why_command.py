"""`faber why`: what the next session would be given, and why."""

import click

from faber.console.arguments import format_choice, run_argument
from faber.console.invocation import Invocation
from faber.console.output import columns, print_answer
from faber.context.assemble import reconstitute
from faber.context.context_budget import SMALLEST_MAX_CHARS, fit
from faber.context.context_sources import ContextOptions, settings
from faber.context.what_next import what_next
from faber.context.why import explain, explanation_text
from faber.foreign.resolve import open_named
from faber.hooks.lines import dropped, size
from faber.hooks.session_brief import FULL, brief
from faber.store.clock import utc_now
from faber.text.program_word import respelled
from faber.text.safe_text import redact_json


@click.command()
@run_argument
@click.option(
    "--max-chars", type=click.IntRange(SMALLEST_MAX_CHARS), metavar="N", help="As if the context had this limit."
)
@format_choice("json", "text", default="text")
@click.pass_obj
def why(obj: Invocation, run: str, max_chars: int | None, form: str) -> None:
    """Show what the next session of RUN would be given, and why.

    Each source with its characters before and after cutting, what was left out, and the events that decided where the
    run resumes. Nothing is changed or fetched: of a work item the saved copy counts.
    """
    config, problems = settings(obj.layout)
    made = open_named(obj.layout, run)
    options = ContextOptions(None, {}, utc_now(), problems, obj.session_id)
    whole = respelled(redact_json(reconstitute(made, config, options)), obj.program)
    budget: int = max_chars or config.at("context.max_chars")
    said = brief(made.state, made.plan, obj.program, limit=FULL, action=what_next(made, obj.session_id))
    answer = explain(
        made,
        whole,
        fit(whole, budget, obj.program),
        budget,
        {"max_chars": FULL, "given": size(said), "dropped_lines": dropped(said)},
    )
    print_answer(redact_json(answer), form, lambda shown: explanation_text(shown, columns()))
