"""The embedded recogniser: an encoder that spells what it hears, a language model that reads it, and the word list."""

import gzip
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log10, prod
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.asr.embedded import PARTS, EmbeddedRecogniser, load_parts, save_recogniser
from pcg.asr.network import (
    BLANK,
    LABELS_PER_FRAME,
    ConformerCTC,
    Encoded,
    EncoderConfig,
    LogMel,
    Projector,
    ProjectorConfig,
    Subwords,
    read_path,
    spell,
)
from pcg.asr.self_speculative import PRESETS, transcribe
from pcg.asr.word_search import FILE as WORDS
from pcg.asr.word_search import UNKNOWN
from pcg.errors import InputError, PCGError
from pcg.files import renew_checksums, replacing, write_checksums
from pcg.metrics.intelligibility import spoken_words, word_errors
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.training.corpus import HELD_OUT, shards
from pcg.training.loop import Stage, generator, load_checkpoint, make_optimizers, read_log, run, save_checkpoint, update
from pcg.training.publish import recogniser_card
from pcg.training.sentences import build_pool, dictionary
from pcg.training.speech import (
    HELD_OUT_VOICES,
    Disturbances,
    HeardBatch,
    Hearing,
    HearingBatches,
    in_order,
    make_round_trips,
    make_voices,
    mask_features,
    read_hearings,
)
from pcg.training.tokens import IGNORED

DRAFT_SHARE = 0.3
CHECKED = 48
CTC, LM, TOGETHER = "recogniser_ctc", "recogniser_lm", "recogniser_together"


@dataclass(frozen=True)
class ReaderShape:
    """Size of the language model and of its vocabulary."""

    subwords: int = 256
    layers: int = 6
    width: int = 256
    heads: int = 4
    feed_forward: int = 704
    stack: int = 2


def train_recogniser_ctc(
    directory: Path,
    encoder: ConformerCTC,
    train: Sequence[Hearing],
    held_out: dict[str, Sequence[Hearing]],
    steps: int,
    seed: int,
    device: str,
    seconds: float = 80.0,
) -> ConformerCTC:
    """CTC over characters, at the end and at the draft in the middle; logs the loss and the greedy WER of each held-out set."""
    torch.manual_seed(seed)
    encoder, mel = encoder.to(device), LogMel().to(device)
    batches = HearingBatches(train, seconds, seed, Disturbances())
    checks = {name: in_order(spread(heard, CHECKED), seconds) for name, heard in held_out.items()}
    optimizers = make_optimizers(encoder, lr=1e-3, muon_lr=1e-3)
    print(f"{CTC}: {sum(p.numel() for p in encoder.parameters())} parameters, {batches.per_epoch} batches an epoch", flush=True)

    def step(index: int) -> dict[str, float]:
        encoder.train()
        batch = batches.batch(index)
        with torch.autocast(device, torch.bfloat16):
            encoded = encoder(*masked_mel(mel, batch, device, generator(seed + 1, index)))
        final, draft = losses_of_spelling(encoded, batch.texts)
        update((1 - DRAFT_SHARE) * final + DRAFT_SHARE * draft, encoder, optimizers.values())
        return {"loss": final.item(), "draft_loss": draft.item()}

    def evaluate() -> dict[str, float]:
        return {f"{name}_wer": greedy_wer(encoder, mel, check, device) for name, check in checks.items()}

    run(Stage(CTC, directory, steps, {"encoder": encoder}, optimizers, step, evaluate, warmup=200, every=50), seed)
    return encoder.eval()


def masked_mel(mel: LogMel, batch: HeardBatch, device: str, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The features of a batch on `device`, with parts of them hidden, and their counts."""
    features, counts = mel(batch.samples.to(device), batch.lengths.to(device))
    return mask_features(features.cpu(), counts.cpu(), rng).to(device), counts


def losses_of_spelling(encoded: Encoded, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """CTC of `texts` at the encoder's end, and at its draft."""
    final, draft = (ctc_loss(log_probs, encoded.counts, texts) for log_probs in (encoded.log_probs, encoded.draft_log_probs))
    return final, draft


def ctc_loss(log_probs: Tensor, frames: Tensor, texts: Sequence[str]) -> Tensor:
    """Negative log-likelihood a character (arXiv:2603.11243, Eq. 1) of `texts` under `log_probs [B, 2 S, C]`, of which
    twice `frames [B]` labels count."""
    labels = [torch.tensor(spell(text)) for text in texts]
    lengths = torch.tensor([len(row) for row in labels])
    ratio = log_probs.shape[1] // int(frames.max())
    return F.ctc_loss(
        log_probs.transpose(0, 1), torch.cat(labels).to(log_probs.device), ratio * frames, lengths, BLANK, zero_infinity=True
    )


@torch.inference_mode()
def greedy_wer(encoder: ConformerCTC, mel: LogMel, check: Sequence[HeardBatch], device: str) -> float:
    """Word errors of the best path (arXiv:2603.11243, Eq. 2), over all words."""
    encoder.eval()
    errors = words = 0
    for batch in check:
        with torch.autocast(device, torch.bfloat16):
            encoded = encoder(*mel(batch.samples.to(device), batch.lengths.to(device)))
        paths, ratio = encoded.log_probs.argmax(-1).tolist(), encoded.log_probs.shape[1] // encoded.frames.shape[1]
        for path, count, text in zip(paths, encoded.counts.tolist(), batch.texts, strict=True):
            wrong = word_errors(text, read_path(path[: ratio * count]))
            errors, words = errors + wrong.errors, words + wrong.length
    return errors / words


def spread(hearings: Sequence[Hearing], count: int) -> list[Hearing]:
    """`count` of `hearings`, evenly spread, so that every voice is among them."""
    return [hearings[i * len(hearings) // count] for i in range(min(count, len(hearings)))]


@dataclass(frozen=True)
class ReadingBatch:
    """What the language model is trained on: embeddings of frames and text `[B, T, D]`, their positions and labels `[B, T]`
    (model ids, -100 where nothing is learned)."""

    embeddings: Tensor
    positions: Tensor
    labels: Tensor


def new_reader(shape: ReaderShape, encoder: EncoderConfig, subwords: Subwords, seed: int) -> nn.ModuleDict:
    """A random `projector` and `lm`."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=1 + subwords.size,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    projector = Projector(ProjectorConfig(shape.stack, encoder.width, LABELS_PER_FRAME, shape.width))
    return nn.ModuleDict({"projector": projector, "lm": LlamaForCausalLM(config)})


def lay_out(
    reader: nn.ModuleDict, frames: Sequence[Tensor], paths: Sequence[Tensor], tokens: Sequence[Sequence[int]], lengths: Tensor
) -> ReadingBatch:
    """Rows as `EmbeddedRecogniser.read` lays them out: each row's frames `[S, D]`, standing where its CTC path `[labels]` has
    spelled to, then its text after the opening id. lengths: characters of every token."""
    projector, lm = reader["projector"], reader["lm"]
    rows = []
    for heard, path, said in zip(frames, paths, tokens, strict=True):
        embeddings, text = projector(heard), torch.tensor(said, dtype=torch.int64, device=heard.device)
        ids = F.pad(text + 1, (1, 0))
        positions = torch.cat([projector.positions(path), F.pad(lengths[text].cumsum(0), (1, 0))])
        labels = F.pad(torch.cat([text + 1, ids[:1]]), (len(embeddings), 0), value=IGNORED)
        rows.append((torch.cat([embeddings, lm.get_input_embeddings()(ids).to(embeddings.dtype)]), positions, labels))
    pad = nn.utils.rnn.pad_sequence
    columns = [list(column) for column in zip(*rows, strict=True)]
    return ReadingBatch(
        pad(columns[0], batch_first=True),
        pad(columns[1], batch_first=True),
        pad(columns[2], batch_first=True, padding_value=IGNORED),
    )


def loss_of_reading(reader: nn.ModuleDict, subwords: Subwords, encoded: Encoded, texts: Sequence[str]) -> Tensor:
    """Mean cross-entropy of the subwords of `texts`, and of the end, behind the frames that were heard. No gradient goes
    through the frames."""
    counts, lengths = encoded.counts.tolist(), torch.tensor(subwords.lengths, device=encoded.frames.device)
    frames = [row[:count] for row, count in zip(encoded.frames.detach(), counts, strict=True)]
    paths = [row[: LABELS_PER_FRAME * count] for row, count in zip(encoded.log_probs.argmax(-1), counts, strict=True)]
    batch, lm = lay_out(reader, frames, paths, [subwords.encode(text) for text in texts], lengths), reader["lm"]
    # The all-ones mask keeps transformers from taking our positions for packed sequences; with causal attention nothing that
    # counts sees the padding.
    mask = torch.ones_like(batch.positions)
    hidden = lm.model(
        inputs_embeds=batch.embeddings, attention_mask=mask, position_ids=batch.positions, use_cache=False
    ).last_hidden_state
    learned = batch.labels != IGNORED
    return F.cross_entropy(lm.get_output_embeddings()(hidden[learned]).float(), batch.labels[learned])


def train_recogniser_lm(
    directory: Path,
    encoder: ConformerCTC,
    shape: ReaderShape,
    train: Sequence[Hearing],
    held_out: dict[str, Sequence[Hearing]],
    steps: int,
    seed: int,
    device: str,
    seconds: float = 80.0,
) -> tuple[nn.ModuleDict, Subwords]:
    """Train projector and language model from nothing (see `learn_to_read`)."""
    subwords = learn_subwords(directory, train, shape.subwords)
    reader = new_reader(shape, encoder.config, subwords, seed)
    batches = HearingBatches(train, seconds, seed + 2, Disturbances())
    learn_to_read(LM, directory, encoder, reader, subwords, batches, held_out, steps, seed, device, 3e-3, warmup=200, every=50)
    return reader.eval(), subwords


def learn_to_read(
    name: str,
    directory: Path,
    encoder: ConformerCTC,
    reader: nn.ModuleDict,
    subwords: Subwords,
    batches: HearingBatches,
    held_out: dict[str, Sequence[Hearing]],
    steps: int,
    seed: int,
    device: str,
    lr: float,
    **pace: int,
) -> None:
    """Stage `name`: train those weights of `reader` (`projector` and `lm`) that ask for gradients, by the cross-entropy of the
    text behind the frozen encoder's frames; log the autoregressive WER of each held-out set. pace: fields of the Stage."""
    encoder, mel = encoder.to(device).eval().requires_grad_(False), LogMel().to(device)
    reader.to(device)
    # On a CPU the fused kernel's backward pass is the slower one.
    reader["lm"].set_attn_implementation("eager" if device == "cpu" else "sdpa")
    optimizers = make_optimizers(reader, lr=lr, muon_lr=lr)
    learned = sum(p.numel() for p in reader.parameters() if p.requires_grad)
    print(f"{name}: {learned} parameters to learn, {batches.per_epoch} batches an epoch", flush=True)

    def step(index: int) -> dict[str, float]:
        batch = batches.batch(index)
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                encoded = encoder(*mel(batch.samples.to(device), batch.lengths.to(device)))
            loss = loss_of_reading(reader, subwords, encoded, batch.texts)
        update(loss, reader, optimizers.values())
        return {"loss": loss.item()}

    def evaluate() -> dict[str, float]:
        heard = EmbeddedRecogniser("in training", encoder.cpu(), reader["projector"].cpu(), reader["lm"].cpu(), subwords)
        figures = {f"{each}_wer": autoregressive_wer(heard, spread(check, CHECKED // 2)) for each, check in held_out.items()}
        encoder.to(device)
        reader.to(device).train()
        return figures

    modules = {"projector": reader["projector"], "lm": reader["lm"]}
    run(Stage(name, directory, steps, modules, optimizers, step, evaluate, **pace), seed)


def autoregressive_wer(recogniser: EmbeddedRecogniser, check: Sequence[Hearing]) -> float:
    found = transcribe(recogniser, [h.samples() for h in check], PRESETS["ar"])
    errors = [word_errors(h.text, t.text) for h, t in zip(check, found, strict=True)]
    return sum(e.errors for e in errors) / sum(e.length for e in errors)


def learn_subwords(directory: Path, train: Sequence[Hearing], size: int) -> Subwords:
    """The subwords of this run, learned once."""
    path = directory / "recogniser_subwords.json"
    if not path.exists():
        with replacing(path) as temporary:
            temporary.write_text(Subwords.learn((h.text for h in train), size).to_json(), encoding="utf-8")
    return Subwords.load(path)


def trained_encoder(directory: Path, config: EncoderConfig) -> ConformerCTC:
    """The encoder as far as its own stage has trained it."""
    saved = directory / f"{CTC}.safetensors"
    if not saved.exists():
        raise PCGError(f"The recogniser's encoder is not trained yet: no {saved.name} in {directory}.")
    encoder = ConformerCTC(config)
    load_checkpoint(saved, {"encoder": encoder}, {})
    return encoder.eval()


def publish_recogniser(directory: Path, out: Path, name: str, config: EncoderConfig, shape: ReaderShape, seed: int) -> None:
    """Write what is trained in `directory`, together if it was, as the folder that `load_recogniser` reads."""
    saved, learned = directory / f"{LM}.safetensors", directory / "recogniser_subwords.json"
    if not saved.exists():
        raise PCGError(f"The recogniser's language model is not trained yet: no {saved.name} in {directory}.")
    subwords = Subwords.load(learned)
    encoder, reader = trained_encoder(directory, config), new_reader(shape, config, subwords, seed)
    parts = {"projector": reader["projector"], "lm": reader["lm"]}
    together = directory / f"{TOGETHER}.safetensors"
    if together.exists():
        load_checkpoint(together, {"encoder": encoder} | parts, {})
    else:
        load_checkpoint(saved, parts, {})
    save_recogniser(out, name, encoder, reader["projector"], reader["lm"], subwords)


CHECKED = 24


def train_recogniser_together(
    directory: Path,
    encoder: ConformerCTC,
    reader: nn.ModuleDict,
    subwords: Subwords,
    train: Sequence[Hearing],
    held_out: dict[str, Sequence[Hearing]],
    steps: int,
    seed: int,
    device: str,
    seconds: float = 80.0,
    every: int = 100,
) -> None:
    """Train `encoder` and `reader` (its `projector` and `lm`) in place; logs the losses, and of each held-out set the WER of
    the best path and of the language model."""
    encoder, reader, mel = encoder.to(device), reader.to(device), LogMel().to(device)
    # On a CPU the fused kernel's backward pass is the slower one.
    reader["lm"].set_attn_implementation("eager" if device == "cpu" else "sdpa")
    batches = HearingBatches(train, seconds, seed + 3, Disturbances(), easy=0)
    checks = {name: spread(heard, CHECKED) for name, heard in held_out.items()}
    hearing, reading = make_optimizers(encoder, lr=1e-3, muon_lr=1e-3), make_optimizers(reader, lr=2e-3, muon_lr=2e-3)
    print(f"{TOGETHER}: {batches.per_epoch} batches an epoch", flush=True)

    def step(index: int) -> dict[str, float]:
        encoder.train()
        reader.train()
        batch = batches.batch(index)
        with torch.autocast(device, torch.bfloat16):
            encoded = encoder(*masked_mel(mel, batch, device, generator(seed + 1, index)))
            read = loss_of_reading(reader, subwords, encoded, batch.texts)
        final, draft = losses_of_spelling(encoded, batch.texts)
        update((1 - DRAFT_SHARE) * final + DRAFT_SHARE * draft, encoder, hearing.values())
        update(read, reader, reading.values())
        return {"ctc_loss": final.item(), "draft_loss": draft.item(), "lm_loss": read.item()}

    def evaluate() -> dict[str, float]:
        encoder.eval()
        heard = EmbeddedRecogniser("in training", encoder.cpu(), reader["projector"].cpu(), reader["lm"].cpu().eval(), subwords)
        figures = {f"{name}_wer": autoregressive_wer(heard, check) for name, check in checks.items()}
        encoder.to(device)
        reader.to(device)
        spelled = {f"{name}_ctc_wer": greedy_wer(encoder, mel, in_order(c, seconds), device) for name, c in checks.items()}
        return figures | spelled

    modules = {"encoder": encoder, "projector": reader["projector"], "lm": reader["lm"]}
    optimizers = {f"encoder_{k}": o for k, o in hearing.items()} | {f"reader_{k}": o for k, o in reading.items()}
    run(Stage(TOGETHER, directory, steps, modules, optimizers, step, evaluate, 100, 0.6, every), seed)


def unpack_recogniser(directory: Path, published: Path, steps: dict[str, int], seed: int) -> None:
    """Checkpoints of the recogniser in `published`, as if the stages before this one had just ended in `directory` after as
    many `steps`."""
    parts = load_parts(published)
    with replacing(directory / "recogniser_subwords.json") as temporary:
        temporary.write_text(parts.subwords.to_json(), encoding="utf-8")
    for name, modules in {CTC: {"encoder": parts.encoder}, LM: {"projector": parts.projector, "lm": parts.lm}}.items():
        meta = {"step": steps[name], "seconds": 0.0, "seed": seed, "steps": steps[name]}
        save_checkpoint(directory / f"{name}.safetensors", modules, {}, meta)


BEGIN, END = "<s>", "</s>"
DISCOUNT = 0.75
FEWEST = 2
# A word that is listed and was never seen counts as this share of one use.
UNSEEN = 0.3
# As log10: what is not in the list is no word, unless the sound leaves no doubt.
OUTSIDE = -18.0


def write_bigrams(path: Path, sentences: Iterable[str], listed: Iterable[str]) -> tuple[int, int]:
    """Write the gzipped ARPA file `path`; return how many words and pairs it holds."""
    rows = [[BEGIN, *spoken_words(sentence).split(), END] for sentence in sentences]
    uses = Counter(word for row in rows for word in row[1:])
    counts = {word: float(n) for word, n in uses.items()} | {word: UNSEEN for word in listed if word not in uses}
    total = sum(counts.values())
    single = {word: n / total for word, n in sorted(counts.items())}
    pairs = Counter(pair for row in rows for pair in itertools.pairwise(row))
    before = Counter(first for row in rows for first in row[:-1])
    kept = {pair: n - DISCOUNT for pair, n in sorted(pairs.items()) if n >= FEWEST}
    taken: Counter[str] = Counter()
    for (first, _), n in kept.items():
        taken[first] += n
    rest = {first: 1 - taken[first] / n for first, n in before.items()}
    lines = ["\\data\\", f"ngram 1={len(single) + 2}", f"ngram 2={len(kept)}", "", "\\1-grams:"]
    lines += [f"{OUTSIDE:.3f}\t{UNKNOWN}", f"-99\t{BEGIN}\t{log10(rest[BEGIN]):.3f}"]
    lines += [f"{log10(p):.3f}\t{word}\t{log10(rest.get(word, 1.0)):.3f}" for word, p in single.items()]
    lines += ["", "\\2-grams:"]
    lines += [
        f"{log10(n / before[first] + rest[first] * single[second]):.3f}\t{first} {second}"
        for (first, second), n in kept.items()
    ]
    text = "\n".join([*lines, "", "\\end\\", ""])
    with replacing(path) as temporary:
        # Without the time of day, equal text makes an equal file.
        temporary.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return len(single) - 1, len(kept)


NAME = "embedded recogniser 2"
LONGEST_WORD = 24


@dataclass(frozen=True)
class JudgeRecipe:
    """Every choice that shapes the recogniser."""

    encoder: EncoderConfig = EncoderConfig()
    reader: ReaderShape = ReaderShape()
    ctc_steps: int = 2600
    lm_steps: int = 1500
    together_steps: int = 2200


def train_recogniser(work: Path, out: Path, device: str, seed: int, processes: int, recipe: JudgeRecipe | None = None) -> None:
    """Run all stages in `work`, whose `corpus` is there, and write the recogniser to `out`; what is done is not done again."""
    recipe = recipe or JudgeRecipe()
    _speech(work, device, seed, processes)
    torch.manual_seed(seed)
    encoder = ConformerCTC(recipe.encoder)
    train, held_out = _hearings(work)
    train_recogniser_ctc(work, encoder, train, held_out, recipe.ctc_steps, seed, device)
    encoder = trained_encoder(work, recipe.encoder)
    reader, subwords = train_recogniser_lm(work, encoder, recipe.reader, train, held_out, recipe.lm_steps, seed, device)
    encoder.requires_grad_(True)
    train_recogniser_together(work, encoder, reader, subwords, train, held_out, recipe.together_steps, seed, device)
    publish(work, out, seed, recipe)


def _speech(work: Path, device: str, seed: int, processes: int) -> list[Path]:
    """What the recogniser hears, made where it is missing; the shards of the voice's corpus."""
    corpus, more = work / "corpus", work / "recogniser_corpus"
    spoken = shards(corpus)
    if not spoken:
        raise InputError("work", str(work), "a folder whose corpus `pcg train corpus` has made")
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError("device", device, "cpu" + (" or cuda" if torch.cuda.is_available() else " (no CUDA device is here)"))
    make_voices(more, corpus, seed, processes)
    codec = load_codec(EMBEDDED / "codec")
    for split in ("train", *HELD_OUT):
        make_round_trips(more, corpus, codec, seed, split)
    return spoken


def _hearings(work: Path) -> tuple[list[Hearing], dict[str, list[Hearing]]]:
    """What it learns from, and the held-out sets."""
    corpus, more = work / "corpus", work / "recogniser_corpus"
    return read_hearings([corpus, more], "train"), checks(corpus, more)


def unpack(work: Path, published: Path, seed: int, recipe: JudgeRecipe | None = None) -> None:
    """Checkpoints of the recogniser in `published`, so that `train_recogniser` goes on from it together."""
    recipe = recipe or JudgeRecipe()
    if there := [p.name for p in sorted(work.glob("recogniser_*.safetensors"))]:
        raise InputError("work", str(work), f"a folder without a recogniser's training of its own, and this one has {there[0]}")
    unpack_recogniser(work, published, {CTC: recipe.ctc_steps, LM: recipe.lm_steps}, seed)
    print(f"unpacked {published} into {work}", flush=True)


def publish_words(prose: Path | None, out: Path, seed: int) -> None:
    """Write the word list in `out`: what the corpus may say in training, spoken or not, and the dictionary. No sentence in it
    is held out; the dictionary's words may be."""
    if prose is None or not prose.is_file():
        raise InputError("prose", str(prose), "a text file with one sentence a line")
    words, pairs = write_bigrams(out / WORDS, build_pool(prose, seed).train, dictionary(LONGEST_WORD))
    renew_checksums(out / WORDS)
    print(f"words: {words} words and {pairs} pairs in {out / WORDS}", flush=True)


def publish(work: Path, out: Path, seed: int, recipe: JudgeRecipe) -> None:
    """Write what is trained in `work`, and its card; `RECOGNISER_NOTES.md` in there, if there is one, goes into the card."""
    publish_recogniser(work, out, NAME, recipe.encoder, recipe.reader, seed)
    parameters = {}
    for part in PARTS:
        with safe_open(out / part / "model.safetensors", framework="pt") as file:
            parameters[part] = sum(prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118
    logs = {p.stem: read_log(p) for p in sorted(work.glob("recogniser_*.jsonl"))}
    notes = work / "RECOGNISER_NOTES.md"
    said = notes.read_text(encoding="utf-8").strip() if notes.exists() else ""
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(recogniser_card(parameters, logs, seed, said), encoding="utf-8")
    write_checksums(out)
    print(f"published to {out}", flush=True)


def checks(corpus: Path, more: Path) -> dict[str, list[Hearing]]:
    """What no training hears: the corpus's held-out sentences and words, those through the codec, and the held-out voices."""
    voices = read_hearings([more], HELD_OUT_VOICES)
    return {
        "sentences": read_hearings([corpus], "held_out_sentences"),
        "words": read_hearings([corpus], "held_out_words"),
        "codec": read_hearings([more], "held_out_sentences"),
        **{name: [h for h in voices if h.voice == name] for name in ("espeak", "kal")},
    }
