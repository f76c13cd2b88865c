"""Response recovery as a library: imported by other programs."""

import importlib.resources
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "response-recovery.md"


def test_the_example_of_the_page_runs():
    """The example that imports the package does what it asserts."""
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 1
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})


def test_its_types_are_for_others_too():
    """Type checkers read the annotations of the installed package: it has the marker that they look for."""
    assert (importlib.resources.files("faber") / "py.typed").is_file()
