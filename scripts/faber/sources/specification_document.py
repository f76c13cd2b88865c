"""The shape of a specification, as `sources.specification` reads it."""

from typing import Any, TypedDict


class SpecifiedTask(TypedDict):
    """A criterion or a task; `done` says whether its checkbox is marked, and is false where it has none."""

    text: str
    done: bool


class SpecifiedFile(TypedDict):
    """A file that is to be changed, and how."""

    path: str
    description: str | None


class SpecifiedPhase(TypedDict):
    """A phase of the plan; `done` and `total` count its tasks."""

    title: str
    tasks: list[SpecifiedTask]
    done: int
    total: int


class SpecificationParts(TypedDict):
    """The parts of a specification, None or [] where they are missing; the texts are whole sections.

    `front_matter` has all of its values, dates as ISO 8601 strings.
    """

    title: str | None
    type: str | None
    status: str | None
    summary: str | None
    goals: str | None
    functional_requirements: str | None
    acceptance_criteria: list[SpecifiedTask]
    technical_approach: str | None
    files_to_modify: list[SpecifiedFile]
    phases: list[SpecifiedPhase]
    front_matter: dict[str, Any]


class Specification(SpecificationParts):
    """A specification in a file: `path` is relative to the repository, `content` its whole text."""

    path: str
    content: str
