"""pcg compare: a text, or several sentences, said with the four decoders and one seed, and what each one cost."""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import (
    add_settings,
    add_threads,
    check_count,
    find_speaker,
    load_synthesizer,
    read_settings,
    settle_lookahead,
    use_threads,
)
from pcg.errors import InputError

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.metrics.bound import StepCosts
    from pcg.settings import Settings
    from pcg.synthesis.synthesizer import Synthesizer
    from pcg.synthesis.voice import Voice
    from pcg.takes.take import Take
    from pcg.text.prompt import Reference


def add(commands: "Commands") -> None:
    parser = commands.add_parser("compare", help="say a text with the four decoders, same seed, and time them")
    said = parser.add_mutually_exclusive_group(required=True)
    said.add_argument("text", nargs="?")
    said.add_argument("--sentences", type=int, metavar="N", help="the first N of the everyday test sentences, in place of text")
    parser.add_argument("--repeat", type=int, default=5, help="in turns; the median by speed is shown (default 5)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write ar.wav, sd.wav, ssd.wav and pcg.wav there; of sentences ar-1.wav ..."
    )
    add_threads(parser)
    add_settings(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    import torch

    from pcg.bench.methods import pooled, step_costs

    settings = read_settings(options)
    texts = _texts(options)
    check_count("repeat", options.repeat)
    use_threads(options.threads)
    synthesizer = load_synthesizer(options)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()
    settings = settle_lookahead(options, settings, synthesizer)
    prompt = synthesizer.voice.reader.prompt(synthesizer.chunks(texts[0])[0], reference or synthesizer.voice.reference(voice))
    steps = step_costs(synthesizer.voice, prompt, settings.lookahead, settings.temperature)
    takes = _median_turn(synthesizer, texts, settings, voice, reference, options.repeat)
    whole = {method: pooled(said) for method, said in takes.items()}
    rows = _rows(whole, steps, settings.lookahead)
    _print(whole, rows)
    if options.out:
        _write(options.out, takes, synthesizer.voice, reference)
    if options.json:
        asked = {"text": " ".join(texts), "texts": texts, "seed": settings.seed}
        print(json.dumps(asked | {"repeat": options.repeat, "threads": torch.get_num_threads(), "takes": rows}))


def _texts(options: argparse.Namespace) -> list[str]:
    from pcg.metrics.sentences import read_sentences
    from pcg.text.text import check_text

    if options.sentences is None:
        check_text(options.text)
        return [options.text]
    written = read_sentences("everyday")
    if not 1 <= options.sentences <= len(written):
        raise InputError(
            "sentences", options.sentences, f"a whole number from 1 to {len(written)}, the sentences that there are"
        )
    return written[: options.sentences]


def _median_turn(
    synthesizer: "Synthesizer",
    texts: "Sequence[str]",
    settings: "Settings",
    voice: str,
    reference: "Reference | None",
    repeat: int,
) -> "dict[str, list[Take]]":
    """Of each method the takes of `texts`, one by one, from that of its `repeat` turns whose speed over all of them is the
    median."""
    from pcg.bench.methods import in_turns, pooled
    from pcg.groups.progress import bar

    shuffle, progress, turns = random.Random(settings.seed), bar("turns"), []
    for turn in range(repeat):
        turns.append(in_turns(synthesizer, texts, settings, voice, shuffle, reference))
        progress(turn + 1, repeat)
    return {
        method: sorted((turn[method] for turn in turns), key=lambda takes: pooled(takes).tokens_per_second)[repeat // 2]
        for method in synthesizer.methods
    }


def _rows(takes: "Mapping[str, Take]", steps: "StepCosts", lookahead: int) -> dict[str, dict[str, object]]:
    """The figures of each method's take, with its speed over AR's and the bound on that."""
    rows = {}
    for method, take in takes.items():
        # Rounds that draft different numbers of tokens cost different amounts.
        steady = {len(r.drafted) for r in take.rounds} == {lookahead}
        bound = round(steps.bound(take.mean_acceptance_length, lookahead), 3) if steady else None
        speedup = round(take.tokens_per_second / takes["ar"].tokens_per_second, 3)
        rows[method] = take.summary() | {"speedup": speedup, "bound": bound}
    return rows


def _print(takes: "Mapping[str, Take]", rows: "Mapping[str, Mapping[str, object]]") -> None:
    from pcg.takes.told import accepted_in_columns

    for method, take in takes.items():
        speedup, bound = rows[method]["speedup"], rows[method]["bound"]
        cells = {
            "method": method,
            "tokens/s": f"{take.tokens_per_second:.1f}",
            "speed-up": f"{speedup:.2f}x",
            "bound": "-" if bound is None else f"{bound:.2f}x",
            **accepted_in_columns(take.acceptance_rate, take.acceptance_of_tested, take.acceptance_by_position),
            "length": f"{take.mean_acceptance_length:.2f}",
            "RTF": f"{take.rtf:.3f}",
            "audio s": f"{take.audio_seconds:.2f}",
        }
        if method == "ar":
            print("".join(f"{title:>{_width(title)}}" for title in cells))
        print("".join(f"{cell:>{_width(title)}}" for title, cell in cells.items()))


def _width(title: str) -> int:
    return max(8, len(title) + 2)


def _write(folder: Path, takes: "Mapping[str, Sequence[Take]]", voice: "Voice", reference: "Reference | None") -> None:
    from pcg.audio import write_wav
    from pcg.takes.stored import Origin, Stored

    for method, said in takes.items():
        for number, take in enumerate(said, 1):
            name = f"{method}.wav" if len(said) == 1 else f"{method}-{number}.wav"
            stored = Stored.of(take, Origin.of(voice), reference)
            write_wav(folder / name, take.audio, take.sample_rate, stored.to_json())
