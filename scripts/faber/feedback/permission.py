"""Who may answer through a comment: the provider's word on the user's rights decides, and nothing else."""

from faber.sources.work_items import Permission

ALLOWED = frozenset({"admin", "maintain", "write"})
# Roles with fewer rights than the permission reported beside them. A custom role has the rights of its permission.
LESSER = frozenset({"triage", "read", "none"})


def permission_problem(answer: Permission, login: str) -> str | None:
    """Why the account `login` may not answer, or None: `not_the_user`, `not_a_user`, `no_permission`.

    The answer must name exactly this login, and the account must be a person's.
    """
    if answer.login != login:
        return "not_the_user"
    if answer.type != "User":
        return "not_a_user"
    if answer.permission not in ALLOWED or answer.role_name in LESSER:
        return "no_permission"
    return None
