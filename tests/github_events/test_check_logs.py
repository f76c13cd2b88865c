"""The end of a log as an agent sees it: bounded, plain, and free of credentials, whatever the log holds."""

from hypothesis import example, given
from hypothesis import strategies as st

from faber.github_events.check_logs import LINE_CHARS, MOST_CHARS, MOST_LINES, last_lines
from faber.text.safe_text import has_secret, inert

TOKEN = "ghp_" + "a1" * 18
PARTS = st.sampled_from(
    [
        "\n", "\r", "\r\n", "::error::", "::add-mask::", "##[error]", "##[group]", "::stop-commands::x", "\x1b[31m",
        "\x1b]0;title\x07", "\x9b1m", "2026-01-01T00:00:00.000Z ", "<!--", "-->", "\u202e", "\u200b", TOKEN, "hunter2",
        "word ", "\ufeff", "x" * 400, "line\n" * 80,
    ]
)  # fmt: skip


@given(st.lists(st.one_of(PARTS, st.text(max_size=20)), max_size=60).map("".join))
@example("::::::error::x")
@example("\x1b[\x1b[31m31m")
@example(":\u200b:error::x")
def test_whatever_a_log_holds(log: str) -> None:
    """Within its limits, without escapes, invisible characters, credentials, and what a runner takes for a command."""
    said = last_lines(log, ["hunter2"])
    lines = said.split("\n")
    assert len(lines) <= MOST_LINES
    assert len(said) <= MOST_CHARS
    assert max(map(len, lines)) <= LINE_CHARS
    assert inert(said) == said
    assert "\x1b" not in said
    assert "hunter2" not in said
    assert not has_secret(said)
    assert not [line for line in lines if line.lstrip().startswith(("::", "##["))]


def test_what_follows_the_failure_is_left_out() -> None:
    """The runner cleans up after a failure: the lines before the last error are those that say something."""
    log = "".join(f"line {number}\n" for number in range(200)) + "##[error]boom\n" + "Cleaning up\n" * 30
    said = last_lines(log).split("\n")
    assert (said[0], said[-2:], len(said)) == ("line 141", ["line 199", "error: boom"], MOST_LINES)
    assert last_lines("no error\nhere\n") == "no error\nhere"
    assert last_lines("") == ""
