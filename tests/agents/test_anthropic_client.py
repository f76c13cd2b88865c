"""`AnthropicClient` where its package is not, and its limits; what it does with the API is shown in tests/e2e."""

import sys

import pytest

from faber.agents.anthropic_client import AnthropicClient, ApiPackageMissing
from faber.errors import InvalidInput


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a client costs no import; asking it without the package says how to get it."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    made = AnthropicClient("a-model")
    with pytest.raises(ApiPackageMissing) as caught:
        made.complete("hello")
    assert caught.value.code == "package_missing"
    assert "faber[api]" in caught.value.recovery


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"timeout": 0.0}, {"timeout": float("inf")}])
def test_an_answer_has_limits(wrong: dict[str, float]) -> None:
    """No client is made without an output limit and a time limit."""
    with pytest.raises(InvalidInput):
        AnthropicClient("a-model", **wrong)  # type: ignore[arg-type]
