"""Finding the command in a comment of 65,000 characters, as a multiple of splitting the comment into lines.

Usage:
    benchmarks/comments.py [--quick] [--json] [--rounds N] [--directory DIR]

Anybody can comment, and GitHub takes 65,536 characters. Beside ordinary comments stand those that somebody would
write to keep a parser busy: one huge line, thousands of short ones, and every mark that could open something. Each
ends with a command, so that all of it has to be read; `str.splitlines` is what reading it costs at the least.
"""

import time

import measure

# isort: split  (measure makes the following importable)
from faber.github.comment_parser import parse_comment

SIZE = 65_000
TARGET = 20
END = "\n\n@faber approve fr-20260101-0a1b2c3d"
UNITS = {
    "prose": "The parser keeps the old format, and the tests say what the new one is for.\n",
    "quoted prose": "> The parser keeps the old format, and the tests say so.\n",
    "one line of words": "and so on ",
    "one line of backticks": "` ",
    "one line of <!--": "<!-- ",
    "one line of <": "< ",
    "one line of >": ">",
    "one line of spaces": " ",
    "one line of addresses": "<a@b.example> ",
    "lines of one letter": "a\n",
    "lines of >": ">\n",
    "lines of backticks": "`\n",
    "lines of two spaces": "  \n",
    "empty lines": "\n",
    "CR LF lines": "a\r\n",
    "fences": "```\n",
    "fences that do not close": "```a\n",
    "longer and longer fences": "".join("`" * length + "\n" for length in range(3, 300)),
    "HTML": "<b\n",
    "links": "[a](b '\n",
    "commands": "@faber approve\n",
    "mentions in one line": "@faber ",
    "indented mentions": "  @faber approve\n",
    "a long request id": "-a",
}
REPEATS = 5


def comment(unit: str) -> str:
    """The unit over and over, to 65,000 characters, and a command."""
    start = "@faber approve fr" if unit == "-a" else ""
    return (start + unit * (SIZE // len(unit) + 1))[: SIZE - len(END)] + END


def taken(what: str, body: str) -> float:
    """Seconds that one call takes: the least of five, for what is shorter than any interruption."""
    act = body.splitlines if what == "split" else lambda: parse_comment(body)
    least = 60.0
    for _ in range(REPEATS):
        begun = time.perf_counter()
        act()
        least = min(least, time.perf_counter() - begun)
    return least


def main() -> None:
    """Measure and print."""
    arguments = measure.options(__doc__ or "")
    with measure.workplace(arguments) as place:
        subjects: dict[str, measure.Subject] = {}
        for name, unit in UNITS.items():
            body = comment(unit)
            subjects[name] = lambda body=body: taken("parse", body)  # type: ignore[misc]
            subjects[f"{name}: lines"] = lambda body=body: taken("split", body)  # type: ignore[misc]
        times = measure.rounds(subjects, arguments, 40)
        ratios = [measure.ratio(times, name, f"{name}: lines", TARGET)._replace(of="its lines") for name in UNITS]
        worst = max(ratios, key=lambda line: line.ratio)
        measure.report(arguments, "A comment's command beside its lines", ratios, place, worst=worst.subject)


if __name__ == "__main__":
    main()
