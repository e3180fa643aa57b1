"""The recipe of a voice's spoof detectors: tokens of a corpus, samples of the voice's own, five detectors, publishing.

Every stage resumes where it was killed. Most of what the voice says is said at the temperature of the defaults, which is what a
listener hears, and some at the paper's. Besides, they learn from garbage (`pcg.spoof.garbage`): without it, whatever is less
likely than speech would look real.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pcg.errors import InputError
from pcg.files import replacing, write_json
from pcg.files.checksums import write_checksums
from pcg.settings import Settings
from pcg.spoof.detector import DetectorConfig
from pcg.spoof.detectors import corpus_digest, load_detectors, save_detectors
from pcg.spoof.garbage import Garbage
from pcg.spoof.held_out import held_out_figures
from pcg.spoof.segments import Segments
from pcg.synthesis.voice import Voice
from pcg.training.data.samples import Sampling, own_samples
from pcg.training.data.tokens import TokenizedUtterance
from pcg.training.detectors.stages import Examples, SpoofPlan, train_detectors
from pcg.training.note import agrees
from pcg.training.voice.card import detector_card
from pcg.training.voice.voice_tokens import identity, voice_tokens
from pcg.training.workers import Workers

HELD_OUT = "held_out_sentences"
SIZES = ("small", "paper")


@dataclass(frozen=True)
class DetectorRecipe:
    """shards: of the corpus that are learned from. samples: how many texts the voice says, by temperature, as text;
    held_out_samples: at the first of these temperatures alone. size: of the detectors, "small", for a codebook of a few
    thousand codes and a few hours of speech, or "paper" (MSpoofTTS section 3.2)."""

    shards: int = 96
    samples: Mapping[str, int] = field(default_factory=lambda: {f"{Settings().temperature:g}": 6144, "1": 512})
    held_out_samples: int = 256
    size: str = "small"
    plan: SpoofPlan = field(default_factory=SpoofPlan)

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise InputError("size", self.size, "one of " + ", ".join(SIZES))

    @classmethod
    def of_size(cls, size: str) -> "DetectorRecipe":
        """The recipe for detectors of this size: the paper's learn by its plan."""
        return cls(size=size, plan=SpoofPlan.paper() if size == "paper" else SpoofPlan())

    def config(self, codes: int, code_width: int) -> DetectorConfig:
        """The shape of detectors of `codes` codes whose embeddings begin with a language model's, `code_width` wide."""
        if self.size == "paper":
            return DetectorConfig(codes, code_width=code_width)
        return DetectorConfig.small(codes, code_width)


def train_detectors_of(
    voice: Voice, work: Path, out: Path, device: str, seed: int, recipe: DetectorRecipe | None = None
) -> dict[str, object]:
    """Train the detectors of `voice` on `work`/corpus, write them to `out`, and return their figures on held-out utterances."""
    recipe, state, corpus = recipe or DetectorRecipe(), work / "detectors", work / "corpus"
    if not agrees(state / "plan.json", identity(voice) | {"seed": seed} | asdict(recipe)):
        raise InputError("work", str(work), "a folder without detectors of another recipe or voice")
    start, garbage = voice.code_embedding, Garbage(voice.usage, voice.code_embedding)
    config = recipe.config(voice.codec.codebook_size, start.shape[1])
    spoken = {split: voice_tokens(voice, corpus, state / "tokens", split, recipe.shards) for split in ("train", HELD_OUT)}
    train = _segments(voice, state, "train", spoken["train"], recipe.samples, seed)
    usual = next(iter(recipe.samples))
    held_out = _segments(voice, state, HELD_OUT, spoken[HELD_OUT], {usual: recipe.held_out_samples}, seed)
    trained = train_detectors(state, config, start, Examples(train, held_out, garbage), recipe.plan, seed, device)
    save_detectors(out, voice.name, trained, corpus=corpus_digest(voice.usage))
    held_out.save(out / "held_out.safetensors")
    write_checksums(out)  # without which they would not load
    figures = held_out_figures(load_detectors(out), held_out, garbage)
    write_json(out / "figures.json", figures)
    with replacing(out / "MODEL_CARD.md") as temporary:
        hours = sum(len(u) for u in train.real) * voice.codec.hop / voice.codec.sample_rate / 3600
        facts = {
            "recipe": asdict(recipe),
            "seed": seed,
            "hours": hours,
            "utterances": len(train.real),
            "config": asdict(config),
        }
        temporary.write_text(detector_card(facts, figures), encoding="utf-8")
    write_checksums(out)
    return figures


def _segments(
    voice: Voice, state: Path, split: str, spoken: list[TokenizedUtterance], samples: Mapping[str, int], seed: int
) -> Segments:
    said: list[TokenizedUtterance] = []
    for temperature, count in samples.items():
        sampling = Sampling(count, float(temperature), seed)
        said += own_samples(state / f"samples_{split}_{temperature}", voice.target, spoken, voice.reader, sampling, Workers())
    return Segments([u.codes for u in spoken], [u.codes for u in said])
