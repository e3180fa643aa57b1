"""The recipe of a draft for any target: tokens, the target's own samples, training with trials, and the draft's folder.

Everything that a killed run goes on from lies in `training/` inside that folder.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.files import renew_checksums
from pcg.models.feature_draft import usual_taps
from pcg.models.hub import is_neutts, weights_digest
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.models.weights import Checkpoint, load_llama
from pcg.settings import Settings
from pcg.synthesis.voice import EMBEDDED, load_voice
from pcg.text import llasa, neutts
from pcg.text.prompt import PromptReader
from pcg.training.feature_draft import FeatureModel, hold_out, train_feature
from pcg.training.layer_draft import FEATURE, OBJECTIVE_OF, OTHERWISE, DraftPlan, new_draft, train_draft
from pcg.training.loop import agrees
from pcg.training.publish import write_draft, write_feature_draft
from pcg.training.samples import (
    OBJECTIVES,
    AcceptanceTrial,
    Examiner,
    Material,
    Objective,
    Pair,
    Sampling,
    Schedule,
    draw_pairs,
    own_samples,
    read_manifest,
    read_shards,
    sd_and_pcg,
)
from pcg.training.tokens import TokenizedUtterance, used_codes

TRIALS = 24
USUAL_LR, USUAL_WIDTH = 3e-3, 256


@dataclass(frozen=True)
class DraftJob:
    """What is asked for. target: "embedded" or a folder; tokens: what `prepare_tokens` wrote; out: the draft's folder; samples:
    how many texts the target says for it; lr: None for one that falls with the target's width; objective: None for that of the
    plan. taps: layers of the target as in "3,6,9,12", counted from 1, and rank: of the head, for plan "feature" alone; None for
    the layers behind each quarter, 0 for the target's own head."""

    target: str
    tokens: Path
    out: Path
    plan: str = "pcg"
    objective: str | None = None
    steps: int = 2000
    samples: int = 2400
    temperature: float = 0.8
    budget: int = 4096
    longest: int = 800
    lr: float | None = None
    precision: str = "bf16"
    seed: int = 0
    taps: str | None = None
    rank: int = 0

    def __post_init__(self) -> None:
        if self.objective is not None and self.objective not in OBJECTIVES:
            raise InputError("objective", self.objective, "one of " + ", ".join(OBJECTIVES))
        for name in ("taps", "rank"):
            if getattr(self, name) and self.plan != FEATURE:
                raise InputError(name, getattr(self, name), f"left out where the plan is not {FEATURE}")
        if self.samples < 2:
            raise InputError("samples", self.samples, "a whole number from 2 up")
        if self.plan == FEATURE and self.minimised.ce:
            raise InputError("objective", self.objective, f"distil or overlap, where the plan is {FEATURE}")
        Settings(temperature=self.temperature, seed=self.seed)
        self.schedule(USUAL_WIDTH)  # refuses what no training can use, before anything is written

    @property
    def minimised(self) -> Objective:
        return OBJECTIVES[self.objective or OBJECTIVE_OF.get(self.plan, OTHERWISE)]

    def tapped(self, depth: int) -> tuple[int, ...]:
        """The layers that a feature draft of a target of `depth` layers reads."""
        if self.taps is None:
            return usual_taps(depth)
        numbers = [int(n) for n in self.taps.split(",") if n.isascii() and n.isdigit() and len(n) < 5]
        if len(numbers) != self.taps.count(",") + 1 or sorted({0, *numbers}) != [0, *numbers] or numbers[-1] > depth:
            raise InputError("taps", self.taps[:40], f"numbers from 1 to {depth}, rising, with commas between them")
        return tuple(numbers)

    def schedule(self, width: int) -> Schedule:
        lr = USUAL_LR * USUAL_WIDTH / width if self.lr is None else self.lr
        return Schedule(self.steps, self.budget, lr, self.longest, self.precision, rows_between=2)


def train_for(job: DraftJob, device: str) -> dict[str, float]:
    """Train the draft that `job` asks for, write it, and return the figures of its last trial."""
    target, vocabulary, reader = open_target(job.target, job.tokens)
    depth = target.config.num_hidden_layers
    plan = FEATURE if job.plan == FEATURE else DraftPlan.read(job.plan, depth)
    draft = FeatureModel(target, vocabulary, job.tapped(depth), job.rank) if plan == FEATURE else new_draft(target, plan)
    corpus, pairs = _corpus(job, reader, vocabulary)
    state = job.out / "training"
    if not agrees(state / "job.json", _asked(job)):
        raise InputError("out", str(job.out), "a new folder, or one whose draft was begun with the same options")
    target.to(device, torch.bfloat16 if device == "cuda" else torch.float32).requires_grad_(False)
    samples: list[TokenizedUtterance] = []
    if job.minimised.own:
        sampling = Sampling(job.samples, job.temperature, job.seed)
        samples = own_samples(state / "samples", DecodingLlama(target, vocabulary), corpus, reader, sampling)
    settings = Settings(temperature=job.temperature, seed=job.seed)
    rules = sd_and_pcg(target, vocabulary, used_codes(corpus, vocabulary.codes) > 0, settings.theta)
    examiner = Examiner(target, AcceptanceTrial(pairs, reader, vocabulary, rules, settings))
    material = Material(corpus, samples, reader, vocabulary)
    learn_by = _feature if plan == FEATURE else _layers
    found = learn_by(job, draft, target, material, pairs, examiner, device)
    found = {name: round(value, 4) for name, value in found.items()}
    facts = {"target": Path(job.target).name, "plan": plan if plan == FEATURE else asdict(plan)}
    facts |= {"objective": asdict(job.minimised), "schedule": asdict(job.schedule(target.config.hidden_size))}
    write = write_feature_draft if plan == FEATURE else write_draft
    write(job.out, draft, facts | {"acceptance": found, "settings": settings.as_dict()})
    renew_checksums(job.out)
    return found


def _layers(
    job: DraftJob,
    draft: LlamaForCausalLM,
    target: LlamaForCausalLM,
    material: Material,
    pairs: Sequence[Pair],
    examiner: Examiner,
    device: str,
) -> dict[str, float]:
    """Train layers of the target; what came of their last trial."""
    trials: list[dict[str, float]] = []

    def evaluate() -> dict[str, float]:
        trials.append(examiner.figures(draft))
        return trials[-1]

    state, schedule = job.out / "training", job.schedule(target.config.hidden_size)
    train_draft(state, draft, target, material, job.minimised, schedule, job.seed, device, evaluate)
    return trials[-1] if trials else evaluate()  # a run that was done already tries nothing


def _feature(
    job: DraftJob,
    draft: FeatureModel,
    target: LlamaForCausalLM,
    material: Material,
    pairs: Sequence[Pair],
    examiner: Examiner,
    device: str,
) -> dict[str, float]:
    """Train a feature draft; its overlaps with the target on held-out rows, and what the engine accepts of it."""
    learned, held_out = hold_out(material, pairs, TRIALS, job.seed)
    state, schedule, asked = job.out / "training", job.schedule(target.config.hidden_size), (job.temperature, job.seed)
    overlaps = train_feature(state, draft, target, learned, job.minimised, schedule, *asked, device, held_out)
    accepted = examiner.accepted(draft.decoding(Checkpoint.of(target)))
    return {name: estimate.value for name, estimate in accepted.items()} | overlaps


def open_target(model: str, tokens: Path) -> tuple[LlamaForCausalLM, Vocabulary, PromptReader]:
    """The target of the shipped voice ("embedded"), of the voice in a folder, or the LLaSA in a folder, for the codes of which
    `tokens` was made."""
    folder = _weights(model)
    if (folder.parent / "voice.json").is_file():
        voice = load_voice(str(folder.parent), draft="none")
        return load_llama(folder, voice.vocabulary), voice.vocabulary, voice.reader
    codes = int(read_manifest(tokens)["codes"])
    reader = (neutts if is_neutts(folder) else llasa).load_reader(folder, codes)
    vocabulary = Vocabulary(codes, reader.first_code, reader.end)
    return load_llama(folder, vocabulary), vocabulary, reader


def _weights(model: str) -> Path:
    """The folder of the target's own weights."""
    folder = EMBEDDED if model == "embedded" else Path(model)
    if (folder / "voice.json").is_file():
        return folder / "target"
    if not (folder / "config.json").is_file():
        raise InputError("target", model, "'embedded', or a folder that holds voice.json or a LLaSA")
    return folder


def _corpus(job: DraftJob, reader: PromptReader, vocabulary: Vocabulary) -> tuple[list[TokenizedUtterance], list[Pair]]:
    """The utterances to learn from, and pairs to try the draft on, none of which is among them."""
    if int(read_manifest(job.tokens)["codes"]) != vocabulary.codes:
        raise InputError("tokens", str(job.tokens), f"made by the target's codec, of {vocabulary.codes} codes")
    longest = job.longest // 2  # so that two fit into a row
    spoken = read_shards(job.tokens, reader, longest)
    pairs = draw_pairs(spoken, min(TRIALS, len(spoken) // 8), job.seed)
    held_out = {id(utterance) for pair in pairs for utterance in pair}
    if not pairs:
        raise InputError("tokens", f"{len(spoken)} utterances of at most {longest} codes", "at least 8, two of one voice")
    return [utterance for utterance in spoken if id(utterance) not in held_out], pairs


def _asked(job: DraftJob) -> dict[str, object]:
    """What a run shares with the one it goes on from, which may have had fewer steps: its options, and what lies in the places
    that they name."""
    asked = {k: v for k, v in asdict(job).items() if k not in ("steps", "out", "target", "tokens")}
    made_from = {"target": weights_digest(_weights(job.target)), "tokens": read_manifest(job.tokens)}
    return asked | {"objective": asdict(job.minimised)} | made_from
