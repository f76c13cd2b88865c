"""Refusals that only commands can raise."""

from faber.errors import Exit, FaberError


class EvidenceMissing(FaberError):
    """Evidence that the step requires is missing."""

    code = "evidence_missing"
    exit_code = Exit.REFUSED


class ProtectedBranch(FaberError):
    """The step would work on a branch that agents may not commit to."""

    code = "protected_branch"
    exit_code = Exit.REFUSED
    recovery = "Create a branch for the run and record it: `faber event emit RUN --type branch_create`."
