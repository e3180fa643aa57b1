"""What "similar" may mean. Each similarity is a matrix of features, a row a code, whose cosine it is: one search serves all.

- cosine: the target's token embedding (PCG section 2.1). It is what the voice gives, so nothing here computes it.
- mel: the log-mel spectrogram of each code's sound (PCG Table 3).
- fsq: the digits of the codes, which owe nothing to the language model.
- both: embedding and mel: the lesser of those two cosines, see `near_in_both`.

Each has its own scale of theta; `theta_for` finds where on it the groups have a wanted size.
"""

import torch
from torch import Tensor

from pcg.codec.codec import Codec
from pcg.codec.embedded import log_mel
from pcg.codec.fsq import FSQ
from pcg.errors import InputError
from pcg.groups.pairs.neighbours import Neighbours
from pcg.groups.pairs.search import Progress

REPEATS = 5
MELS = 80
CODES_AT_ONCE = 64


def mel_features(codec: Codec, progress: Progress | None = None) -> Tensor:
    """How each code sounds, `[codes, frames * 80]` float32: a log-mel spectrogram in nats, less its mean over the codes.

    The context is the code itself, which favours none: it is decoded five times in a row, so that decoder and vocoder have
    settled in the middle, and the middle one is what counts, in Hann-windowed frames of about 10 ms, four frames wide. What all
    codes share (the vocoder's noise floor, the slope of speech) would make every cosine large, hence the mean. Codecs that have
    `decode_batch` (codes `[B, T]` -> samples `[B, T * hop]`) decode 64 codes at once. `progress` counts codes.
    """
    frames = max(1, round(100 * codec.hop / codec.sample_rate))
    frame = codec.hop // frames
    first = REPEATS // 2 * codec.hop // frame
    spectra = []
    for codes in torch.arange(codec.codebook_size).split(CODES_AT_ONCE):
        waves = _decode_each(codec, codes[:, None].expand(-1, REPEATS))
        mel = log_mel(waves, 4 * frame, frame, MELS, codec.sample_rate)
        spectra.append(mel[:, first : first + frames].flatten(1))
        if progress:
            progress(int(codes[-1]) + 1, codec.codebook_size)
    stacked = torch.cat(spectra)
    return stacked - stacked.mean(0)


def fsq_features(fsq: FSQ) -> Tensor:
    """The digits of each code as thermometers, `[codes, sum(levels - 1)]` of +1 and -1.

    Digit d of L levels has +1 in its first d of L - 1 places, so that the cosine of two codes is 1 - 2 L1 / max: one step of
    one digit costs the same everywhere, and opposite corners of the lattice lie at -1.
    """
    digits = fsq.digits(torch.arange(fsq.codebook_size))
    thermometers = [digits[:, [i]] > torch.arange(levels - 1) for i, levels in enumerate(fsq.levels)]
    return 2 * torch.cat(thermometers, dim=1).float() - 1


def theta_for(neighbours: Neighbours, mean_size: float) -> float:
    """The theta whose groups come closest to `mean_size` tokens in the mean (of |G(t)| over all tokens): exact, by counting.

    It lies amid the thetas that give the same groups. Raises InputError if the lists' floor is too high for that size.
    """
    values, counts = neighbours.levels
    largest = neighbours.mean_size_at(neighbours.floor)
    if not 1 <= mean_size <= largest:
        raise InputError("mean_size", mean_size, f"from 1 to {largest:g}, which the floor {neighbours.floor:g} leaves")
    edges = torch.tensor([1.0, *values, neighbours.floor], dtype=torch.float64)
    sizes = 1 + torch.tensor([0, *counts], dtype=torch.float64).cumsum(0) / neighbours.vocabulary
    best = int((sizes - mean_size).abs().argmin())
    return float((edges[best] + edges[best + 1]) / 2)


def _decode_each(codec: Codec, codes: Tensor) -> Tensor:
    """Codes `[B, T]` -> samples `[B, T * hop]`, every row an utterance of its own."""
    batch = getattr(codec, "decode_batch", None)
    return batch(codes) if batch else torch.stack([codec.decode(row) for row in codes])
