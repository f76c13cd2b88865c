"""The state of one phase's cycles: everything that the loop needs to resume in another process.

Fields and stages match those of the tool whose checkpoints faber reads, so that they have the same meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from faber.nebula.phase.findings import SEVERITIES, STATUSES, Finding

KEPT_OUTPUT = 100_000
MAX_FINDINGS = 2_000


class Stage(IntEnum):
    """The stage of a cycle. Checkpoints contain the number."""

    IDLE = 0
    BEAD_CREATED = 1
    CODING = 2
    CODE_COMPLETE = 3
    LINTING = 4
    FILTERING = 5
    REVIEWING = 6
    REVIEW_COMPLETE = 7
    RESOLVING_ISSUES = 8
    APPROVED = 9
    ERROR = 10

    @property
    def word(self) -> str:
        """The name of the stage: `code_complete`."""
        return self.name.lower()


@dataclass(frozen=True)
class CycleState:
    """One phase's cycles. Money in US dollars; `cycle` counts from 1 (0 before the first).

    `phase` is the stage of the current cycle. `coder_output`, `review_output`, `lint_output` and `filter_output` are
    the newest of their kind; `filter_check_name` names the filter that failed last, empty if none did. `findings` are
    those of the current cycle, `all_findings` those of all cycles. `base_commit_sha` is where the phase's branch began,
    `cycle_commits` the newest commit of each completed cycle, in order. `task_bead_id` is another tool's work item.
    `reset_past` are faber's own: spans `BASE..HEAD` of other phases' commits that the coder reset its branch past.
    """

    task_title: str
    max_cycles: int
    task_bead_id: str = ""
    phase: Stage = Stage.IDLE
    cycle: int = 0
    total_cost_usd: float = 0.0
    max_budget_usd: float = 0.0
    coder_output: str = ""
    review_output: str = ""
    lint_output: str = ""
    filter_output: str = ""
    filter_check_name: str = ""
    base_commit_sha: str = ""
    cycle_commits: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    all_findings: tuple[Finding, ...] = ()
    reset_past: tuple[str, ...] = ()

    @property
    def next_stage(self) -> tuple[int, Stage]:
        """The cycle and the stage with which to resume after an interruption here.

        Completed stages are not repeated: after a review the next cycle starts, after the coder's commit the filters
        run; an approved phase only needs its merge. A turn whose answer may be incomplete is repeated.
        """
        following = {
            Stage.IDLE: (max(self.cycle, 1), Stage.CODING),
            Stage.BEAD_CREATED: (max(self.cycle, 1), Stage.CODING),
            Stage.CODING: (self.cycle, Stage.CODING),
            Stage.CODE_COMPLETE: (self.cycle, Stage.FILTERING),
            Stage.LINTING: (self.cycle, Stage.FILTERING),
            Stage.FILTERING: (self.cycle, Stage.FILTERING),
            Stage.REVIEWING: (self.cycle, Stage.REVIEWING),
            Stage.REVIEW_COMPLETE: (self.cycle + 1, Stage.CODING),
            Stage.RESOLVING_ISSUES: (self.cycle + 1, Stage.CODING),
            Stage.APPROVED: (self.cycle, Stage.APPROVED),
            Stage.ERROR: (self.cycle, Stage.CODING),
        }
        return following[self.phase]


def to_table(state: CycleState) -> dict[str, object]:
    """The state as a TOML table. Outputs are cut to their last 100,000 characters, findings to the newest 2,000."""
    table: dict[str, object] = {}
    for field in fields(state):
        value = getattr(state, field.name)
        if field.name in ("findings", "all_findings"):
            table[field.name] = [_finding_table(finding) for finding in value[-MAX_FINDINGS:]]
        elif field.name.endswith("_output"):
            table[field.name] = value[-KEPT_OUTPUT:]
        else:
            table[field.name] = int(value) if isinstance(value, Stage) else value
    return table


def _finding_table(finding: Finding) -> dict[str, object]:
    return {field.name: value for field in fields(finding) if (value := getattr(finding, field.name)) not in (None, "")}


def from_table(table: Mapping[str, Any]) -> CycleState:
    """The state in a table from `to_table`, or from another tool with the same fields; unknown keys are ignored.

    Raises `ValueError`, with a message that completes "its state …", for a value of the wrong type or an unknown stage.
    """
    given: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        value = table.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
            raise ValueError(f"has a {name} of the wrong type")
        given[name] = float(str(value)) if kind is float else value
    if "task_title" not in given or "max_cycles" not in given:
        raise ValueError("has no task_title or no max_cycles")
    try:
        given["phase"] = Stage(given.get("phase", 0))
    except ValueError:
        raise ValueError(f"has the unknown stage {given['phase']}") from None
    for name in ("cycle_commits", "reset_past"):
        texts = given.get(name, [])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"has {name} that are not text")
        given[name] = tuple(texts)
    for name in ("findings", "all_findings"):
        given[name] = tuple(_finding(item) for item in given.get(name, []))
    return CycleState(**given)


_KINDS: dict[str, type] = {
    **dict.fromkeys(("task_title", "task_bead_id", "coder_output", "review_output", "lint_output"), str),
    **dict.fromkeys(("filter_output", "filter_check_name", "base_commit_sha"), str),
    **dict.fromkeys(("max_cycles", "cycle", "phase"), int),
    **dict.fromkeys(("total_cost_usd", "max_budget_usd"), float),
    **dict.fromkeys(("cycle_commits", "findings", "all_findings", "reset_past"), list),
}


def _finding(item: Any) -> Finding:
    if not isinstance(item, Mapping):
        raise ValueError("has a finding that is not a table")
    texts: dict[str, Any] = {name: item.get(name, "") for name in ("id", "severity", "description", "file")}
    texts["status"] = item.get("status") or "found"
    line, cycle = item.get("line"), item.get("cycle", 1)
    if not all(isinstance(text, str) for text in texts.values()) or texts["status"] not in STATUSES:
        raise ValueError("has an invalid finding")
    if texts["severity"] not in SEVERITIES:
        raise ValueError(f"has a finding with the unknown severity {texts['severity'][:40]!a}")
    if isinstance(cycle, bool) or not isinstance(cycle, int) or not isinstance(line, (int, type(None))):
        raise ValueError("has a finding with an invalid line or cycle")
    return Finding(**texts, line=line, cycle=cycle)
