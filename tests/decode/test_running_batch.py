"""Requests that join and leave a running batch say what they say alone: all methods, samplers and drafts, in any company."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.decode.device_loop import DeviceBatch
from pcg.decode.runners import AnyDraft
from pcg.decode.speculative import Request, RunningBatch
from pcg.errors import PCGError
from pcg.models.feature_draft import FeatureDraft, FeatureShape
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary
from pcg.rules import Coins, Verdict, block, exact, tolerant
from pcg.sampling import Plain, RepetitionAware, SamplerState
from pcg.settings import METHODS, Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Round
from pcg.text.prompt import Prompt

VOCABULARY = Vocabulary(codes=60, first_code=20, end=3)
POSITIONS = 120
NEVER = 10_000


@dataclass(frozen=True)
class Wish:
    """A request that can be made again; it joins before round `joins`, and leaves before round `leaves`."""

    seed: int
    prompt: int = 12
    limit: int = 30
    rule: Callable | None = exact
    lookahead: int = 3
    memory: SamplerState = Plain(0.8)
    joins: int = 0
    leaves: int = NEVER

    def request(self) -> Request:
        ids = torch.randint(20, 80, (self.prompt,), generator=torch.Generator().manual_seed(self.seed))
        prompt = Prompt(ids, torch.arange(self.prompt + 0.0), self.prompt + 0.0)
        lookahead = self.lookahead if self.rule else 0
        return Request(prompt, self.limit, torch.Generator().manual_seed(self.seed), self.memory, self.rule, lookahead)


MIXED = (
    Wish(1, rule=None),
    Wish(2, prompt=30, limit=50),
    Wish(3, rule=tolerant(0.3), lookahead=5, memory=Plain(1.2)),
    Wish(4, rule=block, joins=2, leaves=6),
    Wish(5, rule=None, memory=RepetitionAware(0.9), joins=3, prompt=5),
    Wish(6, lookahead=4, joins=3),
    Wish(7, lookahead=8, memory=Plain(0.8, top_k=20), joins=4),
    Wish(8, limit=4, joins=5),
    Wish(9, lookahead=1, memory=Plain(0.7, penalty=1.3), joins=9),
)


def models(kind: str, compiled: bool = True) -> tuple[DecodingLlama, AnyDraft]:
    """Random weights that matter, in a shape that the compiled kernel can read."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 80, "hidden_size": 128, "intermediate_size": 96, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=3)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3.0) if weight.ndim == 2 else weight.add_(0.1 * torch.randn(weight.shape))
    checkpoint = Checkpoint.of(model)
    target = DecodingLlama(checkpoint, VOCABULARY, compiled)
    if kind == "layers":
        return target, DecodingLlama(checkpoint.subset((0, 2)), VOCABULARY, compiled)
    shape, generator = FeatureShape.of(checkpoint, (1, 3), 24), torch.Generator().manual_seed(5)
    tensors = {n: 0.1 * torch.randn(s, generator=generator) + (len(s) == 1) for n, s in shape.tensors(61).items()}
    return target, FeatureDraft(shape, tensors, checkpoint, VOCABULARY, compiled)


def without_times(round_: Round) -> tuple:
    return round_.tokens, round_.kinds, round_.ended, round_.drafted, round_.accepted, round_.tests, round_.trials


def run(batch: RunningBatch, wishes: Sequence[Wish]) -> list[list[tuple | Exception]]:
    """The rounds of each wish without their times. Where no row is free, who comes first joins first."""
    said: list[list[tuple | Exception]] = [[] for _ in wishes]
    coming, rows, turn = list(range(len(wishes))), dict[int, int](), 0
    while coming or rows:
        for number in [n for n in coming if wishes[n].joins <= turn][: batch.free]:
            rows[batch.join(wishes[number].request())] = number
            coming.remove(number)
        for row, number in list(rows.items()):
            if turn >= wishes[number].leaves:
                batch.leave(row)
                del rows[row]
        for row, round_ in batch.step().items():
            said[rows[row]].append(round_ if isinstance(round_, Exception) else without_times(round_))
            if not batch.speaks(row):
                del rows[row]
        turn += 1
        assert turn < NEVER
    assert batch.speaking == 0
    return said


def alone(pair: tuple[DecodingLlama, AnyDraft], wish: Wish) -> list[tuple | Exception]:
    (said,) = run(RunningBatch(*pair, 1, POSITIONS), [Wish(**{**vars(wish), "joins": 0, "leaves": NEVER})])
    return said


def tokens(rounds: Sequence[tuple]) -> list[int]:
    return [token for round_ in rounds for token in round_[0]]


@pytest.mark.parametrize("rows", [9, 3])
@pytest.mark.parametrize("kind", ["feature", "layers"])
def test_compiled_rows_say_to_the_last_bit_what_they_say_alone(kind: str, rows: int) -> None:
    """Rounds are compared with all the probabilities in their tests. With three rows most have to wait for one."""
    pair = models(kind)
    assert pair[0].compiled
    together = run(RunningBatch(*pair, rows, POSITIONS), MIXED)
    for wish, rounds in zip(MIXED, together, strict=True):
        wanted = alone(pair, wish)
        assert rounds == wanted[: len(rounds)]
        if wish.leaves == NEVER:
            assert len(rounds) == len(wanted)
        elif rows == 9:
            assert len(rounds) == wish.leaves - wish.joins < len(wanted)
    assert len({tuple(tokens(rounds)) for rounds in together if rounds}) >= len(MIXED) - 1


@pytest.mark.parametrize("kind", ["feature", "layers"])
def test_rows_that_pytorch_reads_say_what_they_say_alone(kind: str) -> None:
    pair = models(kind, compiled=False)
    for wish, rounds in zip(MIXED, run(RunningBatch(*pair, 4, POSITIONS), MIXED), strict=True):
        assert tokens(rounds) == tokens(alone(pair, wish))[: len(tokens(rounds))]


@pytest.mark.parametrize("kind", ["feature", "layers"])
def test_rows_of_a_gpus_batch_say_what_they_say_alone_on_the_host(kind: str) -> None:
    """Four programs take turns, in blocks of rounds; samplers with a memory and block verification are left to the host."""
    pair = models(kind, compiled=False)
    for wish, rounds in zip(MIXED, run(DeviceBatch(*pair, 4, POSITIONS), MIXED), strict=True):
        said = tokens(alone(pair, wish))
        assert tokens(rounds) == said[: len(tokens(rounds))]
        assert wish.leaves != NEVER or len(tokens(rounds)) == len(said)


def test_a_row_with_the_coins_of_another_is_noticed() -> None:
    """The negative control of the comparisons above."""
    pair, wish = models("layers"), Wish(2)
    assert alone(pair, wish) == alone(pair, wish)
    assert alone(pair, wish) != alone(pair, Wish(**{**vars(wish), "memory": Plain(0.81)}))


def test_a_take_of_every_method_is_the_synthesizers(synthesizer: Synthesizer) -> None:
    """What `Synthesizer.take` says, said by requests that speak side by side."""
    voice = synthesizer.voice
    batch, rounds = RunningBatch(voice.target, voice.draft, 4, 400), {}
    for method in METHODS:
        settings, coins = Settings(method, theta=0.3, seed=3), torch.Generator().manual_seed(3)
        request = synthesizer.decoder.request("hello", voice.references["one"], settings, synthesizer.rule(settings), coins)
        rounds[batch.join(request)] = (method, [])
    while batch.speaking:
        for row, round_ in batch.step().items():
            rounds[row][1].append(round_)
    for method, said in rounds.values():
        take = synthesizer.take("hello", Settings(method, theta=0.3, seed=3), "one")
        assert tuple(t for round_ in said for t in round_.tokens) == take.tokens


def test_an_exception_in_one_row_ends_that_row_alone() -> None:
    def broken(drafted: torch.Tensor, p: torch.Tensor, q: torch.Tensor, coins: Coins) -> Verdict:
        raise RuntimeError("broken")

    pair = models("layers")
    good, bad = Wish(2), Wish(3, rule=broken)
    (failed,), rounds = run(RunningBatch(*pair, 2, POSITIONS), [bad, good])
    assert str(failed) == "broken"
    assert rounds == alone(pair, good)


def test_a_pass_that_fails_frees_all_rows_and_the_next_ones_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = models("layers")
    batch = RunningBatch(*pair, 2, POSITIONS)
    batch.join(Wish(1).request())
    with monkeypatch.context() as patch:
        patch.setattr(pair[0], "read", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            batch.step()
    assert batch.free == 2
    assert run(batch, [Wish(2)]) == [alone(pair, Wish(2))]


def test_what_can_never_fit_is_one_sentence() -> None:
    batch = RunningBatch(*models("layers"), 1, POSITIONS)
    with pytest.raises(PCGError, match="needs 134 positions with its voice, but there is room for 120"):
        batch.join(Wish(1, prompt=100).request())
    assert batch.free == 1
