"""Parsed forms of texts, kept in the index."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.store import strict_json
from faber.store.cache import memo
from faber.store.layout import Layout


class Counting:
    """A computation that counts how often it was needed."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> Any:
        self.calls += 1
        return {"length": len(text), "text": text}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A store that is there."""
    made = Layout(str(tmp_path))
    os.makedirs(made.store)
    return made


def only_file(layout: Layout) -> Path:
    """The one file of the cache."""
    (found,) = (path for path in Path(layout.index).rglob("*") if path.is_file())
    return found


def test_a_text_is_computed_once(layout: Layout) -> None:
    """The second time, the same text is served without computing."""
    compute = Counting()
    assert memo(layout, "spec", "text", compute) == memo(layout, "spec", "text", compute)
    assert compute.calls == 1


@settings(deadline=None, max_examples=40)
@given(texts=st.lists(st.text(st.characters(), max_size=5), max_size=8))
def test_the_answer_is_always_what_computing_would_give(texts: list[str], tmp_path_factory: Any) -> None:
    """Whatever texts follow each other under one name, none is answered with another's value."""
    layout = Layout(str(tmp_path_factory.mktemp("cache")))
    os.makedirs(layout.store)
    for text in texts:
        assert memo(layout, "name", text, Counting()) == {"length": len(text), "text": text}


def test_names_are_kept_apart(layout: Layout) -> None:
    """The same text under two names is computed for each."""
    memo(layout, "a", "text", lambda _: 1)
    assert memo(layout, "b", "text", lambda _: 2) == 2
    assert memo(layout, "a", "text", lambda _: 3) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b'{"version":1,"text":"text"}', b"\xff", b'"x"'])
def test_a_damaged_cache_only_costs_time(layout: Layout, content: bytes) -> None:
    """A cache file of any content is computed over and replaced."""
    compute = Counting()
    memo(layout, "spec", "text", compute)
    only_file(layout).write_bytes(content)
    assert memo(layout, "spec", "text", compute)["length"] == 4
    memo(layout, "spec", "text", compute)
    assert compute.calls == 2


def test_another_versions_cache_counts_for_nothing(layout: Layout) -> None:
    """What an older faber computed from the same text is computed again."""
    memo(layout, "spec", "text", Counting())
    file = only_file(layout)
    file.write_bytes(strict_json.dumps(strict_json.loads(file.read_bytes()) | {"version": 0, "value": "old"}))
    assert memo(layout, "spec", "text", Counting()) == {"length": 4, "text": "text"}


def test_without_a_store_nothing_is_written(tmp_path: Path) -> None:
    """Where a project has no store, the cache makes none."""
    memo(Layout(str(tmp_path)), "spec", "text", Counting())
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_no_error(layout: Layout) -> None:
    """Where the index is a file, every text is computed."""
    Path(layout.index).write_text("in the way")
    compute = Counting()
    memo(layout, "spec", "text", compute)
    memo(layout, "spec", "text", compute)
    assert compute.calls == 2


def test_an_error_is_not_remembered(layout: Layout) -> None:
    """A computation that fails fails again, and leaves nothing behind."""

    def fail(text: str) -> Any:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError):
            memo(layout, "spec", "text", fail)
    assert not os.path.exists(layout.index)
