"""What the client reads first: the plugin's manifest and the marketplace that offers it."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import faber
from e2e.client import ENGINE

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = (".claude-plugin/plugin.json", ".claude-plugin/marketplace.json")


def _validate(
    client: str, directory: Path, manifest: str, home: Path, *options: str
) -> "subprocess.CompletedProcess[str]":
    environment = {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        **ENGINE,
    }
    command = [client, "plugin", "validate", *(options or ("--strict",)), manifest]
    return subprocess.run(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def _load(manifest: str) -> Any:
    return json.loads((ROOT / manifest).read_text("utf-8"))


# The whole directory, and its manifest with all that it names, is what test_the_newest_client_would_list_it reads.
WHOLE = [pytest.param(each, marks=pytest.mark.full) for each in (".", MANIFESTS[0])]


@pytest.mark.parametrize("manifest", [*WHOLE, "plugin.json", MANIFESTS[1]])
def test_the_client_accepts(claude_binary: str, tmp_path: Path, manifest: str) -> None:
    """The client's strict validation accepts the bundle and each of its manifests."""
    result = _validate(claude_binary, ROOT, manifest, tmp_path)
    assert (result.returncode, "Validation passed" in result.stdout) == (0, True), result.stdout + result.stderr


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_the_client_refuses_a_broken(claude_binary: str, tmp_path: Path, manifest: str) -> None:
    """The same validation refuses a manifest whose name was lost, so its acceptance means something."""
    shutil.copytree(ROOT / ".claude-plugin", tmp_path / ".claude-plugin")
    broken = tmp_path / manifest
    broken.write_text(json.dumps({key: value for key, value in _load(manifest).items() if key != "name"}), "utf-8")
    assert _validate(claude_binary, tmp_path, manifest, tmp_path).returncode != 0


def test_the_newest_client_would_list_it(needed: Callable[[str | None, str], str], tmp_path: Path) -> None:
    """The newest client's checks for a directory of plugins find nothing, the icon included."""
    client = needed(os.environ.get("FABER_TEST_CLAUDE"), "FABER_TEST_CLAUDE names no client")
    result = _validate(client, ROOT, ".", tmp_path, "--profile", "directory", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert (found["directory"]["findings"], found["manifest"]["warnings"]) == ([], [])


def test_the_icon_is_a_square_picture() -> None:
    """The icon is a square PNG of 512 to 2,048 pixels, and small."""
    data = (ROOT / ".claude-plugin" / "icon.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert width == height
    assert 512 <= width <= 2048
    assert len(data) < 64 * 1024


def test_one_version() -> None:
    """Package, plugin and newest release in the changelog agree; the marketplace leaves the version to the plugin."""
    assert _load(MANIFESTS[0])["version"] == faber.__version__
    assert not any("version" in entry for entry in _load(MANIFESTS[1])["plugins"])
    released = re.findall(r"^## \[(\d[^]]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert released[0] == faber.__version__


def test_the_top_level_manifest_is_a_copy() -> None:
    """plugin.json and Codex's manifest are files of their own (Codex refuses links) and say the same as Claude Code's,
    without the mod, for which Codex would drop every hook."""
    for manifest in ("plugin.json", ".codex-plugin/plugin.json"):
        assert not (ROOT / manifest).is_symlink()
        assert {**_load(manifest), "hooks": "./hooks/mod.json"} == _load(MANIFESTS[0])


def test_the_marketplace_offers_this_plugin() -> None:
    """The marketplace lists exactly this plugin, from its own directory."""
    plugin = _load(MANIFESTS[0])
    assert [(entry["name"], entry["source"], entry["license"]) for entry in _load(MANIFESTS[1])["plugins"]] == [
        (plugin["name"], "./", plugin["license"])
    ]


def test_the_licence_is_there() -> None:
    """The licence that the manifest names is the one in LICENSE."""
    assert _load(MANIFESTS[0])["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text("utf-8")
