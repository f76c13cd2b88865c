"""A nebula's run in which everything that a report shows has happened, of any length, and as ugly as wanted.

The events are made by faber's own constructors, written in bulk and folded by its reducer; the same call always makes
the same run.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

from faber.events import event_types, feedback_events, healing_events, nebula_events, workflow_events
from faber.events.drafts import Draft, Event
from faber.events.nebula_events import TurnFacts
from faber.model.documents import SCHEMA_VERSION, Plan
from faber.model.reducer import event_file, fold
from faber.store import strict_json
from faber.store.create import NewRun, create_run
from faber.store.layout import EVENTS, STATE, Layout
from faber.store.load import Run, load

RUN_ID = "acme/shop/checkout"
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202etxt.exe\x1b[31mred\x1b]0;owned\x07 & \"'`"
)
_BEGUN = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)
_NAMES = (
    "schema", "prices", "basket", "taxes", "stock", "payment", "refunds", "invoices", "mail", "search", "accounts",
    "exports",
)  # fmt: skip
_TOKENS = {"input_tokens": 900, "cache_read_input_tokens": 41_000, "output_tokens": 2_300}


class Telling:
    """Drafts with the seconds between them."""

    def __init__(self, text: str) -> None:
        self.text = text  # what every free text ends with

    def turn(self, name: str, role: str, cost: float, cycle: int | None, outcome: str = "completed") -> Draft:
        """A turn of an agent."""
        error = "" if outcome == "completed" else f"The turn ended: {outcome}.{self.text}"
        facts = TurnFacts(cost, outcome, turns=7, session=f"{role}-{name}", error=error, usage=_TOKENS)
        return nebula_events.agent_turn(name, role, facts, cycle=cycle)

    def cycle(self, name: str, cycle: int, findings: int, *, failing: bool = False) -> Iterator[tuple[float, Draft]]:
        """A whole cycle; with `failing` its filter fails, and nobody reviews it."""
        yield 2, nebula_events.cycle_start(name, cycle)
        yield 340 + 35 * cycle, self.turn(name, "coder", 0.42 + 0.05 * cycle, cycle)
        yield 3, nebula_events.cycle_commit(name, cycle, commit_of(name, cycle))
        yield 25, nebula_events.filter_run(name, "pytest", passed=not failing, cycle=cycle, detail="exit 1" * failing)
        if not failing:
            yield 95, self.turn(name, "reviewer", 0.11, cycle)
            said = f"{findings} findings are open.{self.text}"
            yield (
                1,
                nebula_events.review(
                    name, approved=not findings, message=said, cycle=cycle, findings=findings, tree="0" * 40
                ),
            )
        yield 1, nebula_events.cycle_complete(name, cycle, findings=findings)

    def start(self, name: str) -> tuple[float, Draft]:
        """A phase starts."""
        return 1, nebula_events.nebula_phase_start(name, branch=f"faber/{name}", base="1" * 40, digest=None)

    def done(self, name: str, cycles: int) -> Iterator[tuple[float, Draft]]:
        """A phase is merged and done."""
        yield 6, nebula_events.phase_merge(name, commit=commit_of(name, 99), attempts=1)
        yield 1, nebula_events.nebula_phase_complete(name, f"It does what was asked.{self.text}", cycles=cycles)

    def ordinary(self, name: str, cycles: int = 1) -> Iterator[tuple[float, Draft]]:
        """A phase that needs so many cycles."""
        yield self.start(name)
        for cycle in range(1, cycles + 1):
            yield from self.cycle(name, cycle, cycles - cycle, failing=cycle == 2 and cycles > 3)
        yield from self.done(name, cycles)


def commit_of(name: str, number: int) -> str:
    """A commit's name, the same in every process."""
    return sha1(f"{name}{number}".encode()).hexdigest()


def _story(phases: list[str], text: str) -> Iterator[tuple[float, Draft]]:
    telling = Telling(text)
    yield 0, workflow_events.workflow_start({"max_workers": 2, "max_budget_usd": 40.0, "reserve_usd": 4.0})
    yield (
        1,
        nebula_events.nebula_start(
            f"Checkout{text}", dict.fromkeys(phases, "d"), directory="plan", base_branch="main", branch="faber/checkout"
        ),
    )
    first, second, third, fourth = phases[:4]
    yield from telling.ordinary(first, 3)
    # Interrupted after the coder's turn, continued the next morning with that turn repeated.
    yield telling.start(second)
    yield 2, nebula_events.cycle_start(second, 1)
    yield 400, telling.turn(second, "coder", 0.5, 1)
    yield 3_600, workflow_events.workflow_resumed({"max_workers": 2, "max_budget_usd": 40.0, "reserve_usd": 4.0})
    yield 2, nebula_events.checkpoint_verdict(second, "Nothing was committed.", verdict="equal", resumes=True, cycle=1)
    yield telling.start(second)
    yield from telling.cycle(second, 1, 2)
    yield (
        2,
        nebula_events.turns_refused(
            f"You've hit your session limit{text}", reason="limited", waiting_until="2026-11-18T12:30:00Z"
        ),
    )
    yield 2_700, nebula_events.turns_resumed()
    yield from telling.cycle(second, 2, 0)
    yield from telling.done(second, 2)
    # Fails, is healed by a remediation.
    yield telling.start(third)
    yield from telling.cycle(third, 1, 3)
    yield 2, nebula_events.cycle_start(third, 2)
    yield 600, telling.turn(third, "coder", 0.6, 2, "timed_out")
    yield 1, nebula_events.nebula_phase_error(third, f"The coder's turn produced nothing.{text}", code="agent_failed")
    remediation = f"heal-{third}"
    yield (
        1,
        healing_events.healing_start(
            third, "The coder ran out of time", kind="agent_failed", cycles=2, spent=1.2, original=third, attempt=1
        ),
    )
    yield 90, telling.turn(third, "architect", 0.3, None)
    yield (
        1,
        healing_events.healing_plan(
            third, remediation=remediation, title="Finish the taxes", architect_cost=0.3, phase_file="x"
        ),
    )
    yield (
        1,
        healing_events.healing_insert(
            third,
            f"{remediation} is queued.",
            remediation=remediation,
            rewired=phases[4:5],
            file="heal.md",
            digest=None,
        ),
    )
    yield from telling.ordinary(remediation, 2)
    yield 1, healing_events.healing_done(third, success=True, cost=1.2, remediation=remediation)
    # A person is asked, and answers.
    yield telling.start(fourth)
    yield from telling.cycle(fourth, 1, 0)
    yield (
        1,
        feedback_events.feedback_request(
            "FR-1",
            "review",
            f"Phase {fourth} is approved. Merge it?{text}",
            options=["approve", "revise"],
            context={"nebula_phase": fourth},
            place=None,
        ),
    )
    who = {"name": f"Ada Lovelace{text}", "source": "issue_comment", "url": "javascript:alert(3)", "comment_id": 4}
    yield (
        5_400,
        feedback_events.feedback_received(
            "FR-1", "approve", action="continue", comment=f"Looks right.{text}", responder=who, message="approve"
        ),
    )
    yield 1, {"type": event_types.DECISION_POINT, "message": f"Round half to even{text}", "actor": "agent"}
    yield from telling.done(fourth, 1)
    for number, name in enumerate(phases[4:], 4):
        yield from telling.ordinary(name, 1 + number % 4)


def drafts(events: int, text: str = "") -> Iterator[tuple[float, Draft]]:
    """At least `events` drafts, each with the seconds before it."""
    phases = [*_NAMES]
    while 130 + 15 * len(phases) < events:
        phases.append(f"{_NAMES[len(phases) % len(_NAMES)]}-{len(phases)}")
    yield from _story(phases, text)


def numbered(run_id: str, events: int, text: str = "") -> Iterator[Event]:
    """The first `events` events of the story; all of it, and its end, for 0."""
    at, number = _BEGUN, 0
    told = [*drafts(events or 1, text)]
    if not events:
        told.append((2.0, workflow_events.workflow_complete()))
    for number, (seconds, draft) in enumerate(told[: events or None], 1):
        at += timedelta(seconds=seconds)
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.000Z"
        made: Any = {"schema_version": SCHEMA_VERSION, "event_id": number, "timestamp": stamp, "run_id": run_id}
        yield made | {"actor": "faber"} | draft


def busy_nebula(root: Path | str, events: int = 0, text: str = "") -> Run:
    """Write the run below `root`, with its nebula's files."""
    layout = Layout(str(root))
    plan: Plan = {"schema_version": SCHEMA_VERSION, "workflow_id": "nebula/checkout", "phases": []}
    new = NewRun(RUN_ID, plan, None, "nebula Checkout", "autonomous", "person")
    made = create_run(layout, new, clock=lambda: _time_of(_BEGUN))
    found = list(numbered(RUN_ID, events, text))
    for event in found:
        path = os.path.join(made.directory, EVENTS, event_file(event["event_id"], event["type"]))
        Path(path).write_bytes(strict_json.dumps(event))
    Path(made.directory, STATE).write_bytes(strict_json.dumps(fold(made.state, found)))
    _files(Path(root), text)
    return load(layout, RUN_ID)


def _time_of(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


def _files(root: Path, text: str) -> None:
    plan = root / "plan"
    plan.mkdir(exist_ok=True)
    description = "A shop whose checkout takes orders, taxes and payments in one step."
    (plan / "nebula.toml").write_text(f'[nebula]\nname = "Checkout"\ndescription = "{description}"\n')
    for number, name in enumerate((*_NAMES, "heal-basket")):
        needs = [_NAMES[at] for at in ({number // 3, number // 2} - {number} if number < len(_NAMES) else {1})]
        listed = ", ".join(f'"{each}"' for each in needs)
        said = (
            f'+++\nid = "{name}"\ntitle = "The {name} of the shop"\ndepends_on = [{listed}]\n+++\n\nWrite it.{text}\n'
        )
        (plan / f"{name}.md").write_text(said, "utf-8", "replace")
