"""Which sound is spoken when: as flite tells it, and as the encoder learns it."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from pcg.asr.network.conformer import ConformerCTC, EncoderConfig
from pcg.errors import PCGError
from pcg.training.data.alignments import HOP, PHONES, align, align_shards, read_phones
from pcg.training.data.augment import Disturbances
from pcg.training.data.corpus import SAMPLE_RATE, CorpusEntry, speak
from pcg.training.data.phones import TimedBatches, train_recogniser_phones
from pcg.training.data.sequences import IGNORED

TINY = EncoderConfig(layers=2, width=16, heads=2, feed_forward=32, kernel=5)
needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite tells the times")


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """Eight utterances of tones: the pitch is the segment."""
    rng, index, chunks, start = np.random.default_rng(0), [], [], 0
    labels = []
    for _ in range(8):
        segments = rng.integers(1, 5, 12).repeat(3)
        time = np.arange(len(segments) * HOP - 50) / SAMPLE_RATE
        pitch = 300.0 * segments.repeat(HOP)[: len(time)]
        chunks.append((6000 * np.sin(2 * np.pi * pitch * time)).astype(np.int16))
        index.append(asdict(CorpusEntry("la la", start, len(time))))
        labels.append(segments.astype(np.uint8))
        start += len(time)
    path = tmp_path / "train" / "tone" / "00000.npy"
    path.parent.mkdir(parents=True)
    np.save(path, np.concatenate(chunks))
    path.with_suffix(".json").write_text(json.dumps(index))
    (tmp_path / "phones" / "tone").mkdir(parents=True)
    np.save(tmp_path / "phones" / "tone" / "00000.npy", np.concatenate(labels))
    return path


@needs_flite
def test_flite_tells_when_each_sound_is_spoken():
    samples = speak("kal16", "see the zoo.")
    named = [PHONES[i] for i in align("kal16", CorpusEntry("see the zoo.", 0, len(samples)))]
    assert len(named) == -(-len(samples) // HOP)
    order = [name for i, name in enumerate(named) if i == 0 or name != named[i - 1]]
    assert order == ["pau", "s", "iy", "dh", "ax", "z", "uw", "pau"]
    # The louder half of the sound lies within the vowels.
    level = np.array([np.square(samples[i * HOP : (i + 1) * HOP]).mean() for i in range(len(named))])
    loud = [named[i] for i in level.argsort()[-len(named) // 4 :]]
    assert sum(name in {"iy", "ax", "uw"} for name in loud) > 0.7 * len(loud)


@needs_flite
def test_speech_that_flite_would_say_otherwise_is_refused():
    with pytest.raises(PCGError, match="another time"):
        align("kal16", CorpusEntry("see the zoo.", 0, 16_000))


@needs_flite
def test_shards_are_timed_once(tmp_path):
    texts = ["see the zoo.", "good morning."]
    spoken = [speak("kal16", text) for text in texts]
    shard = tmp_path / "corpus" / "kal16" / "00000.npy"
    shard.parent.mkdir(parents=True)
    starts = np.cumsum([0, *(len(s) for s in spoken)])
    index = [asdict(CorpusEntry(t, int(b), len(s))) for t, b, s in zip(texts, starts, spoken, strict=False)]
    shard.with_suffix(".json").write_text(json.dumps(index))
    align_shards([shard], tmp_path / "phones", 1)
    file = tmp_path / "phones" / "kal16" / "00000.npy"
    stamp = file.stat().st_mtime_ns
    align_shards([shard], tmp_path / "phones", 1)
    assert file.stat().st_mtime_ns == stamp
    assert [len(p) for p in read_phones(shard, tmp_path / "phones")] == [-(-len(s) // HOP) for s in spoken]


def test_batches_hold_every_utterance_once_an_epoch_beside_its_segments(shard, tmp_path):
    still = Disturbances(channel=0, room=0, noise=0, babble=0, few_bits=0)
    batches = TimedBatches([shard], tmp_path / "phones", 3.0, 0, still)
    seen = 0
    for index in range(batches.per_epoch):
        samples, lengths, labels = batches.batch(index)
        assert samples.shape[1] == lengths.max()
        assert labels.shape[1] == -(-int(lengths.max()) // HOP)
        for row, length in zip(labels, lengths.tolist(), strict=True):
            assert ((row == IGNORED) == (torch.arange(len(row)) >= -(-length // HOP))).all()
        seen += len(lengths)
    assert seen == 8
    again = TimedBatches([shard], tmp_path / "phones", 3.0, 0, still)
    assert all(torch.equal(a, b) for a, b in zip(batches.batch(1), again.batch(1), strict=True))


@pytest.mark.slow
def test_the_encoder_learns_segments_and_goes_on_where_it_stopped(shard, tmp_path):
    torch.manual_seed(0)
    train_recogniser_phones(tmp_path, ConformerCTC(TINY), [shard], tmp_path / "phones", 30, 0, "cpu", seconds=8.0)
    train_recogniser_phones(tmp_path, ConformerCTC(TINY), [shard], tmp_path / "phones", 60, 0, "cpu", seconds=8.0)
    rows = [json.loads(line) for line in (tmp_path / "recogniser_phones.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [30, 50, 60]
    assert rows[-1]["loss"] < 0.7 * rows[0]["loss"]
    assert rows[-1]["right"] > rows[0]["right"]
