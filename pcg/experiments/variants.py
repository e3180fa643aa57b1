"""Acceptance rules beside the four methods, by name: what PCG is compared with, and PCG with one thing changed (its ablations).

- membership:K: accept the target's K likeliest tokens. typical:EPS:DELTA: Medusa's typical acceptance
  (`pcg.acceptance.baselines`).
- weighted: PCG whose overlapping groups share a token by similarity, not equally (`pcg.groups.weighted`).
- partition: PCG over groups that do not overlap, of the mean size that groups at theta have (`pcg.groups.partition`).
- redraw: PCG that draws a round's last token again after a full acceptance (`pcg.acceptance.coarse_grained`).
"""

from functools import lru_cache

from pcg.acceptance.baselines import membership, typical
from pcg.acceptance.coarse_grained import coarse
from pcg.acceptance.verdict import Rule
from pcg.errors import InputError
from pcg.groups.partition import partition
from pcg.groups.weighted import WeightedGroups
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

FORMS = ("membership:K", "typical:EPS:DELTA", "weighted", "partition", "redraw")
PARSED = {"membership": (membership, (int,)), "typical": (typical, (float, float))}
KEPT = 8


class Variants:
    """The variants for one synthesizer; the last `KEPT` that took groups to build are kept. Threads may share it."""

    def __init__(self, synthesizer: Synthesizer) -> None:
        self._synthesizer = synthesizer
        self._over_groups = {
            "weighted": lru_cache(KEPT)(self._weighted),
            "partition": lru_cache(KEPT)(self._partition),
            "redraw": lru_cache(KEPT)(self._redraw),
        }

    def variant_rule(self, name: str, settings: Settings) -> Rule:
        """The rule called `name`, one of `FORMS`, at the theta and similarity of `settings`.

        Raises InputError for another name, for "partition" by a similarity other than "cosine", as only embeddings have means,
        and for "redraw" with adaptive drafting, where the drafted tokens decide themselves which is the last.
        """
        if name == "redraw" and settings.adaptive:
            raise InputError("adaptive", "true", "false with the rule redraw: no drafted token may decide which is the last")
        if name in self._over_groups:
            return self._over_groups[name](settings.theta, settings.similarity)
        try:
            kind, *values = name.split(":")
            make, types = PARSED[kind]
            numbers = [of(value) for of, value in zip(types, values, strict=True)]
        except (KeyError, ValueError) as error:
            raise InputError("rule", name, "one of " + ", ".join(FORMS)) from error
        return make(*numbers)

    def _weighted(self, theta: float, similarity: str) -> Rule:
        return coarse(WeightedGroups.at(self._synthesizer.library.neighbours(similarity), theta), _residual(theta))

    def _partition(self, theta: float, similarity: str) -> Rule:
        if similarity != "cosine":
            raise InputError("similarity", similarity, "cosine where the groups are a partition")
        voice, size = self._synthesizer.voice, self._synthesizer.library.neighbours().mean_size_at(theta)
        return coarse(partition(voice.code_embedding, voice.usage > 0, size), _residual(theta))

    def _redraw(self, theta: float, similarity: str) -> Rule:
        return coarse(self._synthesizer.groups(theta, similarity), _residual(theta), redraw=True)


def _residual(theta: float) -> str:
    """As the synthesizer: thinning, whose cost hardly grows with the vocabulary, unless every token stands alone."""
    return "thinning" if theta < 1 else "dense"
