"""What one more event costs to send: `faber sync push` of a short run and of a long one, beside a plain `git push`.

Usage:
    benchmarks/sync.py [--quick] [--json] [--rounds N] [--project DIR] [--directory DIR]

Every round appends one event to a run of 100 events and to one of 10,000, both pushed before, and pushes them: whole
commands, to a bare repository on the same disk. Beside them `git push` sends a commit that changes one small file. The
last line is the long run beside the short one: no event is read or sent again, but the tree that names them all is
written again. The bytes are those of the pack that the push of one more event sends, made again as git makes it.
"""

import os
import subprocess
import time
from functools import partial
from pathlib import Path

import measure
import samples

# isort: split  (measure makes the following importable)
from faber.model import acceptance
from faber.store.commit import commit
from faber.store.load import Run

GIT = "git push, one file"
GROWTH = 1.5


def git(directory: str, *arguments: str, told: bytes = b"") -> bytes:
    """Run git there and answer what it prints."""
    identity = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.invalid")
    done = subprocess.run(
        ["git", "-C", directory, *identity, *arguments],
        env=measure.ENVIRONMENT,
        input=told,
        check=True,
        capture_output=True,
    )
    return done.stdout


def append(run: Run) -> None:
    """One event more."""
    commit(run.layout, run.run_id, lambda state, plan: acceptance.emit(state, plan, {"type": "checkpoint"}))


def pushed(run: Run) -> float:
    """Seconds of `faber sync push`."""
    return measure.spawn([measure.FABER, "sync", "push", run.run_id], run.layout.root)


def one_more(run: Run) -> float:
    """Seconds that one event more takes to be sent; it is recorded before the clock starts."""
    append(run)
    return pushed(run)


def plain(directory: str) -> float:
    """Seconds of `git push` of a commit that changes one small file."""
    Path(directory, "note.txt").write_text(f"{time.time_ns()}\n", encoding="utf-8")
    git(directory, "add", "note.txt")
    git(directory, "commit", "-q", "-m", "Note")
    return measure.spawn(["git", "push", "-q", "origin", "main"], directory)


def sent_bytes(run: Run) -> int:
    """The bytes of the pack that one event more takes: what is new, against what the remote has."""
    root, ref = run.layout.root, f"refs/faber/remotes/origin/runs/{run.run_id}"
    before = git(root, "rev-parse", ref)
    one_more(run)
    wanted = git(root, "rev-parse", ref) + b"^" + before
    return len(git(root, "pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q", told=wanted))


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (10, 50) if arguments.quick else (100, 10_000)
    with measure.workplace(arguments) as place:
        layout = samples.project(place, arguments)
        runs = [samples.long_run(layout, events) for events in sizes]
        remote, beside = os.path.join(place, "remote.git"), os.path.join(place, "beside")
        for command in (["init", "-q", "--bare", "-b", "main", remote], ["init", "-q", "-b", "main", beside]):
            git(place, *command)
        for directory in (layout.root, beside):
            git(directory, "remote", "add", "origin", remote)
        plain(beside)
        names = [f"faber, {events:,} events" for events in sizes]
        first = [f"{pushed(run):.2f} s for {events:,}" for run, events in zip(runs, sizes, strict=True)]
        subjects: dict[str, measure.Subject] = {GIT: partial(plain, beside)}
        subjects |= {name: partial(one_more, run) for name, run in zip(names, runs, strict=True)}
        times = measure.rounds(subjects, arguments, 40)
        ratios = [measure.ratio(times, name, GIT) for name in names]
        ratios.append(measure.ratio(times, names[1], names[0], GROWTH))
        size = [f"{sent_bytes(run)} for {events:,}" for run, events in zip(runs, sizes, strict=True)]
        more = {"first push": ", ".join(first), "bytes of one event more": ", ".join(size)}
        measure.report(arguments, "Sending one event more", ratios, place, **more)


if __name__ == "__main__":
    main()
