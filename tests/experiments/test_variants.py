"""Variants of the acceptance rule, by name, on a tiny voice."""

import pytest
import torch

from pcg.errors import InputError
from pcg.experiments.variants import FORMS, Variants
from pcg.groups.variants import WeightedGroups
from pcg.rules import Coins, membership, typical
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

SETTINGS = Settings(theta=0.3)
CODES = 64


@pytest.fixture(scope="module")
def synthesizer(tiny_voice_folder, tmp_path_factory):
    return Synthesizer(load_voice(str(tiny_voice_folder)), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def variants(synthesizer):
    return Variants(synthesizer)


def rounds(rule, count=100):
    """Rounds of one drafted token each, the tokens in turn, by laws that disagree."""
    generator = torch.Generator().manual_seed(0)
    p, q = torch.randn(2, CODES + 1, generator=generator, dtype=torch.float64).softmax(-1)
    drafts = [torch.tensor([t % (CODES + 1)]) for t in range(count)]
    return [rule(drafted, p[None], q.expand(2, -1), Coins.draw(1, generator)) for drafted in drafts]


@pytest.mark.parametrize("name", ["membership:4", "typical:0.09:0.3", "weighted", "partition"])
def test_every_variant_speaks(name, synthesizer, variants):
    take = synthesizer.take("hello", SETTINGS, "one", rule=variants.variant_rule(name, SETTINGS))
    assert take.tokens
    assert take.drafted > 0


def test_rules_without_groups_are_those_of_their_numbers(variants):
    assert rounds(variants.variant_rule("membership:4", SETTINGS)) == rounds(membership(4))
    assert rounds(variants.variant_rule("typical:0.02:0.5", SETTINGS)) == rounds(typical(0.02, 0.5))
    assert rounds(membership(4)) != rounds(membership(20))


def test_weighted_shares_by_similarity(synthesizer, variants):
    groups = WeightedGroups.at(synthesizer.library.neighbours(), SETTINGS.theta)
    seen = [v.tests[0] for v in rounds(variants.variant_rule("weighted", SETTINGS))]
    generator = torch.Generator().manual_seed(0)
    p, q = torch.randn(2, CODES + 1, generator=generator, dtype=torch.float64).softmax(-1)
    assert all((t.mass_p, t.mass_q) == (groups.mass(p, t.group), groups.mass(q, t.group)) for t in seen)
    equal = synthesizer.groups(SETTINGS.theta)
    assert any(t.mass_q != equal.mass(q, t.group) for t in seen)


@pytest.mark.parametrize("theta", [0.25, 0.4])
def test_partition_has_the_mean_size_of_the_groups_and_no_overlap(theta, synthesizer, variants):
    seen = [v.tests[0] for v in rounds(variants.variant_rule("partition", SETTINGS.with_(theta=theta)), CODES + 1)]
    wanted = synthesizer.statistics(theta).mean_size
    assert wanted > 1.5
    assert sum(t.group_size for t in seen) / len(seen) == pytest.approx(wanted, rel=0.15)
    numbers = [t.group for t in seen]
    assert all(numbers.count(t.group) == t.group_size for t in seen)


def test_rules_over_groups_are_kept_by_theta_and_similarity(variants):
    for name in ("weighted", "partition"):
        rule = variants.variant_rule(name, SETTINGS)
        assert variants.variant_rule(name, SETTINGS.with_(seed=5, lookahead=2)) is rule
        assert variants.variant_rule(name, SETTINGS.with_(theta=0.35)) is not rule
    by_mel = SETTINGS.with_(similarity="mel")
    assert rounds(variants.variant_rule("weighted", by_mel)) != rounds(variants.variant_rule("weighted", SETTINGS))


@pytest.mark.parametrize("name", ["", "best", "membership", "membership:x", "membership:3:4", "typical:0.1", "weighted:2"])
def test_an_unknown_name_is_answered_with_the_forms(name, variants):
    with pytest.raises(InputError, match="membership:K, typical:EPS:DELTA, weighted, partition") as error:
        variants.variant_rule(name, SETTINGS)
    assert error.value.field == "rule"
    assert all(form in str(error.value) for form in FORMS)


@pytest.mark.parametrize("name", ["membership:0", "typical:2:0.3", "typical:0.1:nan"])
def test_numbers_out_of_range_are_refused(name, variants):
    with pytest.raises(InputError):
        variants.variant_rule(name, SETTINGS)


def test_only_embeddings_are_partitioned(variants):
    with pytest.raises(InputError, match="cosine"):
        variants.variant_rule("partition", SETTINGS.with_(similarity="mel"))
