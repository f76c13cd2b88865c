"""Errors in workflow definitions."""

from faber.errors import UsageError


class UnknownWorkflow(UsageError):
    """There is no such workflow definition, neither built in nor in the project."""

    code = "unknown_workflow"
    recovery = "Use one of the known workflows, or the path of a definition inside the repository."


class InvalidDefinition(UsageError):
    """A workflow definition or configuration file that violates its schema."""

    code = "invalid_definition"
    recovery = "Correct the file at the line or path named; `faber workflow validate` checks it."
