"""Checkpoints of transformers: read whole or refused, through transformers or without it, and computed alike."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_llasa import CODES, END, FIRST_CODE, new_model
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from pcg.errors import AssetError
from pcg.models.llama import DecodingLlama
from pcg.models.weights import INDEX, Checkpoint, Vocabulary, count_weights, load_llama, read_checkpoint
from pcg.places import PROJECT

VOCABULARY = Vocabulary(CODES, FIRST_CODE, END)
SMALL = Vocabulary(codes=60, first_code=20, end=3)
PLAIN = {"vocab_size": 80, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}


def plain_model(tied: bool, kv_heads: int = 2) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**PLAIN, num_key_value_heads=kv_heads, tie_word_embeddings=tied)).eval()


@pytest.mark.parametrize(("tied", "kv_heads"), [(True, 4), (False, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_read_without_transformers_is_what_it_loads(
    tied: bool, kv_heads: int, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_model(tied, kv_heads).half().save_pretrained(tmp_path)
    loaded = Checkpoint.of(load_llama(tmp_path, SMALL, dtype))
    monkeypatch.setattr("pcg.models.weights.load_llama", None)
    read = read_checkpoint(tmp_path, SMALL, dtype)
    assert (read.layers, read.heads, read.kv_heads, read.dim) == (loaded.layers, loaded.heads, loaded.kv_heads, loaded.dim)
    assert (read.epsilon, read.rope_scale) == (loaded.epsilon, loaded.rope_scale)
    assert torch.equal(read.inverse_frequency, loaded.inverse_frequency)
    assert torch.equal(read.head, loaded.head)
    assert {"lm_head.weight", *read.tensors} == set(loaded.tensors)
    assert all(tensor.dtype == dtype and torch.equal(tensor, loaded.tensors[name]) for name, tensor in read.tensors.items())


@pytest.mark.slow
def test_the_page_starts_without_transformers() -> None:
    """A visitor waits for nothing that a published voice does not need."""
    program = "import sys, app; app.load_voice(); assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PROJECT)


@pytest.mark.parametrize(("tied", "shard"), [(True, "1GB"), (False, "1GB"), (False, "10MB")])
def test_heads_shards_and_positions_are_as_transformers_has_them(tied: bool, shard: str, tmp_path: Path) -> None:
    new_model(tied, seed=1).save_pretrained(tmp_path, max_shard_size=shard)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (shard == "10MB")
    assert_same_logits(tmp_path, new_model(tied, seed=1))
    expected = sum(p.numel() for p in new_model(tied).parameters())
    assert count_weights(tmp_path) == expected


def test_a_config_that_lies_about_its_head_or_is_of_an_older_form_changes_nothing(tmp_path: Path) -> None:
    model = new_model(tied=False, seed=2)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    rope = config.pop("rope_parameters")
    older = {"tie_word_embeddings": True, "rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
    (tmp_path / "config.json").write_text(json.dumps(config | older))
    assert_same_logits(tmp_path, model)


def assert_same_logits(folder: Path, model: PreTrainedModel, vocabulary: Vocabulary = VOCABULARY) -> None:
    """The engine's logits over the codes and the end are those of `model`, also far into the context."""
    ids = torch.tensor([[256, 80, 265, *range(vocabulary.first_code, vocabulary.first_code + 320, 16)]])
    positions = torch.arange(ids.shape[1])[None] + 1900
    with torch.inference_mode():
        expected = model(ids, position_ids=positions).logits[0][:, vocabulary.model_ids()]
    for load in (load_llama, read_checkpoint):
        engine = DecodingLlama(load(folder, vocabulary), vocabulary)
        found = engine.forward(ids, engine.rotary(positions), engine.cache(1, ids.shape[1]))[0]
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-3)
    assert expected.std() > 0.1


def change_config(**values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | values))

    return change


def cut(folder: Path) -> None:
    weights = min(folder.glob("model*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1000])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: max(folder.glob("model-*.safetensors")).unlink(), "one of [2-9] parts is missing"),
        (cut, "is damaged or cut short .*; download it again"),
        (lambda folder: (folder / INDEX).write_text('{"weight_map": {"a": "../x"}}'), "The list of weights .* is damaged"),
        (change_config(model_type="mistral"), "The config .* is missing or damaged"),
        (change_config(intermediate_size=100), "The language model in .* (lacks weights|is missing or damaged)"),
        (change_config(num_hidden_layers=4), "The language model in .* lacks weights"),
    ],
)
def test_damaged_weights_are_one_sentence(damage: Callable[[Path], None], sentence: str, tmp_path: Path) -> None:
    new_model(tied=False).save_pretrained(tmp_path, max_shard_size="10MB")
    damage(tmp_path)
    with pytest.raises(AssetError, match=sentence) as told:
        load_llama(tmp_path, VOCABULARY)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (cut, "is damaged"),
        (lambda folder: (folder / "model.safetensors").unlink(), "is missing"),
        (change_config(num_hidden_layers=4), r"lacks weights: \['model.layers.3"),
        (change_config(intermediate_size=47), r"lacks weights: \['model.layers.0.mlp"),
        (change_config(num_attention_heads=0), "lacks weights"),
        (change_config(rms_norm_eps=None), "is damaged"),
        (change_config(vocab_size=79), r"lacks weights: \['model.embed_tokens"),
        (change_config(model_type="mistral"), "is missing or damaged"),
    ],
)
def test_damage_is_one_sentence_without_transformers_too(
    damage: Callable[[Path], None], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_model(tied=True).save_pretrained(tmp_path)
    monkeypatch.setattr("pcg.models.weights.load_llama", None)
    damage(tmp_path)
    with pytest.raises(AssetError, match=sentence) as told:
        read_checkpoint(tmp_path, SMALL)
    assert "\n" not in str(told.value)


def test_a_model_of_too_few_ids_is_refused(llasa_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=f"has {FIRST_CODE + CODES} ids, too few for this voice"):
        load_llama(llasa_folder, Vocabulary(CODES, FIRST_CODE + 1, END))
    plain_model(tied=True).save_pretrained(tmp_path)
    with pytest.raises(AssetError, match="has 80 ids, too few for this voice"):
        read_checkpoint(tmp_path, Vocabulary(codes=61, first_code=20, end=3))
