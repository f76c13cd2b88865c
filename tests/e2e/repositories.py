"""Git repositories for scenarios: projects to work in, and marketplaces that offer a plugin."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from support.git_environment import UNCONFIGURED


def git(directory: Path, *arguments: str) -> str:
    """What git prints, as someone without a configuration."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=bare | UNCONFIGURED, check=True, capture_output=True, text=True
    )
    return done.stdout.rstrip("\n")


def make_repository(directory: Path) -> Path:
    """An empty git repository on `main` that knows who commits."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    with (directory / ".git" / "config").open("a") as file:
        file.write("[user]\n\tname = test\n\temail = test@example.invalid\n[commit]\n\tgpgSign = false\n")
    return directory


def make_project(directory: Path) -> Path:
    """A git repository with one commit."""
    make_repository(directory)
    (directory / "README.md").write_text("# sample\n")
    git(directory, "add", "--all")
    git(directory, "commit", "-q", "-m", "Begin")
    return directory


def copied(plugin: Path, target: Path) -> Path:
    """A copy of the plugin's files as they are now, also those not committed."""
    if (plugin / ".git").exists():
        listed = git(plugin, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for name in filter(None, listed):
            if os.path.lexists(plugin / name):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(plugin / name, target / name, follow_symlinks=False)
    else:
        shutil.copytree(plugin, target, symlinks=True, dirs_exist_ok=True)
    return target


def compiled(plugin: Path, target: Path) -> None:
    """Give a copy what the plugin has compiled, as far as it is the same: a fresh copy's first calls would compile."""
    for source in (plugin / "scripts").rglob("*.py"):
        copy = target / source.relative_to(plugin)
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            made = source.stat()
            os.utime(copy, ns=(made.st_atime_ns, made.st_mtime_ns))  # what is compiled names its source's time
            for each in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
                (copy.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copy2(each, copy.parent / "__pycache__")


def publish(plugin: Path, market: Path) -> Path:
    """Make `market` a marketplace of the one plugin, kept as a git repository in it; again, for what changed since."""
    source = market / "repository"
    if not source.exists():
        make_repository(source)
        # It is cloned once or twice: packing it well costs more than it saves.
        git(source, "config", "core.compression", "0")
        git(source, "config", "pack.window", "0")
    for each in source.iterdir():
        if each.name == ".git":
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
    copied(plugin, source)
    git(source, "add", "--all", "--force")
    git(source, "commit", "-q", "--allow-empty", "-m", "Publish")
    return _listed(plugin, market, {"source": "url", "url": source.as_uri()})


def directory_market(plugin: Path, market: Path) -> Path:
    """Make `market` a marketplace whose one plugin lies in it, as a folder `plugin`."""
    copied(plugin, market / "plugin")
    return _listed(plugin, market, "./plugin")


def _listed(plugin: Path, market: Path, source: object) -> Path:
    offered = [{"name": plugin_name(plugin), "source": source}]
    listing = {"name": market.name, "owner": {"name": "test"}, "plugins": offered}
    (market / ".claude-plugin").mkdir(exist_ok=True)
    (market / ".claude-plugin" / "marketplace.json").write_text(json.dumps(listing))
    return market


def plugin_name(plugin: Path) -> str:
    """What the plugin's manifest calls it."""
    return str(json.loads((plugin / ".claude-plugin" / "plugin.json").read_text())["name"])
