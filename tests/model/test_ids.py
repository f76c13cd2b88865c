"""Run ids and other names that end up in paths and refs."""

import os
import subprocess
from pathlib import Path
from string import ascii_letters, digits

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from faber.errors import InvalidInput
from faber.hooks.grants import ASKS, FREE, PEOPLE
from faber.model.ids import (
    COMMAND_WORDS,
    RESERVED,
    check_name,
    check_new_run_id,
    check_run_id,
    check_work_id,
    is_run_id,
    slug,
)
from faber.model.model_errors import InvalidRunId
from faber.store.layout import Layout
from support.examples import examples

ATTACKS = [
    "../../etc", "/etc/x", "-rf", ".git", "a\0b", "a\nb", "a\n", "%2e%2e/x", "ｆａｂｅｒ", "а/б", "", "/", "a/", "/a",
    "a//b", "a/../b", "a/./b", "..", ".", "a..b", "a.", "a/b.", "a.lock", "a/b.LOCK/c", "a/b/c/d", "a b", "a~b", "a^b",
    "a:b", "a?b", "a*b", "a[b", "a\\b", "a@{b", "@", "a\u200bb", "a\u0301", "a\ud800", "a\x7f", "x" * 129, "_a", "a/-b",
]  # fmt: skip

segments = st.text("abzAZ09._-", min_size=1, max_size=6)
good_segments = st.builds(str.__add__, st.sampled_from("ab0"), st.text("ab0._-", max_size=3))
near_ids = st.one_of(
    st.lists(segments, min_size=1, max_size=4).map("/".join),
    st.lists(good_segments, min_size=1, max_size=3).map("/".join),
    st.text(st.sampled_from("ab/.-_@{}~^:?*[\\ \x00\x7flock"), max_size=12),
)


def test_a_word_of_the_command_line_is_no_new_run() -> None:
    """`latest` and the names of commands are refused for a new run, in any case; an existing one can still be named."""
    assert {word for command in FREE | ASKS | PEOPLE for word in command} | {"latest"} == COMMAND_WORDS
    for word in ("latest", "Latest", "status"):
        with pytest.raises(InvalidRunId):
            check_new_run_id(word)
        assert check_run_id(word) == word
    assert check_new_run_id("sample/latest") == "sample/latest"


@pytest.mark.parametrize("run_id", ATTACKS)
def test_no_attack_is_a_run_id(run_id: str) -> None:
    """Ids that leave the directory, look like options or hide in a listing are refused with an exit for usage."""
    with pytest.raises(InvalidRunId) as caught:
        check_run_id(run_id)
    assert caught.value.exit_code == 2
    assert caught.value.as_dict()["run_id"].isascii()


@pytest.mark.parametrize("name", [*sorted(RESERVED), "Events", "STATE.json", "Lock"])
@pytest.mark.parametrize("shape", ["{}", "a/{}", "{}/b", "a/{}/b"])
def test_the_run_directorys_own_names_are_taken(name: str, shape: str) -> None:
    """No segment is a name that a run directory uses itself, in any case of letters."""
    assert not is_run_id(shape.format(name))


@pytest.mark.parametrize("run_id", ["a", "run-1", "org/project/0b6c3f8e-1", "A.b_c-d/2", "x" * 128, "0/0/0"])
def test_ordinary_ids_are_accepted(run_id: str) -> None:
    """One to three segments of letters, digits, dots, underscores and dashes are a run id."""
    assert check_run_id(run_id) == run_id


@settings(max_examples=examples(100, 300))
@given(near_ids)
@example("a/b/c")
def test_a_run_never_leaves_the_runs_directory(run_id: str) -> None:
    """The directory of an accepted id lies below the runs directory, at one level a segment; a refused id has none."""
    layout = Layout("/project")
    if is_run_id(run_id):
        path = layout.run_dir(run_id)
        assert os.path.normpath(path) == path
        assert os.path.relpath(path, layout.runs) == run_id
    else:
        with pytest.raises(InvalidRunId):
            layout.run_dir(run_id)


@settings(max_examples=examples(30, 80), deadline=None)
@given(near_ids.filter(is_run_id))
@example("x" * 128)
@example("a.b/c--d/e__f.")
def test_git_accepts_every_run_id_as_a_ref(run_id: str) -> None:
    """git itself accepts `refs/faber/runs/<id>` for every accepted id."""
    if is_run_id(run_id):
        subprocess.run(["git", "check-ref-format", f"refs/faber/runs/{run_id}"], check=True)


@given(st.text())
@example("..")
@example("events")
@example("a.lock")
@example("My Org, Inc.")
def test_a_slug_is_one_segment(text: str) -> None:
    """The slug of any remote name is one segment of a run id."""
    made = slug(text)
    assert is_run_id(made)
    assert "/" not in made


@given(st.text(ascii_letters + digits + "_-", max_size=42).map(lambda text: text.strip("_-") or "a"))
def test_a_slug_keeps_what_fits(text: str) -> None:
    """A name that is a segment already is its own slug."""
    assume(is_run_id(text))
    assert slug(text) == text


@pytest.mark.parametrize("name", ["", "-x", ".x", "a/b", "a b", "a:b", "x" * 65, "a\n", "ä"])
def test_names_of_phases_and_steps_are_plain(name: str) -> None:
    """A name with a separator, a blank, another script or more than 64 characters is refused."""
    with pytest.raises(InvalidInput):
        check_name(name, "phase")


@pytest.mark.parametrize(("given_id", "meant"), [("158", "158"), ("#158", "158"), ("PROJ-7", "PROJ-7")])
def test_a_work_item_may_be_written_with_a_hash(given_id: str, meant: str) -> None:
    """A leading `#` of a work item's id is dropped."""
    assert check_work_id(given_id) == meant


@pytest.mark.parametrize("work_id", ["", "#", "##1", "../1", "a/b", "-1", "1\n", "１２"])
def test_a_work_item_id_is_one_plain_name(work_id: str) -> None:
    """A work item id that could be a path or an option is refused."""
    with pytest.raises(InvalidInput):
        check_work_id(work_id)


def test_every_segment_is_a_file_name(tmp_path: Path) -> None:
    """The longest run id that is accepted can be made as directories."""
    Path(Layout(str(tmp_path)).run_dir("/".join(["x" * 128] * 3))).mkdir(parents=True)
