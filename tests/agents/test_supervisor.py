"""A turn's processes: started under a supervisor, read within limits, and none of them left."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from faber.agents import supervisor
from faber.agents.claude import AgentOptions, ClaudeCodeClient, client_arguments
from faber.agents.environment import agent_environment
from faber.agents.outcome import BudgetStop, Cancelled, ClientMissing, Outcome
from faber.agents.process import end_turns
from faber.errors import InvalidInput

# What a client starts is everything that gets away from a signal to its group: a session of its own, an environment
# of its own, no parent; and one that does not listen to SIGINT.
WANDERERS = """
import os, subprocess, sys, time
def wander(**how):
    sleeper = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)  # " + name
    subprocess.Popen([sys.executable, "-c", sleeper], stdin=subprocess.DEVNULL, start_new_session=True, **how)
name = os.environ["WANDERER"]
wander()
wander(env={})
if os.fork() == 0:
    wander(env={})
    os._exit(0)
"""
RESULT = '{"type": "result", "subtype": "success", "is_error": false, "session_id": "s", "total_cost_usd": 0.75}'


def until(there: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(name: str) -> set[int]:
    """The processes with `name` in their command, zombies not counted."""
    told = subprocess.run(
        ["ps", "-axww", "-o", "pid=", "-o", "stat=", "-o", "args="], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split(None, 2) for line in told.splitlines()]
    return {int(pid) for pid, stat, *args in lines if name in " ".join(args) and not stat.startswith("Z")}


@pytest.fixture
def name() -> str:
    """What a test's wandering processes are known by."""
    return f"wanderer-{uuid4().hex}"


@pytest.fixture
def client(tmp_path: Path, name: str) -> Callable[..., ClaudeCodeClient]:
    """`client("…")`: one whose program is this Python text, and no other client."""

    def make(program: str, **options: object) -> ClaudeCodeClient:
        script = tmp_path / "claude"
        script.write_text(f"#!{sys.executable} -IS\n{textwrap.dedent(program)}")
        script.chmod(0o755)
        given = {"command": [str(script)], "environment": {"WANDERER": name}, "grace": 0.3, **options}
        return ClaudeCodeClient(AgentOptions(str(tmp_path), **given))  # type: ignore[arg-type]

    return make


def test_a_prompt_of_any_length_comes_on_stdin(client: Callable[..., ClaudeCodeClient]) -> None:
    """The prompt is not passed as an argument: no other user can read it, and no system limit cuts it."""
    made = client(
        f"""
        import json, sys
        said = sys.stdin.read()
        text = f"{{len(said)}} {{said[-3:]}} {{len(' '.join(sys.argv))}}"
        message = {{"id": "m", "content": [{{"type": "text", "text": text}}]}}
        print(json.dumps({{"type": "assistant", "message": message}}))
        print('''{RESULT}''')
        """
    )
    length, end, arguments = made.turn("é" * 3_000_000 + "end").text.split()
    assert (int(length), end) == (3_000_003, "end")
    assert int(arguments) < 1000


def test_no_process_of_a_turn_outlives_its_normal_end(client: Callable[..., ClaudeCodeClient], name: str) -> None:
    """Processes that an agent left in the background end with its turn, and the answer counts."""
    result = client(WANDERERS + f"\nprint('''{RESULT}''')").turn("go")
    assert (result.outcome, result.cost_usd) == (Outcome.COMPLETED, 0.75)
    assert alive(name) == set()


def test_no_process_of_a_turn_outlives_its_time(client: Callable[..., ClaudeCodeClient], name: str) -> None:
    """At the time limit everything ends: sessions of their own, empty environments, orphans, and the deaf."""
    result = client(WANDERERS + "\ntime.sleep(1000)", timeout=1.0).turn("go")
    assert result.outcome is Outcome.TIMED_OUT
    assert result.exit_status is not None
    assert alive(name) == set()


def test_what_others_start_for_a_turn_ends_with_it(client: Callable[..., ClaudeCodeClient]) -> None:
    """A process that carries the turn's marker ends too where it does not descend from the client."""
    made = client(
        """
        import json, os, time
        print(json.dumps({"type": "x", "turn": os.environ["FABER_TURN"]}), flush=True)
        time.sleep(1000)
        """
    )
    started: list[subprocess.Popen[bytes]] = []

    def start(event: Mapping[str, Any]) -> None:
        sleeper = [sys.executable, "-c", "import time; time.sleep(1000)"]
        started.append(subprocess.Popen(sleeper, env={**os.environ, "FABER_TURN": event["turn"]}))
        until(lambda: started[0].pid in supervisor.find(f"FABER_TURN={event['turn']}"))
        made.cancel()

    made.on_event = start
    assert made.turn("go").outcome is Outcome.CANCELLED
    assert started[0].wait(20) != 0  # interrupted, or killed


def test_an_interrupted_client_may_finish_what_it_notes(client: Callable[..., ClaudeCodeClient]) -> None:
    """SIGINT comes first, and what the client still says within its grace counts."""
    made = client(
        f"""
        import signal, sys, time
        def note(*_):
            time.sleep(0.05)
            print('''{RESULT.replace("false", "true")}''', flush=True)
            sys.exit(0)
        signal.signal(signal.SIGINT, note)
        print("ready", flush=True)
        time.sleep(1000)
        """,
        timeout=0.5,
        grace=5.0,
    )
    result = made.turn("go")
    assert (result.outcome, result.cost_usd, result.session_id) == (Outcome.TIMED_OUT, 0.75, "s")


def test_a_turn_is_cancelled_from_another_thread(client: Callable[..., ClaudeCodeClient], name: str) -> None:
    """`cancel` ends the turn that runs, refuses the next, and `complete` says so by type."""
    made = client(WANDERERS + "\ntime.sleep(1000)")
    threading.Thread(target=lambda: (until(lambda: len(alive(name)) == 3), made.cancel())).start()
    assert made.turn("go").outcome is Outcome.CANCELLED
    assert alive(name) == set()
    with pytest.raises(Cancelled):
        made.complete("again")


def test_turns_side_by_side_end_each_by_itself(client: Callable[..., ClaudeCodeClient], tmp_path: Path) -> None:
    """Cancelling one conversation leaves another, started by the same faber, to its end."""
    program = f"""
        import json, os, sys, time
        name = sys.stdin.read()
        open(name, "w").close()
        while not os.path.exists("go on"):
            time.sleep(0.01)
        print('''{RESULT}''')
        """
    one, two = client(program), client(program)
    came: list[Outcome] = []
    other = threading.Thread(target=lambda: came.append(two.turn("two").outcome))
    other.start()
    until((tmp_path / "two").exists)
    threading.Thread(target=lambda: (until((tmp_path / "one").exists), one.cancel())).start()
    assert one.turn("one").outcome is Outcome.CANCELLED
    assert other.is_alive()
    (tmp_path / "go on").touch()
    other.join(20)
    assert came == [Outcome.COMPLETED]


def test_an_exception_ends_the_turn_first(client: Callable[..., ClaudeCodeClient], name: str) -> None:
    """An interruption passes through `turn` once everything is ended."""
    made = client(WANDERERS + '\nprint(\'{"type": "x"}\', flush=True)\ntime.sleep(1000)')

    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    made.on_event = interrupt
    with pytest.raises(KeyboardInterrupt):
        made.turn("go")
    assert alive(name) == set()


def test_a_turn_does_not_outlive_a_faber_that_is_killed(
    client: Callable[..., ClaudeCodeClient], name: str, tmp_path: Path
) -> None:
    """SIGKILL to faber closes the lifeline: its supervisor ends the turn."""
    command = list(client(WANDERERS + "\ntime.sleep(1000)").options.command)
    program = f"""
import sys
sys.path.insert(0, {str(Path(supervisor.__file__).parents[2])!r})
from faber.agents.claude import AgentOptions, ClaudeCodeClient
ClaudeCodeClient(AgentOptions({str(tmp_path)!r}, command={command!r}, environment={{"WANDERER": {name!r}}},
                              grace=0.2)).turn("go")
"""
    faber = subprocess.Popen([sys.executable, "-c", program])
    until(lambda: len(alive(name)) == 3 + 1)  # and faber itself, whose command names them
    faber.kill()
    faber.wait()
    until(lambda: alive(name) == set())


def test_a_turn_is_ended_without_its_supervisor(client: Callable[..., ClaudeCodeClient], name: str) -> None:
    """If the supervisor itself is killed, processes with the turn's marker are found and ended."""
    made = client(
        """
        import os, signal, subprocess, sys, time
        sleeper = "import time; time.sleep(1000)  # " + os.environ["WANDERER"]
        subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)
        """
    )
    result = made.turn("go")
    assert (result.outcome, result.exit_status) == (Outcome.AGENT_ERROR, -signal.SIGKILL)
    assert alive(name) == set()


def test_turns_of_a_label_can_be_ended_later(name: str) -> None:
    """Processes of an earlier faber are found by their label; those of other turns are not."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(1000)"]
    left = subprocess.Popen(sleeper, env={**os.environ, "FABER_TURN": f"{name}/a.0123"})
    other = subprocess.Popen(sleeper, env={**os.environ, "FABER_TURN": f"{name}/ab.0123"})
    try:
        until(lambda: len(supervisor.find(f"FABER_TURN={name}/")) == 2)
        threading.Thread(target=left.wait).start()
        assert end_turns(f"{name}/a") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_deluge_is_stopped(client: Callable[..., ClaudeCodeClient]) -> None:
    """A client that prints without end is ended at the limit, on stderr only its tail is kept."""
    made = client(
        """
        import sys
        while True:
            sys.stdout.write("x" * 65536)
            sys.stderr.write("y" * 65536)
        """,
        max_output=3_000_000,
    )
    result = made.turn("go")
    assert result.outcome is Outcome.TOO_MUCH_OUTPUT
    assert len(result.stderr) < 10_000


def test_a_client_that_is_not_there_is_missing(tmp_path: Path) -> None:
    """No program, or one that cannot be started, is `client_missing`; a directory that is gone is not."""
    made = ClaudeCodeClient(AgentOptions(str(tmp_path), command=["no-such-client"]))
    with pytest.raises(ClientMissing) as caught:
        made.complete("go")
    assert "FABER_CLAUDE" in caught.value.recovery
    script = tmp_path / "claude"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    made = ClaudeCodeClient(AgentOptions(str(tmp_path), inherited={"FABER_CLAUDE": str(script), "PATH": "/bin"}))
    ended = made.turn("go")
    assert (ended.outcome, ended.cost_usd) == (Outcome.CLIENT_MISSING, 0.0)  # what never began has cost nothing
    gone = ClaudeCodeClient(AgentOptions(str(tmp_path / "gone"), command=[sys.executable]))
    result = gone.turn("go")
    assert (result.outcome, result.exit_status) == (Outcome.AGENT_ERROR, None)
    assert "no such directory" in result.error


def test_the_budget_is_the_conversations(client: Callable[..., ClaudeCodeClient]) -> None:
    """Each turn may spend what is left; with nothing left no client is started."""
    made = client(
        f"""
        import sys
        print("limit", sys.argv[sys.argv.index("--max-budget-usd") + 1], sys.argv.count("--resume"), file=sys.stderr)
        print('''{RESULT}''')
        """,
        max_budget_usd=1.5,
    )
    made.session_id = "s"
    assert made.turn("one").stderr == "limit 1.500000 1"
    assert made.turn("two").stderr == "limit 0.750000 1"
    with pytest.raises(BudgetStop):
        made.complete("three")
    assert made.spent_usd == 1.5
    assert made.turns[-1].exit_status is None


@pytest.mark.parametrize(("version", "spent"), [("2.1.276", 2.25), ("2.1.277", 1.0), ("unheard of", 1.0)])
def test_costs_are_counted_once(client: Callable[..., ClaudeCodeClient], version: str, spent: float) -> None:
    """Whether a client's total covers the turn or, as in newer ones, the whole session: every turn is paid once."""
    made = client(
        f"""
        import json, os
        turn = len(os.listdir(".")) - 1; open(f"turn-{{turn}}", "w").close()
        print(json.dumps({{"type": "system", "subtype": "init", "claude_code_version": "{version}"}}))
        result = json.loads('{RESULT}') | {{"usage": {{"output_tokens": 1}}, "total_cost_usd": (0.5, 0.75, 1.0)[turn]}}
        print(json.dumps(result))
        """,
        max_budget_usd=5,
    )
    for prompt in ("one", "two", "three"):
        made.turn(prompt)
    assert made.spent_usd == spent


def test_every_turn_has_its_limits(tmp_path: Path) -> None:
    """No arguments are made without a limit on turns and budget, and no value that is not a limit is accepted."""
    arguments = client_arguments(AgentOptions(str(tmp_path)), None, 2.0, None)
    assert {"--max-turns", "--max-budget-usd"} <= set(arguments)
    for wrong in ({"max_turns": 0}, {"max_budget_usd": 0}, {"max_budget_usd": float("inf")}, {"timeout": 0}):
        with pytest.raises(InvalidInput):
            AgentOptions(str(tmp_path), **wrong)  # type: ignore[arg-type]
    for label in ("", "a b", "x=y", "../*"):
        with pytest.raises(InvalidInput):
            AgentOptions(str(tmp_path), label=label)


def test_a_child_is_no_part_of_the_session_around_it() -> None:
    """What a session, a plugin or a git hook sets is left out; credentials and the project's own stay."""
    inherited = {
        "HOME": "/h",
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "HTTPS_PROXY": "p",
        "FABER_ROOT": "/r",
        "GIT_CONFIG_GLOBAL": "/c",
        "OPENCODE_SESSION_ID": "ses",
        "GEMINI_CLI": "1",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "s",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_CHILD_SESSION": "1",
        "CLAUDE_PLUGIN_ROOT": "/p",
        "CLAUDE_PLUGIN_OPTION_X": "1",
        "GIT_DIR": "/g",
        "GIT_INDEX_FILE": "/i",
        "FABER_TURN": "outer",
    }
    made = agent_environment(inherited, {"HOME": "/other"}, "mine")
    assert made == {
        "HOME": "/other",
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "HTTPS_PROXY": "p",
        "FABER_ROOT": "/r",
        "GIT_CONFIG_GLOBAL": "/c",
        "FABER_CHILD": "1",
        "FABER_TURN": "mine",
    }


def test_what_ps_prints_is_read() -> None:
    """Where there is no /proc, lines of ps that begin with a process id are read, others passed over."""
    printed = "    1 /sbin/init A=b\n  PID COMMAND\n\n 42 python x FABER_TURN=t.1 HOME=/h\n"
    assert list(supervisor.lines_of_ps(printed)) == [(1, "/sbin/init A=b"), (42, "python x FABER_TURN=t.1 HOME=/h")]
