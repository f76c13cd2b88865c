"""Make the table and the picture of docs/worth.md from what interruption.py measured.

Usage:
    benchmarks/interruption.py --json > docs/worth/interruption.json
    benchmarks/interruption_page.py [--check]
    benchmarks/interruption_page.py --merge FILE... > docs/worth/interruption.json

`--check` changes nothing and fails if the page, the picture or the README's line differ from the data. `--merge` makes
one result of those of several `--way` runs. They must have been measured alike; a nebula's part has its own options.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "worth" / "interruption.json"
PICTURE = ROOT / "docs" / "worth" / "interruption.svg"
PAGE = ROOT / "docs" / "worth.md"
BEGIN, END = "<!-- made by benchmarks/interruption_page.py -->\n\n", "<!-- end -->"
LEFT, TOP, WIDTH, HEIGHT = 270, 62, 108, 40  # pixels of the picture: its margins, and one field
PALE, DEEP = (0xEA, 0xF2, 0xF8), (0x1B, 0x5E, 0x8C)

Data = Mapping[str, Any]


def table(data: Data) -> str:
    """One line for each arm, and what was measured."""
    row = next(iter(data["arms"].values()))
    about = data["about"]
    whole = about["every"] == about["acts"] == 1
    options = "at every event" if whole else f"`--every {about['every']} --acts {about['acts']}`"
    said = f"{row['count']} interruptions of each arm ({options}), {_by(about)}."
    return "\n".join([*_arms(data, "steps"), "", said]) + "\n"


def nebula(data: Data) -> str:
    """One line for each arm on the phases of a nebula, its facts by interruption, and its rules."""
    part = data["nebula"]
    kinds = list(next(iter(part["arms"].values()))["interruptions"])
    every = part["about"]["every"]
    options = "At every event" if every == 1 else f"`--way nebula --every {every}`"
    lines = [*_arms(part, "turns"), "", f"{options}, {_by(part['about'])}."]
    lines += ["", f"| facts there, in percent | {' | '.join(kinds)} |", "|---" * (1 + len(kinds)) + "|"]
    for name, row in part["arms"].items():
        shares = [f"{percent(each)}{_wrong(each)} (of {each['of']})" for each in row["interruptions"].values()]
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join([*lines, "", rules(part, ("faber", "`--resume`", "`/compact`", "notes"))])


def _arms(data: Data, steps: str) -> list[str]:
    lines = [
        f"| | facts there | wrong | characters | turns | files lost | {steps} repeated | deeds repeated | right tree |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in data["arms"].items():
        share = f"{row['present']} of {row['of']} ({percent(row)} %)"
        figures = (row["wrong"], f"{row['characters']:,}", row["turns"], row["lost"], row["repeated"], row["redone"])
        right = f"{row['right']} of {row['acted']}"
        lines.append(f"| {name} | {share} | {' | '.join(map(str, figures))} | {right} |")
    return lines


def _by(about: Mapping[str, Any]) -> str:
    """When it was measured, and with what."""
    return f"{about['date']}: " + ", ".join(f"{name} {about[name]}" for name in ("client", "git", "python", "faber"))


def _wrong(row: Mapping[str, Any]) -> str:
    return f", {row['wrong']} wrong" if row["wrong"] else ""


def percent(row: Mapping[str, int]) -> int:
    """The share of the facts that were there, rounded down."""
    return 100 * row["present"] // row["of"]


def rules(data: Data, names: Sequence[str] = ("`--resume`", "`/compact`", "notes", "faber", "without hooks")) -> str:
    """What the rules ask for, and how many facts of each were there in each arm."""
    lines = []
    for rule, means in data["rules"].items():
        counts = [row["facts"][rule] for row in data["arms"].values()]
        alike = len({of for _, of, _ in counts}) == 1
        found = ", ".join(
            f"{name} {there}" if alike else f"{name} {there} of {of}"
            for name, (there, of, _) in zip(names, counts, strict=True)
        )
        wrong = "" if means["wrong"] == "-" else f" Wrong if {means['wrong']}."
        lines.append(f"- **{rule}**: there if {means['present']}.{wrong} {f'Of {counts[0][1]}: ' * alike}{found}.")
    return "\n".join(lines) + "\n"


def telling(data: Data) -> str:
    """The README's line."""
    bare, _, noted, row, _ = data["arms"].values()
    resumed = bare["interruptions"]
    whole = [resumed[each] for each in ("SIGKILL", "output limit", "usage limit")]
    there = {name: sum(each[name] for each in whole) for name in ("present", "of")}
    return (
        f"Measured in the real client with a scripted agent ([how](docs/worth.md)): after {row['count']} interruptions "
        f"of one run, of five kinds, the next session with faber has {percent(row)} % of what it has to know, "
        f"{row['wrong'] or 'nothing'} of it wrong. `--resume` has {percent(there)} % while its transcript is whole, "
        f"{percent(resumed['/compact'])} % after `/compact` and {percent(resumed['new machine'])} % on a new machine; "
        f"notes that a script rewrites after each step have {percent(noted)} %."
    )


def picture(data: Data) -> str:
    """The facts that were there, in percent, by arm and interruption, as an SVG that loads nothing."""
    arms = data["arms"]
    kinds = list(next(iter(arms.values()))["interruptions"])
    wide, high = LEFT + WIDTH * len(kinds) + 16, TOP + HEIGHT * len(arms) + 16
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
            'font-family="system-ui, sans-serif" font-size="14" role="img">',
            "<title>Facts that reached the model after an interruption, in percent</title>",
            f'<rect width="{wide}" height="{high}" fill="#ffffff"/>',
            '<text x="16" y="24" font-weight="600" fill="#1a1a1a">Facts that reached the model, in percent</text>',
            *(
                f'<text x="{LEFT + WIDTH * at + WIDTH / 2:g}" y="{TOP - 10}" text-anchor="middle" fill="#444444">'
                f"{escape(kind)}</text>"
                for at, kind in enumerate(kinds)
            ),
            *(line for at, (name, row) in enumerate(arms.items()) for line in _fields(at, name, row)),
            "</svg>\n",
        ]
    )


def _fields(at: int, name: str, row: Mapping[str, Any]) -> Iterator[str]:
    """One line of the picture."""
    top = TOP + HEIGHT * at
    weight = ' font-weight="600"' if name == "new session, faber" else ""
    yield (
        f'<text x="{LEFT - 12}" y="{top + 25}" text-anchor="end" fill="#1a1a1a"{weight}>'
        f"{escape(name.replace('`', ''))}</text>"
    )
    for number, each in enumerate(row["interruptions"].values()):
        share = percent(each)
        colour = "#" + "".join(f"{round(a + (b - a) * share / 100):02x}" for a, b in zip(PALE, DEEP, strict=True))
        left, ink = LEFT + WIDTH * number, "#ffffff" if share > 50 else "#1a1a1a"
        said = f"{share}{_wrong(each)}"
        yield f'<rect x="{left + 1}" y="{top + 1}" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="3" fill="{colour}"/>'
        yield f'<text x="{left + WIDTH / 2:g}" y="{top + 25}" text-anchor="middle" fill="{ink}">{said}</text>'


def made(page: str, data: Data) -> str:
    """The page with its three parts made from the data."""
    first, *others = page.split(BEGIN)
    parts = (table(data), nebula(data), rules(data))
    return first + "".join(
        BEGIN + part + "\n" + END + other.partition(END)[2] for part, other in zip(parts, others, strict=True)
    )


def merged(results: Sequence[Data], order: Sequence[str]) -> dict[str, Any]:
    """One result of those of several ways; raises ValueError unless they were measured alike."""
    found: dict[str, Any] = {}
    for each in results:
        if each["arms"] and found.setdefault("about", {**each["about"]}) | {"date": ""} != each["about"] | {"date": ""}:
            raise ValueError(f"These were not measured alike: {found['about']}, {each['about']}")
        found["rules"] = each["rules"]
        found["arms"] = found.get("arms", {}) | each["arms"]
        found |= {"nebula": each["nebula"]} if "nebula" in each else {}
    return found | {"arms": {name: found["arms"][name] for name in order if name in found["arms"]}}


def main() -> int:
    """Write, check, or merge."""
    if sys.argv[1:2] == ["--merge"]:
        results = [json.loads(Path(name).read_text("utf-8")) for name in sys.argv[2:]]
        print(json.dumps(merged(results, list(json.loads(DATA.read_text("utf-8"))["arms"])), indent=1))
        return 0
    data = json.loads(DATA.read_text("utf-8"))
    page = PAGE.read_text("utf-8")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(made(page, data), "utf-8")
        PICTURE.write_text(picture(data), "utf-8")
        print(telling(data))
        return 0
    told = telling(data) in " ".join((ROOT / "README.md").read_text("utf-8").split())
    return 0 if told and made(page, data) == page and PICTURE.read_text("utf-8") == picture(data) else 1


if __name__ == "__main__":
    sys.exit(main())
