"""Errors in workflow definitions."""

from faber.errors import UsageError


class UnknownWorkflow(UsageError):
    """A workflow definition that is neither built in nor the project's."""

    code = "unknown_workflow"
    recovery = "Use one of the known workflows, or the path of a definition inside the repository."


class InvalidDefinition(UsageError):
    """A workflow definition or configuration file that its schema refuses."""

    code = "invalid_definition"
    recovery = "Correct the file at the place named; `faber workflow validate` checks it."
