"""Versions of the client: reading them, and what depends on them."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faber.agents.versions import (
    NEWEST,
    OLDEST,
    client_program,
    parse,
    retry_settings,
    spelled,
    totals_cover_the_session,
)
from fetch_client import CLIENTS


def test_the_window_is_what_the_tests_drive() -> None:
    """The versions that faber calls tested are the pinned ones."""
    assert [spelled(OLDEST), spelled(NEWEST)] == [*CLIENTS["claude-code"].sha512]


@given(st.tuples(*[st.integers(0, 999_999)] * 3), st.sampled_from(["", " (Claude Code)", "\n", "-beta.1", "+build"]))
def test_a_version_is_read_as_it_is_printed(numbers: tuple[int, int, int], rest: str) -> None:
    """The numbers of a version are those that it was spelled with, whatever a client adds."""
    assert parse(spelled(numbers) + rest) == numbers


@given(st.text(max_size=40))
def test_any_text_is_read(text: str) -> None:
    """What does not begin with three numbers has no version, and reading it never fails."""
    begins = text.split(".", 2)
    numbers = len(begins) == 3 and all(part.isascii() and part.isdecimal() for part in begins[:2])
    assert parse(text) is None or numbers


@pytest.mark.parametrize(
    ("version", "session"),
    [(None, False), ("2.1.197", False), ("2.1.276", False), ("2.1.277", True), ("2.1.330", True), ("nightly", True)],
)
def test_what_a_total_covers(version: str | None, session: bool) -> None:
    """Totals cover the session from 2.1.277 on."""
    assert totals_cover_the_session(version) is session


def test_only_a_client_with_a_bound_repeats_refused_requests() -> None:
    """A client that may wait inside its turn for hours is not told to; one with a bound is, whatever was inherited."""
    inherited = {"CLAUDE_CODE_MAX_RETRIES": "3"}
    for version in (None, "2.1.197", "2.1.294"):
        assert retry_settings(version, inherited) == {"CLAUDE_CODE_RETRY_WATCHDOG": "0"}
    for version in ("2.1.295", "2.1.330", "nightly"):
        told = retry_settings(version, inherited)
        assert told["CLAUDE_CODE_RETRY_WATCHDOG"] == "1"
        assert int(told["CLAUDE_CODE_RETRY_WATCHDOG_MAX_WAIT_MS"]) <= 120_000
        assert told["CLAUDE_CODE_MAX_RETRIES"] == "3"


def test_agents_start_with_the_sessions_own_client() -> None:
    """Inside a session, the client of that session starts agents, unless another one is named or it is gone."""
    session = {"CLAUDE_CODE_EXECPATH": sys.executable}
    assert client_program(session) == sys.executable
    assert client_program({**session, "FABER_CLAUDE": "/opt/claude"}) == "/opt/claude"
    assert client_program({"CLAUDE_CODE_EXECPATH": "/gone/claude"}) == "claude"
    assert client_program({}) == "claude"
