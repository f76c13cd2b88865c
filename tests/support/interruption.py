"""What stood when a nebula's process died, and what a resume must not have done to it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from faber.model.documents import nebula_phases
from faber.nebula.phase.checkpoint import Checkpoint, load_all
from faber.nebula.phase.cycle_state import Stage
from faber.store.load import load
from faber.store.log import after
from support.nebulas import Project
from support.repositories import git

# What a checkpoint of a stage says is finished in its cycle.
_FINISHED = {
    Stage.CODE_COMPLETE: {"coder"},
    Stage.REVIEWING: {"coder", "filter"},
    Stage.RESOLVING_ISSUES: {"coder", "filter"},
    Stage.REVIEW_COMPLETE: {"coder", "filter", "reviewer"},
    Stage.APPROVED: {"coder", "filter", "reviewer"},
}


class Seen(NamedTuple):
    """`commits` are the cycles on each phase's branch, `everything` all commits that a ref holds."""

    project: Project
    asked: Sequence[str]
    done: Collection[str]
    commits: Mapping[str, Sequence[str]]
    checkpoints: Mapping[str, Checkpoint]
    last_event: int
    everything: Collection[str]

    @classmethod
    def of(cls, project: Project, asked: Sequence[str], names: Collection[str]) -> "Seen":
        """What stands now; `asked` are lines like `coder a`, `names` the phases."""
        runs = project.layout.run_ids()
        state = load(project.layout, runs[0]).state if runs else None
        phases = nebula_phases(state) if state else {}
        return cls(
            project,
            list(asked),
            {name for name, phase in phases.items() if phase["status"] == "done"},
            {name: _cycles(project, name) for name in names},
            {name: kept for name, kept in load_all(project.directory).items() if isinstance(kept, Checkpoint)},
            state["last_event_id"] if state else 0,
            set(git(project.root, "rev-list", "--all").split()),
        )

    def broken(self, report: Mapping[str, Any], asked: Sequence[str], most: Mapping[str, int]) -> list[str]:
        """What is wrong after a resume with this `report`; `most` is how often each is asked in a whole run."""
        project, wrong = self.project, []
        if report["status"] != "done" or {phase["status"] for phase in report["phases"].values()} != {"done"}:
            wrong.append(f"the report says {report}")
        if lost := set(self.everything) - set(git(project.root, "rev-list", "--all").split()):
            wrong.append(f"lost commits {lost}")
        merged = set(git(project.root, "rev-list", report["branch"]).split())
        wrong += [
            f"commits of {name} were given up" for name, own in self.commits.items() if not merged.issuperset(own)
        ]
        if project.left() != ["nebula.state.toml"]:
            wrong.append(f"left: {project.left()}")
        if git(project.root, "status", "--porcelain", "--", ":!plan", ":!.fractary"):
            wrong.append("the person's tree is not clean")
        return wrong + self._asked_again(asked, most) + self._stages_again(report["run_id"])

    def _asked_again(self, asked: Sequence[str], most: Mapping[str, int]) -> list[str]:
        """A coder whose work was committed is not asked for it again, nor anybody of a phase that is done."""
        again, wrong = Counter(asked[len(self.asked) :]), []
        for who, times in again.items():
            role, _, name = who.partition(" ")
            committed = len(self.commits[name]) if role == "coder" else 0
            allowed = 0 if name in self.done else most[who] - committed
            if times > allowed:
                wrong.append(f"{who} was asked {times} times again, {allowed} were left")
        return wrong

    def _stages_again(self, run_id: str) -> list[str]:
        """Stages that a checkpoint said were finished, and that were recorded again."""
        wrong = []
        events = after(self.project.layout.run_dir(run_id), self.last_event) if self.last_event else []
        for event in events:
            given, name = event.get("metadata", {}), event.get("phase", "")
            kept = self.checkpoints.get(name)
            if kept is None or event["type"] not in ("agent_turn", "filter_run") or given.get("on") == "merge":
                continue
            what, cycle, stage = given.get("role") or "filter", given["cycle"], kept.state.phase
            finished = _FINISHED.get(stage, set()) if cycle == kept.state.cycle else set()
            if cycle < kept.state.cycle or what in finished:
                wrong.append(f"{name}: {what} of cycle {cycle} again, after {stage.word}")
        return wrong


def _cycles(project: Project, name: str) -> list[str]:
    branch = git(project.root, "for-each-ref", "--format=%(refname)", f"refs/heads/faber/*/*/phase/{name}")
    wanted = ("--grep", f"^Faber-Phase: {name}$", "--grep", "^Faber-Cycle: ", "--all-match")
    return git(project.root, "log", "--first-parent", "--format=%H", *wanted, branch).split() if branch else []
