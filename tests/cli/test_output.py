"""What all commands share: one JSON object on stdout, messages on stderr, exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.cli.app import COMMANDS
from faber.store import index
from faber.store.layout import Layout
from support.terminals import on_terminal

Faber = Callable[..., Any]
MAIN = Path(__file__).parents[2] / "scripts" / "faber" / "__main__.py"


def start(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run faber in a process of its own."""
    return subprocess.run([sys.executable, str(MAIN), *arguments], capture_output=True, check=False, **options)


def test_an_error_is_json_on_stdout_and_one_line_on_stderr(faber: Faber, project: Path) -> None:
    """A refusal has code, message and recovery for a program, and one line for a person."""
    answer = faber("run", "show", "nothing")
    error = answer.json["error"]
    assert set(error) >= {"code", "message", "recovery"}
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("faber: ")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--exit-zero", "run", "show", "nothing"), 0),
        (("--exit-zero", "step", "start", "{run}", "build:implement"), 0),
        (("--exit-zero", "context", "-rf"), 2),
        (("--exit-zero", "nonsense"), 2),
        (("event", "emit", "{run}", "--type", "checkpoint", "--phase", "--exit-zero"), 2),
        (("run", "show", "nothing"), 1),
    ],
)
def test_exit_zero_hides_1_3_4_5_alone(faber: Faber, run: str, arguments: tuple[str, ...], status: int) -> None:
    """`--exit-zero` before the command turns 1, 3, 4 and 5 into 0, and never a usage error."""
    assert faber(*(argument.format(run=run) for argument in arguments)).status == status


def test_a_token_in_an_error_is_redacted(faber: Faber, project: Path) -> None:
    """Credentials do not reach stdout or stderr through an error message."""
    token = "ghp_" + "a1B2" * 10
    answer = faber("run", "show", token)
    assert answer.status == 1
    assert token not in answer.out + answer.err
    assert "[REDACTED]" in answer.err


@pytest.mark.parametrize("command", [*COMMANDS, "run init", "step complete", "event emit", "session save"])
def test_every_command_has_help(faber: Faber, project: Path, command: str) -> None:
    """`--help` of every command says what it does, in at most 100 columns."""
    answer = faber(*command.split(), "--help")
    assert answer.status == 0
    assert "Usage: faber" in answer.out
    assert all(len(line) <= 100 for line in answer.out.splitlines())


def test_it_works_in_a_locale_without_unicode(project: Path) -> None:
    """In the C locale and in Latin-1, text and JSON are printed completely."""
    start("run", "init", "--run-id", "r", "--target", "größer", cwd=project)
    for locale in ("C", "de_DE.ISO-8859-1"):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": locale, "PYTHONIOENCODING": "latin-1"}
        for arguments in (("context", "r", "--format", "text"), ("run", "show", "r"), ("status", "r")):
            done = start(*arguments, cwd=project, env=environment)
            assert done.returncode == 0, done.stderr


def test_a_closed_reader_is_no_traceback(project: Path) -> None:
    """Piping into something that stops reading ends quietly."""
    start("run", "init", "--run-id", "r", cwd=project)
    pipe = f"{sys.executable} {MAIN} run show r | true"
    done = subprocess.run(["sh", "-c", pipe], cwd=project, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_the_package_and_the_directory_can_be_started(project: Path) -> None:
    """`python -m faber`, `python scripts/faber` and its `__main__.py` are the same program."""
    scripts = MAIN.parents[1]
    outputs = [
        subprocess.run([sys.executable, *how, "--version"], capture_output=True, check=True, env=environment).stdout
        for how, environment in (
            (["-m", "faber"], {**os.environ, "PYTHONPATH": str(scripts)}),
            ([str(scripts / "faber")], dict(os.environ)),
            ([str(MAIN)], dict(os.environ)),
            (["-I", str(MAIN)], dict(os.environ)),
        )
    ]
    assert len(set(outputs)) == 1
    assert outputs[0].startswith(b"faber, version ")


def test_every_worktree_shares_one_store(
    faber: Faber, run: str, project: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a linked worktree or a subdirectory the same runs are found; each resumes what was started in it."""
    linked = project.parent / "linked"
    git("worktree", "add", "-q", str(linked), "-b", "other")
    (project / "deep" / "er").mkdir(parents=True)
    for place in (linked, project / "deep" / "er"):
        done = start("run", "list", cwd=place)
        assert [r["run_id"] for r in json.loads(done.stdout)["runs"]] == [run]
    monkeypatch.chdir(linked)
    assert faber("run", "init", "--run-id", "there").status == 0
    bound = [index.bound(Layout(str(project)), index.WORKTREES, str(place)) for place in (project, linked)]
    assert [[binding.run_id for binding in bindings] for bindings in bound] == [[run], ["there"]]


def test_a_deleted_current_directory_is_an_error(project: Path) -> None:
    """If the current directory was deleted, the command fails with an error and a recovery."""
    doomed = project / "doomed"
    doomed.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'cd "{doomed}" && rmdir "{doomed}" && exec "{sys.executable}" "{MAIN}" run list'],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert "--root" in json.loads(done.stdout)["error"]["recovery"]


def test_config_show_names_the_nearest_key(faber: Faber, project: Path) -> None:
    """An unknown key of config.yaml is exit 2 with the key that was meant."""
    store = project / ".fractary/faber"
    store.mkdir(parents=True)
    (store / "config.yaml").write_text("contxt: {max_chars: 9000}\n")
    answer = faber("config", "show")
    assert (answer.status, answer.code) == (2, "invalid_config")
    assert "did you mean 'context'" in answer.json["error"]["message"]


def test_config_show_merges_over_the_defaults(faber: Faber, project: Path) -> None:
    """What the file does not say has its default."""
    store = project / ".fractary/faber"
    store.mkdir(parents=True)
    (store / "config.yaml").write_text("autonomy: assist\n")
    settings = faber("config", "show").json["settings"]
    assert (settings["autonomy"], settings["workflow"]) == ("assist", "default")
    assert json.loads(start("run", "init", cwd=project).stdout)["status"] == "pending"
    assert faber("run", "show", "latest").json["metadata"]["autonomy"] == "assist"


def test_the_demo_heals_a_phase_without_a_model(tmp_path: Path) -> None:
    """`faber demo --heal` in an empty HOME says that its agents are scripted, shows a real check that fails and what
    came of it in lines of 80 columns, and leaves a project whose main branch has both attempts' work."""
    place, home = tmp_path / "demo", tmp_path / "home"
    home.mkdir()
    dropped = ("FABER_ROOT", "GIT_CONFIG_GLOBAL")
    environment = {k: v for k, v in os.environ.items() if k not in dropped} | {"HOME": str(home)}
    done = start("demo", "--heal", "--directory", str(place), cwd=tmp_path, env=environment)
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "agents are scripted" in text
    assert 'healing quote (filter_failure) → heal-quote: "Let the csv module quote"' in text
    assert "Healing: 1 failure, 1 healed" in text
    shown = [line for line in text.splitlines() if str(tmp_path) not in line and "bin/faber" not in line]
    assert all(len(line) <= 80 for line in shown)
    assert "import csv" in (place / "export.py").read_text()
    assert (place / "test_export.py").is_file()
    asked = ("--root", str(place), "context", "sample/csv-export/demo", "--no-fetch")
    context = json.loads(start(*asked).stdout)
    (failed,) = context["failures"]
    assert (failed["phase"], failed["failure"]) == ("quote", "filter_failure")
    assert (failed["remediation"], failed["remediation_status"]) == ("heal-quote", "done")
    told = start(
        "--root", str(place), "context", "sample/csv-export/demo", "--no-fetch", "--format", "text"
    ).stdout.decode()
    assert "Failed: quote (filter_failure) → heal-quote (done)" in told
    status = json.loads(start("--root", str(place), "nebula", "status", str(place / "plan")).stdout)
    assert "heal-quote" in status["healing"]
    (record,) = [row["record"] for row in status["phases"] if row["id"] == "quote"]
    assert (record["failure"], record["remediation"]) == ("filter_failure", "heal-quote")


def test_json_on_a_terminal_is_inert(project: Path) -> None:
    """On a terminal the JSON is indented and holds no character that moves cursor or reading direction."""
    start("run", "init", "--run-id", "r", "--target", "a\u202eb\u200b", cwd=project)
    text = on_terminal(project, "run", "show", "r").text
    assert json.loads(text)["metadata"]["target"] == "a\u202eb\u200b"
    assert "\n  " in text
    assert not set(text) & set("\u202e\u200b\x1b")
