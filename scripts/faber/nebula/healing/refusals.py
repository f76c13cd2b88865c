"""Why a failed phase is not healed, and what a person can do about it. Pure."""

from faber.events.healing_events import NOT_HEALED

OFF, UNHEALABLE = "policy_disabled", "unhealable"
_WHAT_TO_DO = {
    OFF: "`{again} --heal` heals it now, and healing = true in [execution] from now on.",
    UNHEALABLE: "Remove its cause, then `{again} --retry-failed`.",
    "max_attempts": "Raise healing_max_attempts, then `{again} --heal`; or repeat it with `{again} --retry-failed`.",
    "no_budget": "Raise max_budget_usd or healing_budget_reserve, then `{again} --heal`.",
}
_ANY = "`{again} --heal` tries again, `{again} --retry-failed` repeats it."


def refusal(reason: str, directory: str) -> str:
    """Why a phase of the nebula in `directory` is not healed, and what to do: continues "not healed: …".

    `reason` is a `SkipReason`, or what an attempt failed with.
    """
    why = NOT_HEALED.get(reason, reason.rstrip("."))
    fix = _WHAT_TO_DO.get(reason, _ANY).format(again=f"faber nebula apply {directory} --resume")
    return f"{why}. {fix}"
