"""A draft that reads its target's hidden states: exact, alone or in company, and its cache is that of the text so far."""

import json

import pytest
import torch
from safetensors.torch import save_file
from test_exactness import SPEECH, TEMPERATURE, prompts
from tiny_llama import tiny_llama

from pcg.decode.runners import make_runners
from pcg.decode.sequence import DecodingSequence, RowRequest
from pcg.decode.speculative import to_the_end
from pcg.errors import AssetError, InputError
from pcg.models.feature_draft import FeatureDraft, FeatureShape, config_of, is_feature_draft, read_feature_draft
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint
from pcg.rules import exact
from pcg.sampling import Plain
from pcg.text.prompt import Prompt


def make_checkpoint(kv_heads: int = 2) -> Checkpoint:
    return Checkpoint.of(tiny_llama(num_hidden_layers=3, num_key_value_heads=kv_heads))


def make_tensors(shape: FeatureShape, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random ones, large enough that what the target thought and what the draft thought itself both matter."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.ones(size) if len(size) == 1 else 0.5 * torch.randn(size, generator=generator)
        for name, size in shape.tensors(SPEECH.size).items()
    }


def make_pair(tapped: tuple[int, ...] = (1, 2, 3), rank: int = 0, kv_heads: int = 2) -> tuple[DecodingLlama, FeatureDraft]:
    checkpoint = make_checkpoint(kv_heads=kv_heads)
    shape = FeatureShape.of(checkpoint, tapped, rank)
    return DecodingLlama(checkpoint, SPEECH), FeatureDraft(shape, make_tensors(shape), checkpoint, SPEECH)


@pytest.fixture(scope="module")
def pair() -> tuple[DecodingLlama, FeatureDraft]:
    return make_pair()


def started(pair, given, limit=40):
    runners = make_runners(*pair, given, limit)
    for each in runners:
        each.prefill()
    return runners


def generators(count, first=0):
    return [torch.Generator().manual_seed(first + row) for row in range(count)]


def ragged(count):
    """Prompts of different lengths and ids."""
    return [Prompt(torch.arange(3 + row) % 4, torch.arange(3.0 + row), 3.0 + row) for row in range(count)]


def fresh_probs(pair, given, emitted, drafted):
    """What the draft should have drawn the `drafted` tokens from, by one reading of all that was emitted before."""
    target, draft = started(pair, [given])
    target.feed([0], [emitted], 1)
    coins = coins_for(pair, given, emitted, drafted)[0]
    return draft.propose([RowRequest(0, emitted, Plain(TEMPERATURE), coins=coins)])[0]


def coins_for(pair, given, emitted, drafted):
    """Coins that draw exactly `drafted`, found token by token."""
    coins = torch.zeros(1, len(drafted), dtype=torch.float64)
    for i, token in enumerate(drafted):
        target, draft = started(pair, [given])
        target.feed([0], [emitted], 1)
        request = RowRequest(0, emitted, Plain(TEMPERATURE), coins=coins[0, : i + 1])
        p = draft.propose([request])[0].probs[i].double()
        coins[0, i] = (p[:token].sum() + p[token] / 2) / p.sum()
    return coins


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_whatever_was_accepted_the_draft_stands_where_a_fresh_reading_would(kv_heads):
    """The rule sees what the tokens were drawn from, and that depends on the emitted text alone."""
    pair, given, seen = make_pair(kv_heads=kv_heads), ragged(1)[0], []

    def spy(drafted, p, q, coins):
        seen.append((drafted.tolist(), p.clone()))
        return exact(drafted, p, q, coins)

    kept = set()
    for seed in (5, 6, 7):
        emitted = []
        sequence = DecodingSequence(0, 14, *generators(1, seed), Plain(0.8), spy, 3)
        for step in to_the_end(*started(pair, [given]), [sequence]):
            drafted, p = seen[-1]
            proposal = fresh_probs(pair, given, emitted, drafted)
            assert proposal.drafted.tolist() == drafted
            torch.testing.assert_close(p, proposal.probs, atol=1e-5, rtol=1e-4)
            emitted += step[0].tokens
            kept.add(step[0].accepted)
    assert {0, 3} <= kept


def test_a_fork_goes_on_as_its_source_would(pair):
    given = prompts(3)
    target, draft = started(pair, given)
    emitted = [1, 4, 2, 5, 3]
    for each, read in ((target, emitted[:-1]), (draft, emitted[:3])):
        each.feed([1], [read], 1)
        each.feed([0], [[6, 0]], 1)
    for each in (target, draft):
        each.fork(1, [0, 2])
    coins = torch.rand(1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).expand(3, 3)
    found = draft.propose([RowRequest(row, emitted[3:], Plain(TEMPERATURE), coins=coins[row]) for row in range(3)])
    for each in found:
        assert each.drafted.tolist() == found[1].drafted.tolist()
        torch.testing.assert_close(each.probs, found[1].probs, atol=1e-5, rtol=1e-4)
    assert [draft.read(row) for row in range(3)] == [5] * 3


def test_taps_are_the_targets_hidden_states_and_they_matter(pair):
    (given,) = prompts(1)
    target, draft = started(pair, [given])
    target.feed([0], [[1, 4]], 1)
    first = draft.feed([0], [[1, 4, 2]], 1)
    target._cache.taps.mul_(torch.linspace(-1, 1, 16))
    draft.roll_back(0, 0)
    assert not torch.allclose(first, draft.feed([0], [[1, 4, 2]], 1), atol=1e-2)


def write(folder, shape, tensors=None):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(shape)))
    save_file(tensors or make_tensors(shape), folder / "model.safetensors")


@pytest.mark.parametrize("rank", [0, 3])
def test_a_written_draft_comes_back(tmp_path, rank):
    checkpoint = make_checkpoint()
    shape = FeatureShape.of(checkpoint, (2, 3), rank)
    write(tmp_path, shape)
    assert is_feature_draft(tmp_path)
    again = read_feature_draft(tmp_path, checkpoint, SPEECH)
    given = FeatureDraft(shape, make_tensors(shape), checkpoint, SPEECH)
    target = DecodingLlama(checkpoint, SPEECH)
    found = [started((target, draft), prompts(1))[1].feed([0], [[]], 1) for draft in (again, given)]
    assert again.shape == shape
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_target_layers": 4}, "draft is 'made for a target with num_target_layers 4'"),
        ({"vocab_size": 12}, "draft is 'made for a target with vocab_size 12'"),
        ({"hidden_size": 32}, "draft is 'made for a target with hidden_size 32'"),
        ({"tapped_layers": [1, 4]}, "damaged"),
        ({"tapped_layers": [2, 1]}, "damaged"),
        ({"tapped_layers": []}, "damaged"),
        ({"tapped_layers": ["a"]}, "damaged"),
        ({"tapped_layers": 7}, "damaged"),
        ({"rank": -1}, "damaged"),
        ({"rank": "3"}, "damaged"),
        ({"more": 1}, "damaged"),
        ({"rank": 3}, "lacks weights"),
        ({"intermediate_size": 25}, "lacks weights"),
    ],
)
def test_a_draft_that_does_not_fit_is_one_sentence(tmp_path, change, said):
    checkpoint = make_checkpoint()
    shape = FeatureShape.of(checkpoint, (1, 3))
    write(tmp_path, shape)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values | change))
    with pytest.raises((AssetError, InputError), match=said) as refused:
        read_feature_draft(tmp_path, checkpoint, SPEECH)
    assert "\n" not in str(refused.value)


def test_a_damaged_draft_is_one_sentence(tmp_path):
    checkpoint = make_checkpoint()
    write(tmp_path, FeatureShape.of(checkpoint, (1, 3)))
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[:-100])
    with pytest.raises(AssetError, match="damaged"):
        read_feature_draft(tmp_path, checkpoint, SPEECH)
    for text in ("", "[]", "{}", "null"):
        (tmp_path / "config.json").write_text(text)
        assert not is_feature_draft(tmp_path)
        with pytest.raises(AssetError, match="damaged"):
            read_feature_draft(tmp_path, checkpoint, SPEECH)
