"""A run and its branch as a file: what one machine exports, another imports, and nothing that an agent may not do."""

from pathlib import Path

import pytest

from sync.clones import RUN, Clone, work


def test_what_one_machine_did_arrives_through_a_file(
    a: Clone, b: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run and its branch are on B what they are on A, and B can push them."""
    monkeypatch.setenv("CLAUDECODE", "1")
    work(a, "Use semicolons")
    ahead = a.commit("two.txt")
    file = str(tmp_path / "run.bundle")
    sent = a.must("sync", "export", RUN, file)
    assert (sent["events"], sent["branch"]) == (1, "feat/7")
    taken = b.must("sync", "import", RUN, file)
    assert (taken["result"], taken["events"]) == ("imported", 1)
    assert taken["branch"] == {"branch": "feat/7", "result": "forwarded", "commit": ahead}
    assert b.events() == a.events()
    again = b.must("sync", "import", RUN, file)
    assert (again["result"], again["branch"]["result"]) == ("equal", "equal")
    assert b.must("sync", "push", RUN)["result"] == "pushed"
    a.must("sync", "pull", RUN)
    assert a.relation() == "equal"
