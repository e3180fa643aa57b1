"""The trace of a take: how each token came, and what the target makes of it.

The target's probabilities at a test depend only on the text before it, which is part of the finished take. So one pass of the
target over the take gives the entropy at every test, and nothing is stored while decoding.
"""

import numpy as np

from pcg.analysis.whatif import pieces_of, target_trail
from pcg.decode.model_runner import ModelRunner
from pcg.errors import InputError
from pcg.groups.phones import class_letters
from pcg.rules import capped_ratio
from pcg.sampling import sampler_of
from pcg.synthesis.synthesizer import Synthesizer
from pcg.takes.take import Round, Take
from pcg.takes.trace import ACCEPTED, RELAXED, RESAMPLED, STEPS, Trace, digits
from pcg.text.prompt import Reference

LETTERS = {"resampled": RESAMPLED, "bonus": "b", "target": "t"}


def trace(synthesizer: Synthesizer, take: Take, reference: Reference | None = None) -> Trace:
    """The trace of `take`, by one reading with the target. Raises InputError for a long text of which a piece was cut."""
    entropy, surprisal = zip(*_read(synthesizer, take, reference), strict=True)
    marks = [mark for round_ in take.rounds for mark in _marks(round_)]
    sizes = [np.log2(size) for _, size in marks]
    places = [1.0 + place for round_ in take.rounds for place in range(len(round_.tokens))]
    numbers = {"sizes": sizes, "places": places, "entropy": np.concatenate(entropy), "surprisal": np.concatenate(surprisal)}
    written = {name: digits(values, STEPS[name]) for name, values in numbers.items()}
    return Trace("".join(kind for kind, _ in marks), **written, phones=class_letters(synthesizer.voice.phones, take.tokens))


def _read(synthesizer: Synthesizer, take: Take, reference: Reference | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Entropy and surprisal of the tokens of each piece of the text."""
    voice, texts, pieces = synthesizer.voice, synthesizer.chunks(take.text), pieces_of(take)
    if len(pieces) != len(texts):
        raise InputError("take", "cut at the length limit", "one in which every piece of the text came to its end")
    speaker, found = reference or voice.reference(take.voice), [(np.zeros(0), np.zeros(0))]
    for text, (tokens, _) in zip(texts, pieces, strict=True):
        target = ModelRunner(voice.target, [voice.reader.prompt(text, speaker)], len(tokens) + 1)
        target.prefill()
        q = target_trail(target, tokens, sampler_of(take.settings)).probs[: len(tokens)].double().numpy()
        logs = np.log(np.maximum(q, 1e-30))
        found.append((-(q * logs).sum(1), -logs[np.arange(len(tokens)), tokens]))
    return found


def _marks(round_: Round) -> list[tuple[str, int]]:
    """Kind and group size of each token of a round."""
    marks = []
    for place, (kind, size) in enumerate(zip(round_.kinds, round_.group_sizes, strict=True)):
        test = round_.tests[place] if place < len(round_.tests) else None
        if kind == "accepted":
            strict = test is None or test.coin < capped_ratio(test.q, test.p)
            marks.append((ACCEPTED if strict else RELAXED, size))
        else:
            marks.append((LETTERS[kind], test.group_size if test else size))
    return marks
