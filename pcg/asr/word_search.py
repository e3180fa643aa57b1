"""Transcripts in words of a list: slower than self-speculative decoding, and with fewer errors.

1. The CTC head's characters are searched for texts of listed words; what the language model writes by itself, and the best
   path, are candidates too.
2. The language model reads each candidate behind the sound, all on one cache.
3. The best sum of CTC, language model and bigrams is the text.
"""

import itertools
import time
from collections.abc import Sequence
from math import isfinite

import torch
from torch import Tensor
from torch.nn import functional as F

from pcg.asr.candidates import Candidate, CandidateWeights, ranked
from pcg.asr.lexicon import Lexicon
from pcg.asr.network.alphabet import BLANK, spell
from pcg.asr.recogniser import Heard, Reading, Recogniser, ScoringRecogniser
from pcg.asr.self_speculative import (
    BATCH_SECONDS,
    Thresholds,
    Times,
    Transcript,
    batches,
    frame_entropies,
    share,
    transcribe,
)

SEARCHED = 8
Way = Thresholds | Lexicon


def write_down(recogniser: Recogniser, samples: Sequence[Tensor], way: Way) -> list[Transcript]:
    """Self-speculatively by thresholds, or in the words of a lexicon, which only a ScoringRecogniser can."""
    if isinstance(way, Lexicon):
        return transcribe_in_words(recogniser, samples, way)
    return transcribe(recogniser, samples, way)


@torch.inference_mode()
def transcribe_in_words(
    recogniser: ScoringRecogniser,
    samples: Sequence[Tensor],
    lexicon: Lexicon,
    weights: CandidateWeights | None = None,
    batch_seconds: float = BATCH_SECONDS,
) -> list[Transcript]:
    """Transcribe utterances `[N]`, float32 at the recogniser's rate, none of them empty, in the order given."""
    weights = weights or CandidateWeights()
    done: dict[int, Transcript] = {}
    for group in batches(range(len(samples)), lambda i: len(samples[i]), batch_seconds * recogniser.sample_rate):
        found = _transcribe_batch(recogniser, [samples[i] for i in group], lexicon, weights)
        done |= dict(zip(group, found, strict=True))
    return [done[i] for i in range(len(samples))]


def ctc_log_probabilities(log_probs: Tensor, texts: Sequence[str]) -> Tensor:
    """log p(y|x) `[H]` of each text over all its alignments, for `log_probs [T, C]` (arXiv:2603.11243, Eq. 1)."""
    spelled = [torch.tensor(spell(text), dtype=torch.int64) for text in texts]
    lengths = torch.tensor([len(labels) for labels in spelled])
    frames = torch.full((len(texts),), len(log_probs))
    expanded = log_probs.float().cpu()[:, None].expand(-1, len(texts), -1)
    return -F.ctc_loss(expanded, torch.cat(spelled), frames, lengths, BLANK, reduction="none")


def _transcribe_batch(
    recogniser: ScoringRecogniser, samples: Sequence[Tensor], lexicon: Lexicon, weights: CandidateWeights
) -> list[Transcript]:
    clock = [time.perf_counter()]
    heard = recogniser.hear(samples)
    clock.append(time.perf_counter())
    nothing = [()] * len(heard)
    readings = recogniser.read(heard, nothing)
    clock.append(time.perf_counter())
    written = [recogniser.text(tokens) for tokens in recogniser.go_on(heard, readings, nothing)]
    clock.append(time.perf_counter())
    found = [
        ranked(_candidates(recogniser, h, reading, own, lexicon), weights)
        for h, reading, own in zip(heard, readings, written, strict=True)
    ]
    clock.append(time.perf_counter())
    encode, read, go_on, search = (share(begun, ended, len(heard)) for begun, ended in itertools.pairwise(clock))
    times = Times(encode=encode, verify=read, go_on=go_on, search=search)
    return [
        Transcript(best[0].text, "words", h.draft, frame_entropies(h.log_probs).cpu(), candidates=tuple(best), times=times)
        for h, best in zip(heard, found, strict=True)
    ]


def _candidates(
    recogniser: ScoringRecogniser, heard: Heard, reading: Reading, written: str, lexicon: Lexicon
) -> list[Candidate]:
    proposed = [*lexicon.search(heard.log_probs)[:SEARCHED], " ".join(written.split()), heard.draft]
    texts = list(dict.fromkeys(proposed))
    ctc = ctc_log_probabilities(heard.log_probs, texts).tolist()
    # What the language model wrote may have more characters than the sound has frames; the draft never has.
    possible = [(text, sound) for text, sound in zip(texts, ctc, strict=True) if isfinite(sound)]
    lm = recogniser.score(reading, [recogniser.tokens(text) for text, _ in possible]).tolist()
    return [
        Candidate(text, sound, read, lexicon.log_probability(text)) for (text, sound), read in zip(possible, lm, strict=True)
    ]
