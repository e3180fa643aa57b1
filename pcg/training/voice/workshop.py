"""Where the embedded voice is made: every choice that shapes it, and what is made so far."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from transformers import LlamaForCausalLM

from pcg.asr.judges import load_judge
from pcg.codec.embedded import CodecConfig, EmbeddedCodec
from pcg.errors import InputError, PCGError
from pcg.models.feature_draft import usual_taps
from pcg.models.vocabulary import Vocabulary
from pcg.text.prompt import PhonemeReader
from pcg.training import checkpoint
from pcg.training.data.tokens import TokenizedUtterance, make_reader, read_spoken
from pcg.training.draft.acceptance import draw_pairs
from pcg.training.draft.feature import FeatureModel
from pcg.training.note import agrees
from pcg.training.voice.listener import Listener
from pcg.training.voice.target import Shape, new_target
from pcg.training.workers import Workers

MAY_CHANGE = (
    *("codec_token_steps", "codec_sound_steps", "target_steps", "draft_steps", "baseline_steps"),
    *("target_decay_share", "heard", "timed_shards"),
)
"""Choices of a recipe in which a run may differ from the one that it goes on from."""


@dataclass(frozen=True)
class Recipe:
    """Every choice that shapes the voice. hours: of each voice of flite's. target_budget: positions in a step of the target.
    target_decay_share: of its steps, the last ones, in which its learning rate falls to zero. heard: sentences by which a judge
    tells how well the target is understood. timed_shards: of each voice, whose phones tell what each code sounds like."""

    hours: dict[str, float] = field(default_factory=lambda: {"rms": 12, "slt": 11, "awb": 9, "kal16": 8})
    held_out_each: int = 100
    symbol_uses: int = 50
    codec: CodecConfig = CodecConfig()
    codec_token_steps: int = 1000
    codec_sound_steps: int = 4000
    target: Shape = Shape()
    target_steps: int = 6000
    target_budget: int = 8192
    target_decay_share: float = 0.4
    heard: int = 32
    draft_rank: int = 96
    draft_steps: int = 2400
    baseline_steps: int = 600
    samples: int = 12288
    temperature: float = 0.8
    timed_shards: int = 2


@dataclass(frozen=True)
class Workshop:
    """Where a run keeps its corpus and checkpoints, and what it runs on; the `workers` share the stages target and draft."""

    work: Path
    device: str
    seed: int
    recipe: Recipe
    workers: Workers

    def claim(self) -> None:
        """Note what the work folder is for. Raises InputError where it is for something that these stages could not go on from:
        another seed, or a recipe that differs in more than how long it trains, what it hears and what it times."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name not in MAY_CHANGE}
        if not agrees(self.work / "recipe.json", {"seed": self.seed} | recipe):
            raise InputError("work", str(self.work), "a folder whose recipe.json tells of the same recipe and seed")

    @property
    def corpus(self) -> Path:
        return self.work / "corpus"

    @property
    def baselines(self) -> Path:
        return self.work / "baselines"

    def codec(self) -> EmbeddedCodec:
        """The codec as far as it is trained."""
        codec = EmbeddedCodec(self.recipe.codec)
        made = [p for p in (self.work / "codec_sound.safetensors", self.work / "codec_tokens.safetensors") if p.exists()]
        if not made:
            raise PCGError(f"The codec is not trained yet: no codec_tokens.safetensors in {self.work}; run stage codec first.")
        checkpoint.load(made[0], {"codec": codec}, {})
        return codec.eval()

    def reader(self) -> PhonemeReader:
        return make_reader(self.work, self.corpus, self.hop, self.recipe.symbol_uses)

    @property
    def hop(self) -> int:
        return self.recipe.codec.frame * self.recipe.codec.frames_per_token

    def vocabulary(self) -> Vocabulary:
        reader = self.reader()
        return Vocabulary(int(np.prod(self.recipe.codec.levels)), reader.first_code, reader.end)

    def spoken(self, split: str) -> list[TokenizedUtterance]:
        return read_spoken(self.work, self.corpus, split, self.hop, self.reader())

    def listener(self) -> Listener:
        pairs = draw_pairs(self.spoken("held_out_sentences"), self.recipe.heard, self.seed)
        return Listener(pairs, self.codec(), self.reader(), self.vocabulary(), load_judge("whisper"), self.recipe.temperature)

    def target(self) -> LlamaForCausalLM:
        model = new_target(self.reader(), self.vocabulary(), self.recipe.target, self.seed)
        saved = self.work / "target.safetensors"
        if not saved.exists():
            raise PCGError(f"The target is not trained yet: no target.safetensors in {self.work}; run stage target first.")
        checkpoint.load(saved, {"target": model}, {})
        return model.eval()

    def new_draft(self, target: LlamaForCausalLM) -> FeatureModel:
        taps = usual_taps(self.recipe.target.layers)
        return FeatureModel(target, self.vocabulary(), taps, self.recipe.draft_rank)

    def draft(self) -> FeatureModel:
        model = self.new_draft(self.target())
        saved = self.work / "draft.safetensors"
        if not saved.exists():
            raise PCGError(f"The draft is not trained yet: no draft.safetensors in {self.work}; run stage draft first.")
        checkpoint.load(saved, {"draft": model}, {})
        return model.eval()
