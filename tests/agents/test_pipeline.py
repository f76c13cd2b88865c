"""The order of a turn: truncation resume, then validation, then correction; and what each never does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from faber.agents.outcome import BudgetStop, Outcome, TurnResult
from faber.agents.pipeline import AgentLoop, AgentResponse
from faber.errors import InvalidInput, Notice, Severity
from faber.responses import Completion, CorrectionExhausted, InvalidSchema, NoAnswer
from faber.responses.recovery_log import Recovery, RecoveryLog, entries
from faber.store.layout import Layout

VALUE = {"action": "write_file", "content": "one\ntwo\nthree"}
WHOLE = json.dumps(VALUE)
SCHEMA = {"type": "object", "required": ["action"], "properties": {"action": {"const": "write_file"}}}
RESUME, CORRECT = "Output ONLY the remaining JSON", "by JSON path"


class Model:
    """A model that gives these answers; `echo` is an honest continuation of `WHOLE`."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def complete(self, prompt: str) -> Completion:
        self.asked.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        if callable(answer):
            return Completion(answer(prompt), "end_turn", 0.25, "s-1")
        cut = answer in (WHOLE[:20], WHOLE[:25])
        return Completion(answer, "max_tokens" if cut else "end_turn", 0.25, "s-1")

    @property
    def kinds(self) -> str:
        """What was asked for: `r` a continuation, `c` a correction, `p` the prompt."""
        return "".join("r" if RESUME in each else "c" if CORRECT in each else "p" for each in self.asked)


def echo(prompt: str, whole: str = WHOLE) -> str:
    """The last valid token and all after it."""
    token = prompt.split("<<<<<<<<\n")[1].split("\n>>>>>>>>")[0]
    return whole[whole.index(token) :]


def run(model: Model, recorded: list[Recovery] | None = None, **options: Any) -> AgentResponse:
    """One turn."""

    def record(recovery: Recovery) -> list[Notice]:
        if recorded is not None:
            recorded.append(recovery)
        return [Notice("recovery_log", Severity.WARNING, "as it happens")]

    return AgentLoop(model, record, **options).run_turn("task-9", 4, "Go.", SCHEMA)


def test_a_whole_answer_that_fits_is_asked_for_once() -> None:
    """Only the prompt is sent, and nothing is recorded."""
    model, recorded = Model(WHOLE), list[Recovery]()
    assert run(model, recorded) == (VALUE, WHOLE, None, 0, 0, 0.25, "s-1", [])
    assert (model.kinds, recorded) == ("p", [])


def test_truncation_never_triggers_a_correction() -> None:
    """A cut answer is continued, joined and valid: no correction is asked for, and its recovery is recorded."""
    model, recorded = Model(WHOLE[:20], echo), list[Recovery]()
    response = run(model, recorded)
    assert (response.value, response.final_status) == (VALUE, "RESOLVED")
    assert (response.resume_attempts, response.corrections, response.cost_usd) == (1, 0, 0.5)
    assert model.kinds == "pr"
    assert [each[:2] + each[3:6] for each in recorded] == [("task-9", 4, 20, 1, "RESOLVED")]
    assert [each.code for each in response.notices] == ["recovery_log"]


def test_malformed_text_never_triggers_a_resume() -> None:
    """An answer that a continuation cannot fix is corrected, and no recovery is recorded."""
    model, recorded = Model('{"action": }', WHOLE), list[Recovery]()
    response = run(model, recorded)
    assert (response.value, response.final_status, response.corrections) == (VALUE, None, 1)
    assert (model.kinds, recorded) == ("pc", [])


def test_the_merged_answer_is_validated() -> None:
    """A continued answer that does not fit is corrected after it, with the validator's words about the whole."""
    other = WHOLE.replace("write_file", "read_many")
    model = Model(other[:20], lambda prompt: echo(prompt, other), WHOLE)
    response = run(model)
    assert (response.value, response.final_status, response.corrections) == (VALUE, "RESOLVED", 1)
    assert model.kinds == "prc"
    assert "$.action" in model.asked[-1]


def test_only_proven_joins_are_taken() -> None:
    """A continuation without the echo is refused, even if it fits, and requested again."""
    model = Model(WHOLE[:20], WHOLE[20:], echo)
    assert run(model).resume_attempts == 2
    assert model.kinds == "prr"


def test_exhausted_resumes_fall_back_to_correction() -> None:
    """The way down: the answer is asked for again, shorter; the status stays EXHAUSTED although it is rescued."""
    model, recorded = Model(WHOLE[:20], "no", "no", WHOLE), list[Recovery]()
    response = run(model, recorded)
    assert (response.value, response.final_status, response.corrections) == (VALUE, "EXHAUSTED", 1)
    assert model.kinds == "prrc"
    assert "make it shorter" in model.asked[-1]
    assert [each.final_status for each in recorded] == ["EXHAUSTED"]


def test_a_correction_that_is_cut_is_continued() -> None:
    """Its recovery is a row of its own; the status is still that of the first answer."""
    model, recorded = Model("{]", WHOLE[:25], echo), list[Recovery]()
    response = run(model, recorded)
    assert (response.value, response.final_status, response.resume_attempts) == (VALUE, None, 1)
    assert model.kinds == "pcr"
    assert [each.final_status for each in recorded] == ["RESOLVED"]


def test_everything_is_bounded() -> None:
    """A model that never answers correctly is asked a fixed number of times."""
    model = Model(*[WHOLE[:20]] * 9)
    with pytest.raises(CorrectionExhausted):
        run(model)
    assert model.kinds == "prrcrrcrr"
    with pytest.raises(CorrectionExhausted):
        run(model := Model("{]"), max_resume_attempts=0, max_correction_attempts=0)
    assert model.kinds == "p"


def test_a_stop_of_the_client_ends_the_turn() -> None:
    """Nothing is corrected after the budget was exhausted by the fallbacks."""
    stop = BudgetStop(TurnResult(Outcome.BUDGET_STOP, cost_usd=0.05))
    model = Model(WHOLE[:20], stop)
    loop = AgentLoop(model)
    with pytest.raises(BudgetStop):
        loop.run_turn("task-9", 4, "Go.", SCHEMA)
    assert (model.kinds, loop.cost_usd) == ("pr", 0.3)


def test_the_order_is_written_where_it_is_decided() -> None:
    """The requirement ids stand in the pipeline's source in their order."""
    source = (Path(__file__).parents[2] / "scripts/faber/agents/pipeline.py").read_text()
    assert re.findall(r"  # \[(3_MCP-TAS-\d+)\]\n", source) == ["3_MCP-TAS-072", "3_MCP-TAS-071", "3_MCP-TAS-071"]


def test_a_turn_is_logged_where_a_person_finds_it(tmp_path: Path) -> None:
    """With a store's log, the recovery is in its table."""
    layout = Layout(str(tmp_path))
    loop = AgentLoop(Model(WHOLE[:20], echo), RecoveryLog(layout).record)
    assert loop.run_turn("task-9", 4, "Go.", SCHEMA).notices == []
    assert [(each["task_id"], each["final_status"]) for each in entries(layout)] == [("task-9", "RESOLVED")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"task_id": " "},
        {"task_id": "x" * 201},
        {"turn_number": -1},
        {"turn_number": 2**63},
        {"prompt": " \n"},
        {"schema": {"type": "no-such-type"}},
        {"schema": {"properties": {"a": {"$ref": "#/$defs/missing"}}}},
    ],
    ids=str,
)
def test_what_is_wrong_is_told_before_a_turn_is_paid(wrong: dict[str, Any]) -> None:
    """A task, turn, prompt or schema that could only fail later is refused, and the model is not asked."""
    given = {"task_id": "task-9", "turn_number": 4, "prompt": "Go.", "schema": SCHEMA, **wrong}
    model = Model(WHOLE)
    with pytest.raises((InvalidInput, InvalidSchema)):
        AgentLoop(model).run_turn(**given)
    assert model.asked == []
    with pytest.raises(InvalidInput):
        AgentLoop(model, max_resume_attempts=-1)
    with pytest.raises(InvalidInput):
        AgentLoop(model, max_correction_attempts=-1)


@pytest.mark.parametrize(
    ("answers", "kinds", "cost"),
    [
        ([Completion("I cannot.", "refusal", 0.5)], "p", 0.5),
        ([Completion("", "end_turn", 0.5)], "p", 0.5),
        ([WHOLE[:20], Completion("I cannot.", "refusal", 0.5)], "pr", 0.75),
        (["{]", Completion("", "max_tokens", None)], "pc", None),
    ],
)
def test_a_refusal_or_an_empty_answer_ends_the_turn(answers: list[Any], kinds: str, cost: float | None) -> None:
    """It is one error, after which nothing more is asked for; what was paid is counted."""
    model = Model(*answers)
    loop = AgentLoop(model)
    with pytest.raises(NoAnswer):
        loop.run_turn("task-9", 4, "Go.", SCHEMA)
    assert (model.kinds, loop.cost_usd) == (kinds, cost)


class Structured(Model):
    """A model that is asked for JSON of a form; `forms` says at which of the questions."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.forms: list[int] = []

    def answer(self, prompt: str, schema: Any) -> Completion:
        assert schema == SCHEMA
        self.forms.append(len(self.asked))
        return self.complete(prompt)._replace(usage={"cache_read_input_tokens": 3})


def test_a_client_that_takes_schemas_gets_them() -> None:
    """The prompt and its corrections ask for that form, whose answer is validated all the same; the rest of a cut
    answer has no form. Tokens are counted with the costs."""
    model = Structured('{"action": "read"}', WHOLE[:20], echo)
    loop = AgentLoop(model)
    response = loop.run_turn("task-9", 4, "Go.", SCHEMA)
    assert (response.value, response.corrections, response.resume_attempts) == (VALUE, 1, 1)
    assert (model.kinds, model.forms) == ("pcr", [0, 1])
    assert (loop.cost_usd, dict(loop.usage)) == (0.75, {"cache_read_input_tokens": 6})


def test_a_number_that_stays_cut_is_no_answer() -> None:
    """Exhausted at `12`, of which more was to come, a turn does not end with 12: a correction is asked for."""

    class Counting:
        answers = iter([("12", "max_tokens"), ("x", "end_turn"), ("x", "end_turn"), ("1234", "end_turn")])

        def complete(self, prompt: str) -> Completion:
            return Completion(*next(self.answers))

    response = AgentLoop(Counting()).run_turn("task-9", 4, "How many?", {"type": "integer"})
    assert (response.value, response.final_status, response.corrections) == (1234, "EXHAUSTED", 1)
