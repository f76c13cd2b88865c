"""The mod that draws inside the client, checked by the client's own tests; and the monitor's file."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOD = ROOT / "hooks" / "mod.tsx"


def _tested(client: str, root: Path, home: Path) -> "subprocess.CompletedProcess[str]":
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "DISABLE_AUTOUPDATER": "1"}
    environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    return subprocess.run(
        [client, "plugin", "test", str(root)], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def newest(needed: Callable[[str | None, str], str]) -> str:
    """The newest client."""
    return needed(os.environ.get("FABER_TEST_CLAUDE"), "FABER_TEST_CLAUDE names no Claude Code client")


def test_the_client_runs_the_mods_tests(newest: str, tmp_path: Path) -> None:
    """The client's own test command passes every test of the mod."""
    done = _tested(newest, ROOT, tmp_path)
    assert (done.returncode, " 0 fail" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.full
def test_the_mods_tests_can_fail(newest: str, tmp_path: Path) -> None:
    """A mod that shows no toast fails them."""
    for folder in (".claude-plugin", "hooks", "tests/plugin"):
        (tmp_path / "plugin" / folder).mkdir(parents=True)
    for file in (".claude-plugin/plugin.json", "hooks/hooks.json", "hooks/mod.json", "tests/plugin/mod.test.tsx"):
        (tmp_path / "plugin" / file).write_bytes((ROOT / file).read_bytes())
    (tmp_path / "plugin" / "hooks" / "mod.tsx").write_text(MOD.read_text().replace("$.ui.toast(", "void ("))
    assert _tested(newest, tmp_path / "plugin", tmp_path).returncode == 1


def test_the_mod_is_small() -> None:
    """The mod has at most 150 lines: it calls faber and draws, and computes nothing."""
    assert len(MOD.read_text().splitlines()) <= 150


def test_the_monitor_is_one_command_of_the_plugin() -> None:
    """The monitor is armed at the start of a session and runs the plugin's own program."""
    (monitor,) = json.loads((ROOT / "monitors" / "monitors.json").read_text())
    assert monitor["when"] == "always"
    assert monitor["command"] == 'exec "${CLAUDE_PLUGIN_ROOT}/bin/faber" hook follow </dev/null'


def test_codex_reads_a_manifest_without_the_mod() -> None:
    """Codex refuses a hooks file that names a mod, so it has the same manifest without that file."""
    ours, theirs = (
        json.loads((ROOT / place / "plugin.json").read_text()) for place in (".claude-plugin", ".codex-plugin")
    )
    assert ours.pop("hooks") == "./hooks/mod.json"
    assert theirs == ours
