"""Drafts for any target, made of its layers or reading its states: the recipe, what they learn from, how they are tried. A run
keeps what it resumes from in `training/` inside the draft's folder."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from pcg.decode.speculative import Request, decode_on_host
from pcg.errors import InputError
from pcg.files import renew_checksums, write_json
from pcg.groups.neighbours import build_neighbours
from pcg.models.feature_draft import usual_taps
from pcg.models.hub import is_neutts, weights_digest
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, layer_subset, load_llama
from pcg.recipe import Count, Recipe
from pcg.rules import coarse, exact
from pcg.sampling import Plain
from pcg.settings import Settings, bounds
from pcg.synthesis.voice import EMBEDDED, load_voice
from pcg.text import llasa, neutts
from pcg.text.prompt import PromptReader
from pcg.training.feature_draft import FeatureModel, unrolled_divergence
from pcg.training.loop import Steps, agrees, learn, make_optimizers, run, with_fast_gradients
from pcg.training.models import read_target, speech_states, write_model
from pcg.training.samples import own_samples, read_manifest, read_tokens
from pcg.training.tokens import Batch, TokenBatches, TokenizedUtterance, by_voice, lay_out, used_codes

FEATURE = "feature"
TRIALS = 24
EVERY = 50
"""Steps between two rows of the log."""
USUAL_LR, USUAL_WIDTH = 3e-3, 256
KL, TV = 0.3, 1.0
CORPUS_EVERY = 4
"""A feature draft reads the corpus in one of so many batches, and the target's own samples in the others."""

Pair = tuple[TokenizedUtterance, TokenizedUtterance]


def plan_layers(plan: str, depth: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the layers of a target of `depth` layers that a plan takes, in order, and which of the draft's own layers learn,
    counted from its lowest, with the LM head; None: every weight learns.

    "pcg": three layers (PCG section 3.1). The paper does not say which. It follows SSD, which takes a quarter of its draft from
    the bottom and the rest from the top: of three, the lowest and the upper two. "ssd": the lower two and the upper six layers;
    the first two and the head learn (SSD sections 2.3 and 3.1). Or numbers of layers as in "0,1,27".
    """
    if plan in ("pcg", "ssd"):
        lower, upper, trained = (1, 2, None) if plan == "pcg" else (2, 6, (0, 1))
        return (*range(min(lower, depth)), *range(max(lower, depth - upper), depth)), trained
    numbers = [int(n) for n in plan.split(",")] if re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", plan) else []
    if not numbers or sorted(set(numbers)) != numbers or numbers[-1] >= depth:
        raise InputError("plan", plan[:40], f"feature, pcg, ssd, or numbers of layers, lowest first, as in 0,{depth - 1}")
    return tuple(numbers), None


def new_draft(target: LlamaForCausalLM, layers: Sequence[int], trained: Sequence[int] | None = None) -> LlamaForCausalLM:
    """Return the untrained draft of `layers` with the target's weights; weights that do not learn are frozen.

    A tied head that learns while the embedding stays is no longer tied. The weights, and not the config, say whether target and
    draft are tied: a config may be wrong.
    """
    draft = layer_subset(target, layers)
    head, embedding = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    if trained is not None or head is not embedding:
        draft.config.tie_word_embeddings = False
        draft.lm_head.weight = nn.Parameter(head.detach().clone())
        draft.get_input_embeddings().weight = nn.Parameter(embedding.detach().clone())
    if trained is not None:
        draft.requires_grad_(False)
        learned: Sequence[nn.Module] = [draft.lm_head, *(draft.model.layers[place] for place in trained)]
        for module in learned:
            module.requires_grad_(True)
    return draft


class DraftRecipe(Recipe):
    """Choices of a draft's training."""

    plan: str = Field("pcg", description="feature, pcg, ssd, or numbers of layers of the target, as in 0,1,27.")
    steps: Count = 2000
    samples: Annotated[int, Field(ge=2, description="Texts that the target says for its draft.")] = 2400
    temperature: Annotated[float, Field(ge=bounds("temperature").low, le=bounds("temperature").high)] = 0.8
    budget: Annotated[Count, Field(description="Tokens in a batch.")] = 4096
    longest: Annotated[Count, Field(description="Speech codes in a row of a batch.")] = 800
    lr: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, description="0.003 at width 256, less for wider targets.")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    rank: Annotated[int, Field(ge=0, description="Of a feature draft's head; 0: the target's own head.")] = 0

    def new_draft(self, target: LlamaForCausalLM, vocabulary: Vocabulary) -> LlamaForCausalLM | FeatureModel:
        """Return the untrained draft; raise InputError where plan or rank do not fit the target."""
        depth = target.config.num_hidden_layers
        if self.plan == FEATURE:
            torch.manual_seed(self.seed)
            return FeatureModel(target, vocabulary, usual_taps(depth), self.rank)
        if self.rank:
            raise InputError("rank", self.rank, f"left out where the plan is not {FEATURE}")
        return new_draft(target, *plan_layers(self.plan, depth))


@dataclass(frozen=True)
class Material:
    """What a draft learns from, and the `pairs` that it is tried on."""

    corpus: Sequence[TokenizedUtterance]
    pairs: Sequence[Pair]
    reader: PromptReader
    vocabulary: Vocabulary


def draw_pairs(spoken: Sequence[TokenizedUtterance], count: int, seed: int) -> list[Pair]:
    """Draw `count` pairs of utterances of one voice, or as many as there are; voices take turns, no utterance comes twice."""
    rng = random.Random(seed)
    voices = [rng.sample(group, len(group)) for group in by_voice(spoken).values()]
    pairs = zip_longest(*([*zip(group[::2], group[1::2], strict=False)] for group in voices))
    return [pair for turn in pairs for pair in turn if pair][:count]


class Trial:
    """Tries drafts of one target by the engine: for each pair the second's text is said with the first as reference, by SD, and
    by PCG with the target's groups; codes that the corpus does not use stand alone."""

    def __init__(self, target: LlamaForCausalLM, material: Material, settings: Settings) -> None:
        self._target, self._settings, self._vocabulary = target, settings, material.vocabulary
        self._prompts = [lay_out(a, [b], material.reader) for a, b in material.pairs]
        self._limits = [int(1.6 * len(b.codes)) + 40 for _, b in material.pairs]
        first, codes = material.vocabulary.first_code, material.vocabulary.codes
        embedding = target.get_input_embeddings().weight.detach()[first : first + codes].float().cpu()
        neighbours = build_neighbours(embedding, settings.theta, used_codes(material.corpus, codes) > 0, target.device.type)
        self._rules = {"sd": exact, "pcg": coarse(neighbours.groups_at(settings.theta), "thinning")}

    def accepted(self, draft: LlamaForCausalLM | FeatureModel) -> dict[str, float]:
        """Return for each rule the share of drafted tokens that is accepted; coins are the same at each call."""
        target, settings, shares = DecodingLlama(self._target, self._vocabulary), self._settings, {}
        features = isinstance(draft, FeatureModel)
        drafting = draft.decoding(Checkpoint.of(self._target)) if features else DecodingLlama(draft, self._vocabulary)
        for name, rule in self._rules.items():
            asked = Plain(settings.temperature), rule, settings.lookahead
            requests = [
                Request(prompt, limit, torch.Generator().manual_seed(settings.seed + i), *asked)
                for i, (prompt, limit) in enumerate(zip(self._prompts, self._limits, strict=True))
            ]
            rounds = [r for step in decode_on_host(target, drafting, requests) for r in step.values()]
            shares[name] = round(sum(r.accepted for r in rounds) / max(1, sum(len(r.drafted) for r in rounds)), 4)
        return shares


def train_draft(
    directory: Path,
    draft: LlamaForCausalLM | FeatureModel,
    target: LlamaForCausalLM,
    material: Material,
    recipe: DraftRecipe,
    device: str,
    steps: Steps | None = None,
) -> dict[str, float]:
    """Train `draft` in place: one of layers by the cross-entropy of the corpus, a feature draft by its divergence from the
    target, mostly on the target's own samples. These, the log and the checkpoint lie in `directory`. steps: in place of the
    recipe's.

    Returns:
        The figures of the last trial.
    """
    features, vocabulary = isinstance(draft, FeatureModel), material.vocabulary
    draft.to(device).train()
    target.to(device).eval().requires_grad_(False)
    settings = Settings(temperature=recipe.temperature, seed=recipe.seed)
    trial, chosen = Trial(target, material, settings), (recipe.budget, recipe.seed, recipe.longest)
    corpus = own = TokenBatches(material.corpus, material.reader, vocabulary.codes, *chosen)
    if features:
        speaker, asked = DecodingLlama(target, vocabulary), (recipe.samples, recipe.temperature, recipe.seed)
        samples = own_samples(directory / "samples", speaker, material.corpus, material.reader, *asked)
        own = TokenBatches(samples, material.reader, vocabulary.codes, *chosen, "samples")
    else:
        with_fast_gradients(draft)

    def losses(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.autocast(batch.ids.device.type, torch.bfloat16):
            if not features:
                hidden, head, labels = speech_states(draft, batch, vocabulary)
                loss = nn.functional.cross_entropy(nn.functional.linear(hidden, head).float(), labels, reduction="sum")
                return loss, {"loss": loss.detach()}
            with torch.no_grad():
                taps, last = read_target(target, batch, draft.shape.tapped_layers)
            loss, overlaps = unrolled_divergence(draft, batch, taps, last, draft.speech_head, KL, TV, recipe.temperature)
        return loss, {"loss": loss.detach()} | overlaps

    def step(index: int) -> dict[str, float]:
        batch = (own if (index + 1) % CORPUS_EVERY else corpus).batch(index)
        return learn(batch.to(device), losses, draft, optimizers)

    rate = recipe.lr or USUAL_LR * USUAL_WIDTH / target.config.hidden_size
    optimizers = make_optimizers(draft, lr=2 / 3 * rate, muon_lr=rate, weight_decay=0.0)
    figures = run(
        "draft",
        directory,
        steps or recipe.steps,
        {"draft": draft},
        optimizers,
        step,
        lambda: trial.accepted(draft),
        warmup=max(1, min(30 if features else 100, recipe.steps // 4)),
        # A feature draft's overlap hardly rises until its rate falls.
        decay_share=0.8 if features else 0.4,
        every=EVERY,
    )
    return figures or trial.accepted(draft)


def train_for(recipe: DraftRecipe, model: str, tokens: Path, out: Path, device: str) -> dict[str, float]:
    """Train a draft for the target `model` on the shards in `tokens`, write it to `out`, and return the figures of its last
    trial.

    Args:
        model: "embedded", or the folder of a voice, a LLaSA or a NeuTTS.

    Raises:
        InputError: if the target, the tokens or the recipe do not fit together, or `out` holds a draft of other options.
    """
    folder, manifest = EMBEDDED if model == "embedded" else Path(model), read_manifest(tokens)
    codes = int(manifest["codes"])
    if (folder / "voice.json").is_file():
        voice, folder = load_voice(str(folder), draft="none"), folder / "target"
        reader, vocabulary = voice.reader, voice.vocabulary
    elif (folder / "config.json").is_file():
        reader = (neutts if is_neutts(folder) else llasa).load_reader(folder, codes)
        vocabulary = Vocabulary(codes, reader.first_code, reader.end)
    else:
        raise InputError("target", model, "'embedded', or a folder that holds voice.json or a LLaSA")
    if codes != vocabulary.codes:
        raise InputError("tokens", str(tokens), f"made by the target's codec, of {vocabulary.codes} codes")
    target = load_llama(folder, vocabulary)
    draft = recipe.new_draft(target, vocabulary)
    # Two utterances of the longest kind fit into a row; the draft is tried on pairs that it does not learn from.
    spoken = read_tokens(tokens, reader, recipe.longest // 2)
    pairs = draw_pairs(spoken, min(TRIALS, len(spoken) // 8), recipe.seed)
    if not pairs:
        counted = f"{len(spoken)} utterances of at most {recipe.longest // 2} codes"
        raise InputError("tokens", counted, "at least 8, two of one voice")
    held_out = {id(utterance) for pair in pairs for utterance in pair}
    corpus = [utterance for utterance in spoken if id(utterance) not in held_out]
    state = out / "training"
    # A run that resumes may have more steps than before, and nothing else that differs.
    asked = {name: value for name, value in recipe.as_dict().items() if name != "steps"}
    if not agrees(state / "job.json", asked | {"target": weights_digest(folder), "tokens": manifest}):
        raise InputError("out", str(out), "a new folder, or one whose draft was begun with the same options")
    target.to(device, torch.bfloat16 if device == "cuda" else torch.float32)
    accepted = train_draft(state, draft, target, Material(corpus, pairs, reader, vocabulary), recipe, device)
    write_model(out, draft)
    write_json(out / "draft.json", {"target": Path(model).name, "recipe": recipe.as_dict(), "acceptance": accepted})
    renew_checksums(out)
    return accepted
