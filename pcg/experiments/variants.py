"""Acceptance rules beside the four methods, by name: what PCG is compared with, and PCG with one thing changed (its ablations).

- membership:K: accept the target's K likeliest tokens. typical:EPS:DELTA: Medusa's typical acceptance
  (`pcg.rules`).
- weighted: PCG whose overlapping groups share a token by similarity, not equally (`pcg.groups.groups`).
- partition: PCG over groups that do not overlap, of the mean size that groups at theta have (`pcg.groups.groups`).
"""

from functools import lru_cache

from pcg.errors import InputError
from pcg.groups.variants import WeightedGroups, partition
from pcg.rules import Rule, coarse, membership, typical
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer

FORMS = ("membership:K", "typical:EPS:DELTA", "weighted", "partition")
PARSED = {"membership": (membership, (int,)), "typical": (typical, (float, float))}
KEPT = 8


class Variants:
    """The variants for one synthesizer; the last `KEPT` that took groups to build are kept. Threads may share it."""

    def __init__(self, synthesizer: Synthesizer) -> None:
        self._synthesizer = synthesizer
        self._over_groups = {
            "weighted": lru_cache(KEPT)(self._weighted),
            "partition": lru_cache(KEPT)(self._partition),
        }

    def variant_rule(self, name: str, settings: Settings) -> Rule:
        """The rule called `name`, one of `FORMS`, at the theta and similarity of `settings`.

        Raises InputError for another name, for "partition" by a similarity other than "cosine", as only embeddings have means.
        """
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


def _residual(theta: float) -> str:
    """As the synthesizer: thinning, whose cost hardly grows with the vocabulary, unless every token stands alone."""
    return "thinning" if theta < 1 else "dense"
