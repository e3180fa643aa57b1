"""What drafts learn from: recordings as speech codes in shards, and the target's own samples; and how good a draft is."""

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.audio import load_audio, normalise_loudness, trim
from pcg.codec.codec import Codec
from pcg.decode.model_runner import ModelRunner
from pcg.decode.runners import AnyDraft, make_runners
from pcg.decode.sequence import begin
from pcg.decode.speculative import Drafting, autoregressive, speculative
from pcg.errors import AssetError, InputError, PCGError
from pcg.files import replacing, write_json
from pcg.groups.neighbours import build_neighbours
from pcg.metrics.estimate import Estimate, bootstrap
from pcg.models.hub import weights_digest
from pcg.models.llama import DecodingLlama
from pcg.models.vocabulary import Vocabulary
from pcg.rules import Rule, coarse, exact
from pcg.sampling import Plain, probabilities
from pcg.settings import Settings
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.text.prompt import PhonemeReader, Prompt, PromptReader
from pcg.training.loop import agrees
from pcg.training.target import speech_logits
from pcg.training.tokens import Batch, Epochs, TokenizedUtterance, collate, lay_out, make_row

SHARD = 500
SOUNDS = (".wav", ".flac")
MIN_SECONDS, MAX_SECONDS = 1.0, 30.0
MANIFEST = "tokens.json"


@dataclass(frozen=True)
class TranscribedRecording:
    """One utterance: who speaks, and the files of its sound and its words."""

    voice: str
    sound: Path
    words: Path


@dataclass(frozen=True)
class Prepared:
    """What became of the recordings of a folder."""

    utterances: int
    left_out: int
    hours: float


def find_recordings(speech: Path) -> list[TranscribedRecording]:
    """Every recording below `speech` that has a transcript beside it, in the order of their names.

    LibriTTS's layout: READER/CHAPTER/name.wav and name.normalized.txt, and the reader is the voice. Any other: name.wav and
    name.txt, and the folder around them is the voice. FLAC is read as WAV is.
    """
    found = []
    for sound in sorted(path for path in speech.rglob("*") if path.suffix.lower() in SOUNDS):
        normalised, plain = sound.with_suffix(".normalized.txt"), sound.with_suffix(".txt")
        if normalised.is_file():
            found.append(TranscribedRecording(sound.parent.parent.name, sound, normalised))
        elif plain.is_file():
            found.append(TranscribedRecording(sound.parent.name, sound, plain))
    if not found:
        raise InputError("speech", str(speech), "a folder of WAV or FLAC files, each with its words in a .txt beside it")
    return found


def prepare_tokens(
    speech: Path, codec: Codec, digest: str, tokens: Path, progress: Callable[[int, int], None] | None = None
) -> Prepared:
    """Encode the recordings of `speech` into shards in `tokens`, those that are there already excepted.

    Each is trimmed and brought to one loudness, as references are. What is too short, too long, empty or unreadable is left
    out. digest: tells the codec from others (`open_codec`). progress(shards done, of all). Raises InputError if `tokens` holds
    codes of other recordings or of another codec.
    """
    recordings = find_recordings(speech)
    names = "\n".join(r.sound.relative_to(speech).as_posix() for r in recordings)
    made_from = {
        "recordings": len(recordings),
        "names": hashlib.sha256(names.encode()).hexdigest(),
        "codec": digest,
        "codes": codec.codebook_size,
        "codes_per_second": codec.sample_rate / codec.hop,
    }
    if not agrees(tokens / MANIFEST, made_from):
        raise InputError("tokens", str(tokens), "a new folder, or one made from the same recordings and codec")
    count = -(-len(recordings) // SHARD)
    for number in range(count):
        shard = tokens_path(tokens, number)
        if not shard.exists():
            encoded = (_encode(recording, codec) for recording in recordings[number * SHARD : (number + 1) * SHARD])
            write_shard(shard, [utterance for utterance in encoded if utterance])
        if progress:
            progress(number + 1, count)
    index = [row for number in range(count) for row in _read_index(tokens_path(tokens, number))]
    hours = sum(row.length for row in index) * codec.hop / codec.sample_rate / 3600
    return Prepared(len(index), len(recordings) - len(index), hours)


def open_codec(source: str, device: str) -> tuple[Codec, str]:
    """The codec of the shipped voice ("embedded") or of a folder, and a SHA-256 of its files."""
    folder = EMBEDDED / "codec" if source == "embedded" else Path(source)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        digest = weights_digest(folder)
    except (OSError, ValueError) as error:
        raise InputError("codec", source, "'embedded' or the folder of a codec") from error
    if "levels" in config and "model_type" not in config:
        return load_codec(folder).to(device), digest
    from pcg.codec.hub import load_xcodec2

    return load_xcodec2(folder, device), digest


def read_manifest(tokens: Path) -> dict[str, object]:
    """What the shards in `tokens` were made from, once they are all there. Raises InputError where they are not."""
    try:
        found = json.loads((tokens / MANIFEST).read_text(encoding="utf-8"))
        recordings, _ = int(found["recordings"]), int(found["codes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("tokens", str(tokens), "a folder that `pcg train tokens` wrote") from error
    count = -(-recordings // SHARD)
    if there := count - sum(tokens_path(tokens, number).exists() for number in range(count)):
        raise InputError("tokens", str(tokens), f"whole, and lacks {there} of {count} shards: let `pcg train tokens` go on")
    return found


def tokens_path(folder: Path, number: int) -> Path:
    """The index of shard `number`; it is there when the shard is whole."""
    return folder / f"{number:05d}.json"


def write_shard(shard: Path, spoken: Sequence[TokenizedUtterance]) -> None:
    """Write codes, each below 65,536, and their index at `shard`."""
    joined = torch.cat([s.codes for s in spoken]) if spoken else torch.zeros(0, dtype=torch.int64)
    with replacing(shard.with_suffix(".npy")) as temporary:
        np.save(temporary, joined.numpy().astype(np.uint16), allow_pickle=False)
    write_json(shard, [asdict(_Entry(s.voice, s.text, len(s.codes))) for s in spoken])


def read_shards(folder: Path, reader: PromptReader, longest: int | None = None) -> list[TokenizedUtterance]:
    """Every utterance in `folder` of at most `longest` codes whose text `reader` can read; symbols are noted for a
    PhonemeReader."""
    spoken = []
    for shard in sorted(folder.glob("[0-9]*.json")):
        index, start = _read_index(shard), 0
        codes = _read_codes(shard, sum(row.length for row in index))
        for row in index:
            own, start = codes[start : start + row.length], start + row.length
            symbols = _symbols(row.text, reader)
            if symbols is not None and (longest is None or row.length <= longest):
                spoken.append(TokenizedUtterance(row.voice, row.text, symbols, own))
    return spoken


@dataclass(frozen=True)
class _Entry:
    voice: str
    text: str
    length: int


def _read_index(shard: Path) -> list[_Entry]:
    try:
        return [_Entry(**row) for row in json.loads(shard.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise AssetError(f"The index {shard} is damaged; without it, its shard is made again.") from error


def _read_codes(shard: Path, count: int) -> Tensor:
    try:
        codes = np.load(shard.with_suffix(".npy"), allow_pickle=False)
        if codes.shape != (count,) or codes.dtype != np.uint16:
            raise ValueError(f"{count} codes should be there")
    except (OSError, ValueError, EOFError) as error:
        raise AssetError(f"The codes beside {shard} are damaged; without {shard.name}, they are made again.") from error
    return torch.from_numpy(codes.astype(np.int64))


def _symbols(text: str, reader: PromptReader) -> list[int] | None:
    """Symbols for a reader that has such, none for another; None for a text that cannot be read."""
    try:
        if isinstance(reader, PhonemeReader):
            return reader.read(text)
        reader.tokens_for(text)
    except PCGError:
        return None
    return []


def _encode(recording: TranscribedRecording, codec: Codec) -> TokenizedUtterance | None:
    try:
        text = " ".join(recording.words.read_text(encoding="utf-8").split())
        samples = load_audio(recording.sound, codec.sample_rate, MAX_SECONDS + 1)
    except (OSError, ValueError, InputError):
        return None
    speech = normalise_loudness(trim(samples, codec.sample_rate))
    if not text or not MIN_SECONDS <= len(speech) / codec.sample_rate <= MAX_SECONDS:
        return None
    return TokenizedUtterance(recording.voice, text, [], codec.encode(torch.from_numpy(speech)))


SAMPLE_SHARD = 256
SHORTEST = 6


@dataclass(frozen=True)
class Sampling:
    """How much the target says for its draft, and how: `texts` of them, `batch` at a time."""

    texts: int
    temperature: float = 0.8
    seed: int = 0
    batch: int = 64


def own_samples(
    folder: Path,
    target: DecodingLlama,
    spoken: Sequence[TokenizedUtterance],
    reader: PromptReader,
    sampling: Sampling,
) -> list[TokenizedUtterance]:
    """Let the target say texts of `spoken`, each after a reference of the same voice; what never ends is left out.

    Shards of what it said lie in `folder`, and those that are there are not made again.
    """
    shards = -(-sampling.texts // SAMPLE_SHARD)
    for number in range(shards):
        if not tokens_path(folder, number).exists():
            texts = min(SAMPLE_SHARD, sampling.texts - number * SAMPLE_SHARD)
            write_shard(tokens_path(folder, number), _shard(number, texts, target, spoken, reader, sampling))
            print(f"samples: shard {number + 1} of {shards}", flush=True)
    return read_shards(folder, reader)


def voices(spoken: Sequence[TokenizedUtterance]) -> dict[str, list[TokenizedUtterance]]:
    """What each voice says, of those voices that say at least two things."""
    by_voice: dict[str, list[TokenizedUtterance]] = {}
    for utterance in spoken:
        by_voice.setdefault(utterance.voice, []).append(utterance)
    return {voice: said for voice, said in sorted(by_voice.items()) if len(said) > 1}


def _shard(
    number: int,
    texts: int,
    target: DecodingLlama,
    spoken: Sequence[TokenizedUtterance],
    reader: PromptReader,
    sampling: Sampling,
) -> list[TokenizedUtterance]:
    """Shard `number`, from coins of its own, so that it matters neither when nor where it is made."""
    rng = random.Random(sampling.seed * 7919 + number)
    generator = torch.Generator().manual_seed(sampling.seed * 1_000_003 + number)
    by_voice = voices(spoken)
    pairs = [rng.sample(by_voice[rng.choice(list(by_voice))], 2) for _ in range(texts)]
    pairs.sort(key=lambda pair: sum(len(u.codes) for u in pair))
    said = []
    for first in range(0, len(pairs), sampling.batch):
        group = pairs[first : first + sampling.batch]
        prompts = [lay_out(a, [b], reader) for a, b in group]
        limit = int(1.5 * max(len(b.codes) for _, b in group)) + 20
        for (_, b), codes in zip(group, sample(target, prompts, limit, sampling.temperature, generator), strict=True):
            if codes is not None and len(codes) >= SHORTEST:
                said.append(TokenizedUtterance(b.voice, b.text, b.symbols, codes))
    return said


def sample(
    model: DecodingLlama, prompts: Sequence[Prompt], limit: int, temperature: float, generator: torch.Generator
) -> list[Tensor | None]:
    """Speak all `prompts` at once; return the codes of each `[T]`, or None where no end of speech came within `limit`."""
    target = ModelRunner(model, prompts, limit + 1)
    target.prefill()
    seeds = torch.randint(2**62, (len(prompts),), generator=generator).tolist()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    spoken: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    for step in autoregressive(target, begin(Plain(temperature), [limit] * len(prompts), generators)):
        for row, round_ in step.items():
            spoken[row] += round_.tokens
            ended[row] |= round_.ended
    return [torch.tensor(codes) if done else None for codes, done in zip(spoken, ended, strict=True)]


EXPECTED = "expected"


Pair = tuple[TokenizedUtterance, TokenizedUtterance]


def draw_pairs(spoken: Sequence[TokenizedUtterance], count: int, seed: int) -> list[Pair]:
    """`count` pairs of utterances of one voice, or as many as there are; voices take turns, and no utterance comes twice."""
    rng = random.Random(seed)
    by_voice = [rng.sample(said, len(said)) for said in voices(spoken).values()]
    turns = max((len(said) // 2 for said in by_voice), default=0)
    pairs = [(said[2 * i], said[2 * i + 1]) for i in range(turns) for said in by_voice if 2 * i + 1 < len(said)]
    return pairs[:count]


def sd_and_pcg(target: LlamaForCausalLM, vocabulary: Vocabulary, used: Tensor, theta: float) -> dict[str, Rule]:
    """The rules of SD, and of PCG with the target's groups at `theta`; codes that are not `used [codes]` stand alone."""
    first = vocabulary.first_code
    embedding = target.get_input_embeddings().weight.detach()[first : first + vocabulary.codes].float().cpu()
    groups = build_neighbours(embedding, theta, used, device=target.device.type).groups_at(theta)
    return {"sd": exact, "pcg": coarse(groups, "thinning")}


@dataclass(frozen=True)
class AcceptanceTrial:
    """What a draft is tried on: for each pair, the second's text is said with the first as reference."""

    pairs: Sequence[Pair]
    reader: PromptReader
    vocabulary: Vocabulary
    rules: Mapping[str, Rule]
    settings: Settings


class Examiner:
    """Tries drafts of one target on texts that none of them learned."""

    def __init__(self, target: LlamaForCausalLM, trial: AcceptanceTrial) -> None:
        self._target, self._trial = target, trial
        self._decoding = DecodingLlama(target, trial.vocabulary)

    def examine(self, draft: LlamaForCausalLM) -> dict[str, Estimate]:
        """For each rule the share of drafted tokens that the engine accepts, and, as "expected", the overlap of the
        probabilities.

        The overlap is the mean of sum min(p, q) over the positions of the second utterances: the chance that a token drawn from
        p there passes exact speculative decoding. Coins are the same at each call.
        """
        return self.accepted(DecodingLlama(draft, self._trial.vocabulary)) | {EXPECTED: self._overlap(draft)}

    def accepted(self, draft: AnyDraft) -> dict[str, Estimate]:
        """For each rule the share of the tokens drafted by any draft that the engine accepts."""
        trial = self._trial
        prompts = [lay_out(a, [b], trial.reader) for a, b in trial.pairs]
        limits = [int(1.6 * len(b.codes)) + 40 for _, b in trial.pairs]
        return {name: self._accepted(draft, rule, prompts, limits) for name, rule in trial.rules.items()}

    def figures(self, draft: LlamaForCausalLM) -> dict[str, float]:
        """`examine` without intervals, for a log."""
        return {name: estimate.value for name, estimate in self.examine(draft).items()}

    def _accepted(self, draft: AnyDraft, rule: Rule, prompts: Sequence[Prompt], limits: Sequence[int]) -> Estimate:
        settings = self._trial.settings
        runners = make_runners(self._decoding, draft, prompts, max(limits) + settings.lookahead + 1)
        for each in runners:
            each.prefill()
        coins = [torch.Generator().manual_seed(settings.seed + i) for i in range(len(prompts))]
        accepted, drafted = [0] * len(prompts), [0] * len(prompts)
        drafting = Drafting(settings.lookahead)
        for step in speculative(*runners, rule, drafting, begin(Plain(settings.temperature), limits, coins)):
            for row, round_ in step.items():
                accepted[row] += round_.accepted
                drafted[row] += len(round_.drafted)
        return bootstrap(accepted, drafted)

    @torch.inference_mode()
    def _overlap(self, draft: LlamaForCausalLM) -> Estimate:
        sums, counts = [], []
        for pair in self._trial.pairs:
            said = len(pair[1].codes) + 1
            p, q = (self._law(model, pair)[-said:] for model in (draft, self._target))
            sums.append(float(torch.minimum(p, q).sum()))
            counts.append(said)
        return bootstrap(sums, counts)

    def _law(self, model: LlamaForCausalLM, pair: Pair) -> Tensor:
        trial = self._trial
        batch = collate([make_row(pair, trial.reader, trial.vocabulary.codes)]).to(str(model.device))
        return probabilities(speech_logits(model, batch, trial.vocabulary)[0], trial.settings.temperature)


PRECISIONS = ("bf16", "fp32")


@dataclass(frozen=True)
class Objective:
    """What is minimised: `ce` times the cross-entropy of a batch's tokens, `kl` times the forward KL from the target's
    probabilities of speech, and `tv` times the total variation between both, per token (LK losses: arXiv 2602.23881). own: the
    share of batches that are the target's own samples; the others are the corpus's."""

    ce: float
    kl: float
    own: float
    tv: float = 0.0

    def takes_own(self, number: int) -> bool:
        """Whether batch `number` holds own samples; the corpus's batches are spread evenly among them."""
        given = 1.0 - self.own
        return int((number + 1) * given) == int(number * given)


OBJECTIVES = {
    "ce": Objective(ce=1.0, kl=0.0, own=0.0),
    "distil": Objective(ce=0.0, kl=1.0, own=0.75),
    "both": Objective(ce=0.5, kl=0.5, own=0.5),
    "overlap": Objective(ce=0.0, kl=0.3, own=0.75, tv=1.0),
}


@dataclass(frozen=True)
class Schedule:
    """How long a draft learns, and from how many tokens a step.

    lr: of Muon; AdamW's is two thirds of it. longest: codes in a row of a batch. every: steps between two rows of the log, and
    `rows_between` rows between two trials.
    """

    steps: int
    budget: int = 4096
    lr: float = 3e-3
    longest: int = 800
    precision: str = "bf16"
    every: int = 50
    rows_between: int = 5

    def __post_init__(self) -> None:
        for name in ("steps", "budget", "longest"):
            if getattr(self, name) < 1:
                raise InputError(name, getattr(self, name), "a whole number from 1 up")
        if not 0 < self.lr < 1:
            raise InputError("lr", self.lr, "a number between 0 and 1")
        if self.precision not in PRECISIONS:
            raise InputError("precision", self.precision, "one of " + ", ".join(PRECISIONS))


@dataclass(frozen=True)
class Material:
    """What is learned from. `samples` may be empty where the objective takes none."""

    corpus: Sequence[TokenizedUtterance]
    samples: Sequence[TokenizedUtterance]
    reader: PromptReader
    vocabulary: Vocabulary

    def batches(self, objective: Objective, schedule: Schedule, seed: int) -> Callable[[int], Batch]:
        """Batch n of a run, the same whenever it is asked for."""

        def epochs(spoken: Sequence[TokenizedUtterance], what: str) -> Epochs:
            chained = Epochs(spoken, self.reader, self.vocabulary.codes, schedule.budget, seed, schedule.longest)
            if not chained.per_epoch:
                raise InputError(what, f"{len(spoken)} utterances", "at least two of one voice")
            return chained

        own = epochs(self.samples, "samples") if objective.own > 0 else None
        given = epochs(self.corpus, "tokens") if objective.own < 1 else None
        return lambda number: (own if objective.takes_own(number) else given).batch(number)
