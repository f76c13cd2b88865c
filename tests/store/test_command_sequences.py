"""Random command sequences, crashes and repetitions against a real run on disk, checked by an oracle of its own.

The oracle reads the raw event files. It shares no code with the reducer, the commands or the resume point: what a
run may become (`MOVES`), which steps are complete and which requests are open is written down here a second time.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from faber.context.resume import resume_point
from faber.errors import FaberError
from faber.feedback.requests import find_request
from faber.model import acceptance, commands
from faber.model.next import Action, next_action
from faber.model.reducer import fold
from faber.steps.next_step import start_next
from faber.store import files, log
from faber.store.appending import Writer
from faber.store.commit import Committed, commit
from faber.store.create import NewRun, create_run
from faber.store.layout import Layout
from faber.store.load import load, refold
from faber.store.schema import problems
from faber.store.sessions import check_summary, history, save_summary
from faber.store.store_errors import Stale
from support.examples import examples

RUN = "org/project/run"
GOING = {"in_progress"}
OPEN = {"pending", "in_progress", "awaiting_feedback", "failed"}
# What each event may do to the run's status: from → the statuses it may leave behind.
STAYS: dict[str, set[str]] = {status: {status} for status in OPEN}
MOVES: dict[str, dict[str, set[str]]] = {
    "workflow_start": {"pending": GOING},
    "workflow_resumed": {"in_progress": GOING, "failed": {"in_progress", "awaiting_feedback"}},
    "workflow_complete": {"in_progress": {"completed"}},
    "workflow_error": {status: {"failed"} for status in ("pending", "in_progress", "awaiting_feedback")},
    "workflow_cancelled": {status: {"cancelled"} for status in OPEN},
    "phase_start": {"in_progress": GOING, "failed": {"failed"}},
    "phase_complete": {"in_progress": GOING, "failed": {"failed"}},
    "phase_error": {"in_progress": {"failed"}, "failed": {"failed"}},
    "phase_skip": {"in_progress": GOING, "failed": {"failed", "in_progress"}},
    "step_start": {"in_progress": GOING, "failed": GOING},
    "step_retry": {"in_progress": GOING, "failed": GOING},
    "step_complete": {"in_progress": GOING},
    "step_error": {"in_progress": {"failed"}},
    "step_skip": {"in_progress": GOING, "failed": {"failed", "in_progress"}},
    "feedback_request": {status: {"awaiting_feedback"} for status in OPEN},
    "feedback_received": {
        "awaiting_feedback": {"awaiting_feedback", "in_progress", "cancelled"},
        "failed": {"failed", "in_progress", "awaiting_feedback", "cancelled"},
    },
    "retry_loop_enter": STAYS | {"failed": {"in_progress", "awaiting_feedback"}},
}

NAMES = (
    "frame",
    "task-implement-authentication-module",
    "build",
    "sk-0123456789-abcdefghij-klmnop",
    "evaluate",
    "x.y_z",
)


@st.composite
def plans(draw: st.DrawFn) -> Any:
    """A plan of one to four phases with one to four steps each; step names repeat from phase to phase."""
    phases = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    made = []
    for phase in phases:
        steps = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
        made.append({"id": phase, "name": phase, "steps": [{"id": step, "name": step} for step in steps]})
    return {"schema_version": 1, "workflow_id": "random", "phases": made}


class Killed(BaseException):
    """The writer's process ends here."""


@contextmanager
def crashing(crash: tuple[int, bool] | None, watch: Callable[[], None] | None = None) -> Iterator[None]:
    """Let the writer die at its n-th rename, before or after it; `watch` looks at the store around every rename."""
    real, count = files.replace, 0

    def replace(source: str, target: str) -> None:
        nonlocal count
        count += 1
        if watch:
            watch()
        if crash == (count, False):
            raise Killed
        real(source, target)
        if watch:
            watch()
        if crash == (count, True):
            raise Killed

    files.replace = replace
    try:
        yield
    finally:
        files.replace = real


def events_of(directory: str) -> list[dict[str, Any]]:
    """The log as its files hold it, by the number in the file's name."""
    base = os.path.join(directory, "events")
    found = []
    for name in sorted(name for name in os.listdir(base) if not name.startswith(".")):
        with open(os.path.join(base, name), "rb") as file:
            found.append(log.decode(file.read()))
    return found


def tree(directory: str) -> dict[str, bytes]:
    """Every file of the run but the lock, which says who held it last."""
    found = {}
    for base, _, names in os.walk(directory):
        for name in names:
            if name != "lock":
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found


class Oracle:
    """What the raw events say: which steps are complete, and which requests are open."""

    def __init__(self, plan: Any, events: list[dict[str, Any]]) -> None:
        self.order = [(phase["id"], step["id"]) for phase in plan["phases"] for step in phase["steps"]]
        self.phases = [phase["id"] for phase in plan["phases"]]
        self.done: dict[tuple[str, str], str] = {}
        self.requests: dict[str, tuple[Any, Any]] = {}
        for event in events:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind, place = event["type"], (event.get("phase", ""), event.get("step", ""))
        if kind in ("step_complete", "step_skip"):
            self.done[place] = kind
        elif kind in ("step_start", "step_retry", "step_error"):
            self.done.pop(place, None)
        elif kind == "phase_skip":
            self.done |= dict.fromkeys((p for p in self.order if p[0] == place[0]), "step_skip")
        elif kind == "retry_loop_enter":
            first, last = self.phases.index(event["metadata"]["return_to"]), self.phases.index(place[0])
            covered = self.phases[first : last + 1]
            self.done = {p: how for p, how in self.done.items() if how == "step_skip" or p[0] not in covered}
        elif kind == "feedback_request":
            self.requests[event["metadata"]["request_id"]] = (event.get("phase"), event.get("step"))
        elif kind == "feedback_received":
            self._answered(self.requests.pop(event["metadata"]["request_id"]), event["metadata"].get("action"))

    def _answered(self, place: tuple[Any, Any], action: str | None) -> None:
        if action == "skip" and place in self.order:
            self.done.setdefault(place, "step_skip")
        elif action in ("revise", "retry"):
            self.done.pop(place, None)

    @property
    def next(self) -> tuple[str, str] | None:
        """The first step of the plan that is not complete."""
        return next((place for place in self.order if place not in self.done), None)


LATER = ("resume", "start", "skip step", "skip phase", "skip rest")
indexes = st.integers(0, 15)
keyed = st.booleans()
crashes = st.one_of(st.none(), st.none(), st.tuples(st.integers(1, 5), st.booleans()))


class StoreMachine(RuleBasedStateMachine):
    """One run on disk, its writers, and what was acknowledged to them."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="faber-machine-")
        self.layout = Layout(self.root)
        # The crashes here are a process's, not the machine's: nothing depends on when the disk has it.
        self.syncs = files.sync, files.sync_directory
        files.sync = files.sync_directory = lambda _: None
        self.ticks = 0
        self.number = 0
        self.acknowledged: dict[int, bytes] = {}  # event id → its file as first seen
        self.by_key: dict[str, int] = {}
        self.tried: dict[str, Callable[..., Any]] = {}
        self.previous: Any = None

    def teardown(self) -> None:
        try:
            if self.previous is not None:
                self.documents_conform()
        finally:
            files.sync, files.sync_directory = self.syncs
            shutil.rmtree(self.root)

    def clock(self) -> str:
        self.ticks -= 1  # backwards: no decision may rest on it
        return f"2026-01-01T00:00:{59 + self.ticks % 60 - 59:02d}.000Z"

    # --- the commands ------------------------------------------------------------------------------

    @initialize(plan=plans())
    def make(self, plan: Any) -> None:
        made = create_run(
            self.layout,
            NewRun(
                run_id=RUN,
                plan=plan,
                work_id="7",
                target=None,
                autonomy="guarded",
                created_by="test",
            ),
            clock=self.clock,
        )
        self.plan, self.directory, self.metadata = plan, made.directory, made.metadata
        self.previous = made.state

    def do(
        self,
        act: Callable[..., Any],
        with_key: bool = False,
        crash: tuple[int, bool] | None = None,
        watched: bool = False,
        key: str | None = None,
    ) -> Committed | None:
        """Run one command, perhaps to its death; None where it was refused or died."""
        if with_key and key is None:
            self.number += 1
            key = f"key-{self.number}"
        before = tree(self.directory)
        known = self.recorded(key)
        if key is not None:
            self.tried[key] = act
        try:
            with crashing(crash, self.look if watched else None):
                answer: Committed = act(key)
        except Killed:
            return None
        except FaberError:
            assert tree(self.directory) == before, "a refused command changed the run"
            return None
        if known is not None:
            assert answer.repeated
            assert answer.events[0]["event_id"] == known
        elif key is not None and not answer.repeated:
            assert self.recorded(key) in [event["event_id"] for event in answer.events]
        on_disk = {event["event_id"]: event for event in events_of(self.directory)}
        for event in answer.events:
            assert on_disk[event["event_id"]] == event
        with open(os.path.join(self.directory, "state.json"), "rb") as file:
            assert json.loads(file.read()) == answer.state
        if not answer.repeated and answer.state["status"] == "in_progress":
            self.phases_ended(answer.state)
        return answer

    def phases_ended(self, state: Any) -> None:
        """After a command went through, a phase whose steps are all complete is complete itself."""
        done = self.oracle.done
        for phase in self.plan["phases"]:
            if all((phase["id"], step["id"]) in done for step in phase["steps"]):
                assert state["phases"][phase["id"]]["status"] in ("completed", "skipped")

    def decided(self, decide: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
        """The command that commits what `decide` answers to the run's state, its plan and `arguments`."""

        def act(key: str | None) -> Committed:
            return commit(
                self.layout, RUN, lambda state, plan: decide(state, plan, *arguments), Writer(clock=self.clock), key=key
            )

        return act

    def accepted(self, draft: dict[str, Any]) -> Callable[..., Any]:
        """The command whose own event this is."""
        return self.decided(acceptance.accept, draft)

    def emitted(self, draft: dict[str, Any]) -> Callable[..., Any]:
        return self.decided(acceptance.emit, draft)

    def recorded(self, key: str | None) -> int | None:
        """The event that carries `key`, looked for in all of the log."""
        found = [event["event_id"] for event in events_of(self.directory) if event.get("key") == key] if key else []
        assert len(found) <= 1, "one key, two events"
        return found[0] if found else None

    def look(self) -> None:
        """A second handle reads while the first writes: it sees the fold of what is there, and never less."""
        seen = load(Layout(self.root), RUN).state
        assert seen == refold(self.directory, self.metadata, self.plan, last=seen["last_event_id"])
        assert seen["last_event_id"] >= self.previous["last_event_id"]

    @property
    def oracle(self) -> Oracle:
        return Oracle(self.plan, events_of(self.directory))

    def place(self, index: int) -> tuple[str, str]:
        """Every second time the step that is next, where most can happen; else any step."""
        oracle = self.oracle
        return oracle.next if index % 2 and oracle.next else oracle.order[index // 2 % len(oracle.order)]

    def phase(self, index: int) -> str:
        oracle = self.oracle
        return oracle.next[0] if index % 2 and oracle.next else oracle.phases[index // 2 % len(oracle.phases)]

    @rule(end=st.sampled_from(["complete", "complete", "complete", "fail", "skip"]), key=keyed, crash=crashes)
    def advance(self, end: str, key: bool, crash: tuple[int, bool] | None) -> None:
        """The way an agent works: the next step is started, and in the next command ended."""
        place = self.oracle.next
        if self.previous["status"] == "awaiting_feedback":
            self.answer(0, True, key, crash)
        elif place is None:
            self.do(self.decided(commands.complete_run), key, crash)
        elif self.previous["phases"][place[0]]["steps"][place[1]]["status"] == "in_progress":
            self.step_ends(end, place, key, crash)
        else:
            self.do(self.decided(commands.start_step, *place), key, crash)

    @rule(
        n=st.integers(1, 6),
        crash=st.one_of(st.none(), st.tuples(st.integers(1, 3), st.booleans())),
        to_the_end=st.booleans(),
    )
    def work(self, n: int, crash: tuple[int, bool] | None, to_the_end: bool) -> None:
        """Several steps in a row, so that runs get to their end; the last writer may die."""
        for left in reversed(range(n)):
            place = self.oracle.next
            if place is not None:
                self.do(self.decided(commands.start_step, *place))
                self.check()
                last = left == 0 or place == self.oracle.order[-1]
                self.do(self.decided(commands.complete_step, *place, None, []), crash=crash if last else None)
                self.check()
        if to_the_end and self.oracle.next is None:
            self.do(self.decided(commands.complete_run))

    def step_ends(self, end: str, place: tuple[str, str], key: bool, crash: Any, watched: bool = False) -> None:
        act = {
            "start": lambda: self.decided(commands.start_step, *place),
            "complete": lambda: self.decided(commands.complete_step, *place, "done", [{"name": "log", "value": "x"}]),
            "fail": lambda: self.decided(commands.fail_step, *place, "it broke"),
            "skip": lambda: self.decided(commands.skip_step, *place, "not needed"),
        }[end]()
        self.do(act, key, crash, watched)

    @rule(
        what=st.sampled_from(["start", "complete", "fail", "skip"]),
        index=indexes,
        key=keyed,
        crash=crashes,
        watched=st.booleans(),
    )
    def any_step(self, what: str, index: int, key: bool, crash: tuple[int, bool] | None, watched: bool) -> None:
        self.step_ends(what, self.place(index), key, crash, watched)

    @rule(what=st.sampled_from(["start", "complete", "fail", "skip"]), index=indexes, key=keyed, crash=crashes)
    def any_phase(self, what: str, index: int, key: bool, crash: tuple[int, bool] | None) -> None:
        phase = self.phase(index)
        act = {
            "start": lambda: self.decided(commands.start_phase, phase),
            "complete": lambda: self.decided(commands.complete_phase, phase),
            "fail": lambda: self.decided(commands.fail_phase, phase, "it broke"),
            "skip": lambda: self.decided(commands.skip_phase, phase, None),
        }[what]()
        self.do(act, key, crash)

    @rule(what=st.sampled_from(["resume", "resume", "complete", "fail"]), key=keyed, crash=crashes)
    def any_run(self, what: str, key: bool, crash: tuple[int, bool] | None) -> None:
        act = {
            "resume": lambda: self.decided(commands.resume_run),
            "complete": lambda: self.decided(commands.complete_run),
            "fail": lambda: self.decided(commands.fail_run, "out of tokens"),
        }[what]()
        self.do(act, key, crash)

    @rule(
        asking=st.booleans(),
        fails=st.sampled_from(["run", "phase", "step"]),
        then=st.lists(st.sampled_from([*LATER, "loop", "answer", "fail"]), max_size=4),
        index=indexes,
    )
    def stumble(self, asking: bool, fails: str, then: list[str], index: int) -> None:
        """The run fails, perhaps while a person is asked; and what can be done then is done."""
        place = self.place(1)
        if asking:
            self.ask(index, False, False, None)
            self.check()
        elif fails == "step":
            self.step_ends("start", place, False, None)
            self.check()
        acts = {
            "run": lambda: self.decided(commands.fail_run, "out of tokens"),
            "phase": lambda: self.decided(commands.fail_phase, self.phase(index), "it broke"),
            "step": lambda: self.decided(commands.fail_step, *place, "it broke"),
            "resume": lambda: self.decided(commands.resume_run),
            "start": lambda: self.decided(commands.start_step, *self.place(1)),
            "skip step": lambda: self.decided(commands.skip_step, *self.place(index), None),
            "skip phase": lambda: self.decided(commands.skip_phase, self.phase(1), None),
        }
        self.do(acts["run" if asking else fails]())
        self.check()
        for what in then:
            if what == "answer" and self.previous["feedback_queue"]:
                self.answer(0, True, False, None)
            elif what == "loop":
                self.loop(0, index, False, None)
            elif what == "fail":
                self.do(acts["phase"]())
            elif what == "skip rest":
                for phase, step in self.oracle.order:
                    if phase == place[0]:
                        self.do(self.decided(commands.skip_step, phase, step, None))
            elif what in acts:
                self.do(acts[what]())
            self.check()

    @rule(luck=st.integers(0, 9), key=keyed, crash=crashes)
    def cancel(self, luck: int, key: bool, crash: tuple[int, bool] | None) -> None:
        if luck == 9:  # the end of all that can happen to the run
            self.do(self.decided(commands.cancel_run, "no longer needed"), key, crash)

    @rule(index=st.one_of(st.none(), indexes), again=st.booleans(), key=keyed, crash=crashes)
    def ask(self, index: int | None, again: bool, key: bool, crash: tuple[int, bool] | None) -> None:
        self.number += not again
        draft: Any = {
            "type": "feedback_request",
            "metadata": {"request_id": f"r{self.number}", "prompt": "Is it good?"},
        }
        if index is not None:
            draft["phase"], draft["step"] = self.place(index)
        self.do(self.accepted(draft), key, crash)

    @precondition(lambda self: self.previous["feedback_queue"])
    @rule(
        index=st.integers(0, 3),
        known=st.sampled_from([True, True, True, False]),
        action=st.sampled_from(["continue", "revise", "retry", "skip", None]),
        key=keyed,
        crash=crashes,
    )
    def any_answer(
        self, index: int, known: bool, action: str | None, key: bool, crash: tuple[int, bool] | None
    ) -> None:
        self.answer(index, known, key, crash, action)

    @precondition(lambda self: self.previous["feedback_queue"])
    @rule(luck=st.integers(0, 9), crash=crashes)
    def abort(self, luck: int, crash: tuple[int, bool] | None) -> None:
        if luck == 9:  # the end of all that can happen to the run
            self.answer(0, True, False, crash, "abort")

    def answer(
        self, index: int, known: bool, key: bool, crash: tuple[int, bool] | None, action: str | None = None
    ) -> None:
        asked = list(self.oracle.requests)
        name = asked[index % len(asked)] if known else "never-asked"
        metadata = {"request_id": name, "response": "approve"}
        # Without a place of its own the request took the one of the time, which the oracle does not know.
        if action is not None and (not known or self.oracle.requests[name] != (None, None) or action == "abort"):
            metadata["action"] = action
        self.do(self.accepted({"type": "feedback_received", "metadata": metadata}), key, crash)

    @rule(first=indexes, last=indexes, key=keyed, crash=crashes)
    def loop(self, first: int, last: int, key: bool, crash: tuple[int, bool] | None) -> None:
        draft = {"type": "retry_loop_enter", "phase": self.phase(last), "metadata": {"return_to": self.phase(first)}}
        self.do(self.emitted(draft), key, crash)

    @rule(
        draft=st.sampled_from(
            [
                {"type": "decision_point", "message": "Use the second design."},
                {"type": "artifact_create", "artifacts": [{"name": "spec_path", "value": "specs/1.md"}]},
                {"type": "artifact_modify", "artifacts": [{"name": "report", "path": "r.md", "lines": 3}]},
                {"type": "branch_create", "metadata": {"branch": "feat/task-implement-authentication"}},
                {"type": "commit_create", "metadata": {"sha": "0" * 40}},
                {"type": "checkpoint"},
                {"type": "decision_point"},
                {"type": "step_complete", "phase": "build", "step": "build"},
                {"type": "no_such_type"},
            ]
        ),
        key=keyed,
        crash=crashes,
        watched=st.booleans(),
    )
    def emit(self, draft: dict[str, Any], key: bool, crash: tuple[int, bool] | None, watched: bool) -> None:
        self.do(self.emitted(draft), key, crash, watched)

    @rule(session=st.sampled_from(["s1", "s2"]), crash=crashes)
    def record_context(self, session: str, crash: tuple[int, bool] | None) -> None:
        def decide(state: Any, plan: Any) -> list[Any]:
            done = state["status"] in ("completed", "cancelled") or session in state["context_sessions"]
            return [] if done else [{"type": "context_loaded", "metadata": {"warnings": []}}]

        self.do(lambda key: commit(self.layout, RUN, decide, Writer(session, clock=self.clock)), crash=crash)

    @rule(crash=crashes)
    def next(self, crash: tuple[int, bool] | None) -> None:
        """`faber next`: what it returns is in progress afterwards, and it refuses nothing."""
        step_before = self.oracle.next
        try:
            with crashing(crash):
                action, run, committed = start_next(load(self.layout, RUN), Writer(clock=self.clock))
        except Killed:
            return
        assert (committed is None) == (run.state["last_event_id"] == self.previous["last_event_id"])
        if action["action"] == "step":
            assert (action["phase"], action["step"]) == step_before == self.oracle.next
            assert run.state["phases"][str(action["phase"])]["steps"][str(action["step"])]["status"] == "in_progress"
            assert action["mode"] != "continue" or committed is None
        else:
            status = run.state["status"]
            failed = "wait" if run.state["feedback_queue"] else "failed"
            assert action["action"] == {"awaiting_feedback": "wait", "failed": failed}.get(status, "done")
            assert action["complete_with"] is None

    @rule(key=keyed, crash=crashes)
    def save_session(self, key: bool, crash: tuple[int, bool] | None) -> None:
        given = check_summary({"accomplished": ["A step"], "decisions": ["Keep it small"]})

        def act(key: str | None) -> Committed:
            return save_summary(self.layout, RUN, given, Writer("s1", clock=self.clock), head_commit=None, key=key)

        self.do(act, key, crash)

    @precondition(lambda self: self.tried)
    @rule(index=indexes, crash=crashes)
    def repeat(self, index: int, crash: tuple[int, bool] | None) -> None:
        """A command comes a second time under its key, whatever became of it the first time."""
        key = list(self.tried)[-1 - index % len(self.tried)]
        self.do(self.tried[key], crash=crash, key=key)

    @precondition(lambda self: self.previous["last_event_id"] % 5 == 4)
    @rule(behind=st.integers(1, 3))
    def stale(self, behind: int) -> None:
        """A writer whose decision rests on an older state is refused."""
        expected = self.previous["last_event_id"] - behind
        before = tree(self.directory)
        with pytest.raises(Stale):
            commit(self.layout, RUN, lambda *_: [{"type": "checkpoint"}], expected=expected)
        assert tree(self.directory) == before

    # --- what must hold after every one of them ----------------------------------------------------

    @precondition(lambda self: self.previous is not None)
    @invariant()
    def check(self) -> None:
        events = events_of(self.directory)
        run = load(Layout(self.root), RUN)
        state, plan = run.state, run.plan
        self.log_is_whole(events)
        assert plan == self.plan
        assert state == refold(self.directory, self.metadata, self.plan), "state is not the fold of the log"
        self.moves_are_allowed(events)
        oracle = Oracle(self.plan, events)
        self.requests_agree(state, oracle)
        self.completeness_agrees(state, oracle)
        self.resume_point_is_right(state, oracle)
        sessions = [e["metadata"]["summary"] for e in events if e["type"] == "session_end"]
        if sessions:
            assert history(run).summaries[-1] == sessions[-1]
        self.previous = state

    def log_is_whole(self, events: list[dict[str, Any]]) -> None:
        assert [event["event_id"] for event in events] == list(range(1, len(events) + 1))
        for event in events:
            path = os.path.join(self.directory, "events", f"{event['event_id']:06d}-{event['type']}.json")
            with open(path, "rb") as file:
                content = file.read()
            assert self.acknowledged.setdefault(event["event_id"], content) == content
        assert set(self.acknowledged) == {event["event_id"] for event in events}

    def moves_are_allowed(self, events: list[Any]) -> None:
        state = self.previous
        for event in events[state["last_event_id"] :]:
            after = fold(state, [event])
            allowed = MOVES.get(event["type"], STAYS).get(state["status"], set())
            assert after["status"] in allowed, f"{event['type']}: {state['status']} → {after['status']}"
            if event["type"] in ("step_start", "step_retry"):
                earlier = Oracle(self.plan, events[: event["event_id"] - 1])
                assert earlier.next == (event["phase"], event["step"]), "a step out of order"
            state = after

    def requests_agree(self, state: Any, oracle: Oracle) -> None:
        status = state["status"]
        if status in ("completed", "cancelled"):
            assert state["feedback_request"] is None
            return
        assert [request["request_id"] for request in state["feedback_queue"]] == list(oracle.requests)
        assert state["feedback_request"] == (state["feedback_queue"][0] if oracle.requests else None)
        assert status == "failed" or (status == "awaiting_feedback") == bool(oracle.requests), "a gate stands open"

    def completeness_agrees(self, state: Any, oracle: Oracle) -> None:
        for phase, step in oracle.order:
            complete = state["phases"][phase]["steps"][step]["status"] in ("completed", "skipped")
            assert complete == ((phase, step) in oracle.done or self.in_skipped(state, phase)), f"{phase}:{step}"
        assert set(state["phases"]) == set(oracle.phases)
        for phase in self.plan["phases"]:
            assert set(state["phases"][phase["id"]]["steps"]) == {step["id"] for step in phase["steps"]}
        if state["status"] == "in_progress":
            assert state["error"] is None
            assert state["ended_event"] is None
        if state["status"] == "completed":
            assert oracle.next is None, "completed with unfinished steps"
            assert {phase["status"] for phase in state["phases"].values()} <= {"completed", "skipped"}
        if state["status"] == "failed":
            assert state["ended_event"] is not None

    @staticmethod
    def in_skipped(state: Any, phase: str) -> bool:
        return bool(state["phases"][phase]["status"] == "skipped")

    def resume_point_is_right(self, state: Any, oracle: Oracle) -> None:
        resume = resume_point(state, self.plan)
        point, status = resume.point, state["status"]
        if status in ("completed", "cancelled"):
            assert point is None
            return
        assert point is not None
        if status == "awaiting_feedback":
            request = state["feedback_request"]
            assert point["mode"] == "after_feedback"
            asked_at = oracle.requests[request["request_id"]]
            if asked_at != (None, None):
                assert (point["phase"], point["step"]) == asked_at
        elif status == "pending":
            assert point == {"phase": oracle.phases[0], "step": None, "mode": "start"}
        elif oracle.next is None:
            assert point["step"] is None
        else:
            assert (point["phase"], point["step"]) == oracle.next
            assert point["mode"] in ("continue", "retry")
        self.advice_works(state, next_action(state, self.plan))

    def advice_works(self, state: Any, action: Action) -> None:
        """What is named as the next command is not refused: no run is stuck."""
        words = action["command"].split()[1:]
        name = "next" if words[0] == "next" else " ".join(words[:2])
        place = [str(action["phase"]), str(action["step"])]
        decide: Any = {
            "next": lambda: commands.start_step(state, self.plan, *place),
            "step complete": lambda: commands.complete_step(state, self.plan, *place, None, []),
            "run resume": lambda: commands.resume_run(state, self.plan),
            "run complete": lambda: commands.complete_run(state, self.plan),
            "run cancel": lambda: commands.cancel_run(state, self.plan, "skipped"),
            "feedback respond": lambda: find_request(state, None),
        }
        try:
            decide[name]()
        except FaberError as error:
            raise AssertionError(f"advised and refused: {action['command']}") from error

    def documents_conform(self) -> None:
        """Slow, so once a sequence: state, metadata, plan and one event of each type conform to their schemas."""
        state = load(self.layout, RUN).state
        assert problems("state", state) == []
        assert problems("metadata", self.metadata) == []
        for event in {event["type"]: event for event in events_of(self.directory)}.values():
            assert problems("event", event) == []


def run_machine(examples: int, steps: int) -> None:
    """Run that many random sequences of up to that many rules."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StoreMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_sequence_of_commands_and_crashes_leaves_a_sound_run() -> None:
    """Whatever is done to a run and wherever its writers die, log, state and resume point say the same truth."""
    run_machine(examples(15, 50), 30)


@pytest.mark.full
def test_many_more_sequences_of_commands_and_crashes_leave_a_sound_run() -> None:
    """The same over long sequences, for as long as a full run may take."""
    run_machine(1_500, 60)
