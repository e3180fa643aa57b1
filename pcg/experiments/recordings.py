"""What the voice that a model learned from says: recordings, or a synthesizer; beside takes, but made by no model."""

from pathlib import Path

import numpy as np
import torch

from pcg.audio import load_audio
from pcg.codec.codec import Codec
from pcg.experiments.unit import Unit
from pcg.take import Round, Take

LONGEST_SECONDS = 60.0


def read_recording(path: str, rate: int) -> np.ndarray:
    """Samples `[N]` of a recording at `rate`."""
    return load_audio(Path(path), rate, LONGEST_SECONDS)


def recorded_take(unit: Unit, codec: Codec) -> Take:
    """The recording of the unit's text, as it is or, for the model "codec", through the codec; a take that took no time."""
    said, tokens = unit.utterance, ()
    if said.recording:
        audio = read_recording(said.recording, codec.sample_rate)
    else:
        from pcg.training.corpus import recorded  # of training the only part that measuring needs

        audio = recorded(said.voice, said.text, codec.sample_rate)
    if unit.condition.model == "codec":
        codes = codec.encode(torch.from_numpy(audio))
        audio, tokens = codec.decode(codes).numpy(), tuple(codes.tolist())
    rounds = (Round(tokens, ("target",) * len(tokens), (1,) * len(tokens), ended=True),) if tokens else ()
    return Take(said.text, said.voice, unit.settings, rounds, audio, codec.sample_rate, False, 0.0, 0.0, 0.0)
