"""A nebula worked on by a cluster whose workers run the real client."""

import os
import sys
from pathlib import Path

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from support.clusters import Processes
from support.nebulas import nebula_files
from support.repositories import git, repository

if os.environ.get("CI") != "true":  # there a missing package fails
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")


@pytest.mark.full
def test_a_cluster_works_with_the_real_client(tmp_path: Path, api: MessagesApi, claude_binary: str) -> None:
    """`faber nebula apply --scheduler`: a phase by agents at a worker, merged and landed here."""
    files = {"README.md": "begin\n", ".gitignore": "/.fractary/\n"}
    root = repository(tmp_path / "p", {**files, **nebula_files({"a": []})})
    git(tmp_path, "clone", "-q", "--bare", str(root), str(tmp_path / "shared.git"))
    faber = Faber(root, tmp_path / "home", api, claude_binary)
    faber.environment["FABER_VENV"] = sys.prefix
    model = Model()
    api.script.always(model)
    cluster = Processes(tmp_path, faber.environment)
    try:
        cluster.start_worker(agents=2)
        options = ("--scheduler", cluster.address, "--remote", str(tmp_path / "shared.git"))
        answer = faber.run("nebula", "apply", "plan", *options)
        assert answer["status"] == "done", faber.stderr
        assert model.asked == [("coder", "a"), ("reviewer", "a")]
        assert faber.run("nebula", "land", "plan")["how"] in ("fast_forward", "merge")
        assert (root / "a.txt").read_text() == "a\n"
    finally:
        cluster.end()
    assert faber.left() == []
