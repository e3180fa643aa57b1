"""Drafts for any target, made of its layers or reading its states: the recipe, what they learn from, how they are tried.

A run keeps what it resumes from in `training/` inside the draft's folder.
"""

import random
from collections.abc import Callable, Mapping, Sequence
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
from pcg.files import renew_checksums
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
from pcg.training.feature_draft import OBJECTIVES, FeatureLoss, FeatureModel, Objective
from pcg.training.loop import Stage, agrees, learn, load_checkpoint, make_optimizers, read_log, run, with_fast_gradients
from pcg.training.publish import write_draft
from pcg.training.samples import by_voice, own_samples, read_manifest, read_shards
from pcg.training.target import speech_logits
from pcg.training.tokens import Batch, Epochs, TokenizedUtterance, lay_out, used_codes

FEATURE = "feature"
TRIALS = 24
EVERY = 50
"""Steps between two rows of the log."""
USUAL_LR, USUAL_WIDTH = 3e-3, 256
# PCG's draft learns without distillation (section 3.1), SSD's by cross-entropy (section 2.3).
OBJECTIVE_OF = {"pcg": "ce", "ssd": "ce", FEATURE: "overlap"}

Pair = tuple[TokenizedUtterance, TokenizedUtterance]
NAMED_PLANS = ("pcg", "ssd", "subset")


@dataclass(frozen=True)
class DraftPlan:
    """layers: of the target, in order. trained: which of the draft's own layers learn, counted from its lowest, with the LM
    head; None: every weight learns."""

    layers: tuple[int, ...]
    trained: tuple[int, ...] | None = None

    @classmethod
    def read(cls, words: str, depth: int) -> "DraftPlan":
        """Read a plan for a target of `depth` layers.

        "pcg": three layers, and every weight learns (PCG section 3.1). The paper does not say which three. It follows SSD,
        which takes a quarter of its draft from the bottom and the rest from the top: of three, the lowest and the upper two.
        "ssd": the lower two and the upper six layers; the first two and the head learn (SSD sections 2.3 and 3.1).
        "subset": the lowest and the highest layer. Or numbers of layers as in "0,1,27", of which every weight learns.
        """
        if words in NAMED_PLANS:
            lower, upper = {"pcg": (1, 2), "ssd": (2, 6), "subset": (1, 1)}[words]
            layers = (*range(min(lower, depth)), *range(max(lower, depth - upper), depth))
            return cls(layers, trained=(0, 1) if words == "ssd" else None)
        numbers = [int(n) for n in words.split(",") if n.isascii() and n.isdigit() and len(n) < 5]
        if len(numbers) != words.count(",") + 1 or sorted(set(numbers)) != numbers or numbers[-1] >= depth:
            plans = f"feature, {', '.join(NAMED_PLANS)}"
            raise InputError("plan", words[:40], f"{plans}, or numbers of layers, lowest first, as in 0,{depth - 1}")
        return cls(tuple(numbers))


def new_draft(target: LlamaForCausalLM, plan: DraftPlan) -> LlamaForCausalLM:
    """Return the untrained draft of `plan` with the target's weights; weights that do not learn are frozen.

    A tied head that learns while the embedding stays is no longer tied. The weights, and not the config, say whether target and
    draft are tied: a config may be wrong.
    """
    draft = layer_subset(target, plan.layers)
    head, embedding = target.get_output_embeddings().weight, target.get_input_embeddings().weight
    if plan.trained is not None or head is not embedding:
        draft.config.tie_word_embeddings = False
        draft.lm_head.weight = nn.Parameter(head.detach().clone())
        draft.get_input_embeddings().weight = nn.Parameter(embedding.detach().clone())
    if plan.trained is not None:
        draft.requires_grad_(False)
        learned: Sequence[nn.Module] = [draft.lm_head, *(draft.model.layers[place] for place in plan.trained)]
        for module in learned:
            module.requires_grad_(True)
    return draft


@dataclass(frozen=True)
class LayerLoss:
    """The loss of a batch, summed over its tokens, and the sums of the figures that are logged."""

    draft: LlamaForCausalLM
    target: LlamaForCausalLM
    vocabulary: Vocabulary
    objective: Objective
    precision: str

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        distils = self.objective.kl > 0 or self.objective.tv > 0
        with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            logits, labels = speech_logits(self.draft, batch, self.vocabulary)
            with torch.no_grad():
                wanted = speech_logits(self.target, batch, self.vocabulary)[0] if distils else None
        log_p = logits.float().log_softmax(-1)
        ce = nn.functional.nll_loss(log_p, labels, reduction="sum")
        if wanted is None:
            return self.objective.ce * ce, {"ce": ce.detach()}
        q = wanted.float().softmax(-1)
        kl = nn.functional.kl_div(log_p, q, reduction="sum")
        overlap = torch.minimum(q, log_p.exp()).sum()
        figures = {"ce": ce.detach(), "kl": kl.detach(), "expected_acceptance": overlap.detach()}
        loss = self.objective.ce * ce + self.objective.kl * kl + self.objective.tv * (len(labels) - overlap)
        return loss, figures


class DraftRecipe(Recipe):
    """Choices of a draft's training."""

    plan: str = Field("pcg", description="feature, pcg, ssd, subset, or numbers of layers of the target, as in 0,1,27.")
    objective: Literal["ce", "distil", "overlap"] | None = Field(None, description="The plan's own where it is left out.")
    steps: Count = 2000
    samples: Annotated[int, Field(ge=2, description="Texts that the target says for its draft.")] = 2400
    temperature: Annotated[float, Field(ge=bounds("temperature").low, le=bounds("temperature").high)] = 0.8
    budget: Annotated[Count, Field(description="Tokens in a batch.")] = 4096
    longest: Annotated[Count, Field(description="Speech codes in a row of a batch.")] = 800
    lr: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, description="0.003 at width 256, less for wider targets.")
    precision: Literal["bf16", "fp32"] = "bf16"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    taps: tuple[Count, ...] | None = Field(None, description="Layers that a feature draft reads; those after each quarter.")
    rank: Annotated[int, Field(ge=0, description="Of a feature draft's head; 0: the target's own head.")] = 0

    @property
    def minimised(self) -> Objective:
        chosen = OBJECTIVES[self.objective or OBJECTIVE_OF.get(self.plan, "distil")]
        if self.plan == FEATURE and chosen.ce:
            raise InputError("objective", self.objective, "distil or overlap, where the plan is feature")
        return chosen

    def rate(self, width: int) -> float:
        """Return the learning rate of Muon for a target of this width; AdamW's is two thirds of it."""
        return USUAL_LR * USUAL_WIDTH / width if self.lr is None else self.lr

    def new_draft(self, target: LlamaForCausalLM, vocabulary: Vocabulary) -> LlamaForCausalLM | FeatureModel:
        """Return the untrained draft; raise InputError where plan, taps or rank do not fit the target."""
        depth = target.config.num_hidden_layers
        if self.plan != FEATURE:
            if self.taps or self.rank:
                raise InputError("taps or rank", self.taps or self.rank, f"left out where the plan is not {FEATURE}")
            return new_draft(target, DraftPlan.read(self.plan, depth))
        taps = usual_taps(depth) if self.taps is None else self.taps
        if not taps or sorted(set(taps)) != list(taps) or taps[-1] > depth:
            raise InputError("taps", list(taps), f"numbers from 1 to {depth}, rising")
        torch.manual_seed(self.seed)
        return FeatureModel(target, vocabulary, taps, self.rank)


@dataclass(frozen=True)
class Material:
    """What is learned from. `samples` may be empty where the objective takes none."""

    corpus: Sequence[TokenizedUtterance]
    samples: Sequence[TokenizedUtterance]
    reader: PromptReader
    vocabulary: Vocabulary

    def batches(self, objective: Objective, recipe: DraftRecipe) -> Callable[[int], Batch]:
        """Return a function that makes batch n of a run, always the same."""

        def epochs(spoken: Sequence[TokenizedUtterance], what: str) -> Epochs:
            chained = Epochs(spoken, self.reader, self.vocabulary.codes, recipe.budget, recipe.seed, recipe.longest)
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


@dataclass(frozen=True)
class Trial:
    """Tries drafts of one target by the engine: for each pair the second's text is said with the first as reference."""

    target: LlamaForCausalLM
    pairs: Sequence[Pair]
    reader: PromptReader
    vocabulary: Vocabulary
    rules: Mapping[str, Rule]
    settings: Settings

    @classmethod
    def of(cls, target: LlamaForCausalLM, material: Material, pairs: Sequence[Pair], settings: Settings) -> "Trial":
        """Make a trial by SD, and by PCG with the target's groups; codes that the corpus does not use stand alone."""
        vocabulary, theta = material.vocabulary, settings.theta
        codes = slice(vocabulary.first_code, vocabulary.first_code + vocabulary.codes)
        embedding = target.get_input_embeddings().weight.detach()[codes].float().cpu()
        used = used_codes(material.corpus, vocabulary.codes) > 0
        groups = build_neighbours(embedding, theta, used, device=target.device.type).groups_at(theta)
        return cls(target, pairs, material.reader, vocabulary, {"sd": exact, "pcg": coarse(groups, "thinning")}, settings)

    def accepted(self, draft: LlamaForCausalLM | FeatureModel) -> dict[str, float]:
        """Return for each rule the share of drafted tokens that is accepted; coins are the same at each call."""
        if isinstance(draft, FeatureModel):
            drafting: AnyDraft = draft.decoding(Checkpoint.of(self.target))
        else:
            drafting = DecodingLlama(draft, self.vocabulary)
        return {name: round(self._accepted(drafting, rule), 4) for name, rule in self.rules.items()}

    def _accepted(self, draft: AnyDraft, rule: Rule) -> float:
        settings, target = self.settings, DecodingLlama(self.target, self.vocabulary)
        prompts = [lay_out(a, [b], self.reader) for a, b in self.pairs]
        limits = [int(1.6 * len(b.codes)) + 40 for _, b in self.pairs]
        runners = make_runners(target, draft, prompts, max(limits) + settings.lookahead + 1)
        for runner in runners:
            runner.prefill()
        coins = [torch.Generator().manual_seed(settings.seed + i) for i in range(len(prompts))]
        sequences = begin(Plain(settings.temperature), limits, coins)
        accepted = drafted = 0
        for step in speculative(*runners, rule, settings.lookahead, sequences):
            for round_ in step.values():
                accepted += round_.accepted
                drafted += len(round_.drafted)
        return accepted / max(1, drafted)


def train_draft(
    directory: Path,
    draft: LlamaForCausalLM | FeatureModel,
    target: LlamaForCausalLM,
    material: Material,
    recipe: DraftRecipe,
    device: str,
    trial: Trial,
    name: str = "draft",
) -> dict[str, float]:
    """Train `draft` in place; log and checkpoint lie in `directory` under `name`.

    Args:
        trial: its figures are logged on the way.

    Returns:
        The figures of the last trial.
    """
    objective, features = recipe.minimised, isinstance(draft, FeatureModel)
    draft.to(device).train()
    target.to(device).eval().requires_grad_(False)
    if features:
        losses = FeatureLoss(draft, target, objective, recipe.temperature, recipe.precision)
    else:
        with_fast_gradients(draft)
        losses = LayerLoss(draft, target, material.vocabulary, objective, recipe.precision)
    batch, rate = material.batches(objective, recipe), recipe.rate(target.config.hidden_size)
    optimizers = make_optimizers(draft, lr=2 / 3 * rate, muon_lr=rate, weight_decay=0.0)
    stage = Stage(
        name,
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

    Raises:
        InputError: if the target, the tokens or the recipe do not fit together, or `out` holds a draft of other options.
    """
    target, vocabulary, reader = open_target(model, tokens)
    draft, objective = recipe.new_draft(target, vocabulary), recipe.minimised
    corpus, pairs = _corpus(recipe, tokens, reader, vocabulary)
    state = out / "training"
    # A run that resumes may have more steps than before, and nothing else that differs.
    asked = {name: value for name, value in recipe.as_dict().items() if name != "steps"} | {"objective": asdict(objective)}
    if not agrees(state / "job.json", asked | {"target": weights_digest(_weights(model)), "tokens": read_manifest(tokens)}):
        raise InputError("out", str(out), "a new folder, or one whose draft was begun with the same options")
    target.to(device, torch.bfloat16 if device == "cuda" else torch.float32).requires_grad_(False)
    samples: list[TokenizedUtterance] = []
    if objective.own:
        speaker, chosen = DecodingLlama(target, vocabulary), (recipe.samples, recipe.temperature, recipe.seed)
        samples = own_samples(state / "samples", speaker, corpus, reader, *chosen)
    material = Material(corpus, samples, reader, vocabulary)
    settings = Settings(temperature=recipe.temperature, seed=recipe.seed)
    accepted = train_draft(state, draft, target, material, recipe, device, Trial.of(target, material, pairs, settings))
    facts = {"target": Path(model).name, "recipe": recipe.as_dict(), "objective": asdict(objective)}
    write_draft(out, draft, facts | {"acceptance": accepted, "settings": settings.as_dict()})
    renew_checksums(out)
    return accepted


def open_target(model: str, tokens: Path) -> tuple[LlamaForCausalLM, Vocabulary, PromptReader]:
    """Load the target of the shipped voice ("embedded"), of the voice in a folder, or the LLaSA or NeuTTS in a folder, for the
    codes of which `tokens` was made."""
    folder = _weights(model)
    if (folder.parent / "voice.json").is_file():
        voice = load_voice(str(folder.parent), draft="none")
        return load_llama(folder, voice.vocabulary), voice.vocabulary, voice.reader
    codes = int(read_manifest(tokens)["codes"])
    reader = (neutts if is_neutts(folder) else llasa).load_reader(folder, codes)
    vocabulary = Vocabulary(codes, reader.first_code, reader.end)
    return load_llama(folder, vocabulary), vocabulary, reader


def _weights(model: str) -> Path:
    """Return the folder of the target's own weights."""
    folder = EMBEDDED if model == "embedded" else Path(model)
    if (folder / "voice.json").is_file():
        return folder / "target"
    if not (folder / "config.json").is_file():
        raise InputError("target", model, "'embedded', or a folder that holds voice.json or a LLaSA")
    return folder


def _corpus(
    recipe: DraftRecipe, tokens: Path, reader: PromptReader, vocabulary: Vocabulary
) -> tuple[list[TokenizedUtterance], list[Pair]]:
    """Return the utterances to learn from, and pairs of others to try the draft on."""
    if int(read_manifest(tokens)["codes"]) != vocabulary.codes:
        raise InputError("tokens", str(tokens), f"made by the target's codec, of {vocabulary.codes} codes")
    longest = recipe.longest // 2  # so that two fit into a row
    spoken = read_shards(tokens, reader, longest)
    pairs = draw_pairs(spoken, min(TRIALS, len(spoken) // 8), recipe.seed)
    held_out = {id(utterance) for pair in pairs for utterance in pair}
    if not pairs:
        raise InputError("tokens", f"{len(spoken)} utterances of at most {longest} codes", "at least 8, two of one voice")
    return [utterance for utterance in spoken if id(utterance) not in held_out], pairs


def train_baselines(
    directory: Path, target: LlamaForCausalLM, material: Material, recipe: DraftRecipe, device: str, trial: Trial
) -> None:
    """Train the drafts of the papers, and the lowest and highest layer; checkpoints and logs lie in `directory`."""
    for name in NAMED_PLANS:
        own = recipe.model_copy(update={"plan": name})
        train_draft(directory, own.new_draft(target, material.vocabulary), target, material, own, device, trial, name)


def write_baselines(out: Path, directory: Path, target: LlamaForCausalLM) -> None:
    """Write the baselines that are trained in `directory` beside the voice's own draft, each as `draft-NAME`."""
    for name in NAMED_PLANS:
        saved = directory / f"{name}.safetensors"
        if not saved.exists():
            continue
        plan = DraftPlan.read(name, target.config.num_hidden_layers)
        draft = new_draft(target, plan)
        step = load_checkpoint(saved, {"draft": draft}, {})["step"]
        figures = {k: v for row in read_log(directory / f"{name}.jsonl") for k, v in row.items() if k.startswith("held_out")}
        objective = OBJECTIVES[OBJECTIVE_OF.get(name, "distil")]
        facts = {"plan": asdict(plan), "objective": asdict(objective), "steps": int(step), "acceptance": figures}
        with torch.no_grad():
            write_draft(out / f"draft-{name}", draft, facts)
