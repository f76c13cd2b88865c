"""`faber context`: the context reconstitution protocol as one command."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from faber.console.arguments import format_option, require_person, run_argument
from faber.console.invocation import Invocation
from faber.console.output import print_json, say, spelled, write
from faber.context.assemble import context_warning, reconstitute, with_requests
from faber.context.context_budget import PAGED, SMALLEST_MAX_CHARS, fit
from faber.context.context_document import ConsolidatedContext
from faber.context.context_sources import ContextOptions, ContextSources, settings
from faber.context.questions import check_answers
from faber.context.render import critical, text
from faber.errors import Exit, FaberError, Notice, UsageError
from faber.foreign.resolve import open_named
from faber.github.notifications import tell
from faber.github.work_item_source import open_source
from faber.store.clock import utc_now
from faber.store.config import Config, load_config
from faber.store.load import Run
from faber.text.program_word import respelled
from faber.text.safe_text import inert, redact_json


class ContextArguments(NamedTuple):
    """The options of `faber context`, as click passes them."""

    form: str
    max_chars: int | None
    full: bool
    decisions: tuple[str, ...]
    recording: bool
    no_fetch: bool
    part: str | None
    page: int | None


@click.command()
@run_argument
@format_option
@click.option(
    "--max-chars", type=click.IntRange(SMALLEST_MAX_CHARS), metavar="N", help="Size limit of the JSON. Default: 24000."
)
@click.option("--full", is_flag=True, help="No size limit.")
@click.option(
    "--decide", "decisions", multiple=True, metavar="CODE=OPTION", help="Answer an open decision (people only)."
)
@click.option("--record", "recording", is_flag=True, help="Record that the context was loaded, once a session.")
@click.option(
    "--no-fetch",
    is_flag=True,
    envvar="FABER_NO_FETCH",
    help="Use the saved copy of the work item; so does FABER_NO_FETCH=1.",
)
@click.option("--part", type=click.Choice(PAGED), help="Show this part alone and whole.")
@click.option("--page", type=click.IntRange(1), metavar="N", help="The page of that part. Default: 1.")
@click.pass_obj
def context(obj: Invocation, /, run: str, **given: Any) -> int:
    """Show everything the next session needs to resume RUN.

    Exit status 3 if a person must decide something first: see `decisions`.
    """
    wanted = ContextArguments(**given)
    with critical_in(wanted.form):
        if (wanted.part and (wanted.recording or wanted.decisions)) or (wanted.page and not wanted.part):
            raise UsageError("--page goes with --part, and --part without --record and --decide.")
        return _context(obj, run, wanted)


@contextmanager
def critical_in(form: str) -> Iterator[None]:
    """Print a fatal error in the protocol's pattern, where text is wanted."""
    try:
        yield
    except FaberError as error:
        if form != "text" or error.exit_code != Exit.FAILED:
            raise
        write(spelled(critical(error)))
        raise click.exceptions.Exit(error.exit_code) from error


def _context(obj: Invocation, run: str, wanted: ContextArguments) -> int:
    answers = check_answers(wanted.decisions)
    if answers:
        require_person(obj, "faber context --decide", run)
    config, problems = settings(obj.layout) if not answers else (load_config(obj.layout), ())
    loaded = open_named(obj.layout, run)
    fetch = None if wanted.no_fetch or problems else lambda: open_source(config, obj.layout, os.environ)
    recording = wanted.recording and not problems
    options = ContextOptions(fetch, answers, utc_now(), problems, obj.session_id, recording)
    if wanted.part:
        return _part(obj, wanted, ContextSources(loaded, config, options, [*loaded.notices, *problems]))
    document = reconstitute(loaded, config, options)
    if answers:
        loaded = _decide(obj, loaded, document, answers)
        document = reconstitute(loaded, config, options._replace(work_items=None, now=utc_now()))
    if recording:
        document = _record(obj, loaded, document, options)
    document = respelled(redact_json(document), obj.program)
    if wanted.form == "text":
        write(text(document))
    else:
        print_json(fit(document, _budget(wanted, config), obj.program))
    if document["decisions"]:
        say(f"faber: {len(document['decisions'])} decision(s) needed; see `decisions`.")
        return Exit.PERSON_NEEDED
    return Exit.OK


def _part(obj: Invocation, wanted: ContextArguments, sources: ContextSources) -> int:
    from faber.console.plain import plain
    from faber.context.context_pages import part_page

    budget = _budget(wanted, sources.config)
    page = part_page(sources, wanted.part or "", wanted.page or 1, budget, obj.program)
    if wanted.form == "text":
        write(inert(plain(page)))
    else:
        print_json(page)
    return Exit.OK


def _budget(wanted: ContextArguments, config: Config) -> int | None:
    configured: int = config.at("context.max_chars")
    return None if wanted.full else wanted.max_chars or configured


def _decide(obj: Invocation, run: Run, document: ConsolidatedContext, answers: dict[str, str]) -> Run:
    from faber.context.recording import record_decisions
    from faber.feedback.responder import terminal_responder

    return record_decisions(run, document, answers, obj.writer, terminal_responder(obj.layout.root))


def _record(obj: Invocation, run: Run, document: ConsolidatedContext, options: ContextOptions) -> ConsolidatedContext:
    """The document after the loading was recorded and its open decisions were put to people."""
    from faber.context.recording import record_loaded

    recorded = record_loaded(run, document, obj.writer)
    if isinstance(recorded, Notice):
        notices = [recorded]
    else:
        report, run = tell(obj.layout, recorded), recorded.run
        notices = list(report.warnings) if report else []
        if obj.is_agent:
            from faber.agents.sandbox import git_notice

            notices += git_notice(os.environ, obj.layout.root)
    if document["decisions"]:
        document = with_requests(document, run, options)
    return {**document, "warnings": [*document["warnings"], *map(context_warning, notices)]}
