"""pcg groups: how many groups there are at some thetas, how large, and the files to take away."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pcg.errors import InputError
from pcg.settings import SIMILARITIES, Settings, bounds

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.synthesis.synthesizer import Synthesizer

DEFAULT_THETAS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0)


def add(commands: "Commands") -> None:
    parser = commands.add_parser("groups", help="statistics of the Acoustic Similarity Groups at some thetas")
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--theta", type=float, nargs="+", help="thresholds to show")
    wanted.add_argument("--mean-size", type=float, nargs="+", help="show the thetas that give groups of these mean sizes")
    parser.add_argument("--similarity", default=Settings().similarity, help="one of " + ", ".join(SIMILARITIES))
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write groups and map there (safetensors, parquet)")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    from pcg.groups.library import theta_for
    from pcg.groups.neighbours import bar
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import load_voice

    Settings(similarity=options.similarity)
    for theta in options.theta or ():
        bounds("theta").check("theta", theta)
    synthesizer = Synthesizer(load_voice(options.model), announce=bar)
    neighbours = synthesizer.library.neighbours(options.similarity)
    thetas = [theta_for(neighbours, size) for size in options.mean_size] if options.mean_size else options.theta
    thetas = thetas or [theta for theta in DEFAULT_THETAS if theta >= neighbours.floor]
    rows = []
    print(f"{'theta':>6}{'vocab':>8}{'groups':>8}{'mean':>8}{'by use':>8}{'max':>6}{'alone':>8}{'shared':>8}{'ms':>8}")
    for theta in thetas:
        begun = perf_counter()
        figures = synthesizer.statistics(theta, options.similarity)
        seconds = perf_counter() - begun
        rows.append({"theta": theta, **asdict(figures), "seconds": round(seconds, 4)})
        print(
            f"{theta:6.3f}{figures.vocab:8}{figures.groups:8}{figures.mean_size:8.2f}{figures.usage_weighted_mean_size:8.2f}"
            f"{figures.max_size:6}{figures.singletons:8}{figures.multi_member_share:8.1%}{1e3 * seconds:8.1f}"
        )
    if options.export:
        _export(synthesizer, thetas, options)
    if options.json:
        print(json.dumps({"model": options.model, "similarity": options.similarity, "thetas": rows}))


def _export(synthesizer: "Synthesizer", thetas: Sequence[float], options: argparse.Namespace) -> None:
    """Write the groups at the one theta that was asked for, and the map."""
    from pcg.groups.atlas import export_atlas, export_groups

    if len(thetas) != 1:
        raise InputError("theta", f"{len(thetas)} values", "one value where groups are exported")
    name, similarity = synthesizer.voice.name, options.similarity
    files = export_groups(synthesizer.groups(thetas[0], similarity), options.export, similarity, name)
    files.append(export_atlas(synthesizer.atlas(), options.export / "map.parquet", name))
    for file in files:
        print(file)
