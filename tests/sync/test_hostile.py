"""What a remote could have under a run's ref: verified before anything here is made or replaced."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.store import log, strict_json
from faber.store.import_events import Unexchangeable, exchange_directories
from sync.clones import REF, RUN, Clone, MakeClone, ask, work
from sync.conftest import copied, surroundings

Entries = dict[str, tuple[str, str, str]]  # path → mode, type, object


class Forge:
    """A repository in which any tree can be made; where it is a remote, any can be put there as the run's commit."""

    def __init__(self, source: Clone) -> None:
        self.source = source

    def entries(self) -> Entries:
        """The tree that the remote has now."""
        lines = self.source.git("ls-tree", "-r", REF).splitlines()
        return {line.partition("\t")[2]: tuple(line.partition("\t")[0].split()) for line in lines}  # type: ignore[misc]

    def blob(self, data: bytes | str) -> tuple[str, str, str]:
        text = data.decode() if isinstance(data, bytes) else data
        return "100644", "blob", self.source.git("hash-object", "-w", "--stdin", told=text)

    def read(self, entries: Entries, path: str) -> Any:
        value = json.loads(self.source.git("cat-file", "blob", entries[path][2]))
        value.pop("checksum", None)
        return value

    def change(self, entries: Entries, path: str, **changes: Any) -> None:
        """Change keys of a JSON file of the tree; an event gets the checksum of what it says then."""
        encode = log.encode if path.startswith("events/") else strict_json.dumps
        entries[path] = self.blob(encode({**self.read(entries, path), **changes}))

    def tree(self, entries: Entries) -> str:
        inner: dict[str, Entries] = {}
        lines = []
        for path, entry in entries.items():
            top, slash, rest = path.partition("/")
            if slash:
                inner.setdefault(top, {})[rest] = entry
            else:
                lines.append(f"{' '.join(entry)}\t{path}")
        lines += [f"040000 tree {self.tree(below)}\t{name}" for name, below in inner.items()]
        return self.source.git("mktree", told="\n".join([*lines, ""]))

    def put(self, entries: Entries, *, kind: str = "commit") -> None:
        """Let the remote have this tree as the run."""
        made = self.tree(entries)
        if kind == "commit":
            made = self.source.git("commit-tree", "-m", "x", "-p", REF, made)
        self.source.git("update-ref", REF, made)


@pytest.fixture(scope="module")
def pushed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The remote and machine A, whose run ends with a decision and was pushed again."""
    place = tmp_path_factory.mktemp("pushed")
    bare = Path(shutil.copytree(made / "remote.git", place / "remote.git"))
    with surroundings():
        one = copied(made, bare, "a")
        work(one, "The last event")
        one.must("sync", "push", RUN)
    return place


@pytest.fixture
def forge(pushed: Path, bare: Path) -> Forge:
    """The forge, at the remote of a run that ends with a decision."""
    shutil.rmtree(bare)
    shutil.copytree(pushed / "remote.git", bare)
    return Forge(Clone(bare))


@pytest.fixture
def author(pushed: Path, bare: Path) -> Clone:
    """The machine that pushed what the forge changes."""
    return copied(pushed, bare, "a")


def last(entries: Entries) -> str:
    """The newest event of a tree."""
    return max(path for path in entries if path.startswith("events/"))


def _drop(forge: Forge, entries: Entries, path: str) -> None:
    del entries[path]


def _gap(forge: Forge, entries: Entries) -> None:
    entries["events/000099-checkpoint.json"] = entries.pop(last(entries))


def _twice(forge: Forge, entries: Entries) -> None:
    entries[last(entries).replace("decision_point", "checkpoint")] = entries[last(entries)]


def _long(forge: Forge, entries: Entries) -> None:
    entries[last(entries)] = forge.blob('{"a": "' + "x" * (1 << 20) + '"}')


def _deep(forge: Forge, entries: Entries) -> None:
    entries[last(entries)] = forge.blob("[" * 5000 + "]" * 5000)


def _newer(forge: Forge, entries: Entries) -> None:
    path = last(entries)
    forge.change(entries, path, type="time_travel")
    entries[path.replace("decision_point", "time_travel")] = entries.pop(path)


def _bomb(forge: Forge, entries: Entries) -> None:
    """A tree of the same trees, ten levels deep: billions of names in a few hundred bytes."""
    blob = forge.blob("x")
    below = forge.tree({f"f{n}": blob for n in range(10)})
    for _ in range(9):
        below = forge.source.git("mktree", told="".join(f"040000 tree {below}\td{n}\n" for n in range(10)))
    entries["events"] = ("040000", "tree", below)
    for path in [path for path in entries if path.startswith("events/")]:
        del entries[path]


def _damaged(forge: Forge, entries: Entries) -> None:
    text = forge.source.git("cat-file", "blob", entries[last(entries)][2]) + "\n"
    entries[last(entries)] = forge.blob(text.replace("The last event", "The lost event"))


def _summary(forge: Forge, entries: Entries) -> None:
    path = next(path for path in entries if path.endswith("-session_end.json"))
    event = forge.read(entries, path)
    event["metadata"]["summary_file"] = "../../../../../hacked.json"
    entries[path] = forge.blob(strict_json.dumps(event))


HOSTILE: dict[str, Callable[[Forge, Entries], None]] = {
    "link": lambda f, e: e.update({last(e): ("120000", "blob", f.blob("/etc/passwd")[2])}),
    "program": lambda f, e: e.update({last(e): ("100755", "blob", e[last(e)][2])}),
    "submodule": lambda f, e: e.update({"sub": ("160000", "commit", f.source.git("rev-parse", "HEAD"))}),
    "unknown file": lambda f, e: e.update({"hooks.sh": f.blob("x")}),
    "lock file": lambda f, e: e.update({"lock": f.blob("x")}),
    "unknown directory": lambda f, e: e.update({"keys/aa": f.blob("x")}),
    "dotted event": lambda f, e: e.update({"events/..json": f.blob("{}")}),
    "hidden summary": lambda f, e: e.update({"session-summaries/.x.json": f.blob("{}")}),
    "no plan": lambda f, e: _drop(f, e, "plan.json"),
    "no metadata": lambda f, e: _drop(f, e, "metadata.json"),
    "gap": _gap,
    "first event missing": lambda f, e: _drop(f, e, min(p for p in e if p.startswith("events/"))),
    "event twice": _twice,
    "too long": _long,
    "too deep": _deep,
    "tree bomb": _bomb,
    "another run's metadata": lambda f, e: f.change(e, "metadata.json", run_id="acme/shop/two"),
    "another run's event": lambda f, e: f.change(e, last(e), run_id="acme/shop/two"),
    "another id inside": lambda f, e: f.change(e, last(e), event_id=1),
    "another type inside": lambda f, e: f.change(e, last(e), type="checkpoint"),
    "unknown key": lambda f, e: f.change(e, last(e), surprise=1),
    "no time": lambda f, e: f.change(e, last(e), timestamp="yesterday"),
    "required part missing": lambda f, e: f.change(e, last(e), message=""),
    "newer schema": lambda f, e: f.change(e, last(e), schema_version=99),
    "newer type": _newer,
    "not JSON": lambda f, e: e.update({last(e): f.blob("{")}),
    "not an object": lambda f, e: e.update({last(e): f.blob("[1]")}),
    "doubled key": lambda f, e: e.update({last(e): f.blob('{"type": "x", "type": "y"}')}),
    "no number": lambda f, e: e.update({last(e): f.blob('{"event_id": NaN}')}),
    "damaged event": _damaged,
    "another plan": lambda f, e: f.change(e, "plan.json", description="Less work"),
    "plan is a list": lambda f, e: e.update({"plan.json": f.blob("[]")}),
    "summary outside": _summary,
    "unfoldable": lambda f, e: f.change(e, last(e), phase=["x"]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_run_is_not_taken(forge: Forge, c: Clone, name: str) -> None:
    """Whatever the remote has, a pull into a machine without the run makes nothing, and says what is wrong."""
    entries = forge.entries()
    HOSTILE[name](forge, entries)
    forge.put(entries)
    refused = c.faber("sync", "pull", RUN)
    assert (refused.status, refused.error["code"]) == (4, "remote_run_invalid"), refused
    assert refused.error["reason"]
    assert not c.run_dir.exists()
    assert not list(c.path.parent.rglob("hacked*"))


@pytest.mark.parametrize("name", ["link", "gap", "another run's event", "newer type", "too deep", "summary outside"])
def test_what_is_no_run_replaces_nothing(forge: Forge, b: Clone, name: str) -> None:
    """A machine that has the run keeps it as it is, to the byte."""
    entries = forge.entries()
    HOSTILE[name](forge, entries)
    forge.put(entries)
    before = {path: path.read_bytes() for path in b.run_dir.rglob("*") if path.is_file()}
    for options in ((), ("--merge",), ("--park-mine",)):
        refused = b.faber("sync", "pull", RUN, *options)
        assert refused.status == 4
        assert refused.error["code"] in ("remote_run_invalid", "diverged")
    assert {path: path.read_bytes() for path in b.run_dir.rglob("*") if path.is_file()} == before


def test_a_tree_is_no_commit(forge: Forge, c: Clone) -> None:
    """A ref that is not a commit is not taken for one."""
    forge.put(forge.entries(), kind="tree")
    assert c.faber("sync", "pull", RUN).error["code"] == "remote_run_invalid"


def test_a_ref_that_is_no_run_id_is_left_alone(a: Clone, c: Clone) -> None:
    """Names below refs/faber/runs that are not run ids are listed and never fetched."""
    for name in ("a/b/c/d", "events", "x..y-not", "ünï"):
        if ".." not in name:
            a.git("push", "-q", "origin", f"HEAD:refs/faber/runs/{name}")
    assert len(c.must("sync", "status")["not_runs"]) == 3
    assert [entry["run_id"] for entry in c.must("sync", "pull", "--all")["runs"]] == [RUN]
    assert len(c.git("for-each-ref", "refs/faber").splitlines()) == 2


def test_one_bad_run_does_not_hide_the_others(forge: Forge, author: Clone, c: Clone) -> None:
    """A bad run among others is reported, and the others are pulled."""
    author.must("run", "init", "--run-id", "other")
    author.must("sync", "push", "other")
    entries = forge.entries()
    _gap(forge, entries)
    forge.put(entries)
    pulled = c.faber("sync", "pull", "--all")
    assert pulled.status == 4
    assert {entry["run_id"]: entry["result"] for entry in pulled.json["runs"]} == {RUN: "failed", "other": "created"}
    listed = c.must("sync", "status")["runs"]
    assert {entry["run_id"]: entry["relation"] for entry in listed} == {RUN: "unreadable", "other": "equal"}


@pytest.mark.parametrize("state", [{"last_event_id": 1}, {"status": "completed"}, None, "[]", "x"], ids=str)
def test_a_wrong_state_is_folded_again(forge: Forge, author: Clone, c: Clone, clone: MakeClone, state: Any) -> None:
    """A state.json that is not the fold of the events is not believed; the next push puts it right."""
    entries = forge.entries()
    if state is None:
        del entries["state.json"]
    elif isinstance(state, dict):
        forge.change(entries, "state.json", **state)
    else:
        entries["state.json"] = forge.blob(state)
    forge.put(entries)
    pulled = c.must("sync", "pull", RUN)
    assert [notice["code"] for notice in pulled["notices"]] == ["state_recomputed"]
    assert (c.run_dir / "state.json").read_bytes() == (author.run_dir / "state.json").read_bytes()
    assert c.must("doctor", RUN)["healthy"] is True
    work(c, "And on")
    c.must("sync", "push", RUN)
    d = clone("d")
    assert d.must("sync", "pull", RUN)["notices"] == []
    assert d.events() == c.events()


def test_an_edited_event_is_a_divergence(forge: Forge, b: Clone) -> None:
    """A shared event that the remote has with other words is no event that follows: nothing is taken silently."""
    b.must("sync", "pull", RUN)
    entries = forge.entries()
    forge.change(entries, last(entries), message="Something else was decided")
    forge.put(entries)
    before = b.events()
    refused = b.faber("sync", "pull", RUN, "--merge")
    assert (refused.status, refused.error["code"]) == (4, "diverged")
    assert b.events() == before


# --- this side --------------------------------------------------------------------------------------


def test_a_linked_run_directory_is_not_followed(a: Clone, b: Clone, tmp_path: Path) -> None:
    """A run directory that was moved away and linked is refused in both directions."""
    work(a, "More")
    a.must("sync", "push", RUN)
    shutil.move(b.run_dir, tmp_path / "elsewhere")
    b.run_dir.symlink_to(tmp_path / "elsewhere")
    for command in ("push", "pull"):
        assert b.faber("sync", command, RUN).error["code"] == "unsafe_file"


def test_another_tools_run_is_not_synced(a: Clone, c: Clone) -> None:
    """A run that nobody adopted is refused; adopted, it travels with the other tool's own events."""
    directory = a.path / ".fractary" / "runs" / "old"
    (directory / "events").mkdir(parents=True)
    (directory / "metadata.json").write_text('{"run_id": "old", "created_at": "2026-01-05T10:00:00Z"}')
    (directory / "state.json").write_text('{"run_id": "old", "status": "in_progress", "phases": {}}')
    (directory / "events" / "003-odd_type.json").write_text('{"type": "odd_type"}')
    assert a.faber("sync", "push", "old").error["code"] == "foreign_run"
    relations = {entry["run_id"]: entry["relation"] for entry in a.must("sync", "status")["runs"]}
    assert relations["old"] == "other_tool"
    a.must("run", "adopt", "old", "--workflow", "default")
    a.must("event", "emit", "old", "--type", "checkpoint")
    a.must("sync", "push", "old")
    assert c.must("sync", "pull", "old")["result"] == "created"
    there = c.run_dir.parents[2] / "old"
    assert (there / "events" / "003-odd_type.json").read_text() == '{"type": "odd_type"}'
    assert (there / "state.json").read_bytes() == (a.run_dir.parents[2] / "old" / "state.json").read_bytes()
    a.must("event", "emit", "old", "--type", "checkpoint")
    a.must("sync", "push", "old")
    assert c.must("sync", "pull", "old")["events"] == 1
    assert c.must("doctor", "old")["healthy"] is True


@pytest.mark.parametrize("several", [True, False])
def test_a_file_system_that_cannot_exchange(a: Clone, b: Clone, monkeypatch: pytest.MonkeyPatch, several: bool) -> None:
    """Where directories cannot change places, events that only follow are still taken, and a merge is refused whole."""
    from faber.store import import_events

    def refused(one: str, other: str) -> None:
        raise Unexchangeable("its file system refuses")

    monkeypatch.setattr(import_events, "exchange_directories", refused)
    ask(a)
    work(a, "More") if several else None
    a.must("sync", "push", RUN)
    assert b.must("sync", "pull", RUN)["result"] == "pulled"
    assert a.events() == b.events()
    b.must("feedback", "respond", RUN, "approve")
    work(a, "Meanwhile")
    a.must("sync", "push", RUN)
    before = b.events()
    failed = b.faber("sync", "pull", RUN, "--merge")
    assert failed.status == 1
    assert "cannot be replaced here" in failed.error["message"]
    assert b.events() == before
    assert b.must("doctor", "--all")["healthy"] is True


def test_directories_change_places(tmp_path: Path) -> None:
    """The exchange is one call that leaves both directories, each under the other's name."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange_directories(str(tmp_path / "one"), str(tmp_path / "two"))
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["two"]
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["one"]
    with pytest.raises(OSError, match="No such file"):
        exchange_directories(str(tmp_path / "one"), str(tmp_path / "three"))


def test_who_waits_for_the_lock_waits_for_the_same_one(a: Clone, b: Clone) -> None:
    """A directory that took the old one's place has the same lock file, not another of the same name."""
    work(a, "More")
    work(a, "And more")
    a.must("sync", "push", RUN)
    work_lock = b.run_dir / "lock"
    b.must("event", "emit", RUN, "--type", "checkpoint")
    b.must("sync", "pull", RUN, "--park-mine")
    number = work_lock.stat().st_ino
    for text in ("x", "y"):
        work(a, text)
    a.must("sync", "push", RUN)
    place = b.run_dir.stat().st_ino
    assert b.must("sync", "pull", RUN)["events"] == 2
    assert b.run_dir.stat().st_ino != place
    assert work_lock.stat().st_ino == number


def test_the_index_knows_a_pulled_run(c: Clone) -> None:
    """The branch of a run that came from elsewhere leads to it."""
    c.must("sync", "pull", RUN)
    index = c.path / ".fractary" / "faber" / "index"
    assert [path.name for path in (index / "branches").iterdir()] == ["feat%2F7"]
    assert c.must("status", "--format", "json")["runs"][0]["run_id"] == RUN
    done = subprocess.run(["git", "-C", c.path, "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert done.stdout == ""
