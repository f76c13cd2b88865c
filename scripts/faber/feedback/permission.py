"""Who may answer through a comment: decided by what the provider says about a user's rights, and by nothing else."""

from faber.sources.work_items import Permission

ALLOWED = frozenset({"admin", "maintain", "write"})
# Roles that are less than their permission could say; a custom role is what its permission is.
LESSER = frozenset({"triage", "read", "none"})


def permission_problem(answer: Permission, login: str) -> str | None:
    """Why the account `login` may not answer, or None: `not_the_user`, `not_a_user`, `no_permission`.

    The answer has to be about exactly this login, spelled so, and about a person's account.
    """
    if answer.login != login:
        return "not_the_user"
    if answer.type != "User":
        return "not_a_user"
    if answer.permission not in ALLOWED or answer.role_name in LESSER:
        return "no_permission"
    return None
