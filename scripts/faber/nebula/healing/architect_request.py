"""The architect's prompts. Pure functions of the diagnosis and the failed phase."""

from collections.abc import Iterable, Sequence

from faber.errors import Severity
from faber.nebula.healing.diagnosis import OUTPUT, FailureDiagnosis, FailureKind
from faber.nebula.healing.partial_work import PartialWork, architect_section
from faber.nebula.healing.remediation import remediation_id
from faber.nebula.phase.prompts import bullets, fenced, project_section, section
from faber.nebula.plan.problems import NebulaProblem
from faber.nebula.plan.specs import Nebula, PhaseSettings, PhaseSpec

BODY = 12_000
SHOWN_PROBLEMS = 20

_HOW = {
    FailureKind.MAX_CYCLES: "It was not approved within its cycles.",
    FailureKind.BUDGET: "Its budget was exhausted before it was approved.",
    FailureKind.FILTER: "A check that runs before every review still fails.",
    FailureKind.MERGE_CONFLICT: "It was approved, but conflicts with the work that other phases merged meanwhile.",
    FailureKind.UNHEALABLE: "It ended for a reason unrelated to its work.",
}


def build_remediation_request(
    diagnosis: FailureDiagnosis,
    nebula: Nebula,
    failed_spec: PhaseSpec,
    partial_work: PartialWork | None,
    *,
    new_id: str | None = None,
) -> str:
    """The architect's prompt for the remediation of `failed_spec`.

    `new_id` is the id of the remediation, by default that of a first attempt. The prompt has a section on
    `partial_work` if there is any.
    """
    settings = nebula.settings(failed_spec)
    parts = [
        f"# Remediation of phase {diagnosis.phase_id}: {' '.join(failed_spec.title.split())}\n\nMode: remediate.",
        section("What failed", _facts(diagnosis, settings)),
    ]
    if diagnosis.filter_name:
        said = fenced(diagnosis.filter_output, OUTPUT) if diagnosis.filter_output else "It printed nothing."
        parts.append(
            section("The failing filter", f"The end of the output of `{_code(diagnosis.filter_name)}`:\n\n{said}")
        )
    if diagnosis.recurring:
        parts.append(section("Recurring findings", bullets(diagnosis.recurring)))
    parts.append(section("Open findings", bullets(diagnosis.findings or ["none"])))
    for title, text in (
        ("The coder's last report", diagnosis.last_coder_out),
        ("The reviewer's last report", diagnosis.last_review_out),
    ):
        if text:
            parts.append(section(title, f"Verify these claims; they are not facts:\n\n{fenced(text, OUTPUT)}"))
    parts.append(section("The failed phase", fenced(failed_spec.body.strip() or failed_spec.title, BODY)))
    if failed_spec.scope:
        parts.append(section("Scope", "The remediation has the same scope:\n" + bullets(failed_spec.scope)))
    parts += project_section(
        Goals=nebula.context.goals,
        Constraints=nebula.context.constraints,
        Checks_that_run_before_every_review=[f"`{_code(check.name)}`" for check in nebula.filters],
    )
    if partial_work is not None:
        parts.append(architect_section(partial_work))
    parts.append(section("What to write", _instructions(diagnosis, settings, partial_work, new_id)))
    return "\n\n".join(parts) + "\n"


def correction_request(problems: Sequence[NebulaProblem]) -> str:
    """The prompt that asks for a correction of an invalid phase file, in the same conversation."""
    listed = [
        f"line {problem.line}: {problem.message} {problem.fix}" if problem.line else f"{problem.message} {problem.fix}"
        for problem in problems
        if problem.severity in (Severity.ERROR, Severity.CRITICAL)
    ]
    more = [f"and {len(listed) - SHOWN_PROBLEMS} more"] if len(listed) > SHOWN_PROBLEMS else []
    return (
        f"The phase file in your answer is invalid:\n\n{bullets([*listed[:SHOWN_PROBLEMS], *more])}\n\nAnswer with "
        'the whole corrected file as one JSON object {"phase_file": "…"} and nothing else.\n'
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


def _instructions(
    diagnosis: FailureDiagnosis, settings: PhaseSettings, work: PartialWork | None, new_id: str | None
) -> str:
    name = new_id or remediation_id(diagnosis.phase_id)
    fewer = max(1, settings.max_review_cycles - 1)
    budget = settings.max_budget_usd
    lower = "a max_budget_usd that fits the smaller task" if budget is None else f"max_budget_usd below {budget:g}"
    lines = [
        "Find the root cause in the current files, and state it in the first sentence of the body.",
        "Build on the commits of the failed phase: the remediation starts from its branch. Do not request work again "
        "that is done and has no open finding."
        if work is not None
        else "The failed phase committed nothing: the remediation starts over.",
        "Make the task narrower than the failed one: only what is still open.",
        f"Give it fewer cycles: max_review_cycles of at most {fewer}.",
        f"Give it a lower budget: {lower}.",
        *_of_kind(diagnosis.kind),
    ]
    on_work = (
        "Add a section `## Partial Work` to the body: say what is committed, what is correct, and that it must be kept."
        if work is not None
        else "Do not add a section on partial work; there is none."
    )
    return (
        f"{_numbered(lines)}\n\n"
        f'Answer with one JSON object and nothing else: {{"phase_file": "…"}}. The string is a phase file: a TOML '
        f'header between two lines of `+++` with id = "{name}", title, max_review_cycles and max_budget_usd, then '
        f"the body in Markdown. {on_work}"
    )


def _of_kind(kind: FailureKind) -> list[str]:
    if kind is FailureKind.FILTER:
        return ["The failing filter must pass at the end. Do not weaken it or what it checks."]
    if kind is FailureKind.MERGE_CONFLICT:
        return [
            "The integration branch is merged into the phase's branch before the coder starts, with its conflicts: the "
            "task is to keep the intent of both sides."
        ]
    return []


def _numbered(lines: Iterable[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())
