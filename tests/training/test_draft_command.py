"""`pcg train draft`: for the tiny voice, for a LLaSA, and with bad options."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from pcg.cli import main
from pcg.files import write_checksums
from pcg.models.feature_draft import FeatureDraft
from pcg.synthesis.voice import load_voice
from pcg.training.samples import MANIFEST
from pcg.training.shards import Utterance, write_shard


@pytest.fixture
def tokens(tmp_path, tiny_voice_folder):
    """Random codes of the tiny voice's codec, as stage tokens writes them."""
    folder, rng = tmp_path / "tokens", np.random.default_rng(0)
    texts = ("hello", "yes", "the quick brown fox", "is this one sentence?")
    spoken = [Utterance("a", texts[i % 4], rng.integers(0, 64, 15 + i % 20, np.uint16)) for i in range(40)]
    write_shard(folder / "00000.npy", spoken)
    (folder / MANIFEST).write_text(json.dumps({"codes": 64, "shards": 1}))
    return folder


@pytest.fixture
def command(tokens, tmp_path, tiny_voice_folder):
    """The words of `pcg train draft` for the tiny voice, two steps of it."""
    asked = ["--target", str(tiny_voice_folder), "--tokens", str(tokens), "--out", str(tmp_path / "draft")]
    return ["train", "draft", *asked, "--steps", "2", *recipe(tmp_path)]


def recipe(folder, **choices):
    """The option --recipe for a small run."""
    path = folder / "draft.yaml"
    path.write_text(json.dumps({"samples": 30, "budget": 300} | choices))
    return ["--recipe", str(path)]


def test_the_command_trains_a_draft_that_the_voice_speaks_with(command, tokens, tmp_path, tiny_voice_folder, capsys):
    """In place of the published one, too, whose folder is then listed anew."""
    folder = shutil.copytree(tiny_voice_folder, tmp_path / "voice")
    write_checksums(folder)
    command[command.index("--out") + 1] = str(folder / "draft")
    assert main([*command, "--plan", "0,2"]) == 0
    assert "accepted of what it drafts: sd 0." in capsys.readouterr().out
    facts = json.loads((folder / "draft" / "draft.json").read_text())
    assert facts["recipe"]["plan"] == "0,2"
    assert set(facts["acceptance"]) == {"sd", "pcg"}
    voice = load_voice(str(folder))
    assert voice.draft.weights.layers == 2
    assert voice.notice == ""
    draft = AutoModelForCausalLM.from_pretrained(folder / "draft")  # as vLLM takes a draft model
    target = AutoModelForCausalLM.from_pretrained(folder / "target")
    assert draft.config.architectures == ["LlamaForCausalLM"]
    assert draft.config.vocab_size == target.config.vocab_size == draft.lm_head.weight.shape[0]
    assert torch.isfinite(draft(torch.tensor([[1, 2, 3]])).logits).all()
    assert main([*command, "--plan", "0,2", "--steps", "3"]) == 0
    log = (folder / "draft" / "training" / "draft.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in log] == [2, 3]
    manifest = tokens / MANIFEST
    assert main([*command, "--plan", "0,1"]) == 2
    manifest.write_text(json.dumps({"codes": 64, "shards": 1, "codec": "another"}))
    assert main([*command, "--plan", "0,2"]) == 2
    assert capsys.readouterr().err.count("begun with the same options") == 2


def test_the_command_trains_a_feature_draft(command, tmp_path, tiny_voice_folder):
    recipe(tmp_path, rank=8)
    assert main([*command, "--plan", "feature"]) == 0
    voice = load_voice(str(tiny_voice_folder), draft=str(tmp_path / "draft"))
    assert isinstance(voice.draft, FeatureDraft)
    assert voice.draft.shape.rank == 8


@pytest.fixture
def llasa_tokens(tmp_path):
    rng = np.random.default_rng(0)
    spoken = [Utterance("ab"[i % 2], "hello there", 16 * rng.integers(0, 4096, 20, np.uint16)) for i in range(24)]
    write_shard(tmp_path / "tokens" / "00000.npy", spoken)
    (tmp_path / "tokens" / MANIFEST).write_text(json.dumps({"codes": 65_536, "recordings": 24}))
    return tmp_path / "tokens"


@pytest.mark.parametrize(("manifest", "said"), [({"codes": 65_536}, "of 64 codes"), ({"shards": 2}, "lacks 1 of 2 shards")])
def test_tokens_that_do_not_fit_or_are_not_whole_are_refused(command, tokens, capsys, manifest, said):
    (tokens / MANIFEST).write_text(json.dumps({"codes": 64, "shards": 1} | manifest))
    assert main(command) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_llasa_gets_a_draft_by_the_same_command(llasa_folder, llasa_tokens, tmp_path):
    asked = ["--target", str(llasa_folder), "--tokens", str(llasa_tokens), "--out", str(tmp_path / "draft"), "--plan", "0,2"]
    assert main(["train", "draft", *asked, "--steps", "1", *recipe(tmp_path, budget=200)]) == 0
    assert load_voice(str(llasa_folder), draft=str(tmp_path / "draft")).draft.weights.layers == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--plan", "best"], "plan is 'best'"),
        (["--steps", "0"], "steps is 0"),
        (["--longest", "10"], "tokens is '0 utterances"),
        (["--target", "nowhere"], "target is 'nowhere'"),
        (["--tokens", "nowhere"], "tokens is 'nowhere'"),
        (["--device", "tpu"], "device is 'tpu'"),
        ({"lr": 2}, "lr is 2"),
        ({"temperature": 9}, "temperature is 9"),
        ({"depth": 9}, "key of the recipe is 'depth'"),
    ],
)
def test_bad_options_and_choices_of_a_recipe_are_one_sentence(command, tmp_path, capsys, more, said):
    recipe(tmp_path, **(more if isinstance(more, dict) else {}))
    assert main([*command, *more] if isinstance(more, list) else command) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pcg: {said}")
    assert error.count("\n") == 1
