"""What of an agent's shell commands is faber's own, and what is work."""

import time

import pytest
from trials.shell import only_faber
from trials.tally import is_faber

# Wherever the program lies, whatever stands before it, and whatever reads what it prints.
FABER = [
    "faber next", "'/a b/bin/faber' step complete x:y", "/x/bin/faber next", "bin/faber next", "./bin/faber next",
    "cd x && faber next", "cd /a/b; faber next", "FOO=1 faber next", "FOO='a b' BAR=2 /x/faber next",
    "env FOO=1 faber next", "(cd x && faber next)", '"${CLAUDE_PLUGIN_ROOT}/bin/faber" context RUN --record',
    "$CLAUDE_PLUGIN_ROOT/bin/faber next", "F=/x/bin/faber; $F next", 'F="/x y/bin/faber" && "$F" next',
    "FABER=$(which faber); ${FABER} next", "which faber", "bash -o pipefail -c 'faber next | cat'",
    'bash -c "faber note \'a; make\'"', "command -v faber", "faber next 2>&1", "faber next >/tmp/o 2>&1",
    ">/tmp/o faber next", "faber status | head -5", "faber next | python3 -c 'import json; print(1)'",
    "faber next 2>&1 | jq -r .action", "faber next || true", "faber next; echo $?", "faber next & wait",
    "cat notes.md | faber step complete a:b", "echo yes | faber x",
    'faber step complete a:b --message "$(cat <<\'EOF\'\nIt\'s "done"; make\nrm x\nEOF\n)"',
    "faber x <<EOF\nmake\nEOF", "RUN=$(faber status | jq -r .id)", 'echo "$(faber next)"', "echo `faber next`",
    'faber next "$(git rev-parse HEAD)"', "faber step complete --message $(git log -1 --format=%s)",
    "bash -c 'cd x && faber next'", 'sh -lc "faber next"', "bash /x/bin/faber next", "timeout 60 faber next",
    "time faber next", "timeout -k 5 60s faber next", "nohup faber next", "command faber next", "sudo -E faber next",
    "$(which faber) next", "`which faber` next", "faber next \\\n  --json", "faber a\nfaber b",
    "# what is next\nfaber next", "faber next # then make",
    'faber note --decision \'a; make && rm\' --message "x | y"', "if faber next; then echo yes; fi",
    "while ! faber next; do sleep 1; done", "for s in a b; do faber step complete $s; done", "faber next &>/dev/null",
    "faber next >| o", "set -e; faber next", "export FABER_X=1 && faber next",
    'faber step complete a:b --decision "(" --decision \'&&\' x', "faber note <<<'make all'", "[ -f x ] && faber next",
    "echo x >/tmp/o; faber next", "echo x >&2; faber next 2>/dev/null", "! faber next", "{ faber next; }",
    "eval 'faber next'", "faber next|tee out.txt",
]  # fmt: skip
# Anything else that runs makes it work, and so does faber's name where no program stands.
WORK = [
    "", "grep faber README.md", "echo 'unclosed", "echo faber", "echo faber next", "cat faber",
    "make test && faber next", "faber next && make test", "faber next; pytest", "cd faber && ls", "cd x && make",
    "git commit -m 'faber next'", "python3 -m unittest", "ls bin/faber", "cat bin/faber", "FOO=faber make",
    "bash -c 'make && faber next'", "make | faber x", "# faber next\nmake", "echo '$(faber next)'", "faber.py next",
    "fabers next", "git log && faber next", "faberx", "cat <<EOF > x\nfaber next\nEOF", "bash script.sh faber",
    "./run faber next", "find . -name faber", "$(make) && faber next", "vim /x/faber/y", "echo $(make; faber next)",
    "cat README.md", "if make; then faber next; fi", "sed -i s/a/b/ x && faber next",
    "python3 - <<'EOF'\nimport os\nEOF\nfaber next", "'faber next'",
    "bash -c 'faber next && make'", "eval 'faber next; make'", 'echo "$(faber next; make)"', "X=$(faber next) make",
    "faber note '<<EOF'\nmake", "faber next $((1<<x))\nmake",
    "echo x >src/a.py; faber next", "printf x >> a && faber next",
]  # fmt: skip


@pytest.mark.parametrize("command", FABER)
def test_a_call_of_faber_is_none_of_the_work(command: str) -> None:
    """A command that starts faber and nothing of the work is faber's own, however it is worded."""
    assert is_faber("Bash", {"command": command})


@pytest.mark.parametrize("command", WORK)
def test_what_only_speaks_of_faber_is_work(command: str) -> None:
    """A command that does something else, or only names faber, is work."""
    assert not is_faber("Bash", {"command": command})


def test_a_long_command_is_read_at_once() -> None:
    """A command of ten thousand characters, nothing closed or one word repeated, takes less than a second."""
    for part in ("$(", '"', "'a ", "<<a\n", "`", "x ", "\\", "(", "a=$(", "time ", "eval "):
        began = time.process_time()
        only_faber(part * (10_000 // len(part)))
        assert time.process_time() - began < 1, part
