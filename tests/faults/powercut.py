"""What a disk may hold after a power cut: a model of a file system that keeps only what was forced to it.

The model is stricter than any journalling file system: a file's content is certain only once the file was synced, a
name only once its directory was; until then either may be lost or kept, each on its own.
"""

import os
import random
import re
from pathlib import Path
from typing import NamedTuple

TRACED = (
    "trace=?open,openat,?creat,write,pwrite64,writev,sendfile,?copy_file_range,ftruncate,truncate,close,?dup2,dup3,"
    "fsync,fdatasync,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,?unlink,unlinkat,?mkdir,mkdirat,?rmdir,"
    "flock,utimensat"
)
# Whole contents, in hexadecimal, so that what was written can be told from the trace.
OPTIONS = ("-xx", "-s", "5000000", "-e", TRACED)


class Operation(NamedTuple):
    """One traced system call that succeeded: its name, its arguments as strace prints them, and what it returned."""

    name: str
    arguments: list[str]
    result: int


def operations(log: str) -> list[Operation]:
    """The calls of the traced process. Of a killed one, the call it died in did not happen."""
    found = []
    for line in log.splitlines():
        match = re.match(r"(\w+)\((.*)\) += (-?\d+)", line)
        if match and int(match[3]) >= 0:
            found.append(Operation(match[1], re.findall(r'"(?:[^"\\]|\\.)*"\.*|[^, ]+', match[2]), int(match[3])))
    return found


def _text(argument: str) -> bytes:
    assert not argument.endswith("..."), "strace cut a string short"
    return bytes.fromhex(argument[1:-1].replace("\\x", ""))


class File:
    """A file's content now, and what of it is certain to be on the disk."""

    def __init__(self, content: bytes = b"", durable: bytes | None = None) -> None:
        self.content = content
        self.durable = durable


class Directory:
    """A directory's names now, those certain to be on the disk, and the changes between the two."""

    def __init__(self) -> None:
        self.names: dict[str, File | Directory] = {}
        self.durable: dict[str, File | Directory] = {}
        self.pending: list[Change] = []


Node = File | Directory
Change = list[tuple[Directory, str, File | Directory | None]]


class Disk:
    """A model of the directory `root`, changed by the traced calls of one process after another."""

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self.top = self._certain(root)
        self._open: dict[int, tuple[Node, int]] = {}
        self.said = b""

    def _certain(self, path: Path) -> Directory:
        made = Directory()
        for entry in sorted(path.iterdir()):
            if entry.is_dir():
                made.names[entry.name] = self._certain(entry)
            else:
                content = entry.read_bytes()
                made.names[entry.name] = File(content, content)
        made.durable = dict(made.names)
        return made

    # --- what the traced calls do

    def end_process(self) -> None:
        """The descriptors of a process end with it; what it said was said."""
        self._open.clear()
        self.said = b""

    def apply(self, operation: Operation) -> bool:
        """Follow one call; true if it changed anything under the root."""
        handler = getattr(self, f"_{operation.name}", None)
        return bool(handler and handler(operation))

    def _place(self, argument: str, base: str = "AT_FDCWD") -> tuple[Directory, str] | None:
        path = os.fsdecode(_text(argument)).rstrip("/")
        if base != "AT_FDCWD" and not path.startswith("/"):
            node = self._open.get(int(base))
            return (node[0], path) if node and isinstance(node[0], Directory) else None
        if path == self.root or not path.startswith(self.root + "/"):
            return None
        parts = path[len(self.root) + 1 :].split("/")
        directory: Node = self.top
        for part in parts[:-1]:
            assert isinstance(directory, Directory)
            directory = directory.names[part]
        assert isinstance(directory, Directory)
        return directory, parts[-1]

    def _openat(self, operation: Operation) -> bool:
        base, path, flags = operation.arguments[:3]
        if os.fsdecode(_text(path)) == self.root:
            self._open[operation.result] = (self.top, 0)
            return False
        place = self._place(path, base)
        if place is None:
            self._open.pop(operation.result, None)
            return False
        directory, name = place
        if name not in directory.names:
            assert "O_CREAT" in flags, operation
            self._change([(directory, name, File())])
        node = directory.names[name]
        if "O_TRUNC" in flags and isinstance(node, File):
            node.content = b""
        self._open[operation.result] = (node, 0)
        return "O_CREAT" in flags

    def _close(self, operation: Operation) -> bool:
        self._open.pop(int(operation.arguments[0]), None)
        return False

    def _put(self, handle: int, data: bytes, at: int | None = None) -> bool:
        if handle == 1:
            self.said += data
            return True
        if handle not in self._open:
            return False
        node, position = self._open[handle]
        assert isinstance(node, File)
        start = position if at is None else at
        node.content = node.content[:start].ljust(start, b"\0") + data + node.content[start + len(data) :]
        if at is None:
            self._open[handle] = (node, start + len(data))
        return True

    def _write(self, operation: Operation) -> bool:
        return self._put(int(operation.arguments[0]), _text(operation.arguments[1])[: operation.result])

    def _pwrite64(self, operation: Operation) -> bool:
        data = _text(operation.arguments[1])[: operation.result]
        return self._put(int(operation.arguments[0]), data, int(operation.arguments[3]))

    def _sendfile(self, operation: Operation) -> bool:
        target, source = int(operation.arguments[0]), int(operation.arguments[1])
        node, position = self._open[source]
        assert isinstance(node, File)
        data = node.content[position : position + operation.result]
        self._open[source] = (node, position + operation.result)
        return self._put(target, data)

    def _ftruncate(self, operation: Operation) -> bool:
        known = self._open.get(int(operation.arguments[0]))
        if known and isinstance(known[0], File):
            known[0].content = known[0].content[: int(operation.arguments[1])]
        return known is not None

    def _fsync(self, operation: Operation) -> bool:
        known = self._open.get(int(operation.arguments[0]))
        if known is None:
            return False
        node = known[0]
        if isinstance(node, File):
            node.durable = node.content
        else:
            while node.pending:
                self._settle(node.pending[0])
        return True

    _fdatasync = _fsync

    def _mkdir(self, operation: Operation) -> bool:
        place = self._place(operation.arguments[0])
        if place:
            self._change([(*place, Directory())])
        return place is not None

    def _rename(self, operation: Operation) -> bool:
        return self._move(self._place(operation.arguments[0]), self._place(operation.arguments[1]))

    def _move(self, source: tuple[Directory, str] | None, target: tuple[Directory, str] | None) -> bool:
        if source is None or target is None:
            return False
        self._change([(*target, source[0].names[source[1]]), (*source, None)])
        return True

    def _linkat(self, operation: Operation) -> bool:
        source = self._place(operation.arguments[1], operation.arguments[0])
        target = self._place(operation.arguments[3], operation.arguments[2])
        if source and target:
            self._change([(*target, source[0].names[source[1]])])
        return target is not None

    def _unlink(self, operation: Operation) -> bool:
        place = self._place(operation.arguments[0])
        if place:
            self._change([(*place, None)])
        return place is not None

    _rmdir = _unlink

    def _unlinkat(self, operation: Operation) -> bool:
        place = self._place(operation.arguments[1], operation.arguments[0])
        if place:
            self._change([(*place, None)])
        return place is not None

    # --- names, certain and not

    def _change(self, change: Change) -> None:
        """One change of one name, or of two at once (a rename is never seen by halves)."""
        for directory, name, node in change:
            if node is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = node
        for directory in {id(entry[0]): entry[0] for entry in change}.values():
            directory.pending.append(change)

    def _settle(self, change: Change) -> None:
        """Make a change certain; what the same names went through before no longer matters."""
        for directory in {id(entry[0]): entry[0] for entry in change}.values():
            number = directory.pending.index(change)
            names = {entry[1] for entry in change if entry[0] is directory}
            directory.pending = [
                earlier
                for earlier in directory.pending[:number]
                if not any(entry[0] is directory and entry[1] in names for entry in earlier)
            ] + directory.pending[number + 1 :]
        for directory, name, node in change:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node

    # --- what may be left

    def cut(self, chance: random.Random, target: Path, keep: float) -> None:
        """Write to `target` what the disk might hold if the power went now.

        Every uncertain name and content is kept with the probability `keep`, and else lost (content also in part).
        """
        kept: dict[int, bool] = {}
        self._materialise(self.top, chance, target, keep, kept)

    def _materialise(
        self, directory: Directory, chance: random.Random, target: Path, keep: float, kept: dict[int, bool]
    ) -> None:
        target.mkdir(exist_ok=True)
        names = dict(directory.durable)
        for change in directory.pending:
            if kept.setdefault(id(change), chance.random() < keep):
                for where, name, node in change:
                    if where is directory and node is None:
                        names.pop(name, None)
                    elif where is directory and node is not None:
                        names[name] = node
        for name, node in names.items():
            if isinstance(node, Directory):
                self._materialise(node, chance, target / name, keep, kept)
            else:
                (target / name).write_bytes(self._content(node, chance, keep))

    @staticmethod
    def _content(file: File, chance: random.Random, keep: float) -> bytes:
        if file.content == file.durable or chance.random() < keep:
            return file.content
        if file.durable is not None and chance.random() < 0.5:
            return file.durable
        return file.content[: chance.randrange(len(file.content) + 1) if chance.random() < 0.5 else 0]
