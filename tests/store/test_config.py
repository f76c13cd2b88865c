"""The project's settings."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from faber.store.config import DEFAULTS, load_config
from faber.store.layout import Layout
from faber.store.store_errors import InvalidConfiguration


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project with a store."""
    made = Layout(str(tmp_path))
    os.makedirs(made.store)
    return made


def write(layout: Layout, text: str | bytes) -> None:
    """Put `text` into config.yaml."""
    Path(layout.config).write_bytes(text.encode() if isinstance(text, str) else text)


def test_without_a_file_the_defaults_are_in_force(layout: Layout) -> None:
    """A project that configured nothing has the defaults, and is told that nothing was given."""
    assert load_config(layout) == (DEFAULTS, None)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}"])
def test_an_empty_file_changes_nothing(layout: Layout, text: str) -> None:
    """A file without settings leaves the defaults in effect."""
    write(layout, text)
    assert load_config(layout) == (DEFAULTS, {})


def test_one_setting_leaves_its_neighbours(layout: Layout) -> None:
    """A setting inside a section replaces that one and keeps the section's other defaults."""
    write(layout, "context:\n  default_branch: trunk\n")
    config = load_config(layout)
    assert config.at("context.default_branch") == "trunk"
    assert config.at("context.max_chars") == DEFAULTS["context"]["max_chars"]
    assert config.at("workflow") == "default"


def test_reading_changes_no_default(layout: Layout) -> None:
    """The defaults are the same after a file with other values was read."""
    before = repr(DEFAULTS)
    write(layout, "context: {max_chars: 5000}\nautonomy: assist\n")
    load_config(layout)
    assert repr(DEFAULTS) == before


def test_an_edit_is_in_force_at_once(layout: Layout) -> None:
    """What was read before does not hide a later edit, back and forth."""
    for value in ("assist", "guarded", "assist"):
        write(layout, f"autonomy: {value}\n")
        assert load_config(layout).at("autonomy") == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worflow: x\n", "did you mean 'workflow'"),
        ("context: {max_char: 5000}\n", "did you mean 'max_chars'"),
        ("context: {max_chars: 10}\n", "context.max_chars"),
        ("context: {max_chars: true}\n", "context.max_chars"),
        ("context: null\n", "context"),
        ("autonomy: reckless\n", "autonomy"),
        ("work_items: {provider: githab}\n", "work_items.provider"),
        ("work_items: {github: {repo: a/b}}\n", "work_items.github.repo"),
        ("work_items: {github: {timout_seconds: 3}}\n", "did you mean 'timeout_seconds'"),
        ("work_items: {github: {repository: https://github.com/a/b}}\n", "is not a repository as owner/name"),
        ("work_items: {github: {host: 'a.example@b.example'}}\n", "is not a host name"),
        ("work_items: {github: {api_url: 'https://x@b.example/'}}\n", "is not the https URL"),
        ("work_items: {github: {max_comments: 6000}}\n", "work_items.github.max_comments"),
        ("workflow: ''\n", "workflow"),
        ("schema_version: 2\n", "schema_version"),
        ("- a\n", "top level"),
        ("just text\n", "top level"),
        ("a: &x 1\nb: *x\n", "config.yaml"),
        ("workflow: a\nworkflow: b\n", "line 2"),
        (b"workflow: \xff\n", "cannot be read"),
        ("#" * 300_000, "cannot be read"),
    ],
)
def test_a_wrong_setting_is_named(layout: Layout, text: str | bytes, said: str) -> None:
    """A file with an unknown key, a wrong value or bad syntax is refused as usage, saying where and what."""
    write(layout, text)
    for _ in range(2):  # the second time nothing of the first is served
        with pytest.raises(InvalidConfiguration) as caught:
            load_config(layout)
        assert said in caught.value.message
        assert caught.value.exit_code == 2


def test_a_link_is_not_followed(layout: Layout, tmp_path: Path) -> None:
    """A config.yaml that is a link is refused."""
    (tmp_path / "elsewhere").write_text("autonomy: autonomous\n")
    os.symlink(tmp_path / "elsewhere", layout.config)
    with pytest.raises(InvalidConfiguration):
        load_config(layout)


def test_the_documented_settings_are_the_settings(layout: Layout) -> None:
    """The examples of docs/work-items.md are in effect as they stand, and its table has every setting."""
    from faber.store.schema import schema

    text = (Path(__file__).parents[2] / "docs" / "work-items.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        write(layout, example)
        assert load_config(layout).at("work_items.provider") == "github"
    known = schema("config")["properties"]["work_items"]["properties"]["github"]["properties"]
    table = text.partition("| setting |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(known)
    for key in ("timeout_seconds", "deadline_seconds", "max_comments"):
        assert f"{key}: {DEFAULTS['work_items']['github'][key]}" in examples[1]
        assert re.search(rf"`{key}` .* {known[key]['minimum']} to {known[key]['maximum']}", table)


def test_the_defaults_satisfy_the_schema() -> None:
    """What is in effect without a file could be written into one, but for what stands for nothing."""
    from faber.store.schema import problems

    def said(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: said(inside) for key, inside in value.items() if inside is not None}

    assert problems("config", said(DEFAULTS)) == []
