"""Validating a response against its JSON Schema, and asking the model to correct it.

This is the seed's `MalformedResponseHandler` (requirement 3_MCP-TAS-071). It never continues a cut response: truncation
is handled before.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from faber.responses.constants import MAX_RESPONSE
from faber.responses.envelope import extract_envelope
from faber.responses.llm import Asked, Completion, Schema, ask
from faber.responses.response_errors import CorrectionExhausted, InvalidSchema, ResponseTooLarge
from faber.store import strict_json
from faber.text.safe_text import shorten

# How many corrections of a response are asked for.
MAX_CORRECTION_ATTEMPTS = 2
# How many problems one prompt lists. A response with more is a misunderstanding, not a list of slips.
MAX_PROBLEMS = 20
MAX_PROBLEM = 300
# The longest schema that a correction prompt includes, in characters.
MAX_SCHEMA_SENT = 8_000
_EXCERPT = 60


class SchemaProblem(NamedTuple):
    """A problem and its JSON path (`$.files[2].path`; `$` is the whole document)."""

    path: str
    message: str


class Validation(NamedTuple):
    """The value of a response and its problems. `value` is None if the response is not JSON."""

    value: Any
    problems: tuple[SchemaProblem, ...]

    @property
    def ok(self) -> bool:
        """True if the response fits its schema."""
        return not self.problems

    def as_dicts(self) -> list[dict[str, str]]:
        """The problems as JSON objects."""
        return [problem._asdict() for problem in self.problems]


class Correction(NamedTuple):
    """A response that fits its schema; `attempts` counts the corrections that were asked for."""

    value: Any
    text: str
    attempts: int


class MalformedResponseHandler:
    """Validation and correction, under the seed's name."""

    @staticmethod
    def validate(raw: str, schema: Schema) -> Validation:
        """The value of `raw` and its violations of `schema` (draft 2020-12), ordered by path.

        A fence or prose around the JSON is ignored. Text that is not JSON, repeats a key, contains NaN or nests deeper
        than 64 levels is a single problem at `$`. At most `MAX_PROBLEMS` are listed. References in the schema resolve
        only within it. Raises `InvalidSchema`, `ResponseTooLarge`.
        """
        if len(raw) > MAX_RESPONSE:
            raise ResponseTooLarge(f"The response has {len(raw)} characters; the limit is {MAX_RESPONSE}.")
        validator = _validator(schema)
        text = extract_envelope(raw).text
        try:
            value = strict_json.loads(text)
        except strict_json.InvalidJSON as error:
            return Validation(None, (SchemaProblem("$", _not_json(text, error)),))
        return Validation(value, _problems(validator, value))

    @staticmethod
    def correct_with_retry(
        llm_client: Asked,
        raw: str,
        schema: Schema,
        max_attempts: int = MAX_CORRECTION_ATTEMPTS,
        *,
        complete: Callable[[Completion], str] = lambda reply: reply.text,
        why: str = "",
    ) -> Correction:
        """Ask `llm_client` for corrections until the response fits `schema`; none if `raw` already does.

        A `StructuredClient` is asked for JSON of that form. Each prompt lists the problems of the last response by
        path, and its length is bounded. `complete` turns a reply into its whole text, resuming a cut one. `why` comes
        first in the first prompt. Raises `CorrectionExhausted` after `max_attempts`, and whatever the client raises.
        """
        for attempt in range(max_attempts + 1):
            found = MalformedResponseHandler.validate(raw, schema)
            if found.ok:
                return Correction(found.value, raw, attempt)
            if attempt < max_attempts:
                prompt = build_correction_prompt(found.problems, schema, why=why)
                raw, why = complete(ask(llm_client, prompt, schema)), ""
        raise CorrectionExhausted(max_attempts, raw, found.as_dicts())


def check_schema(schema: Schema) -> None:
    """Raise `InvalidSchema` if responses cannot be validated against `schema`, whichever part of it they reach."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    _problems(_validator(schema), {})
    root = DRAFT202012.create_resource(schema)
    pending = [(root, Registry().with_resource("", root).resolver())]
    try:
        while pending:
            part, resolver = pending.pop()
            if isinstance(part.contents, dict):
                for name in {"$ref", "$dynamicRef"} & part.contents.keys():
                    resolver.lookup(part.contents[name])
            pending += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]
    except Unresolvable as error:
        raise _outside(error.ref) from None


def build_correction_prompt(problems: tuple[SchemaProblem, ...], schema: Schema, *, why: str = "") -> str:
    """The prompt that asks for a corrected response: the problems by path, and the schema if it is short.

    The response is not included: the model sees it in the same conversation.
    """
    lines = [f"- {problem.path}: {problem.message}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append("- and more like these")
    sent = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    parts = [
        f"{why} " if why else "",
        "Your last response cannot be used. The validator reports, by JSON path:\n",
        "\n".join(lines),
        "\n\nWrite the whole corrected response again, as one JSON document and nothing else: "
        "no prose, no code fence.\n",
    ]
    if len(sent) <= MAX_SCHEMA_SENT:
        parts.append(f"It must match this JSON Schema:\n{sent}\n")
    return "".join(parts)


def _not_json(text: str, error: strict_json.InvalidJSON) -> str:
    syntax = error.__context__
    if not isinstance(syntax, json.JSONDecodeError):
        return shorten(f"not JSON: {error}", MAX_PROBLEM)
    begin = max(0, syntax.pos - _EXCERPT)
    around = json.dumps(text[begin : syntax.pos + _EXCERPT], ensure_ascii=True)
    said = f"not JSON: {syntax.msg} at line {syntax.lineno}, column {syntax.colno}, in {around}"
    return shorten(said, MAX_PROBLEM)


def _validator(schema: Schema) -> Any:
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(schema)
        # A registry of its own: by default jsonschema would fetch what a `$ref` names from the network or the disk.
        return Draft202012Validator(schema, registry=Registry())
    except SchemaError as error:
        raise InvalidSchema(
            f"This is not a JSON Schema: {error.json_path}: {shorten(error.message, MAX_PROBLEM)}."
        ) from None
    except RecursionError:
        raise InvalidSchema("The schema is nested too deeply.") from None


def _problems(validator: Any, value: Any) -> tuple[SchemaProblem, ...]:
    from itertools import islice

    from referencing.exceptions import Unresolvable

    try:
        # More than are listed, so that the list has the first ones by path; but never a million of them.
        errors = list(islice(validator.iter_errors(value), MAX_PROBLEMS * 10))
    except Unresolvable as error:
        raise _outside(error.ref) from None
    except RecursionError:
        raise InvalidSchema("The schema refers to itself without end.") from None
    except ValueError as error:  # a malformed URL in the schema
        raise InvalidSchema(f"The schema has a bad address: {shorten(str(error), MAX_PROBLEM)}.") from None
    errors.sort(key=lambda error: [str(part) for part in error.absolute_path])
    return tuple(_problem(error) for error in errors[:MAX_PROBLEMS])


def _outside(reference: object) -> InvalidSchema:
    return InvalidSchema(f"The schema refers to {str(reference)[:200]!a}, which is not in it.")


def _problem(error: Any) -> SchemaProblem:
    if error.validator in ("anyOf", "oneOf") and error.context:
        # A problem inside the likeliest alternative says more than that no alternative fits.
        error = max(error.context, key=lambda each: len(each.absolute_path))
    return SchemaProblem(shorten(error.json_path, MAX_PROBLEM), shorten(" ".join(error.message.split()), MAX_PROBLEM))
