"""What the recogniser hears beside the voice's corpus: other voices, and the corpus's own after a trip through the codec.

Shards of the corpus's format in `SPLIT/KIND/`: `train/espeak`, `train/codec`, and two voices that training never hears,
`held_out_voices/espeak` (variants of its own) and `held_out_voices/kal` (flite's 8 kHz diphones).
"""

import random
import subprocess
import tempfile
from pathlib import Path

import librosa
import numpy as np
import soundfile
import torch

from pcg.audio import normalise_loudness, trim
from pcg.codec.embedded import EmbeddedCodec
from pcg.training.data.corpus import SAMPLE_RATE, read_index, read_shard, shards, write_shard
from pcg.training.data.espeak import HELD_OUT_VARIANTS, VARIANTS, make_espeak

HELD_OUT_VOICES = "held_out_voices"
ESPEAK_SENTENCES = 10_000
HELD_OUT_EACH = 100
CODEC_SHARE = 0.06


def make_voices(directory: Path, corpus: Path, seed: int, processes: int) -> None:
    """Let espeak-ng speak sentences of the corpus, and the held-out voices its held-out sentences."""
    make_espeak(directory / "train" / "espeak", _sample(corpus, "train", ESPEAK_SENTENCES, seed), VARIANTS, seed, processes)
    held_out = _sample(corpus, "held_out_sentences", HELD_OUT_EACH, seed)
    make_espeak(directory / HELD_OUT_VOICES / "espeak", held_out, HELD_OUT_VARIANTS, seed, processes)
    path = directory / HELD_OUT_VOICES / "kal" / "00000.npy"
    if not path.with_suffix(".json").exists():
        write_shard(path, [(text, speak_kal(text)) for text in held_out])


@torch.inference_mode()
def make_round_trips(directory: Path, corpus: Path, codec: EmbeddedCodec, seed: int, split: str = "train") -> None:
    """Send a share of every shard of `split` through `codec` and back: most of what the judge will hear has come out of it."""
    for shard in shards(corpus, split):
        path = directory / split / f"codec_{shard.parent.name}" / shard.name
        if path.with_suffix(".json").exists():
            continue
        rng = random.Random(f"{seed} {shard.parent.name} {shard.stem}")
        share = CODEC_SHARE if split == "train" else 0.25
        chosen = [(u.text, samples) for u, samples in read_shard(shard) if rng.random() < share]
        trips = [(text, codec.decode(codec.encode(torch.from_numpy(samples))).numpy()) for text, samples in chosen]
        write_shard(path, trips)


def _sample(corpus: Path, split: str, count: int, seed: int) -> list[str]:
    texts = [u.text for shard in shards(corpus, split) for u in read_index(shard)]
    return random.Random(seed).sample(texts, min(count, len(texts)))


def speak_kal(text: str) -> np.ndarray:
    """flite's voice of 8 kHz diphones: float32 `[N]` at 16 kHz."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["flite", "-voice", "kal", "-t", text, file.name], check=True, capture_output=True)
        samples, rate = soundfile.read(file.name, dtype="float32")
    at_16k = librosa.resample(samples, orig_sr=rate, target_sr=SAMPLE_RATE, res_type="polyphase")
    return normalise_loudness(trim(at_16k, SAMPLE_RATE))
