"""The remediation phase: its id, its limits, its body, its file. Pure, except for writing the file."""

import os
import re
from collections.abc import Collection, Iterator

from faber.errors import UnsafeFile
from faber.model.ids import MAX_REMEDIATION_ID, REMEDIATION, phase_id_problem
from faber.nebula.healing.partial_work import PartialWork, body_section
from faber.nebula.plan.phase_file import MAX_CYCLES, write_phase
from faber.nebula.plan.specs import Nebula, PhaseSpec
from faber.store.files import read_bytes, write_atomic
from faber.text.safe_text import encodable, inert, redact, shorten

LABEL = "auto-healing"
TITLE = 200
BODY = 40_000  # characters
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)\Z")


def remediation_id(original: str, attempt: int = 1, taken: Collection[str] = ()) -> str:
    """`heal-<original>` for the first attempt, `heal-<n>-<original>` for later ones. If a phase already has that id
    (ignoring case), the next free number is used.

    `original` is the phase that people wrote, whichever of its remediations failed.
    """
    known = {name.lower() for name in taken}
    while True:
        name = f"{REMEDIATION}{original}" if attempt <= 1 else f"{REMEDIATION}{attempt}-{original}"
        if name.lower() not in known:
            return name
        attempt = max(attempt, 1) + 1


def finalize_remediation_spec(
    spec: PhaseSpec,
    failed: PhaseSpec,
    nebula: Nebula,
    *,
    new_id: str,
    partial_work: PartialWork | None,
) -> PhaseSpec:
    """The phase to insert, from the architect's `spec` and the phase that `failed`.

    Title and body are the architect's, and so are limits that are lower. Everything that defines what a phase may do
    comes from the failed phase: scope, gate, model, type, priority, assignee, and its labels plus `auto-healing`. The
    remediation has no dependencies and no unknown keys. `allow_scope_overlap` is set because its scope is that of the
    failed phase.
    """
    settings = nebula.settings(failed)
    most_cycles = min(settings.max_review_cycles, MAX_CYCLES)
    budgets = [budget for budget in (spec.max_budget_usd, settings.max_budget_usd) if budget is not None]
    title = shorten(" ".join(_clean(spec.title).split()), TITLE)
    if not title or title == spec.id:
        title = shorten(f"Fix {failed.title}", TITLE)
    return PhaseSpec(
        id=new_id,
        title=title,
        body=_body(_clean(spec.body), partial_work),
        type=failed.type,
        priority=failed.priority,
        labels=tuple(dict.fromkeys((*settings.labels, LABEL))),
        assignee=failed.assignee,
        scope=failed.scope,
        allow_scope_overlap=True,
        max_review_cycles=min(spec.max_review_cycles or most_cycles, most_cycles),
        max_budget_usd=min(budgets, default=None),
        agents=failed.agents,
        model=failed.model,
        gate=failed.gate,
    )


def _clean(text: str) -> str:
    return redact(inert(encodable(text.replace("\r\n", "\n"))))


# --- the section on partial work -------------------------------------------------------------------


def _body(body: str, work: PartialWork | None) -> str:
    """The architect's text, with a section `## Partial Work` if there is any, and without one otherwise."""
    task, written = split_partial_work(body)
    if work is None:
        return shorten(task, BODY)
    section = written or body_section(work)
    return f"{shorten(task, BODY)}\n\n{shorten(section, BODY)}".strip()


def split_partial_work(body: str) -> tuple[str, str]:
    """The text without its sections `## Partial Work`, and those sections. Headings in code blocks do not count."""
    task: list[str] = []
    sections: list[str] = []
    inside = False
    for line, level, heading in _lines(body):
        if level is not None and level <= 2:
            inside = level == 2 and heading.strip().lower() == "partial work"
        (sections if inside else task).append(line)
    return "\n".join(task).strip(), "\n".join(sections).strip()


def _lines(body: str) -> Iterator[tuple[str, int | None, str]]:
    """Each line, with its level and text if it is a heading."""
    fence = ""
    for line in body.split("\n"):
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
            yield line, None, ""
        elif found:
            fence = found[1]
            yield line, None, ""
        else:
            heading = _HEADING.match(line)
            yield line, len(heading[1]) if heading else None, (heading[2] or "") if heading else ""


# --- the file --------------------------------------------------------------------------------------


def remediation_file(phase_id: str) -> str:
    """The name of a remediation's phase file; raises `ValueError` for an invalid id."""
    reason = phase_id_problem(phase_id, MAX_REMEDIATION_ID)
    if reason:
        raise ValueError(f"The id {phase_id[:60]!a} {reason}.")
    return f"{phase_id}.md"


def place_remediation(directory: str, spec: PhaseSpec) -> str:
    """Write the phase file of `spec` into the nebula's `directory` atomically; returns its name.

    A repetition changes nothing, so a healing that was killed can be finished by repeating it. An existing file with
    other content is left alone, and the next free name is used. Raises `StoreUnwritable`.
    """
    text = write_phase(spec).encode()
    name = remediation_file(spec.id)
    stem, number = name.removesuffix(".md"), 1
    while os.path.lexists(path := os.path.join(directory, name)):
        if _says(path, text):
            return name
        number += 1
        name = f"{stem}.{number}.md"
    write_atomic(path, text)
    return name


def _says(path: str, text: bytes) -> bool:
    try:
        return read_bytes(path, len(text) + 1) == text
    except (OSError, UnsafeFile):
        return False
