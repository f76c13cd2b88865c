"""The report as one HTML page: no request to any other place, and only the style and the script that it came with.

The page's policy names both by their digests, so that nothing in a run's texts can run, load or send anything, even if
it were not escaped.
"""

import os
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256

from faber import __version__
from faber.events.event_types import PR_CREATE
from faber.report.charts import findings_section, money_section
from faber.report.elements import Markup, element, link, together
from faber.report.facts import RunReport
from faber.report.graph_chart import graph_section
from faber.report.page_sections import (
    commits_section,
    log_section,
    people_section,
    phases_section,
    status_of,
    unproven_section,
)
from faber.report.summary import summary_of
from faber.report.timeline_chart import timeline_section
from faber.report.wording import day_and_time
from faber.text.safe_text import one_line

GENERATOR = "faber report"
_TITLE = 200
SECTIONS: tuple[tuple[str, str, Callable[[RunReport], Markup]], ...] = (
    ("timeline", "Timeline", timeline_section),
    ("graph", "Graph", graph_section),
    ("phases", "Phases", phases_section),
    ("findings", "Findings over cycles", findings_section),
    ("money", "Money and tokens", money_section),
    ("people", "Decisions and answers", people_section),
    ("commits", "Commits", commits_section),
    ("unproven", "Not proven or skipped", unproven_section),
    ("log", "Log", log_section),
)


def page_of(report: RunReport) -> str:
    """The whole page."""
    title = one_line(report.asked.title, _TITLE) or report.view.run_id
    style, script = _file("report.css"), _file("report.js")
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"{GENERATOR} {__version__}"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – {report.view.run_id}"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        _header(report, title),
        element("main", _summary(report), *(_section(report, *each) for each in SECTIONS)),
        _footer(report),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8", newline="") as file:
        return file.read()


def _header(report: RunReport, title: str) -> Markup:
    view = report.view
    opened = [event for event in report.events if event["type"] == PR_CREATE]
    urls = [str((event.get("metadata") or {}).get("url", "")) for event in opened]
    about = [f"Run {view.run_id}", f"workflow {view.workflow_id}", f"branch {view.branch}" if view.branch else ""]
    about += ["of another tool, read as it is"] if view.foreign else []
    entries = [element("li", element("a", name, href=f"#{place}")) for place, name, _ in SECTIONS]
    return element(
        "header",
        element("h1", title),
        element("p", status_of(view.status)),
        element("p", " · ".join(part for part in about if part), class_="about"),
        element("p", "Next: ", element("code", view.next_command), class_="about") if view.ended_at is None else None,
        *(element("p", "Pull request: ", link(url, url), class_="about") for url in dict.fromkeys(urls)),
        element("nav", element("ul", *entries), aria_label="Sections"),
    )


def _summary(report: RunReport) -> Markup:
    lines = [element("div", element("dt", line.name), element("dd", line.text)) for line in summary_of(report)]
    return element(
        "section",
        element("h2", "Summary", id="summary", tabindex=-1),
        element("dl", *lines, class_="summary"),
        aria_labelledby="summary",
    )


def _section(report: RunReport, place: str, name: str, content: Callable[[RunReport], Markup]) -> Markup:
    heading = element("h2", name, id=place, tabindex=-1)
    return element("section", heading, content(report), aria_labelledby=place)


def _footer(report: RunReport) -> Markup:
    said = f"Made by faber {__version__} on {day_and_time(report.now)}, from {report.view.last_event_id:,} events. "
    return element("footer", together([said, "Times are UTC. Credentials are left out, long texts cut."]))
