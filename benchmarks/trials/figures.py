"""What the results come to: per arm, and in pairs of the same task and seed."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trials import intervals
from trials.intervals import Interval
from trials.results import Line, charged
from trials.schedule import ARMS
from trials.tasks import ABOUT

Pair = tuple[str, int]  # task and seed
PLAIN, FABER = ("plain", "faber")
CUT = ", interrupted"
# Each comparison is the first arm minus the second; the first one is primary.
COMPARISONS = (
    (FABER + CUT, PLAIN + CUT),
    (PLAIN + CUT, PLAIN),
    (FABER + CUT, FABER),
    (FABER, PLAIN),
)
MEASURES = ("work_calls", "repeated_calls", "responses", "seconds", "cost_usd")


class Compared(NamedTuple):
    """Two arms over the pairs that both have: how many were solved in one of them only, and the exact interval; the
    runs whose counterpart is missing, which are in no pair."""

    first: str
    second: str
    pairs: int
    only_first: int
    only_second: int
    difference: Interval
    p: float
    unpaired: list[str]


def figures(lines: Sequence[Line]) -> dict[str, Any]:
    """All figures of a trial's results, for a program."""
    kept = counted(lines)
    arms = {arm.name: [line for line in kept if line["arm"] == arm.name] for arm in ARMS}
    return {
        "trial": {name: value for name, value in lines[0].items() if name != "kind"} if lines else {},
        "caps_usd": list(dict.fromkeys(line["cap_usd"] for line in lines if line["kind"] == "begun")),
        "runs": len(kept),
        "void": sum(line["kind"] == "finished" and bool(line["void"]) for line in lines),
        "charged_usd": round(charged(list(lines)), 6),
        "unpriced_turns": sum(line["unpriced_turns"] for line in lines if line["kind"] == "finished"),
        "arms": {name: {**_arm(runs), "void": _voids(lines, name)} for name, runs in arms.items()},
        "compared": [compare(arms[first], arms[second], first, second)._asdict() for first, second in COMPARISONS],
        "loss": _loss(arms)._asdict(),
        "measures": {name: _measured(arms, name)._asdict() for name in MEASURES},
    }


def counted(lines: Iterable[Line]) -> list[Line]:
    """The runs that count: of each the last that told something."""
    found = {line["run"]: line for line in lines if line["kind"] == "finished" and not line["void"]}
    return list(found.values())


def compare(first: Sequence[Line], second: Sequence[Line], one: str, other: str) -> Compared:
    """What was solved in two arms, over the pairs that both have."""
    ours, theirs = _by_pair(first), _by_pair(second)
    both = sorted(ours.keys() & theirs.keys())
    better = sum(ours[pair]["solved"] and not theirs[pair]["solved"] for pair in both)
    worse = sum(theirs[pair]["solved"] and not ours[pair]["solved"] for pair in both)
    difference = intervals.paired_shares(better, worse, len(both))
    alone = sorted(line["run"] for mine, others in ((ours, theirs), (theirs, ours))
                   for pair, line in mine.items() if pair not in others)  # fmt: skip
    return Compared(one, other, len(both), better, worse, difference, intervals.sign_test(better, worse), alone)


def _arm(runs: Sequence[Line]) -> dict[str, Any]:
    solved = sum(run["solved"] for run in runs)
    points = [point for run in runs for point in run["points"]]
    return {
        "runs": len(runs),
        "solved": solved,
        "share": intervals.share(solved, len(runs))._asdict(),
        "held": {about: _held(runs, about) for about in ABOUT},
        "median": {name: _median(runs, name) for name in MEASURES},
        "unpriced_turns": sum(run["unpriced_turns"] for run in runs),
        "interruptions": len(points),
        "reached": sum(point["reached"] and point["happened"] for point in points),
        "peeked": sum(run["peeked"] for run in runs),
        "not_done": dict(sorted(_counts(run["ended"] for run in runs if run["ended"] != "done").items())),
    }


def _voids(lines: Sequence[Line], arm: str) -> int:
    """How often a run of an arm told nothing: more in one arm than in another would lean the comparison."""
    return sum(line["kind"] == "finished" and bool(line["void"]) and line.get("arm") == arm for line in lines)


def _held(runs: Sequence[Line], about: str) -> list[int]:
    """How many findings of a kind hold, and of how many."""
    found = [each["holds"] for run in runs for each in run["findings"] if each["about"] == about]
    return [sum(found), len(found)]


def _counts(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for word in words:
        found[word] += 1
    return found


def _median(runs: Sequence[Line], measure: str) -> float | None:
    values = [run[measure] for run in runs if _is_known(run, measure)]
    return statistics.median(values) if values else None


def _is_known(run: Line, measure: str) -> bool:
    return measure != "cost_usd" or not run["unpriced_turns"]


def _by_pair(runs: Iterable[Line]) -> dict[Pair, Line]:
    return {(run["task"], run["seed"]): run for run in runs}


def _loss(arms: Mapping[str, Sequence[Line]]) -> Interval:
    """How much less interruptions take from faber: its loss minus the loss without it, over whole blocks of four."""
    blocks = {name: _by_pair(runs) for name, runs in arms.items()}
    return _grouped(
        set.intersection(*(set(block) for block in blocks.values())),
        lambda pair: float(
            (blocks[FABER + CUT][pair]["solved"] - blocks[FABER][pair]["solved"])
            - (blocks[PLAIN + CUT][pair]["solved"] - blocks[PLAIN][pair]["solved"])
        ),
    )


def _measured(arms: Mapping[str, Sequence[Line]], measure: str) -> Interval:
    """The mean paired difference of a measure between the interrupted arms, where both have it."""
    ours, theirs = (_by_pair(run for run in arms[name + CUT] if _is_known(run, measure)) for name in (FABER, PLAIN))
    return _grouped(ours.keys() & theirs.keys(), lambda pair: float(ours[pair][measure] - theirs[pair][measure]))


def _grouped(pairs: Iterable[Pair], value: Callable[[Pair], float]) -> Interval:
    groups: dict[str, list[float]] = defaultdict(list)
    for pair in sorted(pairs):
        groups[pair[0]].append(value(pair))
    return intervals.mean(list(groups.values()))


def text(found: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """The same for a person."""
    about, unpriced = found["trial"], found["unpriced_turns"]
    caps = ", then ".join(f"${cap:.2f}" for cap in found["caps_usd"])
    lines = [
        *notes,
        f"{about.get('model')}, client {about.get('client')}, faber {about.get('faber')}",
        f"{found['runs']} runs, {found['void']} void; at most ${found['charged_usd']:.2f} spent of {caps or 'no cap'}, "
        f"{unpriced} turns without a price",
        "",
        f"{'arm':20}{'solved':>12}  {'95 %':14}{'answers':>9}{'forbidden':>11}{'calls':>7}",
    ]
    for name, arm in found["arms"].items():
        lines += _of_arm(name, arm) if arm["runs"] else []
    planned = _planned_pairs(about)
    lines += ["", "solved in one arm only, and the difference of pairs (95 %)"]
    for each in found["compared"]:
        lines += [
            f"{each['first']} - {each['second']}",
            f"  {each['pairs']} of {planned or '?'} pairs, +{each['only_first']} -{each['only_second']}: "
            f"{_shown(each['difference'])}, p {each['p']:.3f}",
        ]
    alone = sorted({run for each in found["compared"] for run in each["unpaired"]})
    lines += [f"In some comparison without a counterpart, and in no pair there: {len(alone)} runs"] if alone else []
    lines += [f"  {run}" for run in alone]
    lines += ["", "faber, interrupted - plain, interrupted, mean of pairs (95 %)"]
    lines += [f"  {name:18}{_shown(found['measures'][name])}" for name in MEASURES]
    lines.append(f"  {'loss of solved':18}{_shown(found['loss'])}")
    return "\n".join(lines) + "\n"


def _of_arm(name: str, arm: Mapping[str, Any]) -> list[str]:
    """An arm's line, and one more for what else must be known of it."""
    ends, calls = arm["share"], arm["median"]["work_calls"]
    held = {about: "/".join(map(str, arm["held"][about])) for about in ABOUT}
    first = f"{name:20}{arm['solved']:>6} of {arm['runs']:<3} {ends['low']:5.2f} to {ends['high']:4.2f}"
    more = [f"{arm['reached']} of {arm['interruptions']} interruptions reached"] if arm["interruptions"] else []
    more += [f"{arm['void']} void"] if arm["void"] else []
    more += [f"{arm['peeked']} looked at what is hidden"] if arm["peeked"] else []
    more += [f"{count} ended as {how}" for how, count in arm["not_done"].items()]
    line = f"{first}{held['answer']:>11}{held['forbidden']:>11}{calls:>7g}"
    return [line, "  " + ", ".join(more)] if more else [line]


def _planned_pairs(about: Mapping[str, Any]) -> int:
    return len(about.get("tasks", {}).get("names", ())) * int(about.get("seeds", 0))


def _shown(interval: Interval | Mapping[str, Any]) -> str:
    given = interval if isinstance(interval, Interval) else Interval(**interval)
    if given.estimate != given.estimate:
        return "no pairs"
    if given.low is None or given.high is None:
        return f"{given.estimate:+.2f} (too few pairs for an interval)"
    return f"{given.estimate:+.2f} ({given.low:+.2f} to {given.high:+.2f})"
