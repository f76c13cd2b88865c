"""Nebulas worked through by the real client."""

from pathlib import Path

import pytest

from e2e.messages_api import MessagesApi
from e2e.nebulas import Faber, Model
from support.nebulas import DIAMOND, nebula_files
from support.repositories import repository


@pytest.fixture
def faber(tmp_path: Path, api: MessagesApi, claude_binary: str) -> Faber:
    """A project with the diamond of phases and two beside it in `plan/`."""
    root = repository(tmp_path / "p", {"README.md": "begin\n", **nebula_files(DIAMOND)})
    return Faber(root, tmp_path / "home", api, claude_binary)


def test_a_nebula_is_applied_and_landed(faber: Faber, api: MessagesApi) -> None:
    """Six phases by the real client, each coded and reviewed once; landing brings them to main."""
    model = Model()
    api.script.always(model)
    answer = faber.run("nebula", "apply", "plan", "--max-workers", "2")
    assert answer["status"] == "done"
    assert sorted(model.asked) == sorted((role, name) for name in DIAMOND for role in ("coder", "reviewer"))
    assert faber.run("nebula", "land", "plan")["how"] in ("fast_forward", "merge")
    assert all((faber.root / f"{name}.txt").read_text() == f"{name}\n" for name in DIAMOND)
    assert faber.left() == []
