"""What an architect is asked for: pure functions of the diagnosis and of the phase that failed."""

from collections.abc import Iterable, Sequence

from faber.errors import Severity
from faber.nebula.healing.diagnosis import OUTPUT, FailureDiagnosis, FailureKind
from faber.nebula.healing.partial_work import PartialWork, architect_section
from faber.nebula.healing.remediation import remediation_id
from faber.nebula.phase.prompts import bullets, fenced
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import Nebula, PhaseSettings, PhaseSpec

BODY = 12_000
SHOWN_PROBLEMS = 20

_HOW = {
    FailureKind.MAX_CYCLES: "It was not approved in the cycles it had.",
    FailureKind.BUDGET: "Its money was spent before it was approved.",
    FailureKind.FILTER: "A check that runs before every review still fails.",
    FailureKind.MERGE_CONFLICT: "It was approved, and does not go together with what other phases merged meanwhile.",
    FailureKind.UNHEALABLE: "It ended by something that is no fault of the work.",
}


def build_remediation_request(
    diagnosis: FailureDiagnosis,
    nebula: Nebula,
    failed_spec: PhaseSpec,
    partial_work: PartialWork | None,
    *,
    new_id: str | None = None,
) -> str:
    """The architect's prompt for the phase that remedies `failed_spec` (seed 000, seed 001).

    `new_id` is the id it is to have, by default that of a first attempt. With `partial_work` the prompt has the seed's
    section on it, without it none.
    """
    settings = nebula.settings(failed_spec)
    parts = [
        f"# Remediation of phase {diagnosis.phase_id}: {' '.join(failed_spec.title.split())}\n\nMode: remediate.",
        _section("What failed", _facts(diagnosis, settings)),
    ]
    if diagnosis.filter_name:
        said = fenced(diagnosis.filter_output, OUTPUT) if diagnosis.filter_output else "It said nothing."
        parts.append(_section("The failing filter", f"`{_code(diagnosis.filter_name)}` said, at its end:\n\n{said}"))
    if diagnosis.recurring:
        parts.append(_section("Objections that came back", bullets(diagnosis.recurring)))
    parts.append(_section("Findings that are open", bullets(diagnosis.findings or ["none"])))
    for title, text in (
        ("What the coder said last", diagnosis.last_coder_out),
        ("What the reviewer said last", diagnosis.last_review_out),
    ):
        if text:
            parts.append(_section(title, f"A claim to verify, not a fact:\n\n{fenced(text, OUTPUT)}"))
    parts.append(_section("The phase that failed", fenced(failed_spec.body.strip() or failed_spec.title, BODY)))
    if failed_spec.scope:
        parts.append(_section("Scope", "The remediation has the same scope:\n" + bullets(failed_spec.scope)))
    parts += _project(nebula)
    if partial_work is not None:
        parts.append(architect_section(partial_work))
    parts.append(_section("What to write", _instructions(diagnosis, settings, partial_work, new_id)))
    return "\n\n".join(parts) + "\n"


def correction_request(problems: Sequence[NebulaProblem]) -> str:
    """The prompt that asks once more, in the same conversation, where the phase file was not valid."""
    told = [
        f"line {problem.line}: {problem.message} {problem.fix}" if problem.line else f"{problem.message} {problem.fix}"
        for problem in problems
        if problem.severity in (Severity.ERROR, Severity.CRITICAL)
    ]
    more = [f"and {len(told) - SHOWN_PROBLEMS} more"] if len(told) > SHOWN_PROBLEMS else []
    return (
        f"The phase file in your answer is not valid:\n\n{bullets([*told[:SHOWN_PROBLEMS], *more])}\n\nWrite the whole "
        'file again, corrected, as one JSON object {"phase_file": "…"} and nothing else.\n'
    )


def _facts(diagnosis: FailureDiagnosis, settings: PhaseSettings) -> str:
    limit = diagnosis.budget_limit
    of = f" of {limit:.2f}" if limit is not None else "; it had no limit of its own"
    return bullets(
        [
            f"Phase: {diagnosis.phase_id}",
            f"Failure: {diagnosis.kind.value}. {_HOW[diagnosis.kind]}",
            f"Summary: {diagnosis.summary}",
            f"Cycles used: {diagnosis.cycles_used} of {settings.max_review_cycles}",
            f"Money spent: {diagnosis.budget_spent:.2f} US dollars{of}",
        ]
    )


def _project(nebula: Nebula) -> list[str]:
    said = []
    if nebula.context.goals:
        said.append("Goals:\n" + bullets(nebula.context.goals))
    if nebula.context.constraints:
        said.append("Constraints:\n" + bullets(nebula.context.constraints))
    if nebula.filters:
        said.append("Checks that run before every review:\n" + bullets(f"`{_code(f.name)}`" for f in nebula.filters))
    return [_section("Project", "\n\n".join(said))] if said else []


def _instructions(
    diagnosis: FailureDiagnosis, settings: PhaseSettings, work: PartialWork | None, new_id: str | None
) -> str:
    name = new_id or remediation_id(diagnosis.phase_id)
    fewer = max(1, settings.max_review_cycles - 1)
    budget = settings.max_budget_usd
    lower = "a max_budget_usd that fits the smaller task" if budget is None else f"max_budget_usd below {budget:g}"
    lines = [
        "Find the root cause first, in the files as they are now, and name it in the body's first sentence.",
        "Build on the commits of the failed phase: its branch is where the remediation begins. Ask for nothing again "
        "that is done and not objected to."
        if work is not None
        else "Nothing of the failed phase was committed in a whole cycle: the remediation begins anew.",
        "Make the task narrower than the one that failed: what is still open, and nothing else.",
        f"Give it fewer cycles: max_review_cycles of at most {fewer}.",
        f"Give it a lower budget: {lower}.",
        *_of_kind(diagnosis.kind),
    ]
    section = (
        "The body has a section `## Partial Work`: what is committed, what of it holds, and that it stays."
        if work is not None
        else "The body has no section on partial work: there is none."
    )
    return (
        f"{_numbered(lines)}\n\n"
        f'Answer with one JSON object and nothing else: {{"phase_file": "…"}}. Its text is a phase file: a TOML header '
        f'between two lines of `+++` with id = "{name}", title, max_review_cycles and max_budget_usd, and below it the '
        f"body in Markdown. {section}"
    )


def _of_kind(kind: FailureKind) -> list[str]:
    if kind is FailureKind.FILTER:
        return ["The failing filter must pass at the end. It is not weakened, and neither is what it checks."]
    if kind is FailureKind.MERGE_CONFLICT:
        return [
            "What was merged meanwhile is merged into the branch before the coder begins, with its conflicts: the "
            "task is to let both intentions hold."
        ]
    return []


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}"


def _numbered(lines: Iterable[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
