"""The pictures of the README."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())


def test_the_readme_shows_every_picture() -> None:
    """There is a small picture of each view, the README shows it, and none loads anything."""
    readme = (ROOT / "README.md").read_text()
    assert [file.name for file in PICTURES] == ["brief.svg", "report.png", "status.svg", "watch.svg", "why.svg"]
    for file in PICTURES:
        assert f"](docs/pictures/{file.name})" in readme
        assert file.stat().st_size < 150_000
        if file.suffix == ".svg":
            loaded = re.findall(r'https?://[^"\s]+|@import|(?:href|src)=', file.read_text())
            assert set(loaded) == {"http://www.w3.org/2000/svg"}
