"""How well cut responses are recognised and joined, and how fast, beside the libraries that parse or repair such text.

Usage:
    benchmarks/responses.py [--quick] [--json] [--rounds N] [--directory DIR] [--peers DIR]

Three tables: what share of a corpus each library classifies right; the outcome of a cut response and its continuation,
by the way in which models continue and slip (see joins.py), over made envelopes and real files; the time of
`detect_truncation` as a multiple of `json.loads` on the same text. Exits with 1 if faber calls a text wrong, joins
anything wrong that it proved, or does not bring the document back from an echo. Times never decide.

The peers are not part of faber's environment. To measure beside them:

    python3 -m pip install --require-hashes --target PEERS -r benchmarks/peers/requirements.lock
    cp benchmarks/peers/package*.json PEERS && npm ci --prefix PEERS
    benchmarks/responses.py --peers PEERS
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

# isort: split  (measure makes the following importable)
import envelopes
import joins
import measure
from repairers import Peer, installed

from faber.responses import (
    ChunkMergeError,
    Completion,
    Join,
    PartialCompletionResumeExhaustedError,
    detect_truncation,
    join_chunks,
    resume_if_truncated,
)

_FLOOR = "json.loads"
Shares = dict[str, dict[str, float]]


def main() -> int:
    """Measure and print; 1 if faber was wrong."""
    arguments = measure.options(__doc__ or "", _peers_option)
    peers = installed(arguments.peers)
    random_ = random.Random(72)
    quick = arguments.quick
    sizes = [1_000] * 6 if quick else [1_000] * 40 + [10_000] * 20 + [100_000] * 3 + [1_000_000]
    documents = [envelopes.envelope(random_, size) for size in sizes]
    cases = list(envelopes.classified(random_, documents, 300 if quick else 1_500))
    # Every byte of the small ones; of the large ones, which some peers read slowly, a sample.
    accuracy = {
        "faber": _accuracy(lambda text: detect_truncation(text).status, cases),
        **{peer.name: _accuracy(peer.classify, _fewer(cases, quick)) for peer in peers},
    }
    real = joins.files(random_, 12 if quick else 600, 60_000 if quick else 200_000, everywhere=not quick)
    small = [text for text in documents if len(text) < 30_000]
    count = arguments.joins or (12 if quick else 1_250)
    recovery = _recovery(random_, joins.cuts(random_, small, real), count, peers)
    wrong = _wrong(accuracy, recovery)
    with measure.workplace(arguments) as place:
        ratios = _speed(arguments, peers)
        versions = {"faber": "this", **{peer.name: peer.version for peer in peers}}
        if arguments.json:
            more = {
                "texts": len(cases),
                "versions": versions,
                "accuracy": accuracy,
                "files": len(real),
                "recovery": recovery,
                "wrong": wrong,
            }
            measure.report(arguments, "Cut responses", ratios, place, **more)
        else:
            _print_shares(f"Classified right, of {len(cases)} texts (%)", accuracy)
            for name in recovery["echo"]:
                shares = {style: found[name] for style, found in recovery.items() if name in found}
                _print_shares(f"{name}, with {len(real)} real files (%)", shares)
            measure.report(arguments, "Detection beside json.loads on the same text", ratios, place, **versions)
            print("".join(f"! {line}\n" for line in wrong), end="")
    return 1 if wrong else 0


def _peers_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--peers", metavar="DIR", help="where the peers are installed; see above")
    parser.add_argument("--joins", type=int, metavar="N", help="how many of each style; 1,250 are 33,750 in all")


def _fewer(cases: list[envelopes.Case], quick: bool) -> list[envelopes.Case]:
    small = [case for case in cases if len(case.text) < 30_000]
    return small if quick else small[:: max(1, len(small) // 20_000)]


def _accuracy(classify: Callable[[str], str], cases: list[envelopes.Case]) -> dict[str, float]:
    """By what a text is, the percentage that is called so; `all` of them equally weighted by kind."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for case in cases:
        total[case.status] += 1
        right[case.status] += classify(case.text) == case.status
    return {kind: 100 * right[kind] / total[kind] for kind in sorted(total)}


def _recovery(random_: random.Random, cut: Iterator[joins.Cut], count: int, peers: list[Peer]) -> dict[str, Shares]:
    """By style and by way of joining: the percentages exact, refused and silently wrong."""
    table: dict[str, Shares] = {}
    for style in (*joins.STYLES, joins.IN_PIECES):
        seen: dict[str, Counter[str]] = {}
        for case in islice(cut, count):
            initial, meant = case.text[: case.at], json.loads(case.text)
            found = detect_truncation(initial)
            if not found.truncated:  # a number, or all but the white space after the document
                continue
            ways: dict[str, Callable[[], Any]]
            if style == joins.IN_PIECES:
                ways = {"faber proven": partial(_in_pieces, joins.InPieces(random_, case.text), initial)}
            else:
                token = found.last_valid_token or "" if found.proves else ""
                asked = joins.asked(case, token, found.truncation_index or 0)
                said = joins.reply(random_, style, asked)
                ways = _ways(initial, said, peers)
            for name, way in ways.items():
                seen.setdefault(name, Counter())[_outcome(way, meant)] += 1
        table[style] = {
            name: {"joins": counts.total()}
            | {kind: 100 * counts[kind] / counts.total() for kind in ("exact", "refused", "wrong")}
            for name, counts in seen.items()
        }
    return table


def _ways(initial: str, said: joins.Reply, peers: list[Peer]) -> dict[str, Callable[[], Any]]:
    ways: dict[str, Callable[[], Any]] = {
        "faber proven": partial(_merged, "proven", initial, said),
        "faber consistent": partial(_merged, "consistent", initial, said),
        "concatenated": lambda: json.loads(initial + said.text),
    }
    return ways | {
        f"and {peer.name}": partial(_repaired, peer.repair, initial + said.text) for peer in peers if peer.repair
    }


def _merged(join: Join, initial: str, said: joins.Reply) -> Any:
    made = join_chunks(initial, said.text, join, stop_reason=said.stop_reason)
    if not made.complete:
        raise ChunkMergeError("The source says that it was cut.", reason="unfinished")
    return json.loads(made.text)


def _in_pieces(model: joins.InPieces, initial: str) -> Any:
    def client(prompt: str) -> Completion:
        return Completion(*model.complete(prompt))

    return json.loads(resume_if_truncated(client, initial, 200))


def _repaired(repair: Callable[[str], Any], text: str) -> Any:
    return repair(text)


def _outcome(way: Callable[[], Any], meant: Any) -> str:
    try:
        return "exact" if way() == meant else "wrong"
    except (ChunkMergeError, PartialCompletionResumeExhaustedError, ValueError, RecursionError):
        return "refused"


def _wrong(accuracy: Shares, recovery: dict[str, Shares]) -> list[str]:
    """Where faber is not what it promises to be, one sentence each."""
    found = [f"{kind} texts: {share:.3f} % right" for kind, share in accuracy["faber"].items() if share < 100]
    for style, shares in recovery.items():
        if shares["faber proven"]["wrong"]:
            found.append(f"proven, {style}: {shares['faber proven']['wrong']:.2f} % silently wrong")
        if style in (*joins.ECHOED, joins.IN_PIECES) and shares["faber proven"]["exact"] < 100:
            found.append(f"proven, {style}: {shares['faber proven']['exact']:.2f} % exact")
    return found


def _speed(arguments: argparse.Namespace, peers: list[Peer]) -> list[measure.Ratio]:
    """Times per call of detection, as multiples of `json.loads` on the same cut text."""
    random_ = random.Random(3)
    texts = {f"{size // 1000} kB": _code_envelope(random_, size) for size in (1_000, 30_000, 1_000_000)}
    cut = {name: text[: len(text) * 9 // 10] for name, text in texts.items()}
    cut |= {f"30 kB, {tenth}0 %": texts["30 kB"][: len(texts["30 kB"]) * tenth // 10] for tenth in range(1, 10)}
    cut |= {"30 kB complete": texts["30 kB"]}
    jiter = next((peer for peer in peers if peer.name == "jiter"), None)
    subjects: dict[str, measure.Subject] = {}
    for name, text in cut.items():
        repeat = max(1, (200_000 if arguments.quick else 2_000_000) // len(text))
        subjects[f"{_FLOOR} {name}"] = partial(_timed, _loads, text, repeat)
        subjects[f"detect {name}"] = partial(_timed, detect_truncation, text, repeat)
        subjects[f"with token {name}"] = partial(_timed, _with_token, text, repeat)
        if jiter:
            subjects[f"jiter {name}"] = partial(_timed, jiter.classify, text, repeat)
    times = measure.rounds(subjects, arguments, 30)
    ratios = []
    for name in cut:
        floor = f"{_FLOOR} {name}"
        # 0.7 of the speed of `json.loads` from 1 kB on, 0.8 from 30 kB on.
        target = 1.43 if name == "1 kB" else 1.25 if name in ("30 kB", "1000 kB") else None
        ratios += [
            measure.ratio(times, f"{kind} {name}", floor, target if kind == "detect" else None)._replace(of=_FLOOR)
            for kind in ("detect", "with token", "jiter")
            if f"{kind} {name}" in subjects
        ]
    return ratios


def _code_envelope(random_: random.Random, size: int) -> str:
    while True:
        text = envelopes.envelope(random_, size)
        if '"content"' in text:
            return text


def _loads(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        pass


def _with_token(text: str) -> None:
    _ = detect_truncation(text).last_valid_token


def _timed(subject: Callable[[str], Any], text: str, repeat: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeat):
        subject(text)
    return (time.perf_counter() - begun) / repeat


def _print_shares(title: str, table: Shares) -> None:
    kinds = list(next(iter(table.values())))
    print(f"{title}\n{'':<26}" + "".join(f"{kind:>12}" for kind in kinds))
    for name, shares in table.items():
        print(f"  {name:<24.24}" + "".join(f"{shares[kind]:>12.{0 if kind == 'joins' else 2}f}" for kind in kinds))
    print()


if __name__ == "__main__":
    sys.exit(main())
