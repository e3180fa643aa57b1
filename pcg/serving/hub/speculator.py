"""A SpeculativeGenerate by settings, kept with its target: fusing weights and finding groups takes longer than a call."""

from typing import TYPE_CHECKING

from transformers import LlamaForCausalLM

from pcg.decode.hf_generate import SpeculativeGenerate
from pcg.errors import InputError
from pcg.groups.library import load_or_build_neighbours
from pcg.models.weights import Vocabulary, layer_subset
from pcg.places import CACHE
from pcg.rules import Rule, coarse, exact, tolerant
from pcg.settings import Settings
from pcg.synthesis.voice import untrained_layers

if TYPE_CHECKING:
    from transformers.generation.streamers import BaseStreamer

KEPT = "_pcg_kept"


def speculator(
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM | None,
    settings: Settings,
    vocabulary: Vocabulary,
    streamer: "BaseStreamer | None" = None,
) -> SpeculativeGenerate:
    """Return what `target.generate(custom_generate=...)` takes for one call: coins of its own, and the weights that the
    last call fused, where that asked for the same but the seed.

    draft: None for three layers of the target. Raises InputError for the method "ar", which drafts nothing, and for models that
    do not fit.
    """
    made_for, kept = (settings.with_(seed=0), vocabulary, id(draft)), target.__dict__.get(KEPT, (None, None, None))
    if kept[0] != made_for:
        rule = _rule(target, settings, vocabulary)
        depth = target.config.num_hidden_layers
        drafting = layer_subset(target, untrained_layers(depth)).to(target.device) if draft is None else draft
        made = SpeculativeGenerate(target, drafting, vocabulary, rule, settings.lookahead)
        kept = target.__dict__[KEPT] = made_for, draft, made  # the draft stays, or another one could get its id
    return kept[2].bound(settings.seed, streamer)


def _rule(target: LlamaForCausalLM, settings: Settings, vocabulary: Vocabulary) -> Rule:
    if settings.method == "ar":
        raise InputError("method", "ar", "sd, ssd or pcg: for AR call generate as it is")
    if settings.method != "pcg":
        return tolerant(settings.beta) if settings.method == "ssd" else exact
    codes = slice(vocabulary.first_code, vocabulary.first_code + vocabulary.codes)
    embedding = target.get_input_embeddings().weight[codes].detach().float().cpu()
    groups = load_or_build_neighbours(embedding, settings.theta, None, CACHE, target.device.type).groups_at(settings.theta)
    return coarse(groups, "thinning" if settings.theta < 1 else "dense")
