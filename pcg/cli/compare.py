"""pcg compare: a text, or several sentences, said with the four decoders and one seed, and what each one cost."""

import argparse
import json
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
    from pcg.synthesis.voice import Voice
    from pcg.take import Take
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

    from pcg.bench.engine import compare_methods
    from pcg.synthesis.costs import step_costs

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
    takes, rows = compare_methods(synthesizer, texts, settings, voice, options.repeat, steps, reference)
    _print(rows)
    if options.out:
        _write(options.out, takes, synthesizer.voice, reference)
    if options.json:
        asked = {"text": " ".join(texts), "texts": texts, "seed": settings.seed}
        print(json.dumps(asked | {"repeat": options.repeat, "threads": torch.get_num_threads(), "takes": rows}))


def _texts(options: argparse.Namespace) -> list[str]:
    from pcg.metrics.intelligibility import read_sentences
    from pcg.text.reading import check_text

    if options.sentences is None:
        check_text(options.text)
        return [options.text]
    written = read_sentences("everyday")
    if not 1 <= options.sentences <= len(written):
        raise InputError(
            "sentences", options.sentences, f"a whole number from 1 to {len(written)}, the sentences that there are"
        )
    return written[: options.sentences]


def _print(rows: "Mapping[str, Mapping[str, object]]") -> None:
    from pcg.take import accepted_in_columns

    for method, row in rows.items():
        cells = {
            "method": method,
            "tokens/s": f"{row['tokens_per_second']:.1f}",
            "speed-up": f"{row['speedup']:.2f}x",
            "bound": "-" if row["bound"] is None else f"{row['bound']:.2f}x",
            **accepted_in_columns(row["acceptance_rate"], row["acceptance_of_tested"], row["acceptance_by_position"]),
            "length": f"{row['mean_acceptance_length']:.2f}",
            "RTF": "-" if row["rtf"] is None else f"{row['rtf']:.3f}",
            "audio s": f"{row['audio_seconds']:.2f}",
        }
        if method == "ar":
            print("".join(f"{title:>{_width(title)}}" for title in cells))
        print("".join(f"{cell:>{_width(title)}}" for title, cell in cells.items()))


def _width(title: str) -> int:
    return max(8, len(title) + 2)


def _write(folder: Path, takes: "Mapping[str, Sequence[Take]]", voice: "Voice", reference: "Reference | None") -> None:
    from pcg.audio import write_wav
    from pcg.saved_take import Origin, Stored

    for method, said in takes.items():
        for number, take in enumerate(said, 1):
            name = f"{method}.wav" if len(said) == 1 else f"{method}-{number}.wav"
            stored = Stored.of(take, Origin.of(voice), reference)
            write_wav(folder / name, take.audio, take.sample_rate, stored.to_json())
