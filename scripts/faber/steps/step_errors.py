"""Why a step can be neither started nor completed."""

from faber.errors import Exit, FaberError


class EvidenceMissing(FaberError):
    """The evidence that the step requires is missing."""

    code = "evidence_missing"
    exit_code = Exit.REFUSED


class ProtectedBranch(FaberError):
    """Work would be committed to a branch that agents may not commit to."""

    code = "protected_branch"
    exit_code = Exit.REFUSED
    recovery = "Create a branch for the run and record it: `faber event emit --type branch_create --set branch=NAME`."
