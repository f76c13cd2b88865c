"""A nebula whose phases fail and heal, with real git and agents that do what a test wrote down."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import Outcome, TurnResult, failure
from faber.events import workflow_events
from faber.nebula.phase import door
from faber.nebula.plan.nebula_files import load_nebula
from faber.nebula.run.apply import Applied
from faber.nebula.run.recorder import Journal
from faber.nebula.run.resumption import ResumeOptions
from faber.nebula.view.display import LiveDisplay
from faber.nebula.view.plan_report import load_plan
from faber.nebula.view.status import load_status
from faber.nebula.view.status_lines import status_text
from faber.store import log
from faber.store.clock import utc_now
from support.nebulas import DIAMOND, Author, Project, nebula_files
from support.repositories import git, write

HEALING = "[execution]\nhealing = true\nmax_review_cycles = 2\nmax_budget_usd = 10.0\n"


pytestmark = pytest.mark.usefixtures("git_user")


def objection(text: str, file: str = "b.txt") -> dict[str, Any]:
    """A review that does not approve."""
    findings = [{"severity": "major", "description": text, "file": file, "line": 1}]
    return {"verdict": "not_approved", "findings": findings, "earlier": []}


def never_approved(author: Author) -> None:
    """b runs out of its two cycles."""
    author.deeds["b"] = [lambda path, prompt, n=n: write(path, {"b.txt": f"b {n}\n"}) for n in range(2)]
    author.verdicts["b"] = [objection("It is wrong."), objection("It is wrong still.")]


class Watched(list[str]):
    """Lines that somebody reads as they come."""

    def __init__(self, say: Callable[[str], None], look: Callable[[str], None]) -> None:
        super().__init__()
        self.say = say
        self.look = look

    def append(self, line: str) -> None:
        """Hear a line."""
        self.say(line)
        self.look(line)


def events(project: Project, applied: Applied, prefix: str = "healing_") -> list[str]:
    """The types of a run's events that begin so."""
    directory = project.layout.run_dir(applied.report["run_id"])
    return [entry.type for entry in log.listing(directory) if entry.type.startswith(prefix)]


def statuses(applied: Applied) -> dict[str, str]:
    """Each phase's status."""
    return {name: phase["status"] for name, phase in applied.report["phases"].items()}


def said_to(author: Author, role: str, phase: str) -> list[str]:
    """The prompts of one phase's coder, reviewer or architect."""
    return [said for asked, said in zip(author.asked, author.prompts, strict=True) if asked == (role, phase)]


def test_a_phase_that_ran_out_of_cycles_heals(tmp_path: Path) -> None:
    """b fails, heal-b takes its place, d runs after it, and the final tree has both attempts' work."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND, HEALING)), Author()
    never_approved(author)
    author.deeds["heal-b"] = [lambda path, prompt: write(path, {"mended.txt": "mended\n"})]
    applied = project.apply(author)
    assert applied.status == "done", "\n".join(project.said)
    assert statuses(applied) == {**dict.fromkeys(DIAMOND, "done"), "b": "failed", "heal-b": "done"}
    order = [name for role, name in author.asked if role == "coder"]
    assert order.index("heal-b") < order.index("d")
    branch = applied.report["branch"]
    assert git(project.root, "show", f"{branch}:b.txt") == "b 1"
    assert git(project.root, "show", f"{branch}:mended.txt") == "mended"
    assert events(project, applied) == ["healing_start", "healing_plan", "healing_insert", "healing_done"]
    prompt = next(
        p for (role, name), p in zip(author.asked, author.prompts, strict=True) if (role, name) == ("coder", "heal-b")
    )
    assert "[AUTO-HEALING CONTEXT]" in prompt
    assert "It is wrong still." in prompt
    assert (Path(project.directory) / "heal-b.md").is_file()
    assert "heal-b" in applied.report["healing"]
    assert any('→ heal-b: "Finish it"' in line for line in project.said)


def test_with_healing_off_what_waits_is_skipped(tmp_path: Path) -> None:
    """Without the policy the log says that healing is off, nobody is asked, and d is skipped."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND, HEALING.replace("true", "false"))), Author()
    never_approved(author)
    applied = project.apply(author)
    assert statuses(applied) == {"a": "done", "b": "failed", "c": "done", "d": "skipped", "e": "done", "f": "done"}
    assert events(project, applied) == ["healing_skipped"]
    assert applied.report["healing"] == ""


def test_an_architect_that_answers_garbage(tmp_path: Path) -> None:
    """The phase stays failed with the reason, d is skipped, nothing else is disturbed; it was corrected once."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND, HEALING)), Author()
    never_approved(author)
    author.plans["b"] = ["no phase file", "still none"]
    applied = project.apply(author)
    assert statuses(applied)["d"] == "skipped"
    assert [name for role, name in author.asked if role == "architect"] == ["b", "b"]
    assert events(project, applied) == ["healing_start", "healing_done"]
    assert "not healed" in "\n".join(project.said)


def test_a_remediation_that_fails_is_not_healed_beyond_the_policy(tmp_path: Path) -> None:
    """With one attempt heal-b's failure is final: no second architect, d is skipped."""
    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING)), Author()
    never_approved(author)
    author.verdicts["heal-b"] = [objection("No."), objection("No again.")]
    author.deeds["heal-b"] = [lambda path, prompt, n=n: write(path, {"m.txt": f"{n}"}) for n in range(2)]
    applied = project.apply(author)
    assert applied.status == "failed"
    assert statuses(applied) == {"b": "failed", "heal-b": "failed", "d": "skipped"}
    assert [name for role, name in author.asked if role == "architect"] == ["b"]
    assert events(project, applied)[-1] == "healing_skipped"
    said = next(line for line in project.said if "heal-b: not healed" in line)
    assert "it has had all its attempts. Raise healing_max_attempts, then `faber nebula apply" in said


def test_a_second_attempt_where_the_policy_allows_it(tmp_path: Path) -> None:
    """With two attempts heal-2-b follows heal-b, and d waits for it."""
    manifest = HEALING + "healing_max_attempts = 2\n"
    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, manifest)), Author()
    never_approved(author)
    author.verdicts["heal-b"] = [objection("No."), objection("No again.")]
    author.deeds["heal-b"] = [lambda path, prompt, n=n: write(path, {"m.txt": f"{n}"}) for n in range(2)]
    applied = project.apply(author)
    assert applied.status == "done", "\n".join(project.said)
    assert statuses(applied)["heal-2-b"] == "done"


def test_a_failing_filter_heals(tmp_path: Path) -> None:
    """The architect is told the filter and its output."""
    manifest = HEALING + '[[filter]]\nname = "good"\ncommand = "! grep -q bad *.txt || { echo found bad; false; }"\n'
    project, author = Project(tmp_path / "p", nebula_files({"b": []}, manifest)), Author()
    author.deeds["b"] = [lambda path, prompt, n=n: write(path, {"b.txt": f"bad {n}"}) for n in range(2)]
    author.deeds["heal-b"] = [lambda path, prompt: write(path, {"b.txt": "fine"})]
    applied = project.apply(author)
    assert applied.status == "done", "\n".join(project.said)
    (prompt,) = said_to(author, "architect", "b")
    assert "found bad" in prompt


def test_a_spent_budget_heals_from_the_reserve(tmp_path: Path) -> None:
    """b spends what it may; its remediation is paid from what was kept for healing."""
    manifest = "[execution]\nhealing = true\nmax_review_cycles = 9\nmax_budget_usd = 10.0\n"
    files = nebula_files({"b": []}, manifest, b={"max_budget_usd": 0.25})
    project, author = Project(tmp_path / "p", files), Author()
    author.deeds["b"] = [lambda path, prompt, n=n: write(path, {"b.txt": f"{n}"}) for n in range(9)]
    author.verdicts["b"] = [objection(f"Fault {'abcdefghi'[n]}") for n in range(9)]
    applied = project.apply(author)
    assert applied.status == "done", "\n".join(project.said)
    (prompt,) = said_to(author, "architect", "b")
    assert "0.25" in prompt


def test_a_merge_conflict_heals_on_top_of_what_was_merged(tmp_path: Path) -> None:
    """The remediation begins with the integration branch merged in; its coder resolves the markers."""
    project, author = Project(tmp_path / "p", nebula_files({"a": [], "b": []}, HEALING)), Author()
    both = threading.Barrier(2)

    def first(text: str) -> Callable[[Path, str], None]:
        def deed(path: Path, prompt: str) -> None:
            both.wait(30)
            write(path, {"README.md": text})

        return deed

    def give_up(path: Path, prompt: str) -> str:
        return "I could not."

    def solve(path: Path, prompt: str) -> None:
        assert "conflict markers" in prompt
        write(path, {"README.md": "a and b\n"})

    author.deeds = {"a": [first("a\n"), give_up], "b": [first("b\n"), give_up], "heal-a": [solve], "heal-b": [solve]}
    applied = project.apply(author, max_workers=2)
    assert applied.status == "done", "\n".join(project.said)
    assert git(project.root, "show", f"{applied.report['branch']}:README.md") == "a and b"


def test_a_remediation_that_takes_the_work_back_is_sent_back(tmp_path: Path) -> None:
    """Deleting what the failed attempt made goes to the coder as a failed check, without a review."""
    project, author = Project(tmp_path / "p", nebula_files({"b": []}, HEALING)), Author()
    author.deeds["b"] = [
        lambda path, prompt, n=n: write(path, {"b.txt": f"b {n}\n", "kept.txt": "kept\n"}) for n in range(2)
    ]
    author.verdicts["b"] = [objection("It is wrong."), objection("It is wrong still.")]

    def destroys(path: Path, prompt: str) -> None:
        (path / "kept.txt").unlink()
        write(path, {"other.txt": "x"})

    def restores(path: Path, prompt: str) -> None:
        assert "`keeps-work` failed and must pass" in prompt
        write(path, {"kept.txt": "kept\n"})

    author.deeds["heal-b"] = [destroys, restores]
    applied = project.apply(author)
    assert applied.status == "done", "\n".join(project.said)
    assert git(project.root, "show", f"{applied.report['branch']}:kept.txt") == "kept"


def test_what_failed_in_an_earlier_run_is_healed_when_asked(tmp_path: Path) -> None:
    """--resume --heal: the failed phase is healed and what had been skipped is done."""
    project, author = Project(tmp_path / "p", nebula_files(DIAMOND, HEALING.replace("true", "false"))), Author()
    never_approved(author)
    assert project.apply(author).status == "failed"
    again = Author()
    applied = project.apply(again, resume=True, heal=True)
    assert applied.status == "done", "\n".join(project.said)
    assert sorted({name for _, name in again.asked}) == ["b", "d", "heal-b"]


@pytest.mark.parametrize("role", ["architect", "coder", "reviewer"])
def test_stopped_while_it_heals_and_resumed(tmp_path: Path, role: str) -> None:
    """Stopped at any of its agents, the same attempt is finished; the architect that answered is not asked again."""
    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING)), Author()
    never_approved(author)
    author.before = lambda who, phase: (
        project.cancel.set() if (who, phase) in ((role, "heal-b"), ("architect", "b")) and who == role else None
    )
    assert project.apply(author).status == "cancelled"
    project.cancel = threading.Event()
    again = Author()
    applied = project.apply(again, resume=True)
    assert applied.status == "done", "\n".join(project.said)
    assert ("architect", "b") not in again.asked
    assert events(project, applied).count("healing_start") == 1
    assert events(project, applied).count("healing_plan") == 1


@pytest.mark.parametrize(
    ("manifest", "of_phase", "most"),
    [
        pytest.param("", None, 2.0, marks=pytest.mark.full),
        ("", 0.25, 0.25),
        ("max_budget_usd = 3.0", None, 0.6),
        pytest.param("max_budget_usd = 3.0\nhealing_budget_reserve = 1.0", 9.0, 1.0, marks=pytest.mark.full),
    ],
)
def test_what_an_architect_may_spend(tmp_path: Path, manifest: str, of_phase: float | None, most: float) -> None:
    """An architect gets no more than its phase may spend, nor than the run keeps for healing."""
    limits = {} if of_phase is None else {"b": {"max_budget_usd": of_phase}}
    files = nebula_files({"b": []}, f"[execution]\nhealing = true\nmax_review_cycles = 1\n{manifest}\n", **limits)
    project, author = Project(tmp_path / "p", files), Author(cost=0.01)
    author.verdicts["b"] = [objection("Fault")]
    given: list[float] = []
    architect = author.architect
    author.architect = lambda spec, budget: given.append(budget) or architect(spec, budget)  # type: ignore[method-assign, func-returns-value]
    project.apply(author)
    assert given == [pytest.approx(most)]


def test_no_money_left_no_healing(tmp_path: Path) -> None:
    """Where the run has spent its all, healing is skipped and says why."""
    manifest = (
        "[execution]\nhealing = true\nmax_review_cycles = 2\nmax_budget_usd = 0.4\nhealing_budget_reserve = 0.0\n"
    )
    project, author = Project(tmp_path / "p", nebula_files({"b": []}, manifest)), Author()
    never_approved(author)
    applied = project.apply(author)
    assert events(project, applied) == ["healing_skipped"]
    assert "no money is left for healing. Raise max_budget_usd" in "\n".join(project.said)


def test_killed_between_the_file_and_the_insertion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The phase file stands there, its insertion was not recorded: resumed, it is inserted, once."""
    from faber.nebula.healing import healer

    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING)), Author()
    never_approved(author)

    class Killed(BaseException):
        pass

    def killed(*arguments: Any, **more: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(healer.healing_history, "healing_insert", killed)
        with pytest.raises(Killed):
            project.apply(author)
    assert (Path(project.directory) / "heal-b.md").is_file()
    project.cancel = threading.Event()
    again = Author()
    applied = project.apply(again, resume=True)
    assert applied.status == "done", "\n".join(project.said)
    assert ("architect", "b") not in again.asked
    assert events(project, applied).count("healing_insert") == 1


def test_stopped_as_the_phase_fails_nothing_is_skipped(tmp_path: Path) -> None:
    """Stopped between the failure and the architect, what waits is not given up: resumed, it is healed and done."""
    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING)), Author()
    never_approved(author)
    said = project.said.append
    project.said = Watched(said, lambda line: project.cancel.set() if "healing (" in line else None)
    assert project.apply(author).status == "cancelled"
    project.cancel = threading.Event()
    applied = project.apply(Author(), resume=True)
    assert statuses(applied) == {"b": "failed", "heal-b": "done", "d": "done"}


def waiting(applied: Applied) -> str:
    """The only open request."""
    (asked,) = applied.report["waiting"]
    return str(asked["request_id"])


def test_in_the_gate_approve_a_remediation_waits_for_a_person(tmp_path: Path) -> None:
    """Asked before it begins; approved it begins on --resume, and its work waits for a person once more."""
    project = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING, b={"gate": "approve"}))
    author = Author()
    never_approved(author)
    applied = project.apply(author)
    assert applied.status == "waiting", "\n".join(project.said)
    assert applied.report["waiting"][0]["phase"] == "heal-b"
    assert 'Start its remediation heal-b: "Finish it"?' in applied.report["waiting"][0]["prompt"]
    assert ("coder", "heal-b") not in author.asked
    first = waiting(applied)
    applied = project.apply(author, resume=True)
    assert waiting(applied) == first  # not asked a second time
    project.answer(first, "approve")
    applied = project.apply(author, resume=True)
    assert ("coder", "heal-b") in author.asked
    assert waiting(applied) != first
    assert "Merge it?" in applied.report["waiting"][0]["prompt"]
    project.answer(waiting(applied), "approve")
    applied = project.apply(author, resume=True)
    assert statuses(applied) == {"b": "failed", "heal-b": "done", "d": "done"}
    assert [name for role, name in author.asked if role == "architect"] == ["b"]


def test_a_remediation_that_a_person_rejects_is_not_begun(tmp_path: Path) -> None:
    """The phase stays failed, what waits for it is skipped; a retry asks again."""
    project = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING, b={"gate": "approve"}))
    author = Author()
    never_approved(author)
    project.answer(waiting(project.apply(author)), "reject")
    applied = project.apply(author, resume=True)
    assert applied.status == "failed", "\n".join(project.said)
    assert statuses(applied) == {"b": "failed", "heal-b": "skipped", "d": "skipped"}
    assert ("coder", "heal-b") not in author.asked
    assert events(project, applied)[-1] == "healing_done"
    assert "A person rejected it" in applied.report["healing"]
    again = project.apply(author, resume=True, retry_failed=True)
    assert again.report["waiting"][0]["phase"] == "heal-b"


def test_in_the_gate_review_a_remediation_is_announced_and_begins(tmp_path: Path) -> None:
    """A notice, no question: the question comes when it is to be merged."""
    project = Project(tmp_path / "p", nebula_files({"b": []}, HEALING, b={"gate": "review"}))
    author = Author()
    never_approved(author)
    applied = project.apply(author)
    assert any("heal-b starts by itself" in line for line in project.said)
    assert ("reviewer", "heal-b") in author.asked
    assert "Merge it?" in applied.report["waiting"][0]["prompt"]


def test_a_retry_does_the_remediation_again_and_not_what_it_took_the_place_of(tmp_path: Path) -> None:
    """b failed and was remedied, and heal-b failed too: --retry-failed begins heal-b again, on b's work."""
    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING)), Author()
    never_approved(author)
    author.verdicts["heal-b"] = [objection("No."), objection("No again.")]
    author.deeds["heal-b"] = [lambda path, prompt, n=n: write(path, {"m.txt": f"{n}"}) for n in range(2)]
    assert project.apply(author).status == "failed"
    again = Author()
    applied = project.apply(again, resume=True, retry_failed=True)
    assert statuses(applied) == {"b": "failed", "heal-b": "done", "d": "done"}, "\n".join(project.said)
    assert {name for role, name in again.asked if role == "coder"} == {"heal-b", "d"}


def test_a_remediation_whose_beginning_is_lost_fails_alone(tmp_path: Path) -> None:
    """The failed phase's checkpoint is deleted while a person is asked: heal-b fails with the reason, e continues."""
    project = Project(tmp_path / "p", nebula_files({"b": [], "e": []}, HEALING, b={"gate": "approve"}))
    author = Author()
    never_approved(author)
    applied = project.apply(author)
    for file in Path(project.layout.run_dir(applied.report["run_id"])).glob("parked/checkpoint.b.*"):
        file.unlink()
    project.answer(waiting(applied), "approve")
    applied = project.apply(author, resume=True)
    assert statuses(applied) == {"b": "failed", "heal-b": "failed", "e": "done"}
    assert "no checkpoint of b" in applied.report["phases"]["heal-b"]["reason"]


def test_a_phase_shows_as_healing_then_as_failed_with_its_remediation_queued(tmp_path: Path) -> None:
    """The status while the architect is asked, while a person is asked, and at the end."""
    project = Project(tmp_path / "p", nebula_files({"b": []}, HEALING, b={"gate": "approve"}))
    author, shown = Author(), []
    never_approved(author)

    def text() -> str:
        nebula = load_nebula(project.directory)
        return status_text(load_status(project.layout, nebula, project.directory, (), utc_now())[0], 80)

    author.before = lambda who, phase: shown.append(text()) if who == "architect" else None
    first = waiting(project.apply(author))
    (while_asked,) = shown
    assert "▶ b  healing, max_cycles" in while_asked
    assert "✗ b  failed, max_cycles" in text()
    assert "→ heal-b (queued)" in text()
    assert "Healing: 1 failure" in text()
    project.answer(first, "approve")
    project.answer(waiting(project.apply(author, resume=True)), "approve")
    project.apply(author, resume=True)
    assert "→ heal-b (done)" in text()


def test_what_the_events_of_a_healing_carry(tmp_path: Path) -> None:
    """Kind, cycles and money; id, title and the architect's cost; who was rewired; success and cost."""
    project, author = Project(tmp_path / "p", nebula_files({"b": [], "d": ["b"]}, HEALING)), Author()
    never_approved(author)
    applied = project.apply(author)
    directory = project.layout.run_dir(applied.report["run_id"])
    events = [log.read_event(directory, entry.file) for entry in log.listing(directory)]
    given = {event["type"]: event["metadata"] for event in events if event["type"].startswith("healing_")}
    start, plan = given["healing_start"], given["healing_plan"]
    assert (start["kind"], start["cycles"], start["spent"]) == ("max_cycles", 2, 0.4)
    assert (plan["remediation"], plan["title"], plan["architect_cost"]) == ("heal-b", "Finish it", 0.1)
    assert given["healing_insert"]["rewired"] == ["d"]
    assert (given["healing_done"]["success"], given["healing_done"]["cost"]) == (True, 0.2)


def test_the_live_view_has_a_line_for_what_heals(tmp_path: Path) -> None:
    """While the architect is asked the row of the phase says healing; then its row is gone, and the line stays."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    view = LiveDisplay(console)
    project, author = Project(tmp_path / "p", nebula_files({"b": []}, HEALING)), Author()
    never_approved(author)
    rows: list[str] = []

    def row(who: str, phase: str) -> None:
        with console.capture() as captured:
            console.print(view.table())
        rows.append(f"{who}: {captured.get()}")

    author.before = row
    assert project.apply(author, display=view).status == "done"
    (healing,) = [each for each in rows if each.startswith("architect")]
    assert "healing" in healing
    (after,) = [each for each in rows if each.startswith("coder") and "heal-b" in each]
    assert not any(line.startswith("b ") for line in after.splitlines())
    assert 'healing b (max_cycles) → heal-b: "Finish it"' in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("wait_hours", [0.0, 12.0])
def test_an_architect_whom_the_service_refuses_is_asked_again(
    tmp_path: Path, wait_hours: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that meets an architect fails no healing: it is waited out, or the run stops and continues later."""
    # Who does not wait looks at the door before this is over, on a busy machine, too.
    monkeypatch.setattr(door, "FIRST_PAUSE", 0.01 if wait_hours else 1.0)
    project, author = Project(tmp_path / "p", nebula_files({"b": []}, HEALING)), Author()
    never_approved(author)
    author.plans["b"] = [failure(TurnResult(Outcome.LIMITED, error="The limit is reached.", cost_usd=0.0))]
    applied = project.apply(author, wait_hours=wait_hours)
    if not wait_hours:
        assert (applied.status, events(project, applied)) == ("stopped", ["healing_start"])
        applied = project.apply(Author(), resume=True)
    assert statuses(applied) == {"b": "failed", "heal-b": "done"}
    assert applied.report["cost_usd"] < 1.0


@pytest.mark.parametrize("how", [pytest.param("fresh", marks=pytest.mark.full), "cancelled"])
def test_a_fresh_run_does_not_repeat_a_remediation(tmp_path: Path, how: str) -> None:
    """After healing, --fresh works on the phases that people wrote; the generated file is kept in the old run. So does
    a new run after one that was cancelled, by a person or by a --fresh that was killed."""
    project, author = Project(tmp_path / "p", nebula_files({"b": []}, HEALING)), Author()
    author.verdicts["b"] = [objection("No."), objection("No again.")]
    author.deeds["b"] = [lambda path, prompt, n=n: write(path, {"m.txt": f"{n}"}) for n in range(2)]
    first = project.apply(author)
    assert statuses(first) == {"b": "failed", "heal-b": "done"}
    again = Author()
    if how == "cancelled":
        journal = Journal(project.layout, str(first.report["run_id"]), project.directory)
        journal.record(workflow_events.workflow_cancelled("A person cancelled it."))
    nebula, options = load_nebula(project.directory).nebula, ResumeOptions(fresh=how == "fresh")
    plan: Any = load_plan(project.layout, nebula, project.directory, options)[0]
    assert {phase["id"]: phase["resume"]["action"] for phase in plan["phases"]} == {"b": "start"}
    assert statuses(project.apply(again, fresh=how == "fresh")) == {"b": "done"}
    assert {phase for _, phase in again.asked} == {"b"}
    assert not (Path(project.directory) / "heal-b.md").exists()
    kept = Path(project.layout.run_dir(str(first.report["run_id"]))) / "parked" / "heal-b.1.md"
    assert kept.is_file()
