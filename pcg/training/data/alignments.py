"""When each sound of the corpus is spoken: flite times the segments that it joins, so nothing has to be aligned.

Frame-wise targets teach an encoder in minutes what CTC, which hears of a sentence only its letters, needs hours for. A shard of
the corpus gets `VOICE/00000.npy` in another folder: the segment's number at every 20 ms of every utterance, back to back.
"""

import multiprocessing
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from pcg.errors import PCGError
from pcg.files import replacing
from pcg.groups.phones import PHONES
from pcg.training.data.corpus import SAMPLE_RATE, CorpusEntry, between_silences, read_index

HOP = SAMPLE_RATE // 50


def align_shards(shards: Sequence[Path], directory: Path, processes: int) -> None:
    """Time the utterances of `shards`; files that exist are kept. Needs the voices' flite, as the corpus did."""
    missing = [(s, p) for s in shards if not (p := directory / s.parent.name / s.name).exists()]
    with multiprocessing.Pool(processes) as workers:
        for done, path in enumerate(workers.imap(_align_shard, missing), start=1):
            print(f"alignments {done}/{len(missing)} {path.parent.name}/{path.stem}", flush=True)


def read_phones(shard: Path, directory: Path) -> list[np.ndarray]:
    """The segments of each utterance of `shard`, `[ceil(length / HOP)]` uint8 each."""
    flat = np.load(directory / shard.parent.name / shard.name, allow_pickle=False)
    counts = [-(-u.length // HOP) for u in read_index(shard)]
    return np.split(flat, np.cumsum(counts)[:-1])


def align(voice: str, utterance: CorpusEntry) -> np.ndarray:
    """Let `voice` say the text again and number its segment at the middle of every HOP samples."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        command = ["flite", "-voice", voice, "-psdur", "-t", utterance.text, file.name]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        samples, _ = soundfile.read(file.name, dtype="float32")
    spoken, offset = between_silences(samples)
    if len(spoken) != utterance.length:
        raise PCGError(f"flite says {utterance.text!r} with {voice} in another time than in the corpus.")
    names, ends = zip(*(part.rsplit(":", 1) for part in told), strict=True)
    middles = (offset + HOP * (np.arange(-(-utterance.length // HOP)) + 0.5)) / SAMPLE_RATE
    place = np.searchsorted(np.array(ends, float), middles).clip(max=len(names) - 1)
    return np.array([PHONES.index(name) for name in names], np.uint8)[place]


def _align_shard(job: tuple[Path, Path]) -> Path:
    shard, path = job
    labels = [align(shard.parent.name, utterance) for utterance in read_index(shard)]
    with replacing(path) as temporary:
        np.save(temporary, np.concatenate(labels), allow_pickle=False)
    return path
