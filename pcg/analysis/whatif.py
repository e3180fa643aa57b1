"""What happened at every token of a take, small enough to be kept with a result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pcg.decode.draft import RowRequest, acceptance_bound
from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import make_runners
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.groups.phones import class_letters
from pcg.rules import capped_ratio
from pcg.sampling import Draws, SampledSpan, SamplerState, sampled_spans, sampler_of, warp_rows
from pcg.settings import Settings
from pcg.synthesis.synthesizer import DRAFT_CONFIDENCE, Synthesizer
from pcg.take import Round, Take
from pcg.text.prompt import Reference

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
STEPS = {"entropy": 0.2, "surprisal": 0.25, "sizes": 0.25, "places": 1.0}
"""The step of one digit: in nats for entropy and surprisal, in octaves (log2) for sizes."""
ACCEPTED, RELAXED, RESAMPLED = "a", "g", "r"


@dataclass(frozen=True)
class Trace:
    """A character for each token of a take, the end of speech left out.

    kinds: "a" accepted as SD would have accepted it, by the same coin; "g" accepted though SD would have rejected it by that
    coin (by a group, a tolerance, or block verification); "r" drawn in place of a rejected token; "b" the bonus token; "d"
    redrawn; "t" said by the target alone. sizes: of the tested token's group, or of the token's own where nothing was tested.
    places: in its round, from 1. entropy: of the target's probabilities at the temperature in use; surprisal: -log of the
    token's, at most 15.75 nats. These four are digits of base 64 (see `STEPS`). phones: the class of the phone that the token
    is heard in most (`pcg.groups.phones.CLASSES`) by its first letter, "?" where it is not known.
    """

    kinds: str
    sizes: str
    places: str
    entropy: str
    surprisal: str
    phones: str

    def nats(self, name: str) -> np.ndarray:
        """`entropy` or `surprisal` as numbers, `[T]`."""
        return STEPS[name] * _numbers(getattr(self, name))

    @property
    def group_sizes(self) -> np.ndarray:
        """`[T]`, to within a tenth."""
        return 2.0 ** (STEPS["sizes"] * _numbers(self.sizes))

    @property
    def tested(self) -> np.ndarray:
        """Where a drafted token was tested, `[T]` bool."""
        return np.array([kind in (ACCEPTED, RELAXED, RESAMPLED) for kind in self.kinds], bool)

    @property
    def depths(self) -> np.ndarray:
        """The place of each token in its round, from 1, `[T]`."""
        return _numbers(self.places).astype(int)


def digits(values: np.ndarray | Sequence[float], step: float) -> str:
    """`values` in whole steps, a digit each, held within what a digit can say."""
    places = np.clip(np.rint(np.asarray(values, float) / step), 0, len(DIGITS) - 1).astype(int)
    return "".join(DIGITS[place] for place in places)


def _numbers(digits: str) -> np.ndarray:
    return np.array([DIGITS.index(digit) for digit in digits], float)


THETAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BETAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
LOOKAHEADS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
MOST_PROBABILITIES = 1 << 28
"""Of each model along a take, 1 GB: 80 seconds by LLaSA, or all that the embedded voice says for one text."""
DRAWS = 8
TOKEN_COINS = (np.arange(DRAWS) + 0.5) / DRAWS
# Spaced by the golden ratio, so that neither coin tells the other.
LABEL_COINS = (np.arange(DRAWS) + 0.5) * (5**0.5 - 1) / 2 % 1


@dataclass(frozen=True, eq=False)
class Path:
    """The draft's and the target's probabilities `p`, `q` `[T, V]` at every position of a take, ends of speech included,
    float32.

    A long text is spoken in pieces that know nothing of each other; `starts` are the positions at which they start, and T.
    `silent` are the positions at which the draft proposes nothing, where p is zeros.
    """

    p: np.ndarray
    q: np.ndarray
    starts: tuple[int, ...]
    silent: tuple[int, ...] = ()

    @cached_property
    def drawn(self) -> np.ndarray:
        """`DRAWS` evenly spaced draws from p at every position, `[T, DRAWS]`."""
        samplers = map(Draws, self.p)
        return np.array([[sampler.draw(coin) for coin in TOKEN_COINS] for sampler in samplers])

    @cached_property
    def hope(self) -> np.ndarray:
        """`acceptance_bound` of p at every position, `[T]`: what adaptive lookahead goes by."""
        return np.array([acceptance_bound(torch.from_numpy(p)) for p in self.p])


@dataclass(frozen=True)
class PathEstimate:
    """What is expected of a take: accepted / drafted tokens, and 1 + accepted / rounds, as `pcg.take.Take` has them."""

    acceptance_rate: float | None
    mean_acceptance_length: float


@dataclass(frozen=True)
class Choice:
    """The estimate if the knob had another `value`."""

    value: float
    estimate: PathEstimate


@dataclass(frozen=True)
class WhatIf:
    """Estimates along one take: at its own settings, for PCG at other thetas, SSD at other betas, and its own method at other
    lookaheads. The rows of a method that the take was not spoken by use its path all the same. All of them verify token by
    token, at a lookahead that past rounds do not change."""

    own: PathEstimate | None
    theta: tuple[Choice, ...]
    beta: tuple[Choice, ...]
    lookahead: tuple[Choice, ...]


def follow(synthesizer: Synthesizer, take: Take, reference: Reference | None = None) -> Path:
    """Read the take's tokens again with both models, one pass each.

    reference: what the take was spoken with, if not a known voice. Raises InputError for a long text of which a piece was cut
    at the length limit, as nothing tells where it ended, for a take whose probabilities would fill the memory, and where no
    draft is loaded.
    """
    voice, texts = synthesizer.voice, synthesizer.chunks(take.text)
    speaker = reference or voice.reference(take.voice)
    if voice.draft is None:
        raise InputError("draft", "none", "one whose tokens could be accepted")
    pieces = pieces_of(take)
    if len(pieces) != len(texts):
        raise InputError("take", "cut at the length limit", "one in which every piece of the text came to its end")
    if (most := MOST_PROBABILITIES // voice.codec.codebook_size) < len(take.tokens):
        raise InputError("take", f"one of {len(take.tokens):,} tokens", f"one of at most {most:,} tokens")
    p, q = [], []
    for text, (tokens, count) in zip(texts, pieces, strict=True):
        prompt = voice.reader.prompt(text, speaker)
        runners = make_runners(voice.target, voice.draft, [prompt], len(tokens) + 1)
        for each in runners:
            each.prefill()
        trail = target_trail(runners[0], tokens, sampler_of(take.settings))
        p.append(_draft_laws(runners[1], tokens, trail)[:count])
        q.append(trail.probs[:count].numpy())
    starts, drafted = (0, *np.cumsum([count for _, count in pieces]).tolist()), np.concatenate(p)
    return Path(drafted, np.concatenate(q), starts, tuple(np.flatnonzero(~drafted.any(1)).tolist()))


def tolerant_acceptance(path: Path, beta: float = 0.0) -> np.ndarray:
    """P(accept) at every position `[T]` under SSD (Eq. 5): sum_x p min(1, min(1, q / p) + beta); at beta = 0, SD's."""
    passing = np.minimum(path.p, np.minimum(path.p, path.q) + beta * path.p)
    return passing.sum(1, dtype=np.float64).clip(max=1)


def coarse_acceptance(path: Path, groups: Groups) -> np.ndarray:
    """P(accept) at every position `[T]` under PCG, which is sum_K min(P_c(K), Q_c(K)).

    Taken as the mean of min(1, Q_c / P_c) over `DRAWS` evenly spaced draws of a token from p and of its label: a group's mass
    costs its members only, all groups' masses would cost a hundred times as much.
    """
    found = np.empty(len(path.p))
    for t, (p, q, tokens) in enumerate(zip(path.p, path.q, path.drawn.tolist(), strict=True)):
        labels = [groups.label(token, coin) for token, coin in zip(tokens, LABEL_COINS, strict=True)]
        masses = {k: capped_ratio(groups.mass(q, k), groups.mass(p, k)) for k in set(labels)}
        found[t] = sum(masses[k] for k in labels) / DRAWS
    return found


def estimate(path: Path, acceptance: np.ndarray, lookahead: int, confidence: float | None = None) -> PathEstimate:
    """Expected figures of a decoder that stays on the path and accepts with chance `acceptance [T]` at each position.

    Expectations of rounds, drafted and accepted tokens, from every position on, by going backwards. `confidence`: as
    `ModelRunner.propose` has it.
    """
    depths = _depths(path, lookahead, confidence)
    totals = np.zeros(3)
    for start, end in pairwise(path.starts):
        after = np.zeros((end - start + lookahead + 2, 3))
        for s in range(end - start - 1, -1, -1):
            after[s] = _round(acceptance[start + s : end], int(depths[start + s]), after[s + 1 :])
        totals += after[0]
    rounds, drafted, accepted = totals
    return PathEstimate(float(accepted / drafted) if drafted else None, float(1 + accepted / rounds) if rounds else 1.0)


def what_if(
    synthesizer: Synthesizer,
    take: Take,
    reference: Reference | None = None,
    thetas: Sequence[float] = THETAS,
    betas: Sequence[float] = BETAS,
    lookaheads: Sequence[int] = LOOKAHEADS,
) -> WhatIf:
    """Estimates for other values of one knob, all else as in `take`. `own` is None and `lookahead` is empty in AR, which
    drafts nothing, with block verification and with a lookahead cost; raises as `follow`."""
    path, settings = follow(synthesizer, take, reference), take.settings
    plain = settings.method != "ar" and settings.verification == "token" and not settings.lookahead_cost
    confidence = DRAFT_CONFIDENCE if settings.adaptive else None

    def at(acceptance: np.ndarray, lookahead: int = settings.lookahead) -> PathEstimate:
        return estimate(path, acceptance, lookahead, confidence)

    def row(values: Sequence[float], of: Callable[[float], PathEstimate]) -> tuple[Choice, ...]:
        return tuple(Choice(value, of(value)) for value in values)

    def coarse_at(theta: float) -> PathEstimate:
        return at(coarse_acceptance(path, synthesizer.groups(theta, settings.similarity)))

    floor = synthesizer.library.neighbours(settings.similarity).floor
    possible = [theta for theta in thetas if theta >= floor]
    own = acceptance_of(synthesizer, path, settings) if plain else None
    return WhatIf(
        own=None if own is None else at(own),
        theta=row(possible, coarse_at),
        beta=row(betas, lambda beta: at(tolerant_acceptance(path, beta))),
        lookahead=() if own is None else row(lookaheads, lambda lookahead: at(own, int(lookahead))),
    )


def acceptance_of(synthesizer: Synthesizer, path: Path, settings: Settings) -> np.ndarray:
    """P(accept) at every position `[T]` under the rule of `settings`, which must draft."""
    if settings.method == "ar":
        raise InputError("method", "ar", "one that drafts")
    if settings.method == "pcg":
        return coarse_acceptance(path, synthesizer.groups(settings.theta, settings.similarity))
    return tolerant_acceptance(path, settings.beta if settings.method == "ssd" else 0.0)


def pieces_of(take: Take) -> list[tuple[list[int], int]]:
    """The tokens of each piece of the text, and how many positions it has: one more where it came to its end of speech."""
    pieces: list[tuple[list[int], int]] = []
    tokens: list[int] = []
    for round_ in take.rounds:
        tokens += round_.tokens
        if round_.ended:
            pieces.append((tokens, len(tokens) + 1))
            tokens = []
    return [*pieces, (tokens, len(tokens))] if tokens else pieces


def target_trail(target: ModelRunner, tokens: list[int], memory: SamplerState) -> SampledSpan:
    """The target's probabilities at each of `tokens` and behind the last, read in one pass behind its prompt."""
    return sampled_spans([memory], _logits(target, tokens)[None], [tokens])[0]


def _logits(runners: ModelRunner, tokens: list[int]) -> Tensor:
    """Logits at each of `tokens` and behind the last, `[T + 1, V]`."""
    return runners.feed([0], [tokens], len(tokens) + 1)[0]


def _draft_laws(runners: ModelRunner, tokens: list[int], trail: SampledSpan) -> np.ndarray:
    """The draft's probabilities at each of `tokens` and behind the last, if its round began there, `[T + 1, V]`; zeros
    where nothing is proposed."""
    if isinstance(runners, ModelRunner):
        logits = _logits(runners, tokens)
        memories = trail.states if trail.warped else trail.states * len(logits)
        return torch.stack([w.probs for w in warp_rows(memories, logits)]).numpy()
    coin, sampler = torch.zeros(1), trail.states[0]
    unread = ([], *([token] for token in tokens))
    proposals = [runners.propose([RowRequest(0, new, sampler, coins=coin)])[0] for new in unread]
    return torch.stack([proposal.probs.sum(0) for proposal in proposals]).numpy()


def _depths(path: Path, lookahead: int, confidence: float | None) -> np.ndarray:
    """How many tokens are drafted in a round that starts at each position, `[T]`."""
    count = path.starts[-1]
    depths = np.full(count, lookahead)
    stops = np.zeros(count, bool) if confidence is None else path.hope < confidence
    stops[list(path.silent)] = True
    hopeless = np.append(np.flatnonzero(stops), count + lookahead)
    every = np.arange(count)
    return np.minimum(depths, hopeless[hopeless.searchsorted(every)] - every)


def _round(acceptance: np.ndarray, depth: int, after: np.ndarray) -> np.ndarray:
    """Rounds, drafted and accepted tokens expected from a position on, `[3]`.

    acceptance: the chances from here to the end of speech. after: what is expected if the next round starts 1, 2, ... further.
    """
    expected = np.array([1.0, depth, 0.0])
    reached = 1.0
    for i, chance in enumerate(acceptance[:depth]):
        expected += reached * (1 - chance) * after[i]
        reached *= chance
        expected[2] += reached
    # The end of speech, once accepted, is followed by nothing.
    return expected + reached * after[depth] if depth < len(acceptance) else expected


LETTERS = {"resampled": RESAMPLED, "bonus": "b", "target": "t"}


def trace(synthesizer: Synthesizer, take: Take, reference: Reference | None = None) -> Trace:
    """The trace of `take`, by one reading with the target. Raises InputError for a long text of which a piece was cut."""
    entropy, surprisal = zip(*_read(synthesizer, take, reference), strict=True)
    marks = [mark for round_ in take.rounds for mark in _marks(round_)]
    sizes = [np.log2(size) for _, size in marks]
    places = [1.0 + place for round_ in take.rounds for place in range(len(round_.tokens))]
    numbers = {"sizes": sizes, "places": places, "entropy": np.concatenate(entropy), "surprisal": np.concatenate(surprisal)}
    written = {name: digits(values, STEPS[name]) for name, values in numbers.items()}
    return Trace("".join(kind for kind, _ in marks), **written, phones=class_letters(synthesizer.voice.phones, take.tokens))


def _read(synthesizer: Synthesizer, take: Take, reference: Reference | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Entropy and surprisal of the tokens of each piece of the text."""
    voice, texts, pieces = synthesizer.voice, synthesizer.chunks(take.text), pieces_of(take)
    if len(pieces) != len(texts):
        raise InputError("take", "cut at the length limit", "one in which every piece of the text came to its end")
    speaker, found = reference or voice.reference(take.voice), [(np.zeros(0), np.zeros(0))]
    for text, (tokens, _) in zip(texts, pieces, strict=True):
        target = ModelRunner(voice.target, [voice.reader.prompt(text, speaker)], len(tokens) + 1)
        target.prefill()
        q = target_trail(target, tokens, sampler_of(take.settings)).probs[: len(tokens)].double().numpy()
        logs = np.log(np.maximum(q, 1e-30))
        found.append((-(q * logs).sum(1), -logs[np.arange(len(tokens)), tokens]))
    return found


def _marks(round_: Round) -> list[tuple[str, int]]:
    """Kind and group size of each token of a round."""
    marks = []
    for place, (kind, size) in enumerate(zip(round_.kinds, round_.group_sizes, strict=True)):
        test = round_.tests[place] if place < len(round_.tests) else None
        if kind == "accepted":
            strict = test is None or test.coin < capped_ratio(test.q, test.p)
            marks.append((ACCEPTED if strict else RELAXED, size))
        else:
            marks.append((LETTERS[kind], test.group_size if test else size))
    return marks
