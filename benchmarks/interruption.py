"""What an interruption costs, and what each way to continue gives back.

Usage:
    benchmarks/interruption.py [--quick] [--json] [--every N] [--client PROGRAM] [--directory DIR]

A scripted agent does one issue by the built-in workflow in the real Claude Code client, against an API on loopback: no
model. It is interrupted after every call of its work and at every question, in five ways. What reaches the model after
that is examined by rules (interruption_rules.py), in five arms; then a literal agent acts on it to the end. The agents
of a nebula are interrupted as well (interruption_nebula.py), and one session that does the same phases without it.

The client is the one that FABER_TEST_CLAUDE or --client names. A whole run takes more than an hour on two cores;
--every N takes two of N moments only. benchmarks/interruption_page.py makes docs/worth.md from the result.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import measure

sys.path[:0] = [str(measure.ROOT / "tests")]
from interruption_arms import ARMS, INTERRUPTIONS, WAYS, Arm, Recovery  # noqa: E402
from interruption_nebula import ARM, NebulaPlace, meant  # noqa: E402
from interruption_phases import PLAIN, PhasesPlace  # noqa: E402
from interruption_phases import RULES as NEBULA_RULES  # noqa: E402
from interruption_place import Place  # noqa: E402
from interruption_rules import RULES  # noqa: E402

from e2e.messages_api import MessagesApi  # noqa: E402 - the path is set first

Row = dict[str, Any]
NEBULA = "nebula"
NEBULA_ARMS = (ARM, *(arm.name for arm in ARMS if not arm.way.startswith("faber")))
PARTS = (f"{NEBULA} faber", f"{NEBULA} bare", f"{NEBULA} notes")


def main() -> None:
    """Interrupt, examine, print."""
    arguments = _options()
    binary = arguments.client or os.environ.get("FABER_TEST_CLAUDE")
    if not binary:
        raise SystemExit("Name the client by --client or FABER_TEST_CLAUDE; tests/run fetches it.")
    every = arguments.every or (24 if arguments.quick else 1)
    acts = arguments.acts or (3 if arguments.quick else 1)
    # The longest first.
    ways = [way for way in arguments.way or [*WAYS, NEBULA] if way != NEBULA]
    ways += PARTS if len(ways) < len(arguments.way or [*WAYS, NEBULA]) else ()
    ways.sort(key=lambda way: "faber" in way, reverse=True)
    with measure.workplace(arguments) as place, ThreadPoolExecutor(arguments.workers) as workers:
        about = measure.machine(place)
        parts = list(workers.map(lambda way: _played(way, Path(place), binary, every, acts), ways))
    rows = {name: row for part in parts for name, row in part.items()}
    result = {
        "about": {
            **{name: about[name] for name in ("faber", "python", "git")},
            "client": _version(binary),
            "date": date.today().isoformat(),
            "every": every,
            "acts": acts,
        },
        "rules": {name: {"present": there, "wrong": wrong} for name, (_, there, wrong) in RULES.items()},
        "arms": {arm.name: rows[arm.name] for arm in ARMS if arm.name in rows},
    }
    if nebula := {name: rows[f"{NEBULA} {name}"] for name in NEBULA_ARMS if f"{NEBULA} {name}" in rows}:
        asked = {name: {"present": there, "wrong": wrong} for name, (_, there, wrong) in NEBULA_RULES.items()}
        result[NEBULA] = {"about": result["about"], "rules": asked, "arms": nebula}
    print(json.dumps(result, indent=1) if arguments.json else table(result))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="at four moments only: shows that it works")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--every", type=int, metavar="N", help="interrupt at two of N moments. Default: at all")
    parser.add_argument("--acts", type=int, metavar="N", help="act to the end at each Nth of these. Default: at all")
    parser.add_argument("--way", action="append", choices=[*WAYS, NEBULA], help="only this way to work; repeatable")
    parser.add_argument("--client", metavar="PROGRAM", help="the client. Default: FABER_TEST_CLAUDE")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="clients at once. Default: 2")
    parser.add_argument("--directory", metavar="DIR", help="where to work. Default: /var/tmp")
    return parser.parse_args()


def _played(way: str, directory: Path, binary: str, every: int, acts: int) -> dict[str, Row]:
    """The figures of the arms that continue from one way to work, or to work on the phases of a nebula."""
    here = directory / way.replace(" ", "-")
    seen: dict[tuple[int, str], Recovery] = {}
    with MessagesApi() as api:
        if way == PARTS[0]:
            nebula = NebulaPlace(here, api, binary)
            nebula.work()
            return {f"{NEBULA} {ARM}": _of_nebula(nebula, every)}
        if way in PARTS:
            place: Place = PhasesPlace(way.removeprefix(f"{NEBULA} "), here, binary, api, PLAIN)
            place.work(every)
            arms = [arm for arm in ARMS if arm.way == place.way]
            return {f"{NEBULA} {arm.name}": _figures(arm, place, 1, seen, NEBULA_RULES) for arm in arms}
        place = Place(way, here, binary, api)
        place.work(every)
        return {arm.name: _figures(arm, place, acts, seen) for arm in ARMS if arm.way == way}


def _of_nebula(place: NebulaPlace, every: int) -> Row:
    """The figures of faber's own agents."""
    recoveries: dict[str, list[Recovery]] = {name: [] for name in INTERRUPTIONS}
    for number, moment in enumerate(place.moments):
        for interruption in INTERRUPTIONS if number % every in (every // 2, every // 2 + 1) else ():
            if meant(moment, interruption):
                made = place.recovered(moment, interruption)
                _told(ARM, moment.name, interruption, made)
                recoveries[interruption].append(made)
    return _row(recoveries, NEBULA_RULES)


def _figures(
    arm: Arm, place: Place, acts: int, seen: dict[tuple[int, str], Recovery], rules: Iterable[str] = RULES
) -> Row:
    """The figures of one arm; `seen` has what came of a moment and of all that was done to its disk."""
    recoveries: dict[str, list[Recovery]] = {name: [] for name in INTERRUPTIONS}
    for number, moment in enumerate(place.moments):
        for interruption in INTERRUPTIONS:
            same = number, _done_to_the_disk(arm, interruption)
            if same not in seen:
                seen[same] = place.recovered(arm, moment, interruption, acts=number % acts == acts // 2)
                _told(arm.name, moment.name, interruption, seen[same])
            recoveries[interruption].append(seen[same])
    return _row(recoveries, rules)


def _row(recoveries: Mapping[str, Sequence[Recovery]], rules: Iterable[str]) -> Row:
    """The figures of an arm, in all and for each interruption."""
    everything = [made for each in recoveries.values() for made in each]
    return {
        **_summed(everything, rules),
        "interruptions": {name: _summed(made, rules) for name, made in recoveries.items() if made},
        "missed": _missed(everything),
    }


def _done_to_the_disk(arm: Arm, interruption: str) -> str:
    """What the arm finds: where that is the same as after another interruption, nothing else can come of it."""
    if interruption == "new machine":
        return interruption
    if arm.compacts and interruption in ("SIGKILL", "/compact"):
        return "/compact"
    if arm.compacts:
        return f"{interruption}, /compact"
    if arm.way == "notes" or (arm.way == "faber without hooks" and interruption != "/compact"):
        return "SIGKILL"
    return interruption


def _summed(made: Sequence[Recovery], rules: Iterable[str]) -> Row:
    """Figures of several interruptions: sums, but medians of characters and turns."""
    facts = {name: [fact for each in made for fact in each.facts[name]] for name in rules}
    every = [fact for each in facts.values() for fact in each]
    acted = [each.acted for each in made if each.acted]
    return {
        "count": len(made),
        "present": sum(fact.present for fact in every),
        "of": len(every),
        "wrong": sum(fact.wrong for fact in every),
        "facts": {
            name: [sum(fact.present for fact in each), len(each), sum(fact.wrong for fact in each)]
            for name, each in facts.items()
        },
        "characters": round(median(each.characters for each in made)),
        "turns": round(median(each.turns for each in made)),
        "lost": sum(each.lost for each in made),
        "acted": len(acted),
        "repeated": sum(each.repeated for each in acted),
        "redone": sum(each.redone for each in acted),
        "right": sum(each.right for each in acted),
    }


def _missed(made: Sequence[Recovery]) -> dict[str, int]:
    """How often each fact was not there, the most frequent first."""
    return dict(
        Counter(
            f"{rule}: {fact.name}{' (wrong)' * fact.wrong}"
            for each in made
            for rule, facts in each.facts.items()
            for fact in facts
            if not fact.present
        ).most_common()
    )


def _told(arm: str, moment: str, interruption: str, made: Recovery) -> None:
    facts = [fact for each in made.facts.values() for fact in each]
    said = f"{sum(fact.present for fact in facts)}/{len(facts)}, {sum(fact.wrong for fact in facts)} wrong"
    told = f"{said}, {made.characters} characters, {made.turns} turns, {made.lost} lost"
    print(f"{arm} | {interruption} | {moment}: {told}, {made.acted}", file=sys.stderr, flush=True)


def table(result: Mapping[str, Any]) -> str:
    """The result for a person."""
    return "\n".join(_lines(result))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    about = ", ".join(f"{name} {value}" for name, value in result["about"].items())
    yield f"What reaches a model after an interruption\n  {about}\n"
    heads = ("facts", "wrong", "chars", "turns", "repeated", "redone", "lost", "right")
    yield f"{'':<42}" + "".join(f"{each:>11}" for each in heads)
    nebula = result.get(NEBULA, {"arms": {}})["arms"]
    for name, row in [*result["arms"].items(), *((f"{NEBULA}: {name}", row) for name, row in nebula.items())]:
        figures = [f"{row['present']}/{row['of']}", row["wrong"], row["characters"], row["turns"], row["repeated"]]
        figures += [row["redone"], row["lost"], f"{row['right']}/{row['acted']}"]
        yield f"{name:<42}" + "".join(f"{each:>11}" for each in figures)
    yield "\nfacts present, by rule"
    for rule in RULES:
        figures = [row["facts"][rule] for row in result["arms"].values()]
        yield f"{rule:<34}" + "".join(f"{f'{there}/{of}':>13}" for there, of, _ in figures)


def _version(binary: str) -> str:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
