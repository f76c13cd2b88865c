"""The page of a run: well-formed, self-contained, safe whatever a run's texts say, readable by everybody."""

import os
import re
from base64 import b64encode
from collections import Counter
from functools import cache
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.foreign.open_run import open_run
from faber.report.charts import cycles_of
from faber.report.elements import element, link
from faber.report.graph_chart import direct_needs
from faber.report.page import page_of
from faber.report.read_report import commits_of, read_report
from faber.report.report_file import NotAReport, report_path, write_report
from faber.report.summary import summary_of
from faber.report.timeline_chart import timeline_section
from faber.report.wording import dollars
from faber.store.layout import Layout
from faber.view.timeline import Timeline, TimeSpan
from faber.view.tree_text import count_text, money_text
from support.busy_nebula import HOSTILE, RUN_ID, busy_nebula, numbered
from support.examples import examples
from support.long_run import long_run
from support.repositories import git, repository

NOW = "2026-11-22T00:00:00.000Z"
REPORT = Path(__file__).resolve().parents[2] / "scripts" / "faber" / "report"
VOID = {"meta", "br", "input"}


class Tag(NamedTuple):
    """A tag with its attributes and its depth."""

    name: str
    attributes: dict[str, str | None]
    depth: int


class Read(HTMLParser):
    """A page as a strict reader sees it: every tag is closed, in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[Tag] = []
        self.texts: list[str] = []
        self.raw: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), attrs
        self.tags.append(Tag(tag, dict(attrs), len(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(Tag(tag, dict(attrs), len(self.open)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.raw[self.open[-1]] = self.raw.get(self.open[-1], "") + data
        else:
            self.texts.append(data)

    def named(self, *names: str) -> list[Tag]:
        return [tag for tag in self.tags if tag.name in names]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of the busy nebula, with ordinary texts and with hostile ones."""
    found = {}
    for name, text in (("plain", " and so on"), ("hostile", HOSTILE), ("long", "<b>" + "x" * 5_000)):
        run = busy_nebula(tmp_path_factory.mktemp(name), text=text)
        found[name] = page_of(read_report(run, NOW))
    return found


# --- what the page is ------------------------------------------------------------------------------


def test_the_page_needs_nothing_else(pages: dict[str, str]) -> None:
    """Nothing in the page loads anything: no address but in links, no style or handler in an element."""
    read = Read(pages["plain"])
    for tag in read.tags:
        assert not {"src", "style", "action", "srcset", "poster"} & tag.attributes.keys(), tag
        assert not [name for name in tag.attributes if name.startswith("on")], tag
        if "href" in tag.attributes:
            assert tag.name == "a"
            assert (tag.attributes["href"] or "").startswith(("#", "https://", "http://"))
    assert not read.named("link", "img", "iframe", "object", "embed", "base", "use", "image")
    assert "url(" not in read.raw["style"]
    assert "@import" not in read.raw["style"]


def test_the_policy_names_the_style_and_the_script(pages: dict[str, str]) -> None:
    """The content-security policy forbids everything but the page's own style and script, by their digests."""
    read = Read(pages["hostile"])
    (policy,) = [tag.attributes["content"] for tag in read.tags if "http-equiv" in tag.attributes]
    digests = {name: b64encode(sha256(read.raw[name].encode()).digest()).decode() for name in ("style", "script")}
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digests['style']}'; script-src 'sha256-{digests['script']}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    assert [len(read.named(name)) for name in ("script", "style")] == [1, 1]
    assert not re.search(r"\.(innerHTML|outerHTML|insertAdjacentHTML|write)\b|eval\(|fetch\(", read.raw["script"])


@pytest.mark.parametrize("name", ["hostile", "long"])
def test_no_text_becomes_markup(pages: dict[str, str], name: str) -> None:
    """With hostile texts in every place the page has the same elements and attributes as with ordinary ones."""
    told, plain = Read(pages[name]), Read(pages["plain"])
    assert [(t.name, t.depth, set(t.attributes)) for t in told.tags] == [
        (t.name, t.depth, set(t.attributes)) for t in plain.tags
    ]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", pages[name])
    assert len(pages[name]) < 2 * len(pages["plain"])
    if name == "hostile":
        assert any("</script><script>alert(1)" in text for text in told.texts)


@settings(max_examples=examples(25, 60))
@given(st.text(), st.text())
def test_whatever_is_put_into_an_element_is_text(text: str, value: str) -> None:
    """An element's text and its attributes are read back as text, and nothing else."""
    read = Read(element("p", text, title=value))
    assert [tag.name for tag in read.tags] == ["p"]
    assert set(read.tags[0].attributes) == {"title"}


def test_a_line_of_a_megabyte_is_cut() -> None:
    """A text is shown up to a bound, and says how much is missing; it is not searched as a whole."""
    shown = element("p", "<" * 1_000_000)
    assert len(shown) < 9_000
    assert "more characters]" in shown


@pytest.mark.parametrize("name", ["onclick", "style", "src", "formaction", "on load", 'a"b'])
def test_an_attribute_that_runs_or_loads_is_refused(name: str) -> None:
    """No code of the report can write an attribute that runs or loads something."""
    with pytest.raises(ValueError, match="may not"):
        element("p", **{name: "x"})


@pytest.mark.parametrize(
    "target", ["javascript:alert(1)", "data:text/html,x", "//x", "file:///etc", "https://a b", " #x"]
)
def test_only_links_to_the_web_are_links(target: str) -> None:
    """An address of any other kind is shown as text."""
    assert link(target, target).count("<a") == 0
    with pytest.raises(ValueError, match="may not"):
        element("a", "x", href=target)
    assert 'href="https://example.org/1"' in link("1", "https://example.org/1")


def test_credentials_do_not_leave(tmp_path: Path) -> None:
    """What looks like a credential is not in the page, whoever wrote it into the log."""
    secret = "ghp_" + "a1" * 18
    assert secret not in page_of(read_report(busy_nebula(tmp_path, text=f" {secret}"), NOW))


# --- people ----------------------------------------------------------------------------------------


def test_everything_has_a_name(pages: dict[str, str]) -> None:
    """Ids are unique, headings are in order, pictures, regions and controls have names, references lead somewhere."""
    read = Read(pages["plain"])
    ids = [tag.attributes["id"] for tag in read.tags if "id" in tag.attributes]
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    assert [tag.name for tag in read.named("h1", "h2", "h3")] == ["h1", *["h2"] * 10]
    for tag in read.tags:
        for key in ("aria-labelledby", "for"):
            assert set((tag.attributes.get(key) or "").split()) <= set(ids)
        if (tag.attributes.get("href") or "").startswith("#"):
            assert (tag.attributes["href"] or "")[1:] in ids
        if tag.attributes.get("role") in ("img", "region"):
            assert tag.attributes.get("aria-label")
        if tag.name == "svg":
            assert tag.attributes.get("role") == "img" or tag.attributes.get("aria-hidden") == "true"
        if tag.attributes.get("class") == "scroll":
            assert tag.attributes.get("tabindex") == "0"
    labels = [tag.depth for tag in read.named("label")]
    assert [tag.depth - 1 for tag in read.named("input", "select")] == labels
    assert read.named("html")[0].attributes == {"lang": "en"}
    assert len(read.named("main")) == len(read.named("nav")) == 1


def test_without_scripts_everything_is_there(pages: dict[str, str]) -> None:
    """The filter is hidden until the script shows it, and every event is in the page."""
    read = Read(pages["plain"])
    assert [tag.attributes["id"] for tag in read.tags if "hidden" in tag.attributes] == ["filter", "none"]
    rows = [tag.attributes["value"] for tag in read.named("li") if "value" in tag.attributes]
    assert rows == [str(number) for number in range(1, 258)]


def _colours(block: str) -> dict[str, tuple[float, float, float]]:
    found = re.findall(r"--(\w+): #([0-9a-f]{6});", block)
    return {name: tuple(int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)) for name, code in found}  # type: ignore[misc]


@cache
def themes() -> dict[str, dict[str, tuple[float, float, float]]]:
    """The colours of each theme, from the style itself."""
    style = (REPORT / "report.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return dict(zip(("light", "dark", "print"), map(_colours, blocks), strict=True))


def _luminance(colour: tuple[float, float, float]) -> float:
    parts = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """The contrast of two colours as WCAG 2 defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_contrast(theme: str) -> None:
    """Text has the contrast of WCAG AA on every surface (4.5), and what is drawn has 3 on the page."""
    colours = themes()[theme]
    text = {"text", "quiet", "link", "good", "bad", "wait", "now"}
    drawn = set(colours) - text - {"page", "raised", "line", "phase"}
    assert len(drawn) >= 11
    low = {
        (name, place, round(found, 2))
        for name in text
        for place in ("page", "raised")
        if (found := contrast(colours[name], colours[place])) < 4.5
    }
    low |= {(name, "page", round(c, 2)) for name in drawn if (c := contrast(colours[name], colours["page"])) < 3}
    low |= {("inner", "phase", round(c, 2)) for c in [contrast(colours["inner"], colours["phase"])] if c < 3}
    assert low == set()
    assert colours.keys() == themes()["light"].keys()


def test_motion_print_and_schemes() -> None:
    """The style answers to people who want less motion, a dark scheme, and paper."""
    style = (REPORT / "report.css").read_text()
    for wanted in ("prefers-reduced-motion: reduce", "prefers-color-scheme: dark", "@media print", ":focus-visible"):
        assert wanted in style
    assert "animation" not in style
    assert "transition" not in style


# --- what it says ----------------------------------------------------------------------------------


def test_ten_lines_say_what_came_of_it(tmp_path: Path) -> None:
    """At most ten lines, each with what its name promises, in any state of a run."""
    lines = {line.name: line.text for line in summary_of(read_report(busy_nebula(tmp_path), NOW))}
    assert len(lines) == 10
    assert lines["Asked"].startswith("Checkout (nebula plan). A shop whose checkout")
    assert lines["Result"] == "Completed."
    assert lines["Progress"] == "12 of 12 phases done."
    assert lines["Time"] == (
        "7 h 49 min from 2026-11-18 09:00 to 16:49 (UTC); waited 90 min for people and 45 min for the service."
    )
    assert lines["Failures"] == "1 failure, 2 failed checks; 1 of 1 healed."
    assert lines["People"] == "Asked 1 time, 1 answered; 1 decision recorded."


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        ("workflow_start", "In progress."),
        ("turns_refused", "Waits for the service until 2026-11-18 12:30: You've hit your session limit."),
        ("feedback_request", "Waits for a person since 2026-11-18 12:22: Phase taxes is approved. Merge it?"),
    ],
)
def test_an_unfinished_run_says_what_it_waits_for(tmp_path: Path, newest: str, said: str) -> None:
    """A run that is not over has its page too, and says first what it waits for."""
    last = next(event["event_id"] for event in numbered(RUN_ID, 0) if event["type"] == newest)
    report = read_report(busy_nebula(tmp_path, last), NOW)
    assert {line.name: line.text for line in summary_of(report)}["Result"] == said
    assert Read(page_of(report)).texts


def test_the_figures_are_the_views(tmp_path: Path) -> None:
    """Money, tokens, turns, times and findings in the page are those of the view that every command shows."""
    report = read_report(busy_nebula(tmp_path), NOW)
    view, money = report.view, report.view.money
    assert report.spending.total == money
    texts = " ".join(Read(page_of(report)).texts)
    for figure in (
        dollars(money.cost_usd),
        count_text(money.tokens_in),
        count_text(money.tokens_out),
        f"{money.turns} turns",
    ):
        assert figure in texts
    phases = report.spending.by_phase()
    for phase in view.phases:
        assert sum(part.cost_usd for part in phases[phase.id].values()) == pytest.approx(phase.money.cost_usd)
        assert sum(part.turns for part in phases[phase.id].values()) == phase.money.turns
        last = cycles_of(report.events)[phase.id]
        assert last[max(last)][0] == phase.findings


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """An event that is damaged is left out of the page, which says so instead of failing."""
    run = busy_nebula(tmp_path, 60)
    (Path(run.directory) / "events" / "000012-agent_turn.json").write_text("{")
    report = read_report(run, NOW)
    assert len(report.events) == 59
    assert {line.name: line.text for line in summary_of(report)}["Not proven"] == "1 problem in the record: see below."
    assert "Event file 000012-agent_turn.json cannot be read" in " ".join(Read(page_of(report)).texts)


def test_a_work_item_in_a_file_is_what_was_asked(tmp_path: Path) -> None:
    """A workflow's run shows its work item's title and text, and its failures in words."""
    report = read_report(long_run(tmp_path), NOW)
    assert (report.asked.source, report.asked.text[:4]) == ("work item 7", "#300")
    texts = Read(page_of(report)).texts
    assert "Waits and failures in words (12)" in texts
    assert texts.count("build failed") == 12
    assert "Not measured" in " ".join(texts)


def test_nobody_knows_what_a_turn_without_a_price_cost(tmp_path: Path) -> None:
    """Turns of a client that reports no dollars are named beside the money, as every view does."""
    report = read_report(busy_nebula(tmp_path, 60), NOW)
    report = report._replace(view=report.view._replace(unpriced_turns=2))
    (money,) = [line.text for line in summary_of(report) if line.name == "Money"]
    assert "and 2 turns whose dollars are unknown" in money
    assert "and 2 turns whose dollars are unknown of $40.00" in money_text(report.view)


def test_files_that_were_changed_since_do_not_matter(tmp_path: Path) -> None:
    """A phase that the run does not know, and what waits for it, are no part of the run's graph."""
    run = busy_nebula(tmp_path, 60)
    new = '+++\nid = "new"\ntitle = "New"\n+++\n\nWrite it.\n'
    (tmp_path / "plan" / "new.md").write_text(new)
    file = tmp_path / "plan" / "mail.md"
    file.write_text(file.read_text().replace("depends_on = [", 'depends_on = ["new", '))
    report = read_report(run, NOW)
    assert "new" in report.waits_for["mail"]
    assert Read(page_of(report)).texts


def test_many_waits_at_once_share_rows(tmp_path: Path) -> None:
    """However many wait for people at the same time, the timeline keeps to a bounded number of rows."""
    report = read_report(busy_nebula(tmp_path, 60), NOW)
    waits = tuple(TimeSpan("person", f"q{n}", None, float(n), 900.0, "open", n) for n in range(500))
    page = timeline_section(report._replace(timeline=Timeline(0.0, 1_000.0, waits, ())))
    assert page.count('class="bar person open') == 500
    assert page.count('class="row"') == 40


def test_a_long_chain_is_drawn_without_its_shortcuts() -> None:
    """Of what a phase waits for only the nearest has a line, in a chain of any length."""
    names = [f"p{number}" for number in range(2_000)]
    needs = {name: names[max(0, number - 2) : number] for number, name in enumerate(names)}
    assert direct_needs(names[-3:], needs) == {name: [names[n - 1]] for n, name in enumerate(names) if n > 1_996}


@pytest.mark.parametrize("name", ["array-phases", "steps-object", "object-phases"])
def test_a_run_of_another_tool_has_a_page(name: str) -> None:
    """The runs of other tools are shown as they are read."""
    layout = Layout(str(Path(__file__).parents[1] / "fixtures" / "foreign" / name))
    for run_id in layout.run_ids():
        report = read_report(open_run(layout, run_id), NOW)
        assert report.view.foreign
        assert "of another tool" in " ".join(Read(page_of(report)).texts)


def test_commits_have_their_files(tmp_path: Path) -> None:
    """Commits that are in the repository have their subject and files, a merge those that came with it; others not."""
    root = tmp_path / "project"
    repository(root, {"a.txt": "a\n" * 20})
    first = git(root, "rev-parse", "HEAD").strip()
    git(root, "checkout", "-q", "-b", "side")
    (root / "b \u202e<b>.txt").write_text("b\n")
    git(root, "mv", "a.txt", "c.txt")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Move <it>")
    second = git(root, "rev-parse", "HEAD").strip()
    git(root, "checkout", "-q", "-")
    git(root, "merge", "-q", "--no-ff", "-m", "Merge", "side")
    merge = git(root, "rev-parse", "HEAD").strip()
    found = commits_of(str(root), [first, second, merge, "0" * 40, "--all", "HEAD"])
    files = {("A", "b \u202e<b>.txt"), ("R", "a.txt → c.txt")}
    assert {sha: (made.subject, set(made.files)) for sha, made in found.items() if sha != first} == {
        second: ("Move <it>", files),
        merge: ("Merge", files),
    }
    assert list(found) == [first, second, merge]
    assert commits_of(str(tmp_path), ["0" * 40]) == {}


# --- the file --------------------------------------------------------------------------------------


def test_only_a_report_is_replaced(tmp_path: Path, pages: dict[str, str]) -> None:
    """A report replaces an earlier one, and no other file."""
    path = report_path(str(tmp_path), RUN_ID)
    assert path == str(tmp_path / "faber-report-acme-shop-checkout.html")
    write_report(path, pages["hostile"])
    write_report(path, pages["plain"])
    assert Path(path).read_text() == pages["plain"]
    (tmp_path / "notes.html").write_text("<p>mine")
    with pytest.raises(NotAReport):
        write_report(report_path(str(tmp_path / "notes.html"), RUN_ID), pages["plain"])
    assert (tmp_path / "notes.html").read_text() == "<p>mine"


def test_what_is_no_plain_file_is_not_replaced(tmp_path: Path, pages: dict[str, str]) -> None:
    """A link, a pipe and a device stay what they are, even where nothing can be read of them."""
    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real.html"
    os.mkfifo(pipe)
    write_report(str(real), pages["plain"])
    link.symlink_to(real)
    for path in (pipe, link, tmp_path):
        before = path.lstat()
        with pytest.raises(NotAReport):
            write_report(str(path), pages["plain"])
        assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
