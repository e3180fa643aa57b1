"""A finished take, read again by its models: how likely its tokens are (`surprisal`), and other settings (`what_if`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import make_runners
from pcg.decode.sequence import RowRequest
from pcg.errors import InputError
from pcg.groups.groups import Groups
from pcg.rules import capped_ratio
from pcg.sampling import Draws, SampledSpan, sampled_spans, sampler_of, warp_rows
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.take import Take
from pcg.text.prompt import Prompt, Reference

THETAS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BETAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
LOOKAHEADS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
MOST_PROBABILITIES = 1 << 28
"""Of each model along a take, 1 GB: 80 seconds by LLaSA, or all that the embedded voice says for one text."""
DRAWS = 8
TOKEN_COINS = (np.arange(DRAWS) + 0.5) / DRAWS
# Spaced by the golden ratio, so that token and label are independent.
LABEL_COINS = (np.arange(DRAWS) + 0.5) * (5**0.5 - 1) / 2 % 1


@dataclass(frozen=True, eq=False)
class Path:
    """The draft's and the target's probabilities `p`, `q` `[T, V]` at every position of a take, ends of speech included,
    float32.

    A long text is spoken in pieces that are independent of each other; `starts` are the positions at which they start, and T.
    Where the draft proposes nothing, p is zeros.
    """

    p: np.ndarray
    q: np.ndarray
    starts: tuple[int, ...]

    @cached_property
    def drawn(self) -> np.ndarray:
        """`DRAWS` evenly spaced draws from p at every position, `[T, DRAWS]`."""
        samplers = map(Draws, self.p)
        return np.array([[sampler.draw(coin) for coin in TOKEN_COINS] for sampler in samplers])

    @cached_property
    def silent(self) -> np.ndarray:
        """The positions at which the draft proposes nothing, ascending."""
        return np.flatnonzero(~self.p.any(1))


class PathEstimate(NamedTuple):
    """Expected figures of a take: accepted / drafted tokens, and 1 + accepted / rounds, as `pcg.take.Take` has them."""

    acceptance_rate: float | None
    mean_acceptance_length: float


def follow(synthesizer: Synthesizer, take: Take, reference: Reference | None = None) -> Path:
    """Read the take's tokens again with both models, one pass each. reference: what it was spoken with, if not a known voice.
    Raises InputError for a long text of which a piece was cut at the length limit, as nothing tells where it ended; for a take
    whose probabilities would fill the memory; and where no draft is loaded."""
    voice = synthesizer.voice
    if voice.draft is None:
        raise InputError("draft", "none", "one whose tokens could be accepted")
    if (most := MOST_PROBABILITIES // voice.codec.codebook_size) < len(take.tokens):
        raise InputError("take", f"one of {len(take.tokens):,} tokens", f"one of at most {most:,} tokens")
    p, q, starts = [], [], [0]
    for prompt, tokens, count in _pieces(synthesizer, take, reference):
        target, draft = make_runners(voice.target, voice.draft, [prompt], len(tokens) + 1)
        target.prefill()
        draft.prefill()
        span = _target_span(target, tokens, take.settings)
        p.append(_draft_probabilities(draft, tokens, span)[:count])
        q.append(span.probs[:count].numpy())
        starts.append(starts[-1] + count)
    return Path(np.concatenate(p), np.concatenate(q), tuple(starts))


def tolerant_acceptance(path: Path, beta: float = 0.0) -> np.ndarray:
    """Return P(accept) at every position `[T]` under SSD (Eq. 5): sum_x p min(1, min(1, q / p) + beta); at beta = 0, SD's."""
    passing = np.minimum(path.p, np.minimum(path.p, path.q) + beta * path.p)
    return passing.sum(1, dtype=np.float64).clip(max=1)


def coarse_acceptance(path: Path, groups: Groups) -> np.ndarray:
    """Return P(accept) at every position `[T]` under PCG, sum_K min(P_c(K), Q_c(K)), as the mean of min(1, Q_c / P_c) over
    `DRAWS` evenly spaced draws of a token from p and of its label: all groups' masses would cost a hundred times as much."""
    chances = np.empty(len(path.p))
    for t, (p, q, tokens) in enumerate(zip(path.p, path.q, path.drawn.tolist(), strict=True)):
        labels = [groups.label(token, coin) for token, coin in zip(tokens, LABEL_COINS, strict=True)]
        ratios = {k: capped_ratio(groups.mass(q, k), groups.mass(p, k)) for k in set(labels)}
        chances[t] = sum(ratios[k] for k in labels) / DRAWS
    return chances


def estimate(path: Path, acceptance: np.ndarray, lookahead: int) -> PathEstimate:
    """Return the expected figures of a decoder that stays on the path and accepts with chance `acceptance [T]` at each
    position, from expectations at every position on, the last first."""
    every, silent = np.arange(path.starts[-1]), np.append(path.silent, path.starts[-1] + lookahead)
    depths = np.minimum(lookahead, silent[silent.searchsorted(every)] - every)
    totals = np.zeros(3)
    for start, end in pairwise(path.starts):
        after = np.zeros((end - start + lookahead + 2, 3))
        for s in range(end - start - 1, -1, -1):
            after[s] = _round(acceptance[start + s : end], int(depths[start + s]), after[s + 1 :])
        totals += after[0]
    rounds, drafted, accepted = totals
    return PathEstimate(float(accepted / drafted) if drafted else None, float(1 + accepted / rounds) if rounds else 1.0)


def what_if(
    synthesizer: Synthesizer, take: Take, reference: Reference | None = None
) -> dict[str, list[tuple[float, PathEstimate]]]:
    """Estimate other values of one setting along a take, all else as in `take`; all verify token by token.

    Returns:
        By the name of a setting, values with their estimates: "theta" for PCG, "beta" for SSD, and "lookahead" for the take's
        own method, which AR, which drafts nothing, and block verification have not. Raises as `follow`.
    """
    path, settings = follow(synthesizer, take, reference), take.settings
    floor = synthesizer.library.neighbours(settings.similarity).floor
    pcg, ssd = settings.for_method("pcg"), settings.for_method("ssd")
    by_setting = {
        "theta": [(theta, pcg.with_(theta=theta)) for theta in THETAS if theta >= floor],
        "beta": [(beta, ssd.with_(beta=beta)) for beta in BETAS],
    }
    rows = {
        name: [(value, estimate(path, acceptance_of(synthesizer, path, other), settings.lookahead)) for value, other in others]
        for name, others in by_setting.items()
    }
    if settings.method != "ar" and settings.verification == "token":
        acceptance = acceptance_of(synthesizer, path, settings)
        rows["lookahead"] = [(lookahead, estimate(path, acceptance, lookahead)) for lookahead in LOOKAHEADS]
    return rows


def acceptance_of(synthesizer: Synthesizer, path: Path, settings: Settings) -> np.ndarray:
    """Return P(accept) at every position `[T]` under the rule of `settings`, whose method drafts."""
    if settings.method == "pcg":
        return coarse_acceptance(path, synthesizer.groups(settings.theta, settings.similarity))
    return tolerant_acceptance(path, settings.beta if settings.method == "ssd" else 0.0)


def _pieces(synthesizer: Synthesizer, take: Take, reference: Reference | None) -> Iterator[tuple[Prompt, list[int], int]]:
    """Yield each piece: prompt, tokens, and the number of positions, one more where it came to its end of speech."""
    pieces: list[tuple[list[int], int]] = []
    tokens: list[int] = []
    for round_ in take.rounds:
        tokens += round_.tokens
        if round_.ended:
            pieces.append((tokens, len(tokens) + 1))
            tokens = []
    pieces += [(tokens, len(tokens))] if tokens else []
    texts, speaker = synthesizer.chunks(take.text), reference or synthesizer.voice.reference(take.voice)
    if len(pieces) != len(texts):
        raise InputError("take", "cut at the length limit", "one in which every piece of the text came to its end")
    for text, (tokens, count) in zip(texts, pieces, strict=True):
        yield synthesizer.voice.reader.prompt(text, speaker), tokens, count


def _target_span(target: ModelRunner, tokens: list[int], settings: Settings) -> SampledSpan:
    """Return the target's probabilities at each of `tokens` and behind the last, read in one pass behind its prompt."""
    return sampled_spans([sampler_of(settings)], target.feed([0], [tokens], len(tokens) + 1), [tokens])[0]


def _draft_probabilities(runner: ModelRunner, tokens: list[int], span: SampledSpan) -> np.ndarray:
    """Return the draft's probabilities `[T + 1, V]` if its round began there; zeros where nothing is proposed."""
    if isinstance(runner, ModelRunner):
        logits = runner.feed([0], [tokens], len(tokens) + 1)[0]
        states = span.states if span.warped else span.states * len(logits)
        return torch.stack([w.probs for w in warp_rows(states, logits)]).numpy()
    coin, sampler = torch.zeros(1), span.states[0]
    unread = ([], *([token] for token in tokens))
    proposals = [runner.propose([RowRequest(0, new, sampler, coins=coin)])[0] for new in unread]
    return torch.stack([proposal.probs.sum(0) for proposal in proposals]).numpy()


def _round(acceptance: np.ndarray, depth: int, after: np.ndarray) -> np.ndarray:
    """Return rounds, drafted and accepted tokens expected from a position on, `[3]`; after: those 1, 2, ... further."""
    expected = np.array([1.0, depth, 0.0])
    reached = 1.0
    for i, chance in enumerate(acceptance[:depth]):
        expected += reached * (1 - chance) * after[i]
        reached *= chance
        expected[2] += reached
    # The end of speech, once accepted, is followed by nothing.
    return expected + reached * after[depth] if depth < len(acceptance) else expected


def surprisal(synthesizer: Synthesizer, take: Take, reference: Reference | None = None) -> float:
    """Return -log of the probability of the tokens of `take` under the target, in nats, by one reading with the target; the
    ends of speech are left out. Raises InputError for a long text of which a piece was cut."""
    nats = 0.0
    for prompt, tokens, _ in _pieces(synthesizer, take, reference):
        target = ModelRunner(synthesizer.voice.target, [prompt], len(tokens) + 1)
        target.prefill()
        q = _target_span(target, tokens, take.settings).probs[range(len(tokens)), tokens].double()
        nats -= float(q.clamp(min=1e-30).log().sum())
    return nats
