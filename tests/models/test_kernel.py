"""The compiled kernel against PyTorch and transformers: every width, ragged rows, taps, and each way to store a weight."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import make_runners
from pcg.decode.sequence import RowRequest
from pcg.models.feature_draft import FeatureDraft, FeatureShape
from pcg.models.kernel.arithmetic import draw
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, load_llama
from pcg.places import PROJECT
from pcg.sampling import Draws, Plain
from pcg.text.prompt import Prompt

VOCABULARY = Vocabulary(codes=300, first_code=20, end=3)
SHAPE = {"vocab_size": 320, "hidden_size": 192, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 3}
LANES = [16, 8]
BOUND = {"atol": 2e-5, "rtol": 0.0}
VOICE = PROJECT / "assets" / "voice" / "target"


def make_model(kv_heads: int = 3, biased: bool = False, kind: torch.dtype = torch.bfloat16, **shape: int) -> PreTrainedModel:
    """Random, and weighed so that every layer matters; all weights are exact in `kind`."""
    torch.manual_seed(0)
    config, make = (Qwen2Config, Qwen2ForCausalLM) if biased else (LlamaConfig, LlamaForCausalLM)
    model = make(config(**SHAPE | shape, num_key_value_heads=kv_heads)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(3.0) if weight.ndim == 2 else weight.add_(0.1 * torch.randn(weight.shape))
            if name.endswith("bias"):
                weight.normal_()
            weight.copy_(weight.to(kind))
    return model


def check(decoding: DecodingLlama, model: PreTrainedModel, ids: torch.Tensor) -> None:
    """Rows of ids `[R, T]` read at widths 1 to 8, one after another, have the logits that `model` gives all at once in double
    precision: in single precision it strays from itself by as much as the kernel does."""
    wanted = logits_of(model, ids, vocabulary=decoding.vocabulary)
    torch.testing.assert_close(read_in_pieces(decoding, ids), wanted, **BOUND)


def logits_of(
    model: PreTrainedModel, ids: torch.Tensor, rounded: bool = False, vocabulary: Vocabulary = VOCABULARY
) -> torch.Tensor:
    """By transformers in double precision; rounded: every matrix takes its inputs rounded to bfloat16, and attention its
    queries, keys, values and shares."""
    exact = deepcopy(model).double()
    if rounded:
        AttentionInterface.register("rounded", rounded_attention)
        exact.set_attn_implementation("rounded")
        for layer in exact.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.register_forward_pre_hook(lambda _, inputs: tuple(map(brain, inputs)))
    with torch.no_grad():
        return exact(ids).logits[..., vocabulary.model_ids()].float()


def rounded_attention(
    layer: torch.nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, scaling: float, **__: object
) -> tuple[torch.Tensor, None]:
    """Causal attention of `q [B, heads, T, d]`, as transformers calls it."""
    k, v = (brain(x).repeat_interleave(layer.num_key_value_groups, 1) for x in (k, v))
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    shares = (scaling * brain(q) @ k.transpose(-1, -2)).masked_fill(later, -torch.inf).softmax(-1)
    return (brain(shares) @ v).transpose(1, 2), None


def brain(x: torch.Tensor) -> torch.Tensor:
    """Rounded to bfloat16."""
    return x.float().bfloat16().double()


def read_in_pieces(decoding: DecodingLlama, ids: torch.Tensor, widths: Sequence[int] = range(1, 9)) -> torch.Tensor:
    """The logits of rows of ids `[R, T]`, so many at a time."""
    cos, sin = decoding.rotary(torch.arange(ids.shape[1] + 0.0).expand(ids.shape))
    cache, found = decoding.cache(*ids.shape), []
    for width in widths:
        piece = slice(cache.lengths[0], cache.lengths[0] + width)
        found.append(decoding.forward(ids[:, piece], (cos[:, piece], sin[:, piece]), cache))
    return torch.cat(found, 1)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("kv_heads", "biased", "kind", "stored"),
    [(3, False, torch.bfloat16, np.int16), (1, True, torch.bfloat16, np.int16), (3, False, torch.float32, np.float32)],
)
@pytest.mark.parametrize("rows", [1, 3])
def test_every_width_computes_what_transformers_computes(lanes, kv_heads, biased, kind, stored, rows):
    model = make_model(kv_heads, biased, kind)
    decoding = DecodingLlama(model, VOCABULARY, lanes=lanes)
    assert decoding.compiled
    assert decoding._packed.panels.dtype == stored
    check(decoding, model, torch.randint(0, 320, (rows, 36)))


@pytest.mark.parametrize("lanes", LANES)
def test_the_shipped_voice_computes_what_transformers_computes(lanes):
    vocabulary = Vocabulary(codes=4096, first_code=115, end=3)
    model = load_llama(VOICE, vocabulary)
    decoding = DecodingLlama(model, vocabulary, lanes=lanes)
    assert decoding.bytes_per_step < 0.51 * DecodingLlama(model, vocabulary, compiled=False).bytes_per_step
    check(decoding, model, torch.randint(115, 4211, (2, 36), generator=torch.Generator().manual_seed(0)))


def test_panels_in_the_wrong_order_are_noticed():
    model = make_model()
    decoding = DecodingLlama(model, VOCABULARY)
    first = decoding._packed.panels[: 192 * 2 * decoding._lanes].reshape(192, -1)
    first[:] = first[:, ::-1].copy()
    with pytest.raises(AssertionError, match="not close"):
        check(decoding, model, torch.randint(0, 320, (1, 36)))


@pytest.mark.parametrize(("changed", "reads"), [({}, True), ({"head_dim": 32}, False), ({"intermediate_size": 168}, False)])
def test_shapes_that_do_not_suit_the_kernel_are_read_by_pytorch(changed, reads):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE | changed)).eval()
    decoding = DecodingLlama(model, VOCABULARY, lanes=16)
    assert decoding.compiled == reads
    check(decoding, model, torch.randint(0, 320, (2, 36)))
    assert not DecodingLlama(make_model(), VOCABULARY, lanes=0).compiled


@pytest.mark.parametrize("lanes", LANES)
def test_taps_are_the_hidden_states_that_transformers_gives(lanes):
    model, ids = make_model(), torch.randint(0, 320, (2, 20))
    with torch.no_grad():
        states = model.model(ids, output_hidden_states=True).hidden_states
    decoding = DecodingLlama(model, VOCABULARY, lanes=lanes)
    cache, (cos, sin) = decoding.cache(2, 20, tapped=(1, 2)), decoding.rotary(torch.arange(20.0).expand(2, 20))
    for piece in (slice(0, 17), slice(17, 18), slice(18, 20)):  # by PyTorch, then compiled
        decoding.forward(ids[:, piece], (cos[:, piece], sin[:, piece]), cache)
    torch.testing.assert_close(cache.taps, torch.stack(states[1:3], 2), **BOUND)


def test_a_draw_is_the_samplers():
    generator = torch.Generator().manual_seed(0)
    for size in (1, 255, 256, 257, 4097):
        probs = (6 * torch.randn(size, generator=generator)).softmax(-1).numpy()
        probs[: size // 3] = 0
        probs[size - size // 4 :] = 0
        sampler = Draws(probs)
        for coin in [0.0, 1 - 2**-53, *torch.rand(400, generator=generator, dtype=torch.float64).tolist()]:
            token = draw(probs, coin)
            assert token == sampler.draw(coin)
            assert probs[token] > 0


def propose(model: DecodingLlama, unread: list[list[int]], coins: torch.Tensor) -> list[tuple[list[int], torch.Tensor, int]]:
    """What a draft proposes in round after round, and how much it has read behind each."""
    prompt = Prompt(torch.arange(12), torch.arange(12.0), 12.0)
    runners, said = ModelRunner(model, [prompt], 60), []
    runners.prefill()
    for new, coin in zip(unread, coins, strict=True):
        (proposal,) = runners.propose([RowRequest(0, new, Plain(0.8), coins=coin)])
        said.append((proposal.drafted.tolist(), proposal.probs, runners.read(0)))
        runners.roll_back(0, max(0, runners.read(0) - 2))
    return said


@pytest.mark.parametrize("lanes", LANES)
def test_a_turn_in_one_call_draws_what_the_loop_draws(lanes, monkeypatch):
    model = DecodingLlama(make_model(), VOCABULARY, lanes=lanes)
    coins = torch.rand(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    unread = [[], [7, 8, 9], [5], [1, 2, 3, 4, 5, 6], [299, 0], [300]]
    compiled = propose(model, unread, coins)
    monkeypatch.setattr(ModelRunner, "_in_one_call", lambda *_: False)
    for (tokens, p, read), (wanted, probs, length) in zip(compiled, propose(model, unread, coins), strict=True):
        assert (tokens, read) == (wanted, length)
        torch.testing.assert_close(p, probs, atol=1e-6, rtol=2e-5)
    assert [tokens for tokens, *_ in compiled] != [tokens for tokens, *_ in propose(model, unread, 1 - coins)]


def feature_pair(
    rank: int, lanes: int, compiled: bool, kind: torch.dtype = torch.bfloat16, rounded: bool = False
) -> tuple[DecodingLlama, FeatureDraft]:
    target = Checkpoint.of(make_model(kind=kind))
    shape, generator = FeatureShape.of(target, (1, 3), rank), torch.Generator().manual_seed(5)
    sizes = shape.tensors(VOCABULARY.size)
    tensors = {n: (0.1 * torch.randn(size, generator=generator)).to(kind) + (len(size) == 1) for n, size in sizes.items()}
    return DecodingLlama(target, VOCABULARY), FeatureDraft(shape, tensors, target, VOCABULARY, compiled, lanes, rounded)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("rank", [0, 24])
def test_a_feature_drafts_turn_in_one_call_draws_what_its_loop_draws(lanes, rank):
    """In round after round, the last of which read what the rounds before left in the cache."""
    coins = torch.rand(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    prompt, said = Prompt(torch.arange(12), torch.arange(12.0), 12.0), []
    for compiled in (True, False):
        pair = feature_pair(rank, lanes, compiled)
        assert pair[1].compiled == compiled
        runners, draft = make_runners(*pair, [prompt], 60)
        for each in (runners, draft):
            each.prefill()
        runners.feed([0], [[7, 8, 9, 5]], 1)
        for new, coin in zip(([], [7, 8, 9], [5]), coins, strict=False):
            (proposal,) = draft.propose([RowRequest(0, new, Plain(0.8), coins=coin)])
            said.append((proposal.drafted.tolist(), proposal.probs, draft.read(0)))
    for (tokens, p, read), (wanted, probs, length) in zip(said[:3], said[3:], strict=True):
        assert (tokens, read) == (wanted, length)
        torch.testing.assert_close(p, probs, atol=1e-6, rtol=5e-5)
    assert said[0][2] == 0
    assert said[2][2] == 4


def test_a_feature_draft_reads_fewer_bytes_with_a_head_of_low_rank():
    whole, low = (feature_pair(rank, 16, True)[1] for rank in (0, 64))
    assert low.bytes_per_step == whole.bytes_per_step - 2 * (320 * 192 - 64 * (192 + 320))
