"""`faber setup`: the lines that install the bundle in each client do it, in the real clients, and can be undone."""

import os
import subprocess
from pathlib import Path

import pytest

from cli.conftest import Faber
from faber.agents.installing import NAMES

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "faber@faber"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a PATH without any client."""
    made = tmp_path / "home"
    made.mkdir()
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("PATH", f"{made}/bin:/usr/bin:/bin")
    return made


@pytest.fixture(params=NAMES)
def client(request: pytest.FixtureRequest, home: Path) -> str:
    """Each real client by its name, on PATH."""
    name = str(request.param)
    (home / "bin").mkdir()
    (home / "bin" / name).symlink_to(request.getfixturevalue(f"{name}_binary"))
    return name


def listed(client: str) -> str:
    """What the client itself says of its plugins, or has written down; of OpenCode, what its plugin folder leads to."""
    if client == "claude":
        return (Path(os.environ["HOME"]) / ".claude" / "plugins" / "installed_plugins.json").read_text()
    if client == "opencode":
        folder = Path(os.environ["HOME"]) / ".config" / "opencode" / "plugin"
        return "\n".join(str(each.resolve()) for each in folder.glob("*.js"))
    return subprocess.run([client, "plugin", "list"], capture_output=True, text=True, check=True).stdout


def test_what_it_shows_installs_and_is_undone(faber: Faber, client: str) -> None:
    """The commands are shown without being run; --yes runs just these, once; --undo removes what they made."""
    shown = faber("setup", "--client", client, "--format", "json").json
    assert (shown["ran"], shown["installed_from"]) == (None, None)
    assert str(ROOT) in " ".join(shown["commands"])
    made = faber("setup", "--client", client, "--yes", "--format", "json").json
    assert (made["ran"], made["installed_from"]) == (shown["commands"], str(ROOT))
    assert (str(ROOT / "opencode") if client == "opencode" else PLUGIN) in listed(client)
    assert faber("setup", "--client", client, "--yes", "--format", "json").json["ran"] == []
    source = ROOT / "scripts" / "faber" / "errors.py"  # what is compiled of a copy names the time of its source
    copies = list(Path(os.environ["HOME"]).glob(".codex/plugins/cache/faber/faber/*/scripts/faber/errors.py"))
    assert [copy.stat().st_mtime_ns for copy in copies] == [source.stat().st_mtime_ns] * (client == "codex")
    assert f"{client} has faber, from {ROOT}" in faber("doctor", "--format", "text").out
    undone = faber("setup", "--client", client, "--undo", "--yes", "--format", "json").json
    assert (len(undone["ran"]), undone["installed_from"]) == (len(undone["commands"]), None)
    assert faber("setup", "--client", client, "--undo", "--yes", "--format", "json").json["ran"] == []
    assert f"{client} does not have faber" in faber("setup").out


def test_what_stopped_halfway_is_undone_or_finished(faber: Faber, home: Path, codex_binary: str) -> None:
    """Where an installation ended after its first command, --undo removes what there is and --yes does the rest."""
    (home / "bin").mkdir()
    (home / "bin" / "codex").symlink_to(codex_binary)
    half, rest = faber("setup", "--client", "codex", "--format", "json").json["commands"]
    subprocess.run(half, shell=True, check=True, capture_output=True)
    answer = faber("setup", "--client", "codex", "--undo", "--yes", "--format", "json").json
    assert answer["ran"] == ["codex plugin marketplace remove faber"]
    subprocess.run(half, shell=True, check=True, capture_output=True)
    answer = faber("setup", "--client", "codex", "--yes", "--format", "json").json
    assert (answer["ran"], answer["installed_from"]) == ([rest], str(ROOT))


@pytest.mark.parametrize(("client", "file"), [("claude", ".claude/settings.json"), ("codex", ".codex/config.toml")])
def test_a_broken_configuration_is_named_and_kept(faber: Faber, home: Path, client: str, file: str) -> None:
    """Where faber cannot tell what is installed it changes nothing; the other clients are still listed."""
    (home / file).parent.mkdir()
    (home / file).write_bytes(b'{"x": \xff')
    for undo in ((), ("--undo",)):
        answer = faber("setup", "--client", client, "--yes", *undo)
        assert answer.code == "setup_failed"
        assert str(home / file) in answer.json["error"]["message"]
    assert "opencode is not on PATH" in faber("setup").out


def test_a_file_of_somebodys_is_left_alone(faber: Faber, home: Path) -> None:
    """A file in the place of faber's link, or a faber from elsewhere, is named and kept, to install and to remove."""
    theirs = home / ".config" / "opencode" / "plugin" / "faber.js"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("export const Mine = 1")
    (home / ".codex").mkdir()
    config = f'[marketplaces.faber]\nsource = "/elsewhere"\n[plugins."{PLUGIN}"]\nenabled = true\n'
    (home / ".codex" / "config.toml").write_text(config)
    for client, named in (("opencode", str(theirs)), ("codex", "/elsewhere")):
        for undo in ((), ("--undo",)):
            answer = faber("setup", "--client", client, "--yes", *undo)
            assert answer.code == "setup_failed"
            assert named in answer.json["error"]["message"]
    assert "`codex plugin remove faber@faber`" in answer.json["error"]["recovery"]
    assert theirs.read_text() == "export const Mine = 1"
    assert (home / ".codex" / "config.toml").read_text() == config


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_client_is_named(faber: Faber, home: Path, name: str) -> None:
    """Where the client is not on PATH its lines are shown, and --yes says what is missing."""
    assert faber("setup", "--client", name).status == 0
    answer = faber("setup", "--client", name, "--yes")
    assert answer.code == "setup_failed"
    assert f"no {name} on PATH" in answer.json["error"]["message"]
    assert list(home.iterdir()) == []


def test_an_environment_that_lacks_a_package(
    faber: Faber, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The environment is compared with the lock; what is missing or of another version is named."""
    assert "environment is ready" in faber("setup").out
    (tmp_path / "requirements.lock").write_text("click==0.1 \\\nno-such-package==1 \\\ntyping-extensions==0\n")
    monkeypatch.setattr("faber.cli.setup_command.plugin_root", lambda: str(tmp_path))
    said = faber("setup").json["error"]["message"]
    assert "click 0.1" in said
    assert "no-such-package 1 (found: none)" in said


@pytest.mark.parametrize("wrong", [["--yes"], ["--undo"], ["--client", "emacs"]])
def test_wrong_usage(faber: Faber, wrong: list[str]) -> None:
    """--yes and --undo belong to --client, which names one of the clients."""
    assert faber("setup", *wrong).status == 2
