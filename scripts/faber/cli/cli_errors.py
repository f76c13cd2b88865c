"""Errors that only commands raise."""

from faber.errors import Exit, FaberError


class EvidenceMissing(FaberError):
    """What the step has to leave behind is not there."""

    code = "evidence_missing"
    exit_code = Exit.REFUSED


class ProtectedBranch(FaberError):
    """Work would land on a branch that agents may not commit to."""

    code = "protected_branch"
    exit_code = Exit.REFUSED
    recovery = "Create a branch for the run and record it: `faber event emit RUN --type branch_create`."
