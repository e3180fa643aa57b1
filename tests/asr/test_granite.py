"""Granite Speech in the hub's format: the same three steps, held to transformers' own passes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from pcg.asr.granite import GraniteRecogniser, load_granite, read_characters
from pcg.asr.self_speculative import PRESETS, Thresholds, transcribe
from pcg.errors import InputError
from tests.asr import checkpoints

Babble = Callable[[int, int], list[Tensor]]


@pytest.fixture(scope="module")
def granite(tmp_path_factory: pytest.TempPathFactory) -> GraniteRecogniser:
    return load_granite(str(checkpoints.granite(tmp_path_factory.mktemp("granite"))))


def test_characters_are_latin_and_katakana_around_blank() -> None:
    assert read_characters([0, 104, 104, 0, 105, 32, 32, 0, 32, 105, 0]) == "hi i"
    assert read_characters([256, 0, 347]) == "ァー"


def test_a_reading_is_what_transformers_computes(granite: GraniteRecogniser, babble: Babble) -> None:
    heard = granite.hear(babble(3, 1))
    tokens = [granite.tokens(text) for text in ("the speech", "", "written")]
    model = granite._model
    for h, said, found in zip(heard, tokens, granite.read(heard, tokens), strict=True):
        row = torch.cat([granite._before, h.embeddings, granite._after, granite._embed(said)])
        logits = model(inputs_embeds=row[None]).logits[0, found.prompt - 1 :] / model.config.text_config.logits_scaling
        laws = logits.log_softmax(-1)
        assert torch.allclose(
            found.log_likelihoods, laws[: len(said)].gather(1, torch.tensor(said).long()[:, None])[:, 0], atol=1e-4
        )
        assert list(found.choices) == laws.argmax(-1).tolist()


def test_going_on_from_a_cropped_cache_is_transformers_greedy_search(granite: GraniteRecogniser, babble: Babble) -> None:
    heard = granite.hear(babble(3, 2))
    hypotheses = [granite.tokens(text) for text in ("the speech", "format", "you can")]
    prefixes = [tokens[:k] for tokens, k in zip(hypotheses, (2, 0, 1), strict=True)]
    written = granite.go_on(heard, granite.read(heard, hypotheses), prefixes)
    for h, prefix, found in zip(heard, prefixes, written, strict=True):
        row = torch.cat([granite._before, h.embeddings, granite._after, granite._embed(prefix)])
        cache, expected, inputs = DynamicCache(), [], row[None]
        while len(expected) < h.most_tokens:
            token = int(granite._model(inputs_embeds=inputs, past_key_values=cache, use_cache=True).logits[0, -1].argmax())
            if token == granite.end:
                break
            expected.append(token)
            inputs = granite._embed([token])[None]
        assert found == expected


def test_its_likelihoods_decide(granite: GraniteRecogniser, babble: Babble) -> None:
    utterances = babble(4, 3)
    accepted = transcribe(granite, utterances, Thresholds(0.0, 0.0))
    assert all(t.stage == "lm" and t.text == t.draft for t in accepted)
    refused = transcribe(granite, utterances, Thresholds(0.0, 1.0))
    plain = transcribe(granite, utterances, PRESETS["ar"])
    assert [t.tokens for t in refused] == [t.tokens for t in plain]
    alone = [transcribe(granite, [u], Thresholds(0.0, 1e-3))[0] for u in utterances]
    together = transcribe(granite, utterances, Thresholds(0.0, 1e-3))
    assert [(t.stage, t.tokens) for t in alone] == [(t.stage, t.tokens) for t in together]


def test_other_weights_are_another_judge(granite: GraniteRecogniser, tmp_path: Path) -> None:
    same = load_granite(str(checkpoints.granite(tmp_path / "checkpoint")))
    with torch.no_grad():
        same._model.get_input_embeddings().weight[0, 0] += 1.0
    same._model.save_pretrained(tmp_path / "checkpoint")
    other = load_granite(str(tmp_path / "checkpoint"))
    assert same.name.startswith("checkpoint ")
    assert same.name.removeprefix("checkpoint") in granite.name
    assert other.name != same.name


def test_heads_that_spell_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="CTC classes"):
        load_granite(str(checkpoints.granite(tmp_path, classes=42)))
