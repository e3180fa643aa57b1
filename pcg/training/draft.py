"""Drafts for any target, made of its layers or reading its states: the recipe, what they learn from, how they are tried.

A run keeps what it resumes from in `training/` inside the draft's folder.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from pcg.decode.runners import AnyDraft, make_runners
from pcg.decode.sequence import begin
from pcg.decode.speculative import speculative
from pcg.errors import InputError
from pcg.files import renew_checksums, write_json
from pcg.groups.neighbours import build_neighbours
from pcg.models.feature_draft import usual_taps
from pcg.models.hub import is_neutts, weights_digest
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, layer_subset, load_llama
from pcg.recipe import Count, Recipe
from pcg.rules import Rule, coarse, exact
from pcg.sampling import Plain
from pcg.settings import Settings, bounds
from pcg.synthesis.voice import EMBEDDED, load_voice
from pcg.text import llasa, neutts
from pcg.text.prompt import PromptReader
from pcg.training.feature_draft import OBJECTIVES, FeatureModel, Objective, divergence, unrolled_divergence
from pcg.training.loop import Stage, agrees, learn, make_optimizers, run, with_fast_gradients
from pcg.training.publish import write_model
from pcg.training.samples import by_voice, own_samples, read_manifest, read_shards
from pcg.training.target import read_target, speech_states
from pcg.training.tokens import Batch, TokenBatches, TokenizedUtterance, lay_out, used_codes

FEATURE = "feature"
TRIALS = 24
EVERY = 50
"""Steps between two rows of the log."""
USUAL_LR, USUAL_WIDTH = 3e-3, 256
# PCG's draft learns without distillation (section 3.1), SSD's by cross-entropy (section 2.3).
OBJECTIVE_OF = {"pcg": "ce", "ssd": "ce", FEATURE: "overlap"}

Pair = tuple[TokenizedUtterance, TokenizedUtterance]


def plan_layers(plan: str, depth: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the layers of a target of `depth` layers that a plan takes, in order, and which of the draft's own layers learn,
    counted from its lowest, with the LM head; None: every weight learns.

    "pcg": three layers, and every weight learns (PCG section 3.1). The paper does not say which three. It follows SSD,
    which takes a quarter of its draft from the bottom and the rest from the top: of three, the lowest and the upper two.
    "ssd": the lower two and the upper six layers; the first two and the head learn (SSD sections 2.3 and 3.1).
    Or numbers of layers as in "0,1,27", of which every weight learns.
    """
    if plan in ("pcg", "ssd"):
        lower, upper = (1, 2) if plan == "pcg" else (2, 6)
        layers = (*range(min(lower, depth)), *range(max(lower, depth - upper), depth))
        return layers, (0, 1) if plan == "ssd" else None
    numbers = [int(n) for n in plan.split(",") if n.isascii() and n.isdigit() and len(n) < 5]
    if len(numbers) != plan.count(",") + 1 or sorted(set(numbers)) != numbers or numbers[-1] >= depth:
        allowed = f"feature, pcg, ssd, or numbers of layers, lowest first, as in 0,{depth - 1}"
        raise InputError("plan", plan[:40], allowed)
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


def layer_loss(
    batch: Batch, draft: LlamaForCausalLM, target: LlamaForCausalLM, vocabulary: Vocabulary, objective: Objective
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of a draft of layers, summed over the tokens of `batch`, and the sums of the figures that are logged."""
    with torch.autocast(batch.ids.device.type, torch.bfloat16):
        hidden, head, labels = speech_states(draft, batch, vocabulary)
        if objective.ce:
            loss = nn.functional.cross_entropy(nn.functional.linear(hidden, head).float(), labels, reduction="sum")
            return objective.ce * loss, {"loss": loss.detach()}
        with torch.no_grad():
            wanted, wanted_head, _ = speech_states(target, batch, vocabulary)
    products = (tensor.bfloat16() for tensor in (hidden[None], head, wanted, wanted_head))
    loss, overlap = divergence(*products, torch.ones(1, len(labels), device=hidden.device), objective, 1.0)
    return loss, {"loss": loss.detach(), "overlap": overlap.sum()}


def feature_loss(
    batch: Batch, draft: FeatureModel, target: LlamaForCausalLM, objective: Objective, temperature: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of a feature draft, summed over the tokens of `batch`, from the target's probabilities at `temperature`;
    and the overlap of each step with the target."""
    with torch.autocast(batch.ids.device.type, torch.bfloat16):
        with torch.no_grad():
            taps, last = read_target(target, batch, draft.shape.tapped_layers)
        loss, overlaps = unrolled_divergence(draft, batch, taps, last, draft.speech_head, objective, temperature)
    return loss, {"loss": loss.detach()} | overlaps


class DraftRecipe(Recipe):
    """Choices of a draft's training."""

    plan: str = Field("pcg", description="feature, pcg, ssd, or numbers of layers of the target, as in 0,1,27.")
    objective: Literal["ce", "distil", "overlap"] | None = Field(None, description="The plan's own where it is left out.")
    steps: Count = 2000
    samples: Annotated[int, Field(ge=2, description="Texts that the target says for its draft.")] = 2400
    temperature: Annotated[float, Field(ge=bounds("temperature").low, le=bounds("temperature").high)] = 0.8
    budget: Annotated[Count, Field(description="Tokens in a batch.")] = 4096
    longest: Annotated[Count, Field(description="Speech codes in a row of a batch.")] = 800
    lr: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, description="0.003 at width 256, less for wider targets.")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    rank: Annotated[int, Field(ge=0, description="Of a feature draft's head; 0: the target's own head.")] = 0

    @property
    def minimised(self) -> Objective:
        chosen = OBJECTIVES[self.objective or OBJECTIVE_OF.get(self.plan, "distil")]
        if self.plan == FEATURE and chosen.ce:
            raise InputError("objective", self.objective, "distil or overlap, where the plan is feature")
        return chosen

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
    """What is learned from. `samples` may be empty where the objective takes none."""

    corpus: Sequence[TokenizedUtterance]
    samples: Sequence[TokenizedUtterance]
    reader: PromptReader
    vocabulary: Vocabulary

    def batches(self, objective: Objective, recipe: DraftRecipe) -> Callable[[int], Batch]:
        """Return a function that makes batch n of a run, always the same."""

        def epochs(spoken: Sequence[TokenizedUtterance], what: str) -> TokenBatches:
            chained = TokenBatches(spoken, self.reader, self.vocabulary.codes, recipe.budget, recipe.seed, recipe.longest)
            if not chained.per_epoch:
                raise InputError(what, f"{len(spoken)} utterances", "at least two of one voice")
            return chained

        own = epochs(self.samples, "samples") if objective.own > 0 else None
        given = epochs(self.corpus, "tokens") if objective.own < 1 else None
        return lambda number: (own if objective.takes_own(number) else given).batch(number)


def draw_pairs(spoken: Sequence[TokenizedUtterance], count: int, seed: int) -> list[Pair]:
    """Draw `count` pairs of utterances of one voice, or as many as there are; voices take turns, no utterance comes twice."""
    rng = random.Random(seed)
    voices = [rng.sample(group, len(group)) for group in by_voice(spoken).values()]
    turns = max((len(group) // 2 for group in voices), default=0)
    pairs = [(group[2 * i], group[2 * i + 1]) for i in range(turns) for group in voices if 2 * i + 1 < len(group)]
    return pairs[:count]


class Trial:
    """Tries drafts of one target by the engine: for each pair the second's text is said with the first as reference, by SD, and
    by PCG with the target's groups; codes that the corpus does not use stand alone."""

    def __init__(self, target: LlamaForCausalLM, material: Material, pairs: Sequence[Pair], settings: Settings) -> None:
        self.target, self.material, self.pairs, self.settings = target, material, pairs, settings
        vocabulary, theta = material.vocabulary, settings.theta
        codes = slice(vocabulary.first_code, vocabulary.first_code + vocabulary.codes)
        embedding = target.get_input_embeddings().weight.detach()[codes].float().cpu()
        used = used_codes(material.corpus, vocabulary.codes) > 0
        groups = build_neighbours(embedding, theta, used, device=target.device.type).groups_at(theta)
        self.rules: dict[str, Rule] = {"sd": exact, "pcg": coarse(groups, "thinning")}

    def accepted(self, draft: LlamaForCausalLM | FeatureModel) -> dict[str, float]:
        """Return for each rule the share of drafted tokens that is accepted; coins are the same at each call."""
        settings, vocabulary, reader = self.settings, self.material.vocabulary, self.material.reader
        target = DecodingLlama(self.target, vocabulary)
        if isinstance(draft, FeatureModel):
            drafting: AnyDraft = draft.decoding(Checkpoint.of(self.target))
        else:
            drafting = DecodingLlama(draft, vocabulary)
        prompts = [lay_out(a, [b], reader) for a, b in self.pairs]
        limits = [int(1.6 * len(b.codes)) + 40 for _, b in self.pairs]
        shares = {}
        for name, rule in self.rules.items():
            runners = make_runners(target, drafting, prompts, max(limits) + settings.lookahead + 1)
            for runner in runners:
                runner.prefill()
            coins = [torch.Generator().manual_seed(settings.seed + i) for i in range(len(prompts))]
            sequences = begin(Plain(settings.temperature), limits, coins)
            rounds = [r for step in speculative(*runners, rule, settings.lookahead, sequences) for r in step.values()]
            shares[name] = round(sum(r.accepted for r in rounds) / max(1, sum(len(r.drafted) for r in rounds)), 4)
        return shares


def train_draft(
    directory: Path,
    draft: LlamaForCausalLM | FeatureModel,
    target: LlamaForCausalLM,
    material: Material,
    recipe: DraftRecipe,
    device: str,
    trial: Trial,
) -> dict[str, float]:
    """Train `draft` in place; its log and its checkpoint lie in `directory`.

    Args:
        trial: its figures are logged on the way.

    Returns:
        The figures of the last trial.
    """
    objective, features = recipe.minimised, isinstance(draft, FeatureModel)
    draft.to(device).train()
    target.to(device).eval().requires_grad_(False)
    if not features:
        with_fast_gradients(draft)

    def losses(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if features:
            return feature_loss(batch, draft, target, objective, recipe.temperature)
        return layer_loss(batch, draft, target, material.vocabulary, objective)

    batch, width = material.batches(objective, recipe), target.config.hidden_size
    rate = USUAL_LR * USUAL_WIDTH / width if recipe.lr is None else recipe.lr
    optimizers = make_optimizers(draft, lr=2 / 3 * rate, muon_lr=rate, weight_decay=0.0)
    stage = Stage(
        "draft",
        directory,
        recipe.steps,
        {"draft": draft},
        optimizers,
        lambda index: learn(batch(index).to(device), losses, draft, optimizers),
        lambda: trial.accepted(draft),
        warmup=max(1, min(30 if features else 100, recipe.steps // 4)),
        # A feature draft's overlap hardly rises until its rate falls.
        decay_share=0.8 if features else 0.4,
        every=EVERY,
    )
    return run(stage) or trial.accepted(draft)


def train_for(recipe: DraftRecipe, model: str, tokens: Path, out: Path, device: str) -> dict[str, float]:
    """Train a draft for the target `model` on the shards in `tokens`, write it to `out`, and return the figures of its last
    trial.

    Args:
        model: "embedded", or the folder of a voice, a LLaSA or a NeuTTS.

    Raises:
        InputError: if the target, the tokens or the recipe do not fit together, or `out` holds a draft of other options.
    """
    folder = EMBEDDED if model == "embedded" else Path(model)
    manifest = read_manifest(tokens)
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
    draft, objective = recipe.new_draft(target, vocabulary), recipe.minimised
    # Two utterances of the longest kind fit into a row; the draft is tried on pairs that it does not learn from.
    spoken = read_shards(tokens, reader, recipe.longest // 2)
    pairs = draw_pairs(spoken, min(TRIALS, len(spoken) // 8), recipe.seed)
    if not pairs:
        counted = f"{len(spoken)} utterances of at most {recipe.longest // 2} codes"
        raise InputError("tokens", counted, "at least 8, two of one voice")
    held_out = {id(utterance) for pair in pairs for utterance in pair}
    corpus = [utterance for utterance in spoken if id(utterance) not in held_out]
    state = out / "training"
    # A run that resumes may have more steps than before, and nothing else that differs.
    asked = {name: value for name, value in recipe.as_dict().items() if name != "steps"} | {"objective": asdict(objective)}
    if not agrees(state / "job.json", asked | {"target": weights_digest(folder), "tokens": manifest}):
        raise InputError("out", str(out), "a new folder, or one whose draft was begun with the same options")
    target.to(device, torch.bfloat16 if device == "cuda" else torch.float32).requires_grad_(False)
    samples: list[TokenizedUtterance] = []
    if objective.own:
        speaker, chosen = DecodingLlama(target, vocabulary), (recipe.samples, recipe.temperature, recipe.seed)
        samples = own_samples(state / "samples", speaker, corpus, reader, *chosen)
    material = Material(corpus, samples, reader, vocabulary)
    settings = Settings(temperature=recipe.temperature, seed=recipe.seed)
    accepted = train_draft(state, draft, target, material, recipe, device, Trial(target, material, pairs, settings))
    facts = {"target": Path(model).name, "recipe": recipe.as_dict(), "objective": asdict(objective)}
    write_model(out, draft)
    write_json(out / "draft.json", facts | {"acceptance": accepted, "settings": settings.as_dict()})
    renew_checksums(out)
    return accepted
