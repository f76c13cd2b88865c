"""Writing a phase file: the inverse of `parse_phase`. Pure."""

from faber.model.text import encodable
from faber.nebula.plan.parse import FENCE
from faber.nebula.plan.specs import PhaseSpec
from faber.nebula.plan.toml_text import toml_text


def write_phase(spec: PhaseSpec) -> str:
    """The text of a phase file that reads as `spec`: only what it gives, then its body.

    Read again it is equal, but for blanks around the body and the title, line endings (`\\n`) and lone
    surrogates (U+FFFD). Raises `TypeError` for an `extra` that TOML cannot hold.
    """
    header = {
        "id": spec.id,
        "title": spec.title,
        "type": spec.type,
        "priority": spec.priority,
        "depends_on": spec.depends_on or None,
        "blocks": spec.blocks or None,
        "labels": spec.labels,
        "assignee": spec.assignee,
        "scope": spec.scope or None,
        "allow_scope_overlap": spec.allow_scope_overlap or None,
        "max_review_cycles": spec.max_review_cycles,
        "max_budget_usd": spec.max_budget_usd,
        "model": spec.model,
        "gate": spec.gate,
    }
    # A key that faber knows is not taken from `extra`: it would be there twice.
    extra = {key: value for key, value in spec.extra.items() if key not in header}
    return encodable(f"{FENCE}\n{toml_text(header | extra)}{FENCE}\n\n{spec.body.strip()}\n")
