"""What tests need from the machine: where CI=true, lacking it is a failure; elsewhere, a skip that says why."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from github.fake import FakeGitHub

# How long an example takes says more about the machine than about the code.
settings.register_profile("faber", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("faber")


def _needed(found: str | None, what: str) -> str:
    if found:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} (never skipped where CI=true)")
    pytest.skip(what)


@pytest.fixture(scope="session")
def needed() -> Callable[[str | None, str], str]:
    """`needed(found, what)`: what was found, or the failure or skip that says what is lacking."""
    return _needed


@pytest.fixture(scope="session")
def claude_binary() -> str:
    """The path of the pinned Claude Code client; tests/run fetches it."""
    return _needed(
        os.environ.get("FABER_TEST_CLAUDE"), "FABER_TEST_CLAUDE names no Claude Code client; tests/run sets it"
    )


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of strace."""
    return _needed(shutil.which("strace"), "strace is not installed")


@pytest.fixture(scope="session")
def jq() -> str:
    """The path of jq."""
    return _needed(shutil.which("jq"), "jq is not installed")


@pytest.fixture
def github() -> "Iterator[FakeGitHub]":
    """A GitHub on loopback with issue #7; what it was asked and what it answered is as GitHub describes it."""
    from github.fake import FakeGitHub

    with FakeGitHub() as made:
        made.add_issue(7)
        yield made
    assert made.violations == []
