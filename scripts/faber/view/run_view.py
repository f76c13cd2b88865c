"""A run as a person sees it, a workflow's and a nebula's alike: the types of the one description that every view shows.

`view_fold` makes a `RunView` of a state, `run_record` tells what only the whole log does, `read_view` reads both from a
store. The types are named tuples: `dataclasses` takes longer to import than a status to compute.

Times are the log's (UTC, `YYYY-MM-DDTHH:MM:SS.mmmZ`), durations are in seconds, money is in US dollars.
"""

from typing import NamedTuple

from faber.model.documents import ResumePoint
from faber.model.state_parts import Pause


class Money(NamedTuple):
    """What agents cost: US dollars; the tokens that went in (with those of the prompt cache) and came out; their turns.
    All 0 in a workflow's run, whose session the client bills."""

    cost_usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    turns: int = 0


class Allowance(NamedTuple):
    """What a run may still spend, in US dollars: `left_usd` on its phases, `reserve_left_usd` only on healing. None
    where there is no limit."""

    limit_usd: float | None
    left_usd: float | None
    reserve_usd: float
    reserve_left_usd: float | None


class Question(NamedTuple):
    """An open request to a person, since when it waits, the place that asks, and the command that answers it."""

    request_id: str
    kind: str
    prompt: str
    options: tuple[str, ...]
    since: str
    phase: str | None
    step: str | None
    answer_with: str


class Worker(NamedTuple):
    """Who works on a run: a session (`session_id`, `client`) or the process of a nebula (`pid`, `command`), since when,
    and its newest sign of life in the log. `ended` is true of a session that said that it is over."""

    session_id: str | None
    client: str | None
    pid: int | None
    command: str | None
    since: str
    seen: str
    ended: bool


class StepView(NamedTuple):
    """A step. `attempts` counts its starts, `blocked` how often completion was refused for missing evidence; `waived`
    is true where a person did without the evidence. `error` or `message` is what it ended with."""

    id: str
    name: str
    status: str
    attempts: int
    started_at: str | None
    ended_at: str | None
    elapsed_s: float | None
    message: str | None
    error: str | None
    warning: bool
    blocked: int
    waived: bool


class PhaseView(NamedTuple):
    """A phase, of a workflow with its `steps`, of a nebula with its `cycle`, `stage`, money and healing.

    `attempts` counts the loops that led back from a workflow's phase, and a nebula's attempts to heal one. `stage` is
    what happens in a nebula's phase, `healing` included. `reason` is why it failed or was skipped. `remediation` is the
    phase that remedies it, `remedies` the one it remedies. `not_healed` is why nothing does.
    """

    id: str
    name: str
    status: str
    started_at: str | None
    ended_at: str | None
    elapsed_s: float | None
    attempts: int
    reason: str | None
    steps: tuple[StepView, ...] = ()
    stage: str | None = None
    cycle: int | None = None
    cycles_done: int = 0
    findings: int = 0
    denials: int = 0
    money: Money = Money()
    failing_filter: str | None = None
    failure: str | None = None
    remediation: str | None = None
    remedies: str | None = None
    not_healed: str | None = None
    commit: str | None = None
    merged: str | None = None
    request_id: str | None = None


class EventLine(NamedTuple):
    """An event in one line: its type and what it says."""

    event_id: int
    at: str
    type: str
    phase: str | None
    step: str | None
    text: str


class Progress(NamedTuple):
    """How many parts of a run are done, skipped, failed, in progress and left; the parts are a workflow's steps or a
    nebula's phases. A failed phase that has a remediation counts as neither failed nor a part of `total`."""

    done: int
    skipped: int
    failed: int
    running: int
    total: int


class RunView(NamedTuple):
    """A run at the time `at`.

    `title` is what was asked, or the nebula's name. `elapsed_s` counts from its start to its end, to now while somebody
    works on it, else to its newest event. `resume` is None where nothing is left. `next_command` is what a person or
    the asking session runs next. `questions` are the open ones, oldest first. `loops` are (failed phase, phase it went
    back to, reason), `healing` are (failed phase, remediation, its status). `reopened` is the failed check or review
    whose work is not done. `events` are the newest, oldest first. What `unpriced_turns` cost nobody knows; `money`
    counts them as 0.
    """

    at: str
    run_id: str
    nebula: bool
    title: str
    work_id: str | None
    workflow_id: str
    autonomy: str
    branch: str | None
    directory: str | None
    foreign: bool
    status: str
    created_at: str
    started_at: str | None
    updated_at: str
    ended_at: str | None
    elapsed_s: float | None
    error: str | None
    current_phase: str | None
    current_step: str | None
    resume: ResumePoint | None
    next_command: str
    questions: tuple[Question, ...]
    paused: Pause | None
    worker: Worker | None
    phases: tuple[PhaseView, ...]
    progress: Progress
    money: Money
    healing_cost_usd: float
    unpriced_turns: int
    allowance: Allowance
    loops: tuple[tuple[str, str, str | None], ...]
    reopened: str | None
    healing: tuple[tuple[str, str, str], ...]
    events: tuple[EventLine, ...]
    last_event_id: int
