"""The whole recipe on a corpus of a few seconds: every stage runs, resumes, and ends in a voice that loads and speaks."""

import json
import shutil
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from pcg.codec.embedded import CodecConfig
from pcg.errors import InputError, PCGError
from pcg.files import LIST
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice
from pcg.training.corpus import Speaker
from pcg.training.models import Shape
from pcg.training.samples import read_manifest
from pcg.training.shards import spoken_utterance, write_shard
from pcg.training.voice import VoiceRecipe, train

TINY = VoiceRecipe(
    speakers={"heart": Speaker("hibari", 1.0, 0.01)},
    symbol_uses=1,
    codec=CodecConfig(
        levels=(4, 4), encoder_width=8, encoder_depth=1, decoder_width=8, decoder_depth=1, wave_width=8, wave_depth=1
    ),
    codec_token_steps=2,
    codec_sound_steps=3,
    codec_critic_steps=2,
    target=Shape(4, 16, 2, 24),
    target_steps=2,
    draft_rank=4,
    draft_steps=2,
    samples=8,
)


def changed(**choices):
    return TINY.model_copy(update=choices)


TEXTS = ["the old boat moved slowly along the river.", "good morning, and thank you.", "where is the red horse?"]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A corpus of tones, and batches of few samples."""
    monkeypatch.setattr("pcg.training.codec.CROPS", defaultdict(lambda: (2, 6400)))
    monkeypatch.setattr("pcg.training.codec.HEAD_START", 1)
    tones = [0.1 * np.sin(np.arange(16_000 + 800 * (i % 5)) * (0.05 + 0.01 * i)) for i in range(24)]
    for split in ("train", "held_out_sentences", "held_out_words"):
        spoken = [spoken_utterance("heart", TEXTS[i % 3], tone) for i, tone in enumerate(tones)]
        write_shard(tmp_path / "corpus" / split / "heart" / "00000.npy", spoken)
    return tmp_path


def test_the_recipe_ends_in_a_voice_that_speaks(work, tmp_path):
    out = tmp_path / "voice"
    for stage in ("codec", "target", "draft"):
        train(stage, work, None, out, "cpu", 0, 1, TINY)
    longer = changed(codec_sound_steps=6, target_steps=3, draft_steps=3)
    for stage in ("codec", "target", "draft", "publish"):
        train(stage, work, None, out, "cpu", 0, 1, longer)
    steps = {p.stem: [json.loads(line)["step"] for line in p.read_text().splitlines()] for p in work.glob("*.jsonl")}
    assert steps == {"codec_tokens": [2], "codec_sound": [3, 6], "codec_critics": [2], "target": [2, 3], "draft": [2, 3]}
    assert read_manifest(work / "tokens" / "train") == {"shards": 1, "codes": 16}
    heard = json.loads((work / "target.jsonl").read_text().splitlines()[-1])
    assert heard["held_out_sentences_loss"] > 0
    assert 0 <= heard["held_out_words_overlap_1"] <= 1
    before = {p.name: p.stat().st_mtime_ns for p in work.glob("*.jsonl")}
    train("target", work, None, out, "cpu", 0, 1, longer)
    assert {p.name: p.stat().st_mtime_ns for p in work.glob("*.jsonl")} == before
    listed = {line.split("  ")[1] for line in (out / LIST).read_text().splitlines()}
    assert listed == {file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file()} - {LIST}
    take = Synthesizer(load_voice(str(out)), tmp_path / "cache").take("good morning.", Settings(), "heart")
    assert np.isfinite(take.audio).all()
    card = (out / "MODEL_CARD.md").read_text()
    assert "24 utterances, 0.0 hours" in card
    assert "| draft | 3 |" in card

    _goes_on_from_a_published_voice(work, tmp_path / "unpacked", out, longer)


def test_by_the_clock_each_stage_takes_its_share(work, tmp_path):
    train("codec", work, None, tmp_path / "voice", "cpu", 0, 1, changed(minutes=0.05))
    ends = {log.stem: json.loads(log.read_text().splitlines()[-1])["seconds"] for log in work.glob("codec_*.jsonl")}
    assert 0.3 <= ends["codec_tokens"] < 1.2
    assert min(ends["codec_sound"], ends["codec_critics"]) >= 0.6


def _goes_on_from_a_published_voice(work, unpacked, published, recipe):
    """The encoder and the language models stay; only what is trained further changes."""
    shutil.copytree(work / "corpus", unpacked / "corpus")
    train("unpack", unpacked, None, published, "cpu", 0, 1, recipe)
    again, further = unpacked / "voice", recipe.model_copy(update={"codec_sound_steps": recipe.codec_sound_steps + 3})
    for stage in ("codec", "target", "draft", "publish"):
        train(stage, unpacked, None, again, "cpu", 0, 1, further)
    before, after = load_voice(str(published)), load_voice(str(again))
    wave = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, 6400).astype(np.float32))
    codes = before.codec.encode(wave)
    assert torch.equal(codes, after.codec.encode(wave))
    assert not torch.equal(before.codec.decode(codes), after.codec.decode(codes))
    moved = (before.target.embedding - after.target.embedding).abs().mean()
    assert 0 < moved < 0.1 * before.target.embedding.abs().mean()
    with pytest.raises(InputError, match="work"):
        train("unpack", unpacked, None, published, "cpu", 0, 1, recipe)
    other = recipe.model_copy(update={"codec": replace(TINY.codec, levels=(2, 8))})
    with pytest.raises(InputError, match="codec is"):
        train("unpack", unpacked / "other", None, published, "cpu", 0, 1, other)


def test_a_stage_says_what_it_lacks(work, tmp_path):
    for stage, device, lacks in (("target", "cpu", "codec is not trained yet"), ("corpus", "tpu", "device is 'tpu'")):
        with pytest.raises(PCGError, match=lacks):
            train(stage, work, None, tmp_path / "voice", device, 0, 1, TINY)


def test_a_work_folder_stays_with_its_recipe(work, tmp_path):
    train("codec", work, None, tmp_path / "voice", "cpu", 0, 1, TINY)
    for seed, recipe in ((1, TINY), (0, changed(codec=replace(TINY.codec, levels=(2, 8))))):
        with pytest.raises(InputError, match=r"recipe\.json tells of the same recipe and seed"):
            train("target", work, None, tmp_path / "voice", "cpu", seed, 1, recipe)
    other_pace = changed(target_steps=1, target_decay_share=0.9)
    train("target", work, None, tmp_path / "voice", "cpu", 0, 1, other_pace)
    index = work / "tokens" / "held_out_words" / "00000-heart.json"
    few = json.loads(index.read_text())[:1]
    index.write_text(json.dumps(few))
    codes = np.load(index.with_suffix(".npy"))
    np.save(index.with_suffix(".npy"), codes[: few[0]["length"]])
    with pytest.raises(InputError, match="split held_out_words"):
        train("target", work, None, tmp_path / "voice", "cpu", 0, 1, other_pace)
