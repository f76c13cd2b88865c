"""What the client is given of a schema."""

import json
from typing import Any

import pytest

from faber.agents.claude import MAX_SCHEMA, AgentOptions, client_arguments, schema_argument
from faber.nebula.healing.architect import ARCHITECT_SCHEMA
from faber.nebula.phase.reviews import REVIEW_SCHEMA


@pytest.mark.parametrize("schema", [REVIEW_SCHEMA, ARCHITECT_SCHEMA])
def test_the_client_gets_the_schema_without_its_dialect(schema: dict[str, Any]) -> None:
    """Everything but `$schema`, which no supported client takes for draft 2020-12."""
    sent = schema_argument(schema)
    assert sent is not None
    assert json.loads(sent) | {"$schema": schema["$schema"]} == schema
    words = client_arguments(AgentOptions("/"), None, 1.0, sent)
    assert words[words.index("--json-schema") + 1] == sent


@pytest.mark.parametrize("schema", [{"type": "integer"}, {}, {"type": "object", "title": "x" * MAX_SCHEMA}])
def test_a_schema_that_is_no_tools_is_left_out(schema: dict[str, Any]) -> None:
    """The input of a tool is an object, and an argument has a limit."""
    assert schema_argument(schema) is None
