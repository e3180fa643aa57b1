"""pcg swap: may the members of a group stand for each other? PCG Table 2, on a model of one's own."""

import argparse
import json
import shlex
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pcg.cli.common import (
    add_worker,
    add_workers,
    check_count,
    check_workers,
    do_units,
    load_synthesizer,
    mean_sizes,
    worker_spec,
)
from pcg.errors import InputError
from pcg.settings import SIMILARITIES, Settings, bounds

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.experiments.results.analysis import Results, Summary
    from pcg.experiments.unit import Condition
    from pcg.groups.library import GroupLibrary

DEFAULT_THETAS = tuple(sorted({0.6, 0.5, 0.4, Settings().theta}, reverse=True))


def add(commands: "Commands") -> None:
    parser = commands.add_parser("swap", help="put members of a group in each other's place, and hear what that costs")
    default = ", ".join(map(str, DEFAULT_THETAS))
    parser.add_argument("--theta", type=float, nargs="+", default=DEFAULT_THETAS, help=f"of the groups (default {default})")
    parser.add_argument("--sentences", type=int, default=40, help="how many are said; voices take turns (default 40)")
    parser.add_argument("--similarity", default=Settings().similarity, help="one of " + ", ".join(SIMILARITIES))
    add_worker(parser)
    add_workers(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    from pcg.experiments.results.analysis import Results, summarise
    from pcg.experiments.results.tables import swap_table
    from pcg.experiments.testset import offline_utterances
    from pcg.experiments.unit import Unit

    Settings(similarity=options.similarity)
    for theta in options.theta:
        bounds("theta").check("theta", theta)
    check_count("sentences", options.sentences)
    check_workers(options)
    spec = worker_spec(options)
    synthesizer = load_synthesizer(options)
    utterances = offline_utterances(options.sentences, list(synthesizer.voice.references))
    conditions = list(_conditions(options.theta, options.similarity, synthesizer.library))
    units = [Unit(utterance, condition, 0) for utterance in utterances for condition in conditions]
    results = Results(do_units(units, spec, options))
    summaries = summarise(results)
    table = replace(swap_table(results, summaries, mean_sizes(synthesizer)), command=_again(options))
    print(table.markdown())
    if options.json:
        asked = {"model": options.model, "judge": options.judge, "similarity": options.similarity}
        rows = _swaps_within_groups(results, summaries, options.similarity)
        print(json.dumps(asked | {"table": table.as_dict(), "rows": rows}))


def _swaps_within_groups(results: "Results", summaries: "Iterable[Summary]", similarity: str) -> list[dict[str, object]]:
    """What a swap within groups costs at each theta: the share of tokens `swapped`, `wer_points` over the same `n` utterances
    before it, with the ends of their 95 % interval, and None where the judge hears no words."""
    from pcg.experiments.results.comparisons import difference

    rows = []
    for row in summaries:
        swap = row.condition.swap
        if swap is None or (swap.replacement, swap.similarity) != ("group", similarity):
            continue
        lost = difference(results, row.condition, results.baseline(row.condition))
        points = (
            [None] * 3 if lost.wer is None else [round(100 * each, 3) for each in (lost.wer.value, lost.wer.low, lost.wer.high)]
        )
        rows.append(
            {
                "theta": swap.theta,
                "swapped": round(row.swapped.value, 4),
                "wer_points": points[0],
                "wer_interval": points[1:],
                "n": lost.utterances,
            }
        )
    return sorted(rows, key=lambda row: row["theta"])


def _conditions(thetas: Iterable[float], similarity: str, library: "GroupLibrary") -> "Iterable[Condition]":
    """AR; at each theta the swap, random codes at the same places, and the swap in Mel groups of equal mean size."""
    from pcg.analysis.swap import same_size_theta
    from pcg.experiments.suites import ar, swapped

    yield ar()
    for theta in thetas:
        yield swapped(theta, similarity)
        yield swapped(theta, similarity, "random")
        if similarity != "mel":
            try:
                yield swapped(same_size_theta(library, theta, "mel", similarity), "mel")
            except InputError:
                print(f"No Mel groups of this voice are as large as its groups at theta {theta:g}.", file=sys.stderr)


def _again(options: argparse.Namespace) -> str:
    """The command that asks for the same table."""
    words = ["--theta", *(f"{theta:g}" for theta in options.theta), "--sentences", str(options.sentences)]
    words += ["--similarity", options.similarity, "--model", options.model, "--judge", options.judge]
    words += ["--device", options.device, "--draft", options.draft, "--speaker-judge", options.speaker_judge]
    return shlex.join(["python", "-m", "pcg", "swap", *words])
