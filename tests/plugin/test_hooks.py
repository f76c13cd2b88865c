"""The hooks as the client calls them, one process each: forked, or through bin/faber where the start matters."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.context import session_record
from faber.events.drafts import Draft
from faber.feedback.requests import NewRequest, open_request
from faber.hooks import run_lookup as candidates_module
from faber.hooks.dispatch import HANDLERS
from faber.hooks.hook_call import Call
from faber.hooks.session_brief import SHORT
from faber.model import acceptance, commands
from faber.repair.doctor import store_leftovers
from faber.store import index
from faber.store.appending import Writer
from faber.store.commit import commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import Run, load
from faber.store.sessions import check_summary, history, save_summary
from faber.text.program_word import shell_word
from faber.workflows.definitions import load_plan
from support import forked_hooks
from support.copies import copy_tree
from support.git_environment import COMMITTER
from support.hook_client import call_hook

ROOT = Path(__file__).resolve().parents[2]
FABER = ROOT / "bin" / "faber"
PROGRAM = shell_word(str(FABER))
BASE_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
EVENTS = tuple(name for name in HANDLERS if name != "follow")  # `follow` is the monitor, tested in tests/hooks


class Said(NamedTuple):
    """What one call printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """What a SessionStart hook gives the session, which must be all it printed."""
        printed = json.loads(self.out)
        assert list(printed) == ["hookSpecificOutput"]
        assert list(printed["hookSpecificOutput"]) == ["hookEventName", "additionalContext"]
        assert printed["hookSpecificOutput"]["hookEventName"] == "SessionStart"
        return str(printed["hookSpecificOutput"]["additionalContext"])


class Project:
    """A repository with a store, runs in it, and hooks called from it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = Layout(str(root))
        self.environment = {
            "PATH": "/nowhere",  # a warm hook needs no program at all
            "HOME": str(root.parent),
            "FABER_VENV": os.environ.get("FABER_VENV") or sys.prefix,
        }

    def git(self, *arguments: str, cwd: Path | None = None) -> None:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        subprocess.run(
            ["git", *arguments], cwd=cwd or self.root, env=plain | COMMITTER, check=True, capture_output=True
        )

    def new(self, run_id: str = "org/project/one", *, branch: str | None = None, session: str | None = None) -> str:
        create_run(
            self.layout,
            NewRun(
                run_id=run_id,
                plan=load_plan(self.layout, "default"),
                work_id="158",
                target=None,
                autonomy="guarded",
                created_by="person",
            ),
        )
        if branch:
            self.emit(run_id, {"type": "branch_create", "metadata": {"branch": branch}})
        if session:
            self.step(run_id, session)
        return run_id

    def step(self, run_id: str, session: str | None = None) -> None:
        commit(self.layout, run_id, lambda s, p: commands.start_step(s, p, "frame", "fetch-work"), Writer(session))

    def emit(self, run_id: str, draft: Draft, session: str | None = None) -> None:
        commit(self.layout, run_id, lambda s, p: acceptance.accept(s, p, draft), Writer(session))

    def cancel(self, run_id: str) -> None:
        commit(self.layout, run_id, lambda s, p: commands.cancel_run(s, p, "not needed"))

    def load(self, run_id: str) -> Run:
        return load(self.layout, run_id)

    def types(self, run_id: str) -> list[str]:
        return [entry["file"][7:-5] for entry in self.load(run_id).state["recent_events"]]

    def hook(
        self, event: str, given: dict[str, Any] | bytes | None = None, *, cwd: Path | None = None, **changes: str | None
    ) -> Said:
        """One call in a forked process."""
        done = forked_hooks.call(
            event, _input(given), environment=self._changed(changes), directory=str(cwd or self.root)
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def started(
        self,
        event: str,
        given: dict[str, Any] | bytes | None = None,
        *,
        cwd: Path | None = None,
        wrap: tuple[str, ...] = (),
        **changes: str | None,
    ) -> Said:
        """One call through bin/faber."""
        done = subprocess.run(
            [*wrap, str(FABER), "hook", event],
            input=_input(given),
            cwd=cwd or self.root,
            env=self._changed(changes),
            capture_output=True,
            check=False,
            timeout=20,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace"))

    def _changed(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        return {k: v for k, v in {**self.environment, **changes}.items() if v is not None}

    def client_calls(self, event: str, given: dict[str, Any], **changes: str) -> str:
        """What a hook prints for a client at a terminal, in the session `s`."""
        own = {"CLAUDE_CODE_SESSION_ID": "s", "CLAUDE_PLUGIN_ROOT": str(ROOT), "CLAUDECODE": "1"}
        told = json.dumps({"session_id": "s", **given}).encode()
        return call_hook([str(FABER), "hook", event], told, {**self.environment, **own, **changes}, cwd=self.root)

    def start(self, source: str = "startup", session: str | None = None, **more: Any) -> Said:
        return self.hook("session-start", {"source": source, "session_id": session}, **more)

    def files(self) -> dict[str, bytes | None]:
        """Every file of the project with its content, and every directory."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in self.root.rglob("*")
        }


STARTUP = {"source": "startup", "session_id": "s"}


def _input(given: dict[str, Any] | bytes | None) -> bytes:
    return given if isinstance(given, bytes) else json.dumps(given or {}).encode()


NOTHING = Said(0, "", "")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit on branch main, to be copied."""
    root = tmp_path_factory.mktemp("begun")
    git = Project(root).git
    git("init", "-q", "-b", "main", "--template=")
    git("commit", "-q", "--allow-empty", "-m", "Begin")
    return root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: Path) -> Project:
    """A repository on branch main, without a store yet."""
    for name in [key for key in os.environ if key.startswith(("GIT_", "CLAUDE", "FABER_CHILD", "FABER_ROOT"))]:
        monkeypatch.delenv(name)
    root = tmp_path.resolve() / "the project"
    copy_tree(begun, root)
    return Project(root)


# --- when hooks are silent ------------------------------------------------------------------------


@pytest.mark.parametrize("event", [*EVENTS, "no-such-event", ""])
def test_nothing_without_a_store(project: Project, event: str) -> None:
    """In a project without a store every hook prints nothing and makes nothing."""
    before = project.files()
    called = project.started if event in ("session-start", "no-such-event") else project.hook
    assert called(event, {"session_id": "s"}) == NOTHING
    assert project.files() == before


@pytest.mark.parametrize("event", EVENTS)
def test_nothing_in_an_agent_of_fabers_own(project: Project, tmp_path: Path, event: str) -> None:
    """Where FABER_CHILD is set every hook ends at once: no interpreter is started, and one that is does nothing."""
    project.new(session="s")
    before = project.files()
    given = {"session_id": "s", "compact_summary": ""}
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho started\n")
    python.chmod(0o755)
    started = {"FABER_VENV": str(tmp_path / "venv")}
    assert project.started(event, given, **started).out == "started\n"
    assert project.started(event, given, FABER_CHILD="1", **started) == NOTHING
    python.write_text(f'#!/bin/sh\nFABER_CHILD=1 exec "{BASE_PYTHON}" "$@"\n')
    assert project.started(event, given, **started) == NOTHING
    assert project.files() == before


@pytest.mark.parametrize("event", EVENTS)
def test_nothing_where_no_run_is_open(project: Project, event: str) -> None:
    """A session whose runs are all over is told nothing, and nothing is recorded for it."""
    run = project.new(branch="main", session="s")
    project.cancel(run)
    before = project.files()
    assert project.hook(event, {"session_id": "s", "compact_summary": "", "source": "startup"}) == NOTHING
    assert project.files() == before


def test_nothing_of_a_run_that_is_over_and_damaged(project: Project) -> None:
    """A run that is over is not mentioned, whatever became of its files."""
    run = project.new(branch="main", session="s")
    project.cancel(run)
    _truncated(Path(project.load(run).directory) / "state.json")
    assert project.start("startup", "s") == NOTHING


def test_an_old_interpreter_ends_silently(project: Project, tmp_path: Path) -> None:
    """An interpreter older than 3.11 prints nothing and exits with 0."""
    project.new(session="s")
    python = tmp_path / "old" / "bin" / "python"
    python.parent.mkdir(parents=True)
    pretend = (
        "import os, runpy, sys; sys.version_info = (3, int(os.environ['MINOR'])); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    # -I -S -X utf8 are the first four words.
    python.write_text(f'#!/bin/sh\nshift 4\nexec "{BASE_PYTHON}" -I -S -X utf8 -c "{pretend}" "$@"\n')
    python.chmod(0o755)
    old = {"FABER_VENV": str(tmp_path / "old")}
    assert project.started("session-start", STARTUP, MINOR="11", **old).context
    assert project.started("session-start", STARTUP, MINOR="10", **old) == NOTHING


def test_no_interpreter_ends_silently(project: Project, tmp_path: Path) -> None:
    """Without any Python a hook exits with 0 and says nothing, and asks no installer for one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("uv", "python3"):
        (programs / name).write_text(f'#!/bin/sh\n[ {name} = python3 ] || : >"{tmp_path}/asked"\nexit 1\n')
        (programs / name).chmod(0o755)
    project.new(session="s")
    nowhere = {"FABER_VENV": None, "PATH": str(programs)}
    assert project.started("session-start", STARTUP, **nowhere) == NOTHING
    assert project.started("session-start", STARTUP, FABER_PYTHON="/nowhere/python", **nowhere) == NOTHING
    assert not (tmp_path / "asked").exists()


def test_a_broken_interpreter_ends_with_0(project: Project, tmp_path: Path) -> None:
    """An environment whose interpreter cannot be executed fails no hook."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_bytes(b"#!/nowhere/python\n")
    python.chmod(0o755)
    project.new(session="s")
    assert project.started("session-start", STARTUP, FABER_VENV=str(tmp_path))[:2] == (0, "")


def test_any_python_will_do(project: Project, tmp_path: Path) -> None:
    """Before the environment is built a hook answers with a Python from PATH, and builds nothing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(BASE_PYTHON)
    project.new(session="s")
    home = tmp_path / "home"
    home.mkdir()
    cold = {"FABER_VENV": None, "PATH": str(programs), "HOME": str(home), "XDG_DATA_HOME": None}
    assert "org/project/one" in project.started("session-start", STARTUP, **cold).context
    assert "org/project/one" in project.started("session-start", STARTUP, FABER_PYTHON=BASE_PYTHON, **cold).context
    assert list(home.iterdir()) == []


# --- what the person at the terminal sees -----------------------------------------------------------

TERMINAL = {"CLAUDE_CODE_ENTRYPOINT": "cli"}


def _asked(project: Project, run: str) -> None:
    asked = NewRequest("fr-1", "approval", "May the table be dropped?")
    commit(project.layout, run, lambda s, p: open_request(s, p, asked))


@pytest.mark.parametrize("source", ["startup", "resume", "clear"])
def test_a_terminal_shows_where_the_run_is(project: Project, source: str) -> None:
    """At a terminal, and only there, the start of a session shows its person one line, beside the session's brief."""
    project.new(branch="main")
    printed = json.loads(project.start(source, "s", **TERMINAL).out)
    shown = printed.pop("systemMessage")
    assert shown.startswith("faber: run org/project/one (work item 158) is at frame (start)")
    assert "/faber:resume" in shown
    assert "\n" not in shown
    assert "org/project/one" in printed["hookSpecificOutput"]["additionalContext"]
    assert project.start(source, "s", **TERMINAL, CLAUDE_CODE_SESSION_ATTENDED="0").context
    assert project.start(source, "s", CLAUDE_CODE_ENTRYPOINT="sdk-cli").context
    assert project.start("compact", "s", **TERMINAL).context


def test_an_answer_through_the_hooks(project: Project) -> None:
    """A code that Stop showed is typed: the answer is recorded, with any Python and without packages."""
    run = project.new(session="s")
    _asked(project, run)
    stopped = json.loads(project.client_calls("stop", {}, **TERMINAL))
    assert list(stopped) == ["systemMessage"]
    assert "May the table be dropped?" in stopped["systemMessage"]
    code = re.search(r"`approve (\w{3})`", stopped["systemMessage"])
    assert code
    transcript = str(project.root / "projects" / "p" / "s.jsonl")
    given = {"prompt": f"approve {code[1]} after the backup", "transcript_path": transcript}
    assert (
        project.client_calls("user-prompt-submit", given, CLAUDE_CODE_ENTRYPOINT="sdk-cli").count("recorded nothing")
        == 1
    )
    assert project.load(run).state["answers"] == []
    typed = json.loads(project.client_calls("user-prompt-submit", given, **TERMINAL))
    assert "recorded your answer" in typed["systemMessage"]
    (heard,) = project.load(run).state["answers"]
    assert (heard["response"], heard["comment"]) == ("approve", "after the backup")
    assert heard["responder"]
    assert heard["responder"]["source"] == "terminal"
    assert project.client_calls("stop", {}, **TERMINAL) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere faber cannot look into processes")
def test_a_shell_of_the_session_gets_no_code(project: Project) -> None:
    """A hook that the client did not call itself prints no code, and takes none."""
    run = project.new(branch="main", session="s")
    _asked(project, run)
    in_bash = {**TERMINAL, "CLAUDE_CODE_SESSION_ID": "s", "CLAUDE_PLUGIN_ROOT": str(ROOT), "CLAUDECODE": "1"}
    for event in ("stop", "session-start"):
        shown = json.loads(project.hook(event, {"session_id": "s"}, **in_bash).out)["systemMessage"]
        assert "In a terminal: faber feedback respond" in shown
        assert "Type" not in shown
    stopped = json.loads(project.client_calls("stop", {}, **TERMINAL))["systemMessage"]
    code = re.search(r"`approve (\w{3})`", stopped)
    assert code
    transcript = str(project.root / "projects" / "p" / "s.jsonl")
    given = {"session_id": "s", "prompt": f"approve {code[1]}", "transcript_path": transcript}
    refused = json.loads(project.hook("user-prompt-submit", given, **in_bash).out)
    assert "the client did not call faber itself" in refused["reason"]
    assert project.load(run).state["answers"] == []


def test_a_code_is_shown_to_its_session_alone(project: Project) -> None:
    """The start of a session shows the request in place of the line; no brief and no record holds its code."""
    run = project.new(branch="main")
    _asked(project, run)
    printed = json.loads(project.client_calls("session-start", {"source": "startup"}, **TERMINAL))
    code = re.search(r"`reject (\w{3})`", printed.pop("systemMessage"))
    assert code
    assert f" {code[1]}`" not in json.dumps(printed)
    assert all(
        code[1].encode() not in (text or b"") for name, text in project.files().items() if "answer-codes" in name
    )
    # A session that never worked on the run is not reminded after every turn.
    assert project.hook("stop", {"session_id": "t"}, **TERMINAL) == NOTHING


# --- whatever happens -----------------------------------------------------------------------------

INPUTS = {
    "nothing": b"",
    "no JSON": b"{",
    "an array": b"[1]",
    "no UTF-8": b'{"session_id": "\xff\xfe"}',
    "a lone surrogate": b'{"session_id": "\\ud800", "source": "\\udfff", "cwd": "/\\ud800"}',
    "deep nesting": b"[" * 100_000,
    "10 MB of garbage": bytes(range(256)) * 40_000,
    "wrong types": b'{"session_id": 7, "source": {}, "cwd": [], "error": [1], "compact_summary": 1, "trigger": null}',
    "odd values": b'{"session_id": "../../x\\u0000/\\n", "cwd": "/a\\u0000b", "compact_summary": ""}',
    "NaN": b'{"session_id": NaN}',
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("given", INPUTS.values(), ids=list(INPUTS))
def test_any_input(project: Project, event: str, given: bytes) -> None:
    """Whatever is on stdin, a hook exits with 0 and prints at most one answer; the run is found by its branch."""
    project.new(branch="main")
    called = project.started if event == "session-start" and len(given) > 1_000_000 else project.hook
    said = called(event, given)
    assert (said.status, said.err) == (0, "")
    if event == "session-start":
        assert "org/project/one" in said.context
    elif event != "pre-compact":
        assert said.out == ""


@pytest.mark.parametrize("event", EVENTS)
def test_stdin_and_stdout_closed(project: Project, event: str) -> None:
    """Closed standard streams fail no hook, keep none from recording, and nothing printed lands in the store."""
    run = project.new(session="s")
    given = {"CLAUDE_CODE_SESSION_ID": "s"}
    # One at a time where something would be printed.
    for closed in ("<&-", ">&-", "<&- >&- 2>&-")[0 if event in ("session-start", "pre-compact") else 2 :]:
        said = project.started(event, b"", wrap=("/bin/sh", "-c", f'exec "$@" {closed}', "sh"), **given)
        assert (said.status, said.err) == (0, "")
    for text in (value for value in project.files().values() if value):
        assert b"hookSpecificOutput" not in text
        assert b"verbatim" not in text
    assert project.load(run).state["last_event_id"] == 3 + (event in ("pre-compact", "session-end", "stop-failure"))
    assert (event == "session-start") is (session_record.read(project.layout, "s") is not None)


def test_a_writer_that_never_closes(project: Project) -> None:
    """A stdin that stays open and empty is not waited for."""
    project.new(branch="main")
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [str(FABER), "hook", "session-start"],
            stdin=reading,
            capture_output=True,
            cwd=project.root,
            env=project.environment,
            check=True,
            timeout=10,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert b"org/project/one" in done.stdout


def test_a_deleted_directory(project: Project, tmp_path: Path) -> None:
    """From a directory that was deleted the project is found by what the client says, or nothing is said."""
    project.new(branch="main")
    gone = tmp_path / "gone"
    gone.mkdir()
    lose = ("/bin/sh", "-c", f'/bin/rmdir "{gone}"; exec "$@"', "sh")
    # Some shells say on stderr that they cannot tell where they are.
    assert project.started("session-start", {}, cwd=gone, wrap=lose)[:2] == (0, "")
    gone.mkdir()
    assert project.started("session-start", {"cwd": str(project.root)}, cwd=gone, wrap=lose).context
    gone.mkdir()
    assert project.started("session-start", {"cwd": str(gone)}, cwd=gone, wrap=lose)[:2] == (0, "")


@pytest.mark.parametrize("event", EVENTS)
def test_no_home(project: Project, event: str) -> None:
    """HOME may be unset."""
    project.new(branch="main")
    called = project.started if event == "session-start" else project.hook
    said = called(event, {"session_id": "s"}, HOME=None)
    assert (said.status, said.err, bool(said.out)) == (0, "", event in ("session-start", "pre-compact"))


@pytest.mark.parametrize("locale", ["C", "de_DE.ISO-8859-1", "tr_TR.ISO-8859-9", "no_SUCH.locale"])
def test_any_locale(project: Project, locale: str) -> None:
    """Text outside ASCII arrives as it was recorded under any locale."""
    run = project.new(session="s")
    project.emit(run, {"type": "decision_point", "message": "Größe in 数, not in İ"})
    assert "Größe in 数, not in İ" in project.started("session-start", STARTUP, LC_ALL=locale, LANG=locale).context
    assert "Größe in 数, not in İ" in project.started("pre-compact", {"session_id": "s"}, LC_ALL=locale).out


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_truncated, "state_corrupt"),
        (_fifo, "unsafe_file"),
        (_link, "unsafe_file"),
        (lambda path: path.unlink(), "state_missing"),
        (lambda path: path.write_text("{}"), ""),
        (lambda path: path.write_text("[" * 10_000), "state_corrupt"),
    ],
)
def test_a_damaged_state(project: Project, damage: Callable[[Path], object], code: str) -> None:
    """A run that cannot be read is named with its error's code, and no hook fails, hangs or changes a file."""
    run = project.new(session="s")
    damage(Path(project.load(run).directory) / "state.json")
    before = set(project.files())
    for event in EVENTS:
        said = project.hook(event, {"session_id": "s", "compact_summary": "x", "source": "startup"})
        assert (said.status, said.err) == (0, "")
        if event != "session-start":
            assert said.out == ""
        elif code:
            assert f"run org/project/one belongs to this session but cannot be read ({code})" in said.context
    assert set(project.files()) == before


@pytest.fixture
def held(project: Project) -> Iterator[str]:
    """A run whose lock this process holds."""
    run = project.new(session="s")
    handle = os.open(Path(project.load(run).directory) / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield run
    os.close(handle)


@pytest.mark.parametrize("event", EVENTS)
def test_a_held_lock_is_not_waited_for(project: Project, held: str, event: str) -> None:
    """While another process holds the run's lock a hook says what it has to say, records nothing and ends soon."""
    before = project.types(held)
    begun = time.monotonic()
    said = project.hook(event, {"session_id": "s", "source": "startup"})
    assert time.monotonic() - begun < 60  # the lock is held for ever
    assert (said.status, said.err, bool(said.out)) == (0, "", event in ("session-start", "pre-compact"))
    assert project.types(held) == before


@pytest.mark.parametrize("event", EVENTS)
def test_a_repository_that_cannot_be_written(
    project: Project, event: str, needed: Callable[[str | None, str], str]
) -> None:
    """In a repository that is read-only for whoever runs it a hook says what it has to say and leaves no trace."""
    run = project.new(session="s")
    wrap: tuple[str, ...] = ()
    changes: dict[str, str | None] = {}
    if os.geteuid() == 0:  # modes are nothing to root
        both = all(os.access(program, os.X_OK) for program in ("/usr/bin/setpriv", "/usr/bin/python3"))
        needed("both" if both else None, "needs setpriv, and a Python that nobody may use")
        wrap = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        changes = {"FABER_VENV": None, "PATH": "/usr/bin", "XDG_DATA_HOME": "/nowhere"}
        for directory in (project.root, *project.root.parents):
            if directory.stat().st_mode & 0o005 != 0o005:
                directory.chmod(0o755)
    before = project.files()
    writable = [path for path in (project.root, *project.root.rglob("*")) if path.is_dir()]
    for path in writable:
        path.chmod(0o555)
    try:
        said = project.started(
            event, {"session_id": "s", "source": "startup", "compact_summary": ""}, wrap=wrap, **changes
        )
    finally:
        for path in writable:
            path.chmod(0o755)
    assert (said.status, said.err, bool(said.out)) == (0, "", event in ("session-start", "pre-compact"))
    assert project.files() == before
    assert project.load(run).state["status"] == "in_progress"


@pytest.mark.parametrize("event", EVENTS)
def test_an_index_that_cannot_be_written(project: Project, event: str) -> None:
    """Where a session's record cannot be kept a hook says what it has to say."""
    project.new(session="s")
    (Path(project.layout.index) / session_record.RECORDS).write_text("in the way")
    said = project.hook(event, {"session_id": "s", "source": "startup", "compact_summary": ""})
    assert (said.status, said.err, bool(said.out)) == (0, "", event in ("session-start", "pre-compact"))


def test_ten_thousand_runs(project: Project) -> None:
    """Among 10,000 active runs, 2,000 of them started here, the session's own is found, and no listing is longer than
    can be read."""
    run = project.new(branch="feat/158", session="s")
    template = Path(project.load(run).directory)
    here = f"{index.WORKTREES}/{index.file_name(str(project.root))}"
    for directory, count in ((index.ACTIVE, 10_000), (here, 2000)):
        entries = os.path.join(project.layout.index, directory)
        os.makedirs(entries, exist_ok=True)
        for number in range(count):
            Path(entries, index._quote(f"org/project/n{number}")).touch()
    for number in range(20):
        other = template.with_name(f"n{number}")
        copy_tree(template, other)
        for name in ("state.json", "metadata.json", "plan.json"):
            file = other / name
            file.write_text(file.read_text().replace("project/one", f"project/n{number}"))
    assert project.start("startup", "s").context.startswith(f"faber: an unfinished run belongs to this session: {run}")
    project.git("checkout", "-q", "-b", "feat/158")
    assert project.start("startup", "another").context.startswith(
        f"faber: an unfinished run belongs to this session: {run}"
    )


def test_no_hook_scans_the_store(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is found without listing the runs."""
    project.new(branch="main")

    def never(*_: object) -> list[str]:
        raise AssertionError("listed")

    monkeypatch.setattr(Layout, "run_ids", never)
    monkeypatch.setattr(index, "active", never)
    call = Call({}, None, project.layout, str(project.root), str(FABER))
    assert candidates_module.candidates(call, candidates_module.place_of(call)).one


# --- which run ------------------------------------------------------------------------------------


def test_the_session_s_latest_open_run_comes_first(project: Project) -> None:
    """A session is told about the run it worked on last; when that is over, about the one before; then its branch's."""
    project.new("org/p/branch", branch="main")
    for run in ("org/p/first", "org/p/second"):
        project.new(run, session="s")
        time.sleep(0.01)
    for run in ("org/p/second", "org/p/first"):
        assert f" {run} " in project.start("startup", "s").context
        project.cancel(run)
    assert " org/p/branch " in project.start("startup", "s").context


def test_the_environment_names_the_session(project: Project) -> None:
    """Where stdin names no session, CLAUDE_CODE_SESSION_ID does."""
    project.new("org/p/mine", session="s")
    project.new("org/p/other", branch="main")
    assert " org/p/mine " in project.hook("session-start", b"", CLAUDE_CODE_SESSION_ID="s").context


def test_a_branch_leads_to_its_run(project: Project) -> None:
    """A new session finds the run of the branch that is checked out, in a subdirectory too."""
    project.new("org/p/one", branch="feat/1")
    project.new("org/p/two", branch="feat/2")
    inside = project.root / "src" / "deep"
    inside.mkdir(parents=True)
    for number, run in ((1, "org/p/one"), (2, "org/p/two")):
        project.git("checkout", "-q", "-b", f"feat/{number}")
        said = project.start("startup", "new", cwd=inside).context
        assert f" {run} " in said
        assert "ELSEWHERE" not in said


def test_a_branch_that_a_run_left_leads_nowhere(project: Project) -> None:
    """A branch that a run has exchanged for another no longer leads to it."""
    run = project.new(branch="main")
    project.emit(run, {"type": "branch_create", "metadata": {"branch": "feat/2"}})
    assert project.start() == NOTHING


def test_a_run_begun_here_has_no_branch_yet(project: Project) -> None:
    """A run that has no branch yet is found by the worktree it was started in."""
    run = project.new()
    assert project.start() == NOTHING
    index.bind(project.layout, index.WORKTREES, str(project.root), run)
    assert run in project.start().context


def test_a_linked_worktree_finds_its_run(project: Project) -> None:
    """In a linked worktree a session finds the run of the branch there, in the main worktree's store."""
    project.new("org/p/tree", branch="feat/tree")
    project.new("org/p/main", branch="main")
    tree = project.root.parent / "tree"
    project.git("worktree", "add", "-q", "-b", "feat/tree", str(tree))
    assert " org/p/tree " in project.start(cwd=tree).context
    assert " org/p/main " in project.start().context


def test_a_run_begun_in_a_linked_worktree_is_found_there(project: Project) -> None:
    """A run that has no branch yet is told to sessions of the linked worktree that it was started in alone."""
    tree = project.root.parent / "tree"
    project.git("worktree", "add", "-q", "-b", "feat/tree", str(tree))
    index.bind(project.layout, index.WORKTREES, str(tree), project.new())
    assert " org/project/one " in project.start(cwd=tree).context
    assert project.start() == NOTHING


def test_a_run_elsewhere_is_said_to_be_elsewhere(project: Project) -> None:
    """Of a session's run whose branch is checked out in another worktree, or nowhere, the session is told so."""
    project.new(branch="feat/away", session="s")
    assert "feat/away is not checked out anywhere (here is main)" in project.start("startup", "s").context
    tree = project.root.parent / "tree"
    project.git("worktree", "add", "-q", "-b", "feat/away", str(tree))
    there = f"feat/away is checked out at {tree}, not here (here is main)"
    for source in ("startup", "compact", "resume"):
        assert there in project.start(source, "s").context
    assert "ELSEWHERE" not in project.start("startup", "s", cwd=tree).context
    project.git("checkout", "-q", "--detach")
    assert "not here (here is a commit without a branch)" in project.start("startup", "s").context


def test_begun_here_and_gone_elsewhere(project: Project) -> None:
    """A run started in this worktree whose branch is not checked out is offered only where nothing fits better."""
    away = project.new("org/p/away", branch="feat/away")
    index.bind(project.layout, index.WORKTREES, str(project.root), away)
    assert f" {away} " in project.start().context
    project.new("org/p/here", branch="main")
    assert " org/p/here " in project.start().context


def test_a_person_chooses_between_several(project: Project) -> None:
    """Several runs of one branch are listed with work item and place, the person is asked, and none is picked."""
    for name in "abc":
        project.new(f"org/p/{name}", branch="main")
    said = project.start("startup", "s").context
    assert "3 unfinished runs match this session. Ask the person which one to continue; do not choose." in said
    for name in "abc":
        assert f"- org/p/{name}: work item 158, pending at frame (start), branch main" in said
    assert not (Path(project.layout.index) / session_record.RECORDS).exists()
    assert project.hook("pre-compact", {"session_id": "s"}) == NOTHING
    project.step("org/p/b", "s")
    assert " org/p/b " in project.start("clear", "s").context


def test_more_than_a_few_are_counted(project: Project) -> None:
    """Of many runs of one branch eight are listed and the others counted."""
    for number in range(11):
        project.new(f"org/p/n{number}", branch="main")
    said = project.start().context
    assert said.startswith("faber: 11 unfinished runs")
    assert len(re.findall("^- org", said, re.MULTILINE)) == 8
    assert "- and 3 more" in said


def test_a_damaged_run_is_not_passed_over(project: Project) -> None:
    """Where one of two runs of a branch cannot be read, the other is not picked for it."""
    project.new("org/p/a", branch="main")
    damaged = project.new("org/p/b", branch="main")
    _truncated(Path(project.load(damaged).directory) / "state.json")
    said = project.start().context
    assert "2 unfinished runs" in said
    assert "- org/p/b: cannot be read (state_corrupt)" in said


# --- what is said ---------------------------------------------------------------------------------


def test_full_at_a_start_short_after_a_compaction(project: Project) -> None:
    """Startup, clear and an unknown source get the full brief, a compaction the short one."""
    run = project.new(session="s")
    for number in range(10):
        project.emit(run, {"type": "decision_point", "message": f"decision {number} " + "d" * 400})
    full = project.start("startup", "s").context
    assert "decision 0" in full
    assert project.start("clear", "s").context == project.start("something new", "s").context == full
    assert project.hook("session-start", {"session_id": "s"}).context == full
    short = project.start("compact", "s").context
    assert len(short) <= SHORT
    assert "decision 9" in short
    assert "decision 0" not in short


def test_a_resume_tells_what_is_new(project: Project) -> None:
    """On a resume one line is said where nothing new, and what others recorded where something is."""
    run = project.new(session="s")
    project.start("startup", "s")
    still = project.start("resume", "s").context
    assert "nothing new" in still
    assert f"{PROGRAM} next {run}" in still
    assert "\n" not in still
    project.emit(run, {"type": "test_run", "status": "passed", "message": "mine"}, "s")
    assert project.start("resume", "s").context == still
    project.emit(run, {"type": "checkpoint", "message": "theirs, and nothing to know"}, "another")
    assert project.start("resume", "s").context == still
    project.emit(run, {"type": "decision_point", "message": "theirs"}, "another")
    news = project.start("resume", "s").context
    assert re.search(r"^- \d+ decision_point: theirs$", news, re.MULTILINE)
    assert "mine" not in news
    assert project.start("resume", "s").context == still


def test_a_resume_of_a_session_that_was_told_nothing(project: Project) -> None:
    """A resumed session without a record, or with one of another run, gets the full brief."""
    project.new("org/p/a", session="s")
    full = project.start("resume", "s").context
    assert "Next command:" in full
    assert "nothing new" not in full
    project.cancel("org/p/a")
    project.new("org/p/b", session="s")
    assert "unfinished run belongs to this session: org/p/b" in project.start("resume", "s").context


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "else"])
def test_a_start_writes_its_record_alone(project: Project, source: str) -> None:
    """SessionStart changes nothing in the project but its session's record, and that only where it is another."""
    project.new(session="s")
    before = project.files()
    project.start(source, "s")
    after = project.files()
    record = os.path.relpath(session_record.path_of(project.layout, "s"), project.root)
    assert {name for name in after if after[name] != before.get(name, b"")} == {record, os.path.dirname(record)}
    stamp = (project.root / record).stat().st_ino
    project.start(source, "s")
    assert (project.root / record).stat().st_ino == stamp


def test_a_session_without_a_name_has_no_record(project: Project) -> None:
    """Where no session is named a start says what it has to say and writes nothing."""
    project.new(branch="main")
    before = project.files()
    assert project.start().context
    assert project.files() == before


@pytest.mark.parametrize(
    "damage",
    [
        _truncated,
        _fifo,
        _link,
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(path.read_text().replace('"version":1', '"version":2')),
        lambda path: path.write_text(path.read_text().replace('"event_id":3', '"event_id":"3"')),
        lambda path: path.write_text(path.read_text().replace('"session_id":"s"', '"session_id":"t"')),
    ],
)
def test_a_damaged_record_is_none(project: Project, damage: Callable[[Path], object]) -> None:
    """A session's record that cannot be read, or is another's, counts as none: the session is told everything."""
    project.new(session="s")
    full = project.start("startup", "s").context
    assert project.start("resume", "s").context != full
    damage(Path(session_record.path_of(project.layout, "s")))
    assert project.start("resume", "s").context == full


def test_a_killed_record_s_remains_are_found(project: Project) -> None:
    """What a hook that was killed left beside the records is among the store's leftovers."""
    project.new(session="s")
    project.start("startup", "s")
    left = Path(session_record.path_of(project.layout, "s")).with_name(".s.json.1.tmp")
    left.touch()
    assert store_leftovers(project.layout) == [str(left)]


def test_outsiders_get_no_word_in(project: Project) -> None:
    """No text of a work item or of a comment on an answer appears in any hook's output."""
    run = project.new(branch="main", session="s")
    directory = Path(project.load(run).directory)
    issue = {"id": "158", "title": "OUTSIDE", "body": "OUTSIDE", "comments": [{"body": "OUTSIDE"}]}
    (directory / "work-item.json").write_text(json.dumps({"issue": issue, "fetched_at": "2026-01-01T00:00:00Z"}))
    (project.root / ".fractary/faber/work").mkdir()
    (project.root / ".fractary/faber/work/158.json").write_text(json.dumps(issue))
    project.start("startup", "s")
    project.emit(run, {"type": "feedback_request", "metadata": {"request_id": "r", "prompt": "Go on?"}})
    project.emit(
        run,
        {
            "type": "feedback_received",
            "message": "OUTSIDE",
            "metadata": {"request_id": "r", "response": "OUTSIDE", "comment": "OUTSIDE"},
        },
    )
    for source in ("resume", "startup", "compact"):
        assert "OUTSIDE" not in project.start(source, "s").context
    assert "OUTSIDE" not in project.hook("pre-compact", {"session_id": "s", "custom_instructions": "OUTSIDE"}).out
    project.new("org/p/second", branch="main")
    assert "OUTSIDE" not in project.start("startup", "t").context


# --- what is recorded -----------------------------------------------------------------------------


def test_a_compaction_leaves_one_checkpoint(project: Project) -> None:
    """PreCompact records a checkpoint with session and trigger once, however often it fires, and again after news."""
    run = project.new(session="s")
    for _ in range(3):
        said = project.hook("pre-compact", {"session_id": "s", "trigger": "auto"})
        assert said.out.startswith("Keep these lines verbatim in the summary")
        assert f"- faber run: {run}" in said.out
        assert f"- Next command: {PROGRAM} next {run}" in said.out
    assert project.types(run)[3:] == ["checkpoint"]
    event = json.loads((Path(project.load(run).directory) / "events/000004-checkpoint.json").read_text())
    assert (event["session_id"], event["metadata"], event["actor"]) == ("s", {"trigger": "auto"}, "hook")
    assert event["key"] == "precompact-s-3"
    project.emit(run, {"type": "docs_update"}, "s")
    project.hook("pre-compact", {"session_id": "s", "trigger": "manual"})
    assert project.types(run)[3:] == ["checkpoint", "docs_update", "checkpoint"]


def test_compactions_at_once_leave_one_checkpoint(project: Project) -> None:
    """Two PreCompact hooks at the same moment record one checkpoint."""
    run = project.new(session="s")
    command = [str(FABER), "hook", "pre-compact"]
    processes = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=project.root, env=project.environment
        )
        for _ in range(4)
    ]
    for process in processes:
        process.communicate(b'{"session_id": "s"}')
    assert project.types(run).count("checkpoint") == 1


@pytest.mark.parametrize(
    ("summary", "lost"),
    [
        ("We worked on org/project/one at frame:fetch-work.", ()),
        ("We worked at frame:fetch-work.", ("run_id",)),
        ("We worked on org/project/one.", ("step",)),
        ("We worked on org/project/one, in frame.", ("step",)),
        ("We worked.", ("run_id", "step")),
    ],
)
def test_a_summary_that_lost_the_thread_is_made_good(project: Project, summary: str, lost: tuple[str, ...]) -> None:
    """After a summary without the run's id or its step the next compact or resume start is told everything, once."""
    project.new(session="s")
    full = project.start("startup", "s").context
    short = project.start("compact", "s").context
    assert short != full
    post = {"session_id": "s", "trigger": "auto", "compact_summary": summary}
    for source, usual in (("resume", project.start("resume", "s").context), ("compact", short)):
        before = project.files()
        assert project.hook("post-compact", post) == NOTHING
        record = session_record.read(project.layout, "s")
        assert record is not None
        assert record.lost == lost
        assert lost or project.files() == before
        assert project.start(source, "s").context == (full if lost else usual)
        assert project.start(source, "s").context == usual


def test_a_session_s_end_is_recorded(project: Project) -> None:
    """SessionEnd records one session_end with the reason, and session summaries stay as they were."""
    run = project.new(session="s")
    save_summary(project.layout, run, check_summary({"accomplished": ["all"]}), Writer("before"), head_commit=None)
    before = project.load(run)
    for _ in range(2):
        assert project.hook("session-end", {"session_id": "s", "reason": "logout"}) == NOTHING
    after = project.load(run)
    assert project.types(run)[-2:] == ["session_end", "session_end"]
    assert after.state["last_event_id"] == before.state["last_event_id"] + 1
    assert after.state["session_summaries"] == before.state["session_summaries"]
    assert history(after) == history(before)
    event = json.loads((Path(after.directory) / "events/000005-session_end.json").read_text())
    assert (event["session_id"], event["metadata"]) == ("s", {"reason": "logout"})


def test_a_turn_that_broke_off_is_recorded(project: Project) -> None:
    """StopFailure records the client's error, once until something else happens."""
    run = project.new(session="s")
    for _ in range(2):
        assert project.hook("stop-failure", {"session_id": "s", "error": "max_output_tokens"}) == NOTHING
    assert project.types(run)[3:] == ["hook_execute"]
    event = json.loads((Path(project.load(run).directory) / "events/000004-hook_execute.json").read_text())
    assert event["metadata"] == {"hook": "StopFailure", "error": "max_output_tokens"}


def test_the_next_session_is_told_of_a_limit(project: Project) -> None:
    """A turn that the service refused is in the run's state, with the end of the limit, and in the next brief, until
    the run continues; an error of another kind is not."""
    run = project.new(session="s")
    end = (datetime.now().astimezone() + timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
    words = f"API Error: Request rejected (429) · You've hit your session limit · resets {end:%I%p}".replace(" 0", " ")
    for error in ("invalid_request", "rate_limit"):
        project.emit(run, {"type": "decision_point", "message": "On."}, "s")
        assert "paused" not in project.load(run).state
        project.hook("stop-failure", {"session_id": "s", "error": error, "last_assistant_message": words})
    project.hook("session-end", {"session_id": "s", "reason": "other"})
    paused = project.load(run).state["paused"]
    assert paused["reason"] == "rate_limit"
    assert datetime.fromisoformat(str(paused["waiting_until"])) == end
    for source in ("startup", "compact", "resume"):
        told = project.start(source, "s").context
        assert (
            f"The service refused the last turn: {words} (since {paused['since']}, until {paused['waiting_until']})"
            in told
        )
    project.emit(run, {"type": "decision_point", "message": "On."}, "s")
    assert "refused" not in project.start("startup", "s").context


@pytest.mark.parametrize("event", ["pre-compact", "session-end", "stop-failure"])
def test_a_run_that_waits_is_recorded_for(project: Project, event: str) -> None:
    """What happens to a session is recorded also while its run waits for a person, which it continues doing."""
    run = project.new(session="s")
    project.emit(run, {"type": "feedback_request", "metadata": {"request_id": "r", "prompt": "Go on?"}}, "s")
    project.hook(event, {"session_id": "s"})
    state = project.load(run).state
    assert (state["status"], state["last_event_id"]) == ("awaiting_feedback", 5)


@pytest.mark.parametrize("event", ["pre-compact", "session-end", "stop-failure"])
def test_nothing_is_recorded_for_a_bystander(project: Project, event: str) -> None:
    """A session that recorded nothing for a run leaves no trace in its log, though it is told about it."""
    run = project.new(branch="main", session="s")
    before = project.files()
    assert bool(project.hook(event, {"session_id": "bystander"}).out) == (event == "pre-compact")
    assert project.files() == before
    assert run


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("{faber} next r", True),
        ("{faber} next r; id", False),
        ("{faber} feedback respond r approve", False),
        ("ls", False),
    ],
)
def test_a_plain_call_of_faber_is_allowed(project: Project, command: str, allowed: bool) -> None:
    """A Bash call that is one plain call of this plugin's program is allowed; of any other nothing is said."""
    project.new(session="s")
    line = command.format(faber=f'"{ROOT / "bin" / "faber"}"')
    said = project.hook("pre-tool-use", {"tool_name": "Bash", "tool_input": {"command": line}})
    if allowed:
        assert json.loads(said.out)["hookSpecificOutput"]["permissionDecision"] == "allow"
    else:
        assert said == NOTHING


def test_codex_is_not_told_of_a_plain_call(project: Project) -> None:
    """Codex calls the hook for each command, whatever it is, and has no use for an approval: it gets none."""
    project.new(session="s")
    given = {"tool_name": "Bash", "tool_input": {"command": f"{FABER} next r"}}
    assert project.started("pre-tool-use", given, CLAUDE_PLUGIN_ROOT=str(ROOT)).out
    assert project.started("pre-tool-use", given, CLAUDE_PLUGIN_ROOT=str(ROOT), PLUGIN_ROOT=str(ROOT)) == NOTHING


def allows(project: Project, command: str, **environment: str | None) -> bool:
    """True if the hook allows the Bash call, False if it says nothing."""
    said = project.hook("pre-tool-use", {"tool_name": "Bash", "tool_input": {"command": command}}, **environment)
    assert said.status == 0
    return bool(said.out) and json.loads(said.out)["hookSpecificOutput"]["permissionDecision"] == "allow"


@pytest.mark.parametrize("path", ["/nowhere", "/usr/bin:{other}", "{other}:/usr/bin", "/usr/bin:", "bin:/usr/bin", ""])
def test_the_bare_name_is_allowed_if_it_is_ours(project: Project, tmp_path: Path, path: str) -> None:
    """`faber` without a path is allowed, unless the PATH may lead to another program of that name."""
    project.new(session="s")
    other = tmp_path / "other"
    other.mkdir()
    (other / "faber").touch()
    assert allows(project, "faber next r", PATH=path.format(other=other)) == (path == "/nowhere")
    assert allows(project, f"'{FABER}' next r", PATH=path.format(other=other))
    assert not allows(project, "faber sync push r", PATH="/nowhere")


def test_the_first_run_of_a_project_is_allowed(project: Project) -> None:
    """Where there is no store yet, the commands that begin one are allowed, and nothing is written."""
    assert allows(project, f"'{FABER}' run begin --next '158'")
    assert not allows(project, f"'{FABER}' repair --store")
    assert not project.layout.exists()


@pytest.mark.parametrize("event", EVENTS)
def test_a_foreign_run_is_left_alone(project: Project, event: str) -> None:
    """Another tool's run is neither offered nor written to, even where the index leads to it."""
    directory = Path(project.layout.run_dir("theirs"))
    directory.mkdir(parents=True)
    (directory / "state.json").write_text(json.dumps({"run_id": "theirs", "status": "in_progress", "phases": {}}))
    (directory / "metadata.json").write_text(json.dumps({"run_id": "theirs", "work_id": "1"}))
    for kind, name in ((index.SESSIONS, "s"), (index.BRANCHES, "main"), (index.WORKTREES, str(project.root))):
        index.bind(project.layout, kind, name, "theirs")
    index._touch(os.path.join(project.layout.index, index.ACTIVE), "theirs")
    before = project.files()
    assert project.hook(event, {"session_id": "s", "compact_summary": ""}) == NOTHING
    assert project.files() == before


# --- the bundle -----------------------------------------------------------------------------------


def test_hooks_import_nothing_of_others(project: Project) -> None:
    """No hook imports a module that is neither Python's own nor faber's."""
    project.new(session="s")
    code = f"""
import sys; sys.path.insert(0, {str(ROOT / "scripts")!r})
import io, os
from faber.hooks import dispatch
dispatch._read = lambda handle: b'{{"session_id": "s", "source": "resume", "compact_summary": "x"}}'
before = set(sys.modules)
for event in ["session-start", "pre-compact", "post-compact", "session-start", "session-end", "stop-failure"]:
    dispatch.answer(event)
names = {{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names
print(); print(sorted(name for name in names if not name.startswith("__")))
print([name for name in sys.modules if name in ("subprocess", "socket", "ssl", "asyncio", "multiprocessing")])
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-2:] == ["['faber']", "[]"]
    assert {"checkpoint", "session_end", "hook_execute"} <= set(project.types("org/project/one"))


def test_the_client_is_told_of_each_hook() -> None:
    """hooks.json calls each hook there is, through the quoted root, with a small limit in seconds."""
    hooks = json.loads((ROOT / "hooks" / "hooks.json").read_text())["hooks"]
    called = {}
    for event, (entry,) in hooks.items():
        hook, *same = entry["hooks"]
        assert [{**other, "if": hook["if"]} for other in same] == [hook] * (event == "PreToolUse")
        assert set(entry) == ({"hooks", "matcher"} if event == "PreToolUse" else {"hooks"})
        assert hook["type"] == "command"
        assert 1 <= hook["timeout"] <= 10
        trap, _, command = hook["command"].rpartition("; ")
        assert trap == ("trap '' HUP INT TERM" if event == "StopFailure" else "")  # the client ends without waiting
        called[event] = re.fullmatch(r'"\$\{CLAUDE_PLUGIN_ROOT\}/bin/faber" hook ([a-z-]+)', command)[1]  # type: ignore[index]
    assert called == {re.sub("-?([a-z]+)", lambda m: m[1].title(), event): event for event in EVENTS}


@pytest.mark.full
def test_the_client_refuses_other_hooks(claude_binary: str, tmp_path: Path) -> None:
    """The client's strict validation accepts the bundle's hooks, and refuses one for an event it does not know."""
    for name in (".claude-plugin", "hooks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    file = tmp_path / "hooks" / "hooks.json"
    for text, accepted in ((file.read_text(), True), (file.read_text().replace("PreCompact", "NoSuchEvent"), False)):
        file.write_text(text)
        done = subprocess.run(
            [
                claude_binary,
                "plugin",
                "validate",
                "--strict",
                ".claude-plugin/plugin.json",
            ],  # `.` would be the marketplace alone
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "DISABLE_AUTOUPDATER": "1", "ANTHROPIC_API_KEY": "x"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) is accepted, done.stdout + done.stderr


def test_allowing_a_plain_call_loads_no_run(tmp_path: Path) -> None:
    """A tool call waits for its hook: it reads no run, and loads nothing that does, to allow `faber next`."""
    os.makedirs(Layout(str(tmp_path)).store)
    entry = ROOT / "scripts" / "faber" / "hooks" / "__main__.py"
    given = {"session_id": "s", "tool_name": "Bash", "tool_input": {"command": f"{PROGRAM} next"}}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", entry, "pre-tool-use"],
        cwd=tmp_path, env={}, input=json.dumps(given), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "faber.hooks.session_memory" in loaded
    heavy = ("faber.store.load", "faber.model.documents", "faber.foreign", "faber.git", "subprocess")
    assert not {name for name in loaded if name.startswith(heavy)}


def test_what_most_calls_do_not_need_is_not_loaded() -> None:
    """The hooks of every turn load neither the brief, nor what writes an event, nor OpenSSL before they need it."""
    code = "import sys; from faber.hooks import ending, stopping, typed_answer; print(*sys.modules)"
    path = {"PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=path, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "faber.hooks.run_lookup" in loaded
    late = {"faber.hooks.session_brief", "faber.hooks.hook_recording", "faber.context.resume", "_hashlib"}
    assert late & loaded == set()
