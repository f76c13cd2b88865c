"""A nebula's process dies at any moment, and before the resume somebody deletes or moves its refs and files."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from faber.model.documents import nebula_phases
from faber.nebula.run.merged_phases import MergedWorkLost
from faber.store.load import load
from faults.sampling import spread
from faults.test_nebula_kills import Whole, moments, run, whole
from support.damage import DAMAGE, delete_checkpoints, delete_worktrees, forget
from support.killed_nebula import KILLED, PHASES, Hands
from support.nebulas import Project
from support.repositories import git

pytestmark = pytest.mark.usefixtures("git_user")

ALL = (*DAMAGE, delete_worktrees, delete_checkpoints, forget)
MOMENTS = 24
__all__ = ["whole"]


def files(project: Project, branch: object) -> dict[str, str]:
    """The content of each phase's file in the branch."""
    there = set(project.files(str(branch)))
    return {name: git(project.root, "show", f"{branch}:{name}.txt") for name in PHASES if f"{name}.txt" in there}


def resumed(project: Project, asked: Path) -> str:
    """How the resume ended: `whole`, `redone` where work was named as lost and done again, or what is wrong."""
    how = "whole"
    try:
        applied = project.apply(Hands(asked), max_workers=2, resume=True)
    except MergedWorkLost as error:
        how = "redone"
        (run_id,) = [each for each in project.layout.run_ids() if nebula_phases(load(project.layout, each).state)]
        done = {
            name for name, each in nebula_phases(load(project.layout, run_id).state).items() if each["status"] == "done"
        }
        if done & set(error.fields["phases"]):
            return f"lost and done: {done}"
        applied = project.apply(Hands(asked), max_workers=2, resume=True, retry_failed=True)
    there = files(project, applied.report["branch"])
    if applied.status != "done" or there != {"a": "a", "b": "b better", "c": "c", "d": "d"}:
        return f"{applied.status}: {there}; {applied.report}"
    if sorted(git(project.root, "show", f"{applied.report['branch']}:README.md").split()) != ["b", "c"]:
        return "the merge of b and c is another"
    return how


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_what_is_done_is_there(whole: Whole, tmp_path: Path, part: int) -> None:
    """Killed at moments spread over the run, then damaged in each way: the resume ends with the work of every phase.
    Work that is gone is named, is not done, and is worked on again."""
    every = moments(whole.counted, 1)
    chosen = spread(every, len(every) // MOMENTS, part, 8)
    counts: Counter[tuple[str, str]] = Counter()
    wrong = []
    for moment in chosen:
        place = tmp_path / moment
        shutil.copytree(whole.beginning, place)
        run(place / "p", moment, status=KILLED)
        place.rename(tmp_path / "killed")
        for damage in ALL:
            shutil.copytree(tmp_path / "killed", place, symlinks=True)
            project = Project(place / "p")
            if project.layout.run_ids():
                damage(project)
                how = resumed(project, place / "asked")
                counts[damage.__name__, how if how in ("whole", "redone") else "wrong"] += 1
                wrong += [f"{moment}, {damage.__name__}: {how}"] if how not in ("whole", "redone") else []
            shutil.rmtree(place)
        shutil.rmtree(tmp_path / "killed")
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
