"""What a phase costs beside its agents: worktree, commit, merge and removal, beside the same git commands by hand.

Usage:
    benchmarks/worktrees.py [--quick] [--json] [--rounds N] [--directory DIR]

Each round makes a worktree of a repository of 10,000 files, changes three of them, commits, merges the commit into
an integration branch, and removes the worktree. "git by hand" is the least that does it: `worktree add`, `add`,
`commit`, `merge-tree`, `commit-tree`, `update-ref`, `worktree remove`. faber also claims the worktree, looks at what
was done with git in it, refuses repositories inside it, and parks what is not committed before it removes it.
"""

import os
import subprocess
import time
from functools import partial

import measure

from faber.nebula.plan.names import names_of
from faber.nebula.worktrees.integration import merge_phase
from faber.nebula.worktrees.pool import Worktrees
from faber.store.layout import Layout

TARGET = 2.0
RUN = "sample/worktrees/0b5c3a52-61ce-4b43-9d6c-0f5b8a4f7f10"
BY_HAND = "git by hand {:,}"
FABER = "faber {:,}"
COMMIT = ("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q")


def git(directory: str, *arguments: str) -> str:
    """What git prints, started as a script would."""
    done = subprocess.run(
        ["git", "-C", directory, *arguments],
        env=measure.ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def repository(place: str, files: int) -> str:
    """A repository with one commit of `files` small files, a hundred to a directory."""
    root = os.path.join(place, f"project-{files}")
    os.mkdir(root)
    git(root, "init", "-q", "-b", "main")
    for number in range(files):
        directory = os.path.join(root, f"part{number // 100:03}")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, f"module{number % 100:02}.py"), "w", encoding="utf-8") as file:
            file.write(f"VALUE = {number}\n" * 20)
    git(root, "add", "-A")
    git(root, *COMMIT, "-m", "begin")
    git(root, "branch", "integration")
    return root


def change(tree: str, number: int) -> None:
    """What an agent leaves: two files changed, one new."""
    for name in ("part000/module00.py", "part000/module01.py", f"new{number}.py"):
        with open(os.path.join(tree, name), "a", encoding="utf-8") as file:
            file.write(f"CHANGED = {number}\n")


def by_hand(root: str, place: str, counter: list[int]) -> float:
    """Seconds that the plain commands take."""
    counter[0] += 1
    tree = os.path.join(place, "by-hand")
    begun = time.perf_counter()
    git(root, "worktree", "add", "-q", "-b", f"by-hand-{counter[0]}", tree, "integration")
    spent = time.perf_counter() - begun
    change(tree, counter[0])
    begun = time.perf_counter()
    git(tree, "add", "-A")
    git(tree, *COMMIT, "-m", "cycle")
    head, base = git(tree, "rev-parse", "HEAD"), git(root, "rev-parse", "integration")
    merged = git(root, "merge-tree", "--write-tree", base, head)
    identity = COMMIT[:4]
    made = git(root, *identity, "commit-tree", merged, "-p", base, "-p", head, "-m", "merge")
    git(root, "update-ref", "refs/heads/integration", made, base)
    git(root, "worktree", "remove", "--force", tree)
    return spent + time.perf_counter() - begun


def by_faber(one: Worktrees, counter: list[int]) -> float:
    """Seconds that faber takes for the same."""
    counter[0] += 1
    name = f"phase-{counter[0]}"
    begun = time.perf_counter()
    tree = one.open(name).tree
    spent = time.perf_counter() - begun
    change(tree.path, counter[0])
    begun = time.perf_counter()
    tree.bring_home(None)
    head = tree.commit_cycle(1, "work")
    merge_phase(one, name, head or tree.head(), name)
    one.prune(name)
    return spent + time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    sizes = (10, 100) if arguments.quick else (100, 10_000)
    with measure.workplace(arguments) as place:
        subjects: dict[str, measure.Subject] = {}
        runs = []
        for size in sizes:
            root = repository(place, size)
            run = Worktrees(Layout(root), names_of("sample", RUN))
            run.begin()
            runs.append(run)
            subjects[BY_HAND.format(size)] = partial(by_hand, root, place, [0])
            subjects[FABER.format(size)] = partial(by_faber, run, [0])
        times = measure.rounds(subjects, arguments, 15)
        ratios = [measure.ratio(times, FABER.format(size), BY_HAND.format(size)) for size in sizes[:-1]]
        ratios.append(measure.ratio(times, FABER.format(sizes[-1]), BY_HAND.format(sizes[-1]), TARGET))
        ratios.append(measure.ratio(times, FABER.format(sizes[-1]), FABER.format(sizes[0])))
        for run in runs:
            run.end()
        measure.report(arguments, "A phase's worktree beside git by hand", ratios, place)


if __name__ == "__main__":
    main()
