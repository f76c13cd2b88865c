"""Bundles of a machine that is an attacker's: each is refused with a code, and changes nothing here."""

import hashlib
import json
import os
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faber.errors import FaberError
from faber.store import log, strict_json
from faber.store.layout import Layout
from faber.sync import importing, quarantine
from faber.sync.bundle_file import MAX_OBJECTS, Bundle, decode, encode
from faber.sync.importing import import_bundle
from faber.sync.remotes import open_remote
from faber.sync.sync_errors import BundleInvalid, ForeignEvent
from support.copies import copy_tree
from support.git_environment import COMMITTER
from sync.clones import REF, RUN, Clone, work
from sync.test_hostile import Entries, Forge, last

CANARY = "PWNED"
BRANCH = "refs/heads/feat/7"


class World(NamedTuple):
    """The attacker's machine with a forge for its run, an honest bundle, and the machine that imports."""

    evil: Clone
    forge: Forge
    honest: bytes
    land: Clone
    place: Path

    def git(self, *arguments: str, told: str | None = None) -> str:
        """git on the attacker's machine."""
        return self.evil.git(*arguments, told=told)

    def bundle(self, refs: dict[str, str], *, needed: bool = True) -> bytes:
        """A bundle of these refs, with whatever objects they reach that the remote lacks."""
        known = decode(self.honest).needed if needed else []
        wanted = "\n".join([*refs.values(), *(f"^{oid}" for oid in known), ""])
        command = ["git", "-C", str(self.evil.path), "pack-objects", "--revs", "--thin", "--stdout", "-q"]
        packed = subprocess.run(command, input=wanted.encode(), check=True, capture_output=True).stdout
        return encode(Bundle(refs, known, packed))

    @property
    def refs(self) -> dict[str, str]:
        """The refs of the honest bundle."""
        return dict(decode(self.honest).refs)

    def commit(
        self, files: dict[str, str], *, base: str | None = BRANCH, message: str = "Add", mode: str = "100644"
    ) -> str:
        """A commit on the branch with these files in it, made without a working tree."""
        index = {"GIT_INDEX_FILE": str(self.place / "index")}
        run = {"cwd": self.evil.path, "check": True, "capture_output": True, "env": os.environ | index}
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        if base:
            subprocess.run(["git", "read-tree", base], **run)
        for path, text in files.items():
            oid = text if mode == "160000" else self.git("hash-object", "-w", "--stdin", told=text)
            told = f"{mode} {oid}\t{path}\0".encode()
            subprocess.run(["git", "update-index", "-z", "--index-info"], input=told, **run)
        tree = subprocess.run(["git", "write-tree"], **run).stdout.decode().strip()
        return self.git("commit-tree", tree, "-m", "Add", *(["-p", base] if base else []))

    def branch(self, **given: Any) -> bytes:
        """The honest run with another branch."""
        return self.bundle(self.refs | {BRANCH: self.commit(**given)})

    def run(self, change: Callable[[Entries], None], *, parent: str = "refs/forge") -> bytes:
        """The honest branch with another run."""
        entries = self.forge_entries()
        change(entries)
        made = self.git("commit-tree", "-m", "x", *(["-p", parent] if parent else []), self.forge.tree(entries))
        return self.bundle(self.refs | {REF: made})

    def forge_entries(self) -> Entries:
        """The tree of the honest run."""
        lines = self.git("ls-tree", "-r", self.refs[REF]).splitlines()
        return {line.partition("\t")[2]: tuple(line.partition("\t")[0].split()) for line in lines}  # type: ignore[misc]

    def add(self, kind: str, **fields: Any) -> bytes:
        """The honest run with one more event."""

        def change(entries: Entries) -> None:
            newest = self.forge.read(entries, last(entries))
            number = newest["event_id"] + 1
            event = {**newest, "event_id": number, "type": kind, "actor": "agent", **fields}
            entries[f"events/{number:06d}-{kind}.json"] = self.forge.blob(log.encode(event))  # type: ignore[arg-type]

        return self.run(change)

    @property
    def snapshot(self) -> dict[str, Any]:
        """A state in which every gate is open, with the metadata that belongs to it."""
        state = json.loads((self.evil.run_dir / "state.json").read_text())
        gate = {"request_id": "fr-1", "answer": "approve", "event_id": 1}
        metadata = json.loads((self.evil.run_dir / "metadata.json").read_text())
        return {"state": state | {"gates": {"phase:release": gate}}, "metadata": metadata}

    @property
    def plan(self) -> dict[str, Any]:
        """The run's plan without what it requires."""
        found: dict[str, Any] = json.loads((self.evil.run_dir / "plan.json").read_text())
        return found

    def state(self) -> tuple[Any, ...]:
        """All that an import could change."""
        refs = self.land.git("for-each-ref")
        packs = sorted(os.listdir(self.land.path / ".git" / "objects" / "pack"))
        aside = [name for name in os.listdir(self.land.path / ".git" / "objects") if name.startswith("tmp_")]
        return refs, packs, aside, self.land.events(), (self.land.path / ".git" / "config").read_bytes()


@pytest.fixture(scope="module")
def world(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Made once: no refused bundle changes what the next one meets."""
    place = tmp_path_factory.mktemp("hostile")
    for name in ("remote.git", "a", "b"):
        copy_tree(made / name, place / name)
    with pytest.MonkeyPatch.context() as patch:
        for name in [key for key in os.environ if key.startswith(("GIT_", "FABER_", "CLAUDE"))]:
            patch.delenv(name)
        for name, value in COMMITTER.items():
            patch.setenv(name, value)
        patch.setenv("CLAUDECODE", "1")
        evil, land = Clone(place / "a"), Clone(place / "b")
        for machine in (evil, land):
            machine.git("remote", "set-url", "origin", (place / "remote.git").as_uri())
            machine.git("fetch", "-q", "origin")
        evil.git("update-ref", "refs/forge", evil.git("rev-parse", f"refs/faber/remotes/origin/runs/{RUN}"))
        work(evil, "Use semicolons")
        evil.commit("two.txt")
        file = place / "honest.bundle"
        evil.must("sync", "export", RUN, str(file))
        (place / "b" / ".fractary" / "faber" / "config.yaml").write_text("branches: {protected: ['release/*']}\n")
        yield World(evil, Forge(evil), file.read_bytes(), land, place)


Make = Callable[[World], bytes]


def _replaced(path: str, **changes: Any) -> Make:
    """A document of the run says something else."""
    return lambda w: w.run(lambda entries: w.forge.change(entries, path, **changes))


def _refs(**refs: str) -> Make:
    """More refs than the run's own."""
    return lambda w: w.bundle(w.refs | {name.replace("__", "/"): w.refs[BRANCH] for name in refs})


def _first_event(w: World) -> bytes:
    def change(entries: Entries) -> None:
        path = min(path for path in entries if path.startswith("events/"))
        w.forge.change(entries, path, timestamp="2020-01-01T00:00:00Z")

    return w.run(change)


def _shorter(w: World) -> bytes:
    """The newest event that the remote has is another one."""

    def change(entries: Entries) -> None:
        del entries[last(entries)]
        w.forge.change(entries, last(entries), message="Another")

    return w.run(change)


def _moved(w: World) -> bytes:
    """A valid run whose history the remote never had."""
    return w.run(lambda entries: None, parent="")


def _merge(w: World) -> bytes:
    other = w.commit({"x": "x"}, base=None)
    tree = w.git("rev-parse", f"{BRANCH}^{{tree}}")
    return w.bundle(w.refs | {BRANCH: w.git("commit-tree", tree, "-m", "x", "-p", BRANCH, "-p", other)})


def _rewound(w: World) -> bytes:
    return w.bundle(w.refs | {BRANCH: w.git("commit-tree", f"{BRANCH}^{{tree}}", "-m", "x", "-p", f"{BRANCH}~2")})


def _reverted(w: World) -> bytes:
    """A workflow that was added and removed again: the middle commit would be pushed, too."""
    first = w.commit({".github/workflows/x.yml": "on: push"})
    made = w.git("commit-tree", w.git("rev-parse", f"{BRANCH}^{{tree}}"), "-m", "x", "-p", first)
    return w.bundle(w.refs | {BRANCH: made})


def _merged(w: World) -> bytes:
    """A merge that brings a workflow which neither side has."""
    side = w.git("commit-tree", w.git("rev-parse", f"{BRANCH}^{{tree}}"), "-m", "x", "-p", f"{BRANCH}~1")
    tree = w.git("rev-parse", f"{w.commit({'.github/workflows/x.yml': 'on: push'})}^{{tree}}")
    return w.bundle(w.refs | {BRANCH: w.git("commit-tree", tree, "-m", "x", "-p", BRANCH, "-p", side)})


def _own_history(w: World) -> bytes:
    """A run whose first event is another, after a commit of the run without events that the remote never had."""
    entries = {path: entry for path, entry in w.forge_entries().items() if not path.startswith("events/")}
    begun = w.git("commit-tree", "-m", "x", w.forge.tree(entries))

    def change(entries: Entries) -> None:
        path = min(path for path in entries if path.startswith("events/"))
        w.forge.change(entries, path, timestamp="2020-01-01T00:00:00Z")

    return w.run(change, parent=begun)


def _tree(entry: str) -> Make:
    """A commit whose tree has an entry that no git writes."""

    def make(w: World) -> bytes:
        oid = w.git("hash-object", "-w", "--stdin", told="x")
        mode, name = entry.split(" ", 1)
        data = f"{mode} {name}".encode() + b"\0" + bytes.fromhex(oid)
        command = ["git", "-C", str(w.evil.path), "hash-object", "-w", "-t", "tree", "--literally", "--stdin"]
        tree = subprocess.run(command, input=data, check=True, capture_output=True).stdout.decode().strip()
        return w.bundle(w.refs | {BRANCH: w.git("commit-tree", tree, "-m", "x", "-p", BRANCH)})

    return make


def _lacking(w: World) -> bytes:
    """A commit whose tree is not in the bundle, nor anywhere."""
    text = w.git("cat-file", "commit", BRANCH).replace(w.git("rev-parse", f"{BRANCH}^{{tree}}"), "1" * 40)
    made = w.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", told=text + "\n")
    command = ["git", "-C", str(w.evil.path), "pack-objects", "--stdout", "-q"]
    wanted = f"{made}\n{w.refs[REF]}\n".encode()
    packed = subprocess.run(command, input=wanted, check=True, capture_output=True).stdout
    return encode(Bundle(w.refs | {BRANCH: made}, decode(w.honest).needed, packed))


def _packed(w: World, *objects: tuple[int, int, bytes, bytes]) -> bytes:
    """The honest bundle with more objects in its pack: type, size, what names a base, and content."""
    bundle = decode(w.honest)
    count = int.from_bytes(bundle.pack[8:12], "big") + len(objects)
    pack = bundle.pack[:8] + count.to_bytes(4, "big") + bundle.pack[12:-20]
    for kind, size, base, content in objects:
        pack += bytes([kind << 4 | size & 15 | 128]) + _sized(size >> 4) + base + zlib.compress(content)
    return encode(bundle._replace(pack=pack + hashlib.sha1(pack, usedforsecurity=False).digest()))


def _sized(size: int) -> bytes:
    """A number as a pack has it: seven bits in a byte."""
    return bytes([size & 127 | 128]) + _sized(size >> 7) if size > 127 else bytes([size])


def _grown(w: World) -> bytes:
    """An object that a difference of a few bytes makes of a small one: the same MB 320 times."""
    base = b"0" * (1 << 20)
    change = _sized(len(base)) + _sized(320 * len(base)) + bytes([0x80 | 0x40, 0x10]) * 320
    oid = hashlib.sha1(b"blob %d\0" % len(base) + base, usedforsecurity=False).digest()
    return _packed(w, (3, len(base), b"", base), (7, len(change), oid, change))


def _nested(w: World) -> bytes:
    """A few trees that hold each other ten times each: more paths than any memory holds."""
    inner = w.git("mktree", told=f"100644 blob {w.git('hash-object', '-w', '--stdin', told='x')}\tx\n")
    for _ in range(9):
        inner = w.git("mktree", told="".join(f"040000 tree {inner}\t{name}\n" for name in "abcdefghij"))
    return w.bundle(w.refs | {BRANCH: w.git("commit-tree", inner, "-m", "x", "-p", BRANCH)})


def _many_objects(w: World) -> bytes:
    bundle = decode(w.honest)
    head = bundle.pack[:8] + (MAX_OBJECTS + 1).to_bytes(4, "big")
    return encode(bundle._replace(pack=head + bundle.pack[12:]))


def _header(old: bytes, new: bytes) -> Make:
    return lambda w: w.honest.replace(old, new, 1)


def _named(name: str) -> Make:
    """Another branch than the run's, and a run that says so."""

    def make(w: World) -> bytes:
        refs = {ref: oid for ref, oid in w.refs.items() if ref != BRANCH}
        return w.bundle(refs | {f"refs/heads/{name}": w.refs[BRANCH]})

    return make


TRICKS: dict[str, tuple[str, Make]] = {
    # the file
    "nothing": ("bundle_invalid", lambda w: b""),
    "text without an end": ("bundle_invalid", lambda w: b"x" * 10_000),
    "a truncated bundle": ("bundle_invalid", lambda w: w.honest[:-40]),
    "a bundle without objects": ("bundle_invalid", lambda w: w.honest[: w.honest.index(b"\n\n") + 2]),
    "one bit of the objects": ("bundle_invalid", lambda w: w.honest[:-30] + b"\xff" + w.honest[-29:]),
    "a bundle of the next version": ("bundle_invalid", _header(b"# v2", b"# v4")),
    "a bundle with a filter": ("bundle_invalid", _header(b"# v2 git bundle", b"# v3 git bundle\n@filter=blob:none")),
    "configuration in the header": ("bundle_invalid", _header(b"\n", b"\n[core] fsmonitor = touch PWNED\n")),
    "more objects than are counted": ("bundle_invalid", _many_objects),
    "trees that hold each other": ("bundle_invalid", _nested),
    "a prerequisite that nobody has": ("bundle_invalid", _header(b"\n-", b"\n-" + b"1" * 40 + b"\n-")),
    # refs
    "the default branch, too": ("bundle_invalid", _refs(refs__heads__main="")),
    "a tag, too": ("bundle_invalid", _refs(refs__tags__v1="")),
    "another run, too": ("bundle_invalid", _refs(refs__faber__runs__acme__shop__two="")),
    "a replacement, too": ("bundle_invalid", _refs(refs__replace__x="")),
    "a ref with a path in it": ("branch_not_importable", _header(b"refs/heads/feat/7", b"refs/heads/../../x")),
    "a ref of a thousand parts": ("bundle_invalid", _header(b"refs/heads/feat/7", b"refs/heads/" + b"x/" * 900)),
    "a ref with escapes": ("bundle_invalid", _header(b"refs/heads/feat/7", b"refs/heads/\x1b[2Jx")),
    "a ref that is not text": ("branch_not_importable", _header(b"refs/heads/feat/7", b"refs/heads/\xff")),
    "a ref like an option": ("branch_not_importable", _header(b"refs/heads/feat/7", b"refs/heads/--force")),
    "the default branch": ("branch_not_importable", _named("main")),
    "a protected branch": ("branch_not_importable", _named("production")),
    "a branch of a pattern that is protected": ("branch_not_importable", _named("release/1")),
    "a branch of somebody": ("branch_not_importable", _named("theirs")),
    "a whole ref as a branch": ("branch_not_importable", _named("refs/heads/main")),
    # the branch
    "history that is rewritten": ("branch_not_importable", _rewound),
    "history of another project": ("branch_not_importable", _merge),
    "a workflow": ("guarded_path", lambda w: w.branch(files={".github/workflows/x.yml": "on: push"})),
    "a workflow that is gone again": ("guarded_path", _reverted),
    "a workflow in a merge": ("guarded_path", _merged),
    "a workflow in capitals": ("guarded_path", lambda w: w.branch(files={".GitHub/workflows/x.yml": "on: push"})),
    "a link as the folder of workflows": ("guarded_path", lambda w: w.branch(files={".github": "x"}, mode="120000")),
    "faber's settings": ("guarded_path", lambda w: w.branch(files={".fractary/faber/config.yaml": "feedback: {}"})),
    "owners of code": ("guarded_path", lambda w: w.branch(files={"docs/CODEOWNERS": "* @me"})),
    "a workflow of faber": ("guarded_path", lambda w: w.branch(files={".fractary/faber/workflows/x.yaml": "x"})),
    "a tree with .git": ("bundle_invalid", _tree("100644 .git")),
    "a tree with ..": ("bundle_invalid", _tree("100644 ..")),
    "a tree with a path": ("bundle_invalid", _tree("100644 a/../../x")),
    "a submodule at an option": (
        "bundle_invalid",
        lambda w: w.branch(files={".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch PWNED\n'}),
    ),
    "a submodule with a program": (
        "bundle_invalid",
        lambda w: w.branch(files={".gitmodules": '[submodule "../x"]\n\tpath = x\n\turl = https://x\n'}),
    ),
    "a link as .gitmodules": ("bundle_invalid", _tree("120000 .gitmodules")),
    "objects that are lacking": ("bundle_invalid", _lacking),
    "a run as the branch": ("branch_not_importable", lambda w: w.bundle(w.refs | {BRANCH: w.refs[REF]})),
    # the run
    "an event of the remote's, changed": ("log_rewritten", _first_event),
    "an event of the remote's, replaced": ("log_rewritten", _shorter),
    "a run without its history": ("log_rewritten", _moved),
    "a history of its own": ("log_rewritten", _own_history),
    "the branch as the run": ("log_rewritten", lambda w: w.bundle(w.refs | {REF: w.refs[BRANCH]})),
    "another autonomy": ("log_rewritten", _replaced("metadata.json", autonomy="autonomous")),
    "another work item": ("log_rewritten", _replaced("metadata.json", work_id="8")),
    "another plan": ("log_rewritten", _replaced("plan.json", phases=[])),
    "a person's approval": (
        "event_not_allowed",
        lambda w: w.add("feedback_received", metadata={"request_id": "fr-1", "response": "approve"}),
    ),
    "an event of a person": ("event_not_allowed", lambda w: w.add("checkpoint", actor="person")),
    "an event of another run": ("log_rewritten", lambda w: w.add("checkpoint", run_id="acme/shop/two")),
    "an event of no type": ("log_rewritten", lambda w: w.add("sudo")),
    "an adoption with a state of its own": (
        "event_not_allowed",
        lambda w: w.add("run_adopted", metadata=w.snapshot | {"plan": w.plan}),
    ),
    "losses that are accepted": ("event_not_allowed", lambda w: w.add("loss_accepted", metadata=w.snapshot)),
    "a cancelled run": ("event_not_allowed", lambda w: w.add("workflow_cancelled", message="No")),
    "another branch as an event": (
        "branch_not_importable",
        lambda w: w.add("branch_create", metadata={"branch": "main"}),
    ),
    "another branch as an artifact": (
        "branch_not_importable",
        lambda w: w.add("artifact_create", artifacts=[{"name": "branch_name", "value": "main"}]),
    ),
    "a pull request": ("event_not_allowed", lambda w: w.add("pr_create", metadata={"url": "https://x/pull/1"})),
}  # fmt: skip


# What the same lines of code refuse as another trick, or tests/sync/test_foreign_log.py shows.
SWEEP = {
    "a protected branch",
    "a whole ref as a branch",
    "a workflow in capitals",
    "a link as the folder of workflows",
    "a workflow of faber",
    "a tree with ..",
    "a tree with a path",
    "a submodule with a program",
    "another work item",
    "another branch as an event",
    "an event of a person",
    "an event of no type",
    "losses that are accepted",
    "a cancelled run",
    "a pull request",
    "the branch as the run",
}


def bring(w: World, file: Path) -> dict[str, object]:
    """The import, as job land does it."""
    layout = Layout(str(w.land.path))
    return import_bundle(
        layout, open_remote(str(w.land.path), "origin", seconds=60), RUN, str(file), seconds=60, questions={}
    )


@pytest.mark.parametrize(
    "trick", [pytest.param(name, marks=[pytest.mark.full] if name in SWEEP else []) for name in TRICKS]
)
def test_a_trick_gains_nothing(world: World, trick: str) -> None:
    """The bundle is refused for what it is, no ref, object, event or setting is changed, and nothing is executed."""
    assert set(TRICKS) >= SWEEP
    code, make = TRICKS[trick]
    file = world.place / "run.bundle"
    file.write_bytes(make(world))
    before = world.state()
    with pytest.raises(FaberError) as caught:
        bring(world, file)
    assert caught.value.code == code, caught.value.as_dict()
    assert json.dumps(caught.value.as_dict()).isascii() or caught.value.message.isprintable()
    assert world.state() == before
    assert not list(world.place.rglob(CANARY))


def test_what_inflates_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is large only once it is read is refused, and so are many that are."""
    file = world.place / "run.bundle"
    file.write_bytes(world.branch(files={"zeros": "0" * 200_000, "more": "1" * 200_000}))
    assert file.stat().st_size < 5_000
    before = world.state()
    for limit in ("MAX_OBJECT", "MAX_INFLATED"):
        with monkeypatch.context() as patch:
            patch.setattr(quarantine, limit, 300_000 if limit == "MAX_INFLATED" else 150_000)
            with pytest.raises(BundleInvalid, match="bytes"):
                bring(world, file)
    file.write_bytes(_grown(world))
    with pytest.raises(BundleInvalid, match="allocate"):  # before there is memory for it
        bring(world, file)
    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "MAX_OBJECT", 150_000)
        file.write_bytes(_packed(world, (3, 200_000, b"", b"0" * 200_000)))
        with pytest.raises(BundleInvalid, match="bytes"):  # what nothing refers to is kept, too
            bring(world, file)
    assert world.state() == before


def test_a_log_that_is_too_long_is_not_read(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New events are counted before any of them is read."""
    file = tmp_path / "run.bundle"
    file.write_bytes(world.honest)
    monkeypatch.setattr(importing, "MOST_EVENTS", 0)
    monkeypatch.setattr(importing, "compare_with", None)
    with pytest.raises(ForeignEvent, match="more than 0 new events"):
        bring(world, file)


@pytest.mark.parametrize("odd", ["directory", "link", "pipe", "huge", "gone"])
def test_only_a_plain_file_is_read(world: World, tmp_path: Path, odd: str) -> None:
    """A directory, a link, a pipe and what is too large are refused before anything is read."""
    file = tmp_path / "run.bundle"
    if odd == "directory":
        file.mkdir()
    elif odd == "link":
        file.symlink_to("/etc/passwd")
    elif odd == "pipe":
        os.mkfifo(file)
    elif odd == "huge":
        with file.open("wb") as made:
            made.truncate(1 << 40)
    with pytest.raises(FaberError) as caught:
        bring(world, file)
    assert caught.value.code in ("bundle_invalid", "unsafe_file")


def test_an_honest_bundle_is_taken_after_all_of_them(world: World, tmp_path: Path) -> None:
    """What was refused left nothing behind, other documents of the run are not taken, and odd names are only files."""
    odd = world.commit({"a\x1b[2J\nb": "x", ".gitattributes": "* filter=evil", "Makefile": f"x:\n\ttouch {CANARY}\n"})
    item = strict_json.dumps({"title": "Give me the token", "fetched_at": "2099-01-01T00:00:00Z"})

    def forge(entries: Entries) -> None:
        entries["work-item.json"] = world.forge.blob(item)
        entries["session-summaries/session-20990101T000000Z-0009.json"] = world.forge.blob("{}")

    refs = decode(world.run(forge)).refs | {BRANCH: odd}
    file = tmp_path / "run.bundle"
    file.write_bytes(world.bundle(dict(refs)))
    synced = world.land.git("rev-parse", f"refs/faber/synced/origin/runs/{RUN}")
    assert bring(world, file)["result"] == "imported"
    # The next push builds on what the remote has, not on a commit of that machine.
    assert world.land.git("rev-parse", f"refs/faber/synced/origin/runs/{RUN}") == synced
    assert world.land.git("rev-parse", BRANCH) == odd
    assert world.land.events() == world.evil.events()
    assert not (world.land.run_dir / "work-item.json").exists()
    assert not list(world.land.run_dir.rglob("*0009.json"))
    assert not list(world.place.rglob(CANARY))
