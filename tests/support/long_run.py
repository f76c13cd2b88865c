"""A run as long as they get: 30 sessions, 500 events, 40 decisions, 12 unresolved errors, a work item with 200 comments
and a specification of 40 requirements.

The events are of the kinds that the commands record, written in bulk and folded by the store's own reducer.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from faber.events import record_events, workflow_events
from faber.events.drafts import Draft
from faber.model.documents import SCHEMA_VERSION
from faber.model.reducer import event_file, fold
from faber.store import strict_json
from faber.store.create import NewRun, create_run
from faber.store.layout import EVENTS, STATE, SUMMARIES, Layout
from faber.store.load import Run, load
from faber.workflows.definitions import load_plan

RUN_ID = "acme/report-tool/3f0c8a52-61ce-4b43-9d6c-0f5b8a4f7f10"
BRANCH = "feat/7-export"
SPECIFICATION = "specs/export.md"
SESSIONS, EVENT_COUNT, COMMENTS, DECISIONS, ERRORS, REQUIREMENTS = 30, 500, 200, 40, 12, 40
BEGUN = 17  # events before the long step's
TIME = "2026-11-20T{:02}:{:02}:00.000Z"

_WORDS = (
    "the", "export", "streams", "rows", "from", "a", "generator", "writes", "them", "in", "order", "and", "never",
    "keeps", "more", "than", "one", "page", "because", "yearly", "reports", "have", "million", "lines", "with", "care",
)  # fmt: skip


def _prose(seed: int, words: int) -> str:
    """Words that no other seed gives in this order."""
    return " ".join([f"#{seed}", *(_WORDS[(seed * 7 + n * (seed % 5 + 1)) % len(_WORDS)] for n in range(words))])


def long_run(root: Path) -> Run:
    """Make the run, its work item and its specification below `root`."""
    layout = Layout(str(root))
    made = create_run(
        layout, NewRun(RUN_ID, load_plan(layout, "default"), "7", None, "guarded", "person"), clock=lambda: _time(0)
    )
    _sources(root)
    directory = Path(made.directory)
    events = list(_numbered(RUN_ID))
    for event in events:
        (directory / EVENTS / event_file(event["event_id"], event["type"])).write_bytes(strict_json.dumps(event))
    (directory / STATE).write_bytes(strict_json.dumps(fold(made.state, events)))
    (directory / SUMMARIES).mkdir(exist_ok=True)
    for event in events:
        if "summary_file" in event.get("metadata", {}):
            summary = event["metadata"]["summary"]
            (directory / SUMMARIES / event["metadata"]["summary_file"]).write_bytes(strict_json.dumps(summary))
    return load(layout, RUN_ID)


def _time(minute: int) -> str:
    return TIME.format(minute // 60 % 24, minute % 60)


def _numbered(run_id: str) -> Iterator[Any]:
    for number, draft in enumerate(_drafts(), 1):
        made = {"schema_version": SCHEMA_VERSION, "event_id": number, "timestamp": _time(number), "run_id": run_id}
        yield made | draft


def _drafts() -> Iterator[Draft]:
    """Two phases done, then a step that failed twelve times and is tried once more."""
    yield workflow_events.workflow_start()
    yield {"type": "branch_create", "metadata": {"branch": BRANCH}}
    yield {"type": "spec_generate", "metadata": {"path": SPECIFICATION}}
    for phase, steps in (("frame", ("fetch-work", "classify", "setup-branch")), ("architect", ("write-spec",))):
        yield workflow_events.phase_start(phase)
        for number, step in enumerate(steps):
            yield workflow_events.step_start(phase, step)
            said = f"Said of {phase}:{step}: {_prose(700 + len(phase) * 10 + number, 40)}"
            yield workflow_events.step_complete(phase, step, status="success", message=said)
        yield workflow_events.phase_complete(phase)
    yield workflow_events.phase_start("build")
    yield workflow_events.step_start("build", "implement")
    yield from _long_step(BEGUN + 1)


def _long_step(first: int) -> Iterator[Draft]:
    """The step's events: errors, decisions and ends of sessions evenly spread among test runs and checkpoints."""
    due: dict[int, list[Draft]] = {}

    def spread(count: int, of: Callable[[int, int], list[Draft]]) -> None:
        for index in range(count):
            number = first + (index + 1) * (EVENT_COUNT - first) // (count + 1)
            while any(number + ahead in due for ahead in (-1, 0, 1)):
                number += 1
            due[number] = of(index, number)

    def failed(index: int, _: int) -> list[Draft]:
        again = workflow_events.step_start("build", "implement", again=True)
        return [workflow_events.step_error("build", "implement", f"Error {index}: {_prose(100 + index, 60)}"), again]

    def decided(index: int, _: int) -> list[Draft]:
        return [workflow_events.decision("build", "implement", f"Decision {index}: {_prose(200 + index, 45)}")]

    def ended(index: int, number: int) -> list[Draft]:
        file = f"session-20261120T{index:06}Z-{index + 1:04}.json"
        return [record_events.session_summary(file, _summary(index, number))]

    spread(ERRORS, failed)
    spread(DECISIONS, decided)
    spread(SESSIONS, ended)
    number = first
    while number <= EVENT_COUNT:
        made = due.get(number) or [_routine(number)]
        yield from made
        number += len(made)


def _routine(number: int) -> Draft:
    if number % 2:
        return {"type": "test_run", "status": "failed", "message": f"{number % 7} failed: {_prose(1000 + number, 15)}"}
    return record_events.checkpoint(f"before-{number}")


def _summary(index: int, number: int) -> dict[str, object]:
    base = 10_000 + index * 100
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": f"session-{index + 1}",
        "sequence": index + 1,
        "timestamp": _time(number),
        "phase_completed": "architect" if index < 3 else "build",
        "head_commit": None,
        "after_event_id": number - 1,
        "summary": {
            "accomplished": [f"Done {index}.{n}: {_prose(base + n, 18)}" for n in range(6)],
            "decisions": [f"Settled {index}.{n}: {_prose(base + 20 + n, 20)}" for n in range(3)],
            "files_changed": [f"src/export/part_{index}_{n}.py" for n in range(8)],
            "remaining_phases": ["release"],
            "context_notes": f"Notes {index}: {_prose(base + 50, 80)}",
        },
    }


def _sources(root: Path) -> None:
    work = root / ".fractary/faber/work"
    work.mkdir(parents=True)
    comments = [
        {"author": f"person-{n % 9}", "body": f"Comment {n}: {_prose(20_000 + n, 60)}", "created_at": _time(n)}
        for n in range(COMMENTS)
    ]
    item = {"id": "7", "title": "Export as CSV", "state": "open", "labels": ["feature", "export"]}
    body = "\n\n".join(_prose(30_000 + n, 60) for n in range(8))
    (work / "7.json").write_text(json.dumps({**item, "body": body, "comments": comments}))
    (root / "specs").mkdir()
    (root / SPECIFICATION).write_text(_specification())


def _specification() -> str:
    """Requirements and approach are lists without blank lines, as people write them."""

    def listed(base: int, count: int, words: int, mark: str = "-") -> str:
        return "\n".join(f"{mark} {_prose(base + n, words)}" for n in range(count))

    return "\n\n".join(
        [
            "---\ntitle: Export as CSV\ntype: feature\nstatus: approved\n---\n# Export as CSV",
            f"## Summary\n\n{_prose(40_000, 60)}",
            f"## Goals\n\n{listed(40_100, 4, 15)}",
            f"## Functional Requirements\n\n{listed(40_200, REQUIREMENTS, 35)}",
            f"## Acceptance Criteria\n\n{listed(40_300, 20, 14, '- [ ]')}",
            f"## Technical Approach\n\n{listed(40_400, 20, 30)}",
            "## Files to Modify\n\n"
            + "\n".join(f"- `src/export/file_{n}.py`: {_prose(40_500 + n, 6)}" for n in range(20)),
            "## Implementation Plan\n\n"
            + "\n\n".join(f"### Phase {n}: part {n}\n\n{listed(40_600 + n * 10, 5, 8, '- [ ]')}" for n in range(1, 7)),
            f"## Risks\n\n{_prose(40_700, 50)}",
        ]
    )
