"""Speech codes that come a few at a time -> audio in chunks, as near to the one-shot decode as a little look-ahead allows."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pcg.audio import crossfade, fade_in, fade_out
from pcg.codec.codec import Anchor, Codec
from pcg.codec.embedded import BEHIND

PAST_TOKENS = BEHIND + 5
"""The codes that the pitch looks back on, and 5 more: with fewer, the pulses drift away from those of the one-shot decode."""
FUTURE_TOKENS = 14
"""The least that stays below -45 dB of error against the one-shot decode in the first second, too (worst of eight streams:
-46 dB; -38 with 9). After the first second 9 would do."""
OVERLAP_SECONDS = 0.010


class AudioStream:
    """One utterance of a codec that is not causal: every chunk is decoded between its `past` and its `future` codes.

    The first sound comes when `first_seconds` of codes and `future` more have been pushed, 10 + 11 = 21 codes (0.42 s of
    speech) with the defaults and the embedded codec; each later chunk when `chunk_seconds` more have. Playback never
    waits if the codes of `chunk_seconds` are made within `first_seconds`. A chunk decodes `past + future` codes beside its
    own, however long the utterance is. A codec may name its own: `past_tokens` and `future_tokens`.

    The chunks together are as long as the one-shot decode, and faded at the ends as `fade_ends` does it. Where two chunks
    meet, the older look-ahead goes over into the newer chunk by a cross-fade; it needs `future >= 1`.
    """

    def __init__(
        self,
        codec: Codec,
        context_codes: Tensor,
        first_seconds: float = 0.2,
        chunk_seconds: float = 0.5,
        past: int | None = None,
        future: int | None = None,
    ) -> None:
        """context_codes `[C]`, int64: what the one-shot decode has before the utterance, the end of the reference voice."""
        self._codec = codec
        self._past = getattr(codec, "past_tokens", PAST_TOKENS) if past is None else past
        self._future = getattr(codec, "future_tokens", FUTURE_TOKENS) if future is None else future
        tokens_a_second = codec.sample_rate / codec.hop
        self._wanted = max(1, round(first_seconds * tokens_a_second))
        self._chunk = max(1, round(chunk_seconds * tokens_a_second))
        self._overlap = int(OVERLAP_SECONDS * codec.sample_rate)
        self._window = context_codes
        self._spoken = len(context_codes)
        self._here = Anchor()
        self._tail: np.ndarray | None = None

    def push(self, tokens: Sequence[int]) -> np.ndarray:
        """Add speech codes; return the samples `[N]`, float32, that are final now: none while too few codes have come."""
        self._window = torch.cat([self._window, torch.tensor(tokens, dtype=torch.int64)])
        ready = len(self._window) - self._spoken - self._future
        if ready < self._wanted:
            return np.zeros(0, np.float32)
        self._wanted = self._chunk
        return self._speak(ready)

    def finish(self) -> np.ndarray:
        """Return the rest of the samples, `[N]`, float32; nothing may be pushed after it."""
        return fade_out(self._speak(len(self._window) - self._spoken), self._codec.sample_rate)

    def _speak(self, count: int) -> np.ndarray:
        """Return the samples of the window's next `count` codes; then the window moves on, so that they become its past."""
        hop, rate = self._codec.hop, self._codec.sample_rate
        rendered, phases = self._codec.render(self._window, self._here)
        wave = rendered.numpy()[self._spoken * hop :]
        wave = fade_in(wave, rate) if self._tail is None else crossfade(self._tail, wave)
        self._tail = wave[count * hop :][: self._overlap]
        spoken = self._spoken + count
        position = self._here.position - self._here.index + spoken
        self._spoken = min(spoken, self._past)
        self._window = self._window[spoken - self._spoken :]
        self._here = Anchor(self._spoken, position, float(phases[spoken]))
        return wave[: count * hop]
