"""The page in a real Chromium, without a network: what it loads and says, its keys, its filter, small and on paper."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faber.report.page import page_of
from faber.report.read_report import read_report
from support.busy_nebula import HOSTILE, busy_nebula

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from chromium import Chromium, program

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose texts are hostile."""
    root = tmp_path_factory.mktemp("page")
    (root / "page.html").write_text(page_of(read_report(busy_nebula(root, text=HOSTILE), "2026-11-22T00:00:00.000Z")))
    return root / "page.html"


@pytest.fixture(scope="module")
def browser(needed: Callable[[str | None, str], str]) -> Iterator[Chromium]:
    """A Chromium for the tests of this file."""
    with Chromium(needed(program(), "Chromium is not installed")) as made:
        yield made


def test_nothing_runs_and_nothing_is_asked_for(browser: Chromium, page: Path) -> None:
    """The page asks for nothing but itself, and neither its policy nor its script complains."""
    browser.open(page)
    assert browser.asked == [page.as_uri()]
    assert browser.said == []
    assert browser.ask("document.scripts.length") == 1


def test_the_filter_and_its_keys(browser: Chromium, page: Path) -> None:
    """`/` leads to the search, words, types and phases filter the log, and Escape shows everything again."""
    browser.open(page)
    shown, rows = (
        "document.getElementById('shown').value",
        "document.querySelectorAll('#events li:not([hidden])').length",
    )
    browser.key("/", "/")
    assert browser.ask("document.activeElement.id") == "search"
    browser.write("TAXES review")
    browser.ask("new Promise(done => setTimeout(done, 300))")
    found = browser.ask(rows)
    assert 0 < found < 20
    assert browser.ask(shown) == f"{found} of 257 events"
    browser.key("Escape")
    assert (browser.ask(shown), browser.ask(rows)) == ("257 events", 257)
    for name, value, expected in (("type", "healing_insert", 1), ("phase", "mail", 10)):
        choose = f"document.getElementById('{name}').value = '{value}'"
        browser.ask(f"{choose}; document.getElementById('filter').dispatchEvent(new Event('input'))")
        browser.ask("new Promise(done => setTimeout(done, 300))")
        assert browser.ask(rows) == expected
        browser.key("Escape")
    browser.write("no such words")
    browser.ask("new Promise(done => setTimeout(done, 300))")
    assert browser.ask("document.getElementById('none').hidden") is False


def test_the_keyboard_reaches_everything(browser: Chromium, page: Path) -> None:
    """The first Tab leads to a link past the contents; every link, control and box that scrolls gets the focus."""
    browser.open(page)
    browser.key("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    assert browser.ask("document.activeElement.getBoundingClientRect().left >= 0")
    kinds = set()
    for _ in range(30):
        browser.key("Tab")
        kinds.add(browser.ask("document.activeElement.className || document.activeElement.id"))
    assert {"scroll", "search", "type", "phase"} <= kinds


@pytest.mark.parametrize("width", [400, 1100, 1800])
def test_no_page_is_wider_than_its_window(browser: Chromium, page: Path, width: int) -> None:
    """Narrow or wide, only boxes scroll sideways, not the page."""
    browser.open(page, width=width)
    assert browser.ask("document.documentElement.scrollWidth") == width


def test_without_scripts(browser: Chromium, page: Path) -> None:
    """With scripts off the filter is not shown, and the log is."""
    browser.open(page, scripts=False)
    document = browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]

    def box(selector: str) -> bool:
        node = browser.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        try:
            return bool(browser.call("DOM.getBoxModel", nodeId=node))
        except RuntimeError:
            return False

    assert (box("#filter"), box("#events"), box("#events li")) == (False, True, True)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_schemes_and_paper(browser: Chromium, page: Path) -> None:
    """The page follows the preferred scheme, and is light on paper, in a few sheets, with what is folded on the
    screen."""
    browser.open(page)
    folded = "!document.querySelector('details table').checkVisibility()"
    colour = "getComputedStyle(document.body).backgroundColor"
    found = []
    for scheme, paper in (("light", False), ("dark", False), ("dark", True)):
        browser.prefer(scheme, print_=paper)
        found.append(browser.ask(colour))
        assert browser.ask(folded) is not paper
    browser.prefer("light")
    assert found[0] == found[2] != found[1]
    assert browser.pdf().count(b"/Type /Page\n") <= 12
