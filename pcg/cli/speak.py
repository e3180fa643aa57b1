"""pcg speak: a text, said with one decoder, into a file or as a stream."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pcg.cli.common import add_settings, find_speaker, load_synthesizer, read_settings, settle_lookahead

if TYPE_CHECKING:
    from pcg.cli.common import Commands
    from pcg.take import Round, Sound, Take


def add(commands: "Commands") -> None:
    parser = commands.add_parser("speak", help="say a text with one decoder")
    parser.add_argument("text")
    parser.add_argument("--method", help="ar, sd, ssd or pcg (the default)")
    parser.add_argument("--out", type=Path, default=Path("speech.wav"), metavar="FILE.wav", help="- streams raw 16-bit PCM")
    add_settings(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    from pcg.audio import write_wav
    from pcg.saved_take import Origin, Stored
    from pcg.take import accepted_in_words
    from pcg.text.reading import check_text

    settings = read_settings(options)
    check_text(options.text)
    synthesizer = load_synthesizer(options)
    voice, reference = find_speaker(options, synthesizer)
    synthesizer.warm_up()  # the kernel is compiled or loaded on first use, which is no take's cost
    settings = settle_lookahead(options, settings, synthesizer)
    if str(options.out) == "-":
        take = _pour(synthesizer.speak(options.text, settings, voice, reference, stream=True))
    else:
        take = synthesizer.take(options.text, settings, voice, reference)
        stored = Stored.of(take, Origin.of(synthesizer.voice), reference)
        write_wav(options.out, take.audio, take.sample_rate, stored.to_json())
    # Where the sound itself goes to standard output, the words about it must not.
    said = sys.stderr if str(options.out) == "-" else sys.stdout
    summary = take.summary() | {"out": str(options.out)}
    accepted = accepted_in_words(take.acceptance_rate, take.acceptance_of_tested, take.acceptance_by_position)
    times = f"{take.audio_seconds:.2f} s of audio in {take.wall_seconds:.2f} s"
    print(f"{options.out}: {times}, {take.tokens_per_second:.0f} tokens/s" + (f"; {accepted}" if accepted else ""), file=said)
    if options.json:
        print(json.dumps(summary), file=said)


def _pour(steps: "Iterator[Round | Sound | Take]") -> "Take":
    """Write sound to standard output as it comes, as 16-bit PCM without a header; return the take."""
    from pcg.take import Sound, Take

    for step in steps:
        if isinstance(step, Sound):
            sys.stdout.buffer.write((step.samples * 32767).astype("<i2").tobytes())
            sys.stdout.buffer.flush()
    assert isinstance(step, Take)
    return step
