"""pcg compare: a text, said with the four decoders and one seed, and what each one cost."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import add_settings, check_count, find_speaker, load_synthesizer, read_settings, settle_lookahead

if TYPE_CHECKING:
    from pcg.cli.common import Commands


def add(commands: "Commands") -> None:
    parser = commands.add_parser("compare", help="say a text with the four decoders, same seed, and time them")
    parser.add_argument("text")
    parser.add_argument("--repeat", type=int, default=3, help="takes a method; the median by time is shown (default 3)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write ar.wav, sd.wav, ssd.wav and pcg.wav there")
    add_settings(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    from pcg.audio import write_wav
    from pcg.bench.methods import step_costs
    from pcg.prompts.text import check_text
    from pcg.takes.stored import Origin, Stored

    settings = read_settings(options)
    check_text(options.text)
    check_count("repeat", options.repeat)
    synthesizer = load_synthesizer(options.model, options.device, draft=options.draft)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()
    settings = settle_lookahead(options, settings, synthesizer)
    prompt = synthesizer.voice.reader.prompt(
        synthesizer.chunks(options.text)[0], reference or synthesizer.voice.reference(voice)
    )
    steps = step_costs(synthesizer.voice, prompt, settings.lookahead, settings.temperature)
    rows: dict[str, dict[str, object]] = {}
    print(f"{'method':8}{'tokens/s':>10}{'speed-up':>10}{'bound':>8}{'accepted':>10}{'length':>8}{'RTF':>8}{'audio s':>9}")
    for method in synthesizer.methods:
        takes = [synthesizer.take(options.text, settings.for_method(method), voice, reference) for _ in range(options.repeat)]
        take = sorted(takes, key=lambda t: t.wall_seconds)[len(takes) // 2]
        rows[method] = take.summary()
        speedup = take.tokens_per_second / float(str(rows["ar"]["tokens_per_second"]))
        length, steady = take.mean_acceptance_length, {len(r.drafted) for r in take.rounds} == {settings.lookahead}
        # Rounds that draft different numbers of tokens cost different amounts.
        bound = steps.bound(length, settings.lookahead) if steady else None
        rows[method] |= {"speedup": round(speedup, 3), "bound": None if bound is None else round(bound, 3)}
        accepted = "-" if take.acceptance_rate is None else f"{take.acceptance_rate:.1%}"
        best = "-" if bound is None else f"{bound:.2f}x"
        print(
            f"{method:8}{take.tokens_per_second:10.1f}{speedup:9.2f}x{best:>8}{accepted:>10}{length:8.2f}"
            f"{take.rtf:8.3f}{take.audio_seconds:9.2f}"
        )
        if options.out:
            stored = Stored.of(take, Origin.of(synthesizer.voice), reference)
            write_wav(options.out / f"{method}.wav", take.audio, take.sample_rate, stored.to_json())
    if options.json:
        print(json.dumps({"text": options.text, "seed": settings.seed, "takes": rows}))
