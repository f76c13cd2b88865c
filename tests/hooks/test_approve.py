"""What the plugin lets an agent run without asking: one plain call of its own program, and nothing more."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faber.hooks.approve import harmless, plain_call, words
from support.examples import examples

ROOT = "/opt/a plugin"


def approves(command: str, root: str) -> bool:
    """True if the call of the plugin at `root` is approved."""
    arguments = plain_call(command, {f"{root}/bin/faber"})
    return arguments is not None and harmless(arguments)


FABER = "'/opt/a plugin/bin/faber'"


@pytest.mark.parametrize(
    "command",
    [
        f"{FABER} next latest",
        '"/opt/a plugin/bin/faber" next latest',
        f"{FABER} --exit-zero status",
        f"{FABER} context acme/shop/1 --record",
        f"{FABER} step complete r build:code --message 'it works; really && truly $HOME'",
        f"""{FABER} event emit r --type spec_generate --metadata '{{"path": "a.md"}}'""",
        f'{FABER} step start r build:code --message "plain words, (with) these | too"',
        f"{FABER} feedback request r --type approval --at release:ship --gate step:release:ship",
        f"{FABER} run begin --next 'the exporter'\\''s header'",
        f"{FABER} session save --notes 'one line\nand another'",
        f"{FABER} response check answers/1.txt",
    ],
)
def test_plain_calls_are_approved(command: str) -> None:
    """A plain call of an allowed command is approved, quoted as agents quote."""
    assert approves(command, ROOT)


@pytest.mark.parametrize(
    "rest",
    [
        "next r; rm -rf /", "next r && id", "next r || id", "next r | tee x", "next r &", "next r > x", "next r < x",
        "next $(id)", "next `id`", 'next "$(id)"', 'next "`id`"', "next $HOME", 'next "$HOME"', "next r\nid",
        "next 'r\rid'", "next *", "next ?", "next {a,b}", "next ~", "next r # x", "next \\\nr",
        'next "a\\"b"', "next 'r",
        "next r\tid", "next [a]", 'next "a!b"', "next r;", "next (r)", "next\x00r",
    ],
)  # fmt: skip
def test_what_the_shell_would_read_is_not_approved(rest: str) -> None:
    """Operators, substitutions, redirections, globs, comments and several lines get no approval."""
    assert not approves(f"{FABER} {rest}", ROOT)


@pytest.mark.parametrize(
    "command",
    [
        f"X=1 {FABER} next r", f"env {FABER} next r", f"sudo {FABER} next r", "faber next r", "bin/faber next r",
        "/opt/other/bin/faber next r", "'/opt/a plugin/bin/faber2' next r",
        "'/opt/a plugin/bin/../../evil/bin/faber' next r",
        "'/opt/a plugin/./bin/faber' next r", "'/opt/a plugin//bin/faber' next r",
        "'/link/../opt/a plugin/bin/faber' next r",
        f"python3 -c {FABER}", f"{FABER}", "", "   ",
    ],
)  # fmt: skip
def test_another_program_is_not_approved(command: str) -> None:
    """Only this plugin's own program counts, called by its own path."""
    assert not approves(command, ROOT)


@pytest.mark.parametrize(
    "rest",
    [
        "feedback respond r approve", "step skip r a:b", "phase skip r a", "context r --decide spec_unreadable=skip",
        "context r --decide=spec_unreadable=skip", "run adopt r", "run cancel r --reason x", "run rerun r", "repair r",
        "--root /etc status", "status --root=/etc", "run init --workflow evil.yaml",
        "run begin 7 --autonomy autonomous", "run begin 7 --workflow=evil.yaml", "demo",
        "hook session-start", "step", "--help", "sync push r", "nebula apply plan", "heal plan r", "run takeover r",
        "response prompt /etc/passwd", "response prompt ../x", "response validate --schema=/etc/passwd a.json",
        "workflow validate ~/x.yaml", "feedback post r", "nebula plan /etc", "nebula status ../x",
        "nebula validate ~/x", "heal diagnose /etc a",
    ],
)  # fmt: skip
def test_what_a_person_has_to_say_is_not_approved(rest: str) -> None:
    """Answering, skipping, deciding, cancelling, repairing and foreign definitions are not approved."""
    assert not approves(f"{FABER} {rest}", ROOT)


@given(st.text(alphabet=st.sampled_from("ab '\"$`\\;&|<>(){}*?!#~=\n\t-"), max_size=12))
@settings(max_examples=examples(100, 300), deadline=None)
def test_words_are_the_shells_words(text: str) -> None:
    """Whatever is taken apart, sh takes apart in the same way."""
    found = words(text)
    if found is None:
        return
    said = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' x {text}"], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    ).stdout.decode()
    assert said.split("\0")[1:-1] == found


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8), max_size=4))
def test_an_approved_quoting_is_what_shlex_reads(arguments: list[str]) -> None:
    """Arguments quoted by shlex are read back as they were, or not approved."""
    found = words(shlex.join(["/x/faber", *arguments]))
    assert found is None or found == ["/x/faber", *arguments]
