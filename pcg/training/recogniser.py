"""The embedded recogniser: an encoder that spells what it hears, a language model that reads it, and the word list.

Three stages, each of which resumes where it was stopped: the encoder alone by CTC, the language model behind the frozen
encoder, and both together.
"""

import gzip
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10, prod
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from pcg.asr.embedded import PARTS, EmbeddedRecogniser, save_recogniser
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
from pcg.recipe import Count, Recipe
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.training.corpus import HELD_OUT, shards
from pcg.training.loop import (
    Stage,
    check_device,
    generator,
    load_checkpoint,
    make_optimizers,
    read_log,
    run,
    update,
    with_fast_gradients,
)
from pcg.training.publish import recogniser_card
from pcg.training.sentences import build_pool, dictionary
from pcg.training.speech import (
    HELD_OUT_VOICES,
    Disturbances,
    SpeechBatch,
    SpeechBatches,
    SpokenSentence,
    in_order,
    make_round_trips,
    make_voices,
    mask_features,
    read_spoken,
)
from pcg.training.target import Shape, new_llama
from pcg.training.tokens import IGNORED

NAME = "embedded recogniser 2"
CTC, LM, TOGETHER = "recogniser_ctc", "recogniser_lm", "recogniser_together"
SUBWORDS = "recogniser_subwords.json"
DRAFT_SHARE = 0.3
SECONDS = 80.0
"""Padded speech in a batch."""
CHECKED = 24
"""Utterances of a held-out set that are checked while training."""


@dataclass(frozen=True)
class ReaderShape(Shape):
    """Size of the language model, of its vocabulary, and how many frames the projector stacks."""

    layers: int = 6
    feed_forward: int = 704
    subwords: int = 256
    stack: int = 2


class RecogniserRecipe(Recipe):
    """Every choice that shapes the recogniser."""

    encoder: EncoderConfig = EncoderConfig()
    reader: ReaderShape = ReaderShape()
    ctc_steps: Count = 2600
    lm_steps: Count = 1500
    together_steps: Count = 2200


def train_recogniser(work: Path, out: Path, device: str, seed: int, processes: int, recipe: RecogniserRecipe) -> None:
    """Run all stages in `work`, which has a `corpus`, and write the recogniser to `out`; finished stages are not repeated."""
    corpus, more = work / "corpus", work / "recogniser_corpus"
    if not shards(corpus):
        raise InputError("work", str(work), "a folder whose corpus `pcg train corpus` has made")
    check_device(device)
    make_voices(more, corpus, seed, processes)
    codec = load_codec(EMBEDDED / "codec")
    for split in ("train", *HELD_OUT):
        make_round_trips(more, corpus, codec, seed, split)
    held_out = {
        "sentences": read_spoken([corpus], "held_out_sentences"),
        "words": read_spoken([corpus], "held_out_words"),
        "codec": read_spoken([more], "held_out_sentences"),
        "espeak": read_spoken([more], HELD_OUT_VOICES),
    }
    training = RecogniserTraining(work, device, seed, recipe, read_spoken([corpus, more], "train"), held_out)
    training.spell()
    training.read()
    training.together()
    publish(work, out, seed, recipe)


@dataclass(frozen=True)
class RecogniserTraining:
    """A run: its folder, and the sentences that it learns from and is checked on."""

    work: Path
    device: str
    seed: int
    recipe: RecogniserRecipe
    train: Sequence[SpokenSentence]
    held_out: Mapping[str, Sequence[SpokenSentence]]
    seconds: float = SECONDS

    def spell(self) -> None:
        """Train the encoder by CTC over characters, at its end and at the draft in its middle."""
        torch.manual_seed(self.seed)
        encoder, batches = ConformerCTC(self.recipe.encoder), self._batches(self.seed)
        self._learn(CTC, self.recipe.ctc_steps, encoder, None, {"encoder": 1e-3}, batches, warmup=200, every=50)

    def read(self) -> None:
        """Train projector and language model by the cross-entropy of the text behind the frozen encoder's frames."""
        encoder, reader = trained_encoder(self.work, self.recipe.encoder), new_reader(self.recipe, self.subwords, self.seed)
        batches = self._batches(self.seed + 2)
        self._learn(LM, self.recipe.lm_steps, encoder, reader, {"reader": 3e-3}, batches, warmup=200, every=50)

    def together(self) -> None:
        """Train encoder and reader on, each by its own loss."""
        encoder, reader = trained_encoder(self.work, self.recipe.encoder), new_reader(self.recipe, self.subwords, self.seed)
        batches = self._batches(self.seed + 3, easy=0)
        load_checkpoint(self.work / f"{LM}.safetensors", dict(reader.items()), {})
        rates = {"encoder": 1e-3, "reader": 2e-3}
        self._learn(TOGETHER, self.recipe.together_steps, encoder, reader, rates, batches, decay_share=0.6)

    @property
    def subwords(self) -> Subwords:
        """The subwords of this run, learned once."""
        path = self.work / SUBWORDS
        if not path.exists():
            with replacing(path) as temporary:
                text = Subwords.learn((h.text for h in self.train), self.recipe.reader.subwords).to_json()
                temporary.write_text(text, encoding="utf-8")
        return Subwords.load(path)

    def _batches(self, seed: int, **options: int) -> SpeechBatches:
        return SpeechBatches(self.train, self.seconds, seed, Disturbances(), **options)

    def _learn(
        self,
        name: str,
        steps: int,
        encoder: ConformerCTC,
        reader: nn.ModuleDict | None,
        rates: Mapping[str, float],
        batches: SpeechBatches,
        **pace: float,
    ) -> None:
        """Train stage `name` in place, and log losses and the word error rates of each held-out set.

        Args:
            reader: `projector` and `lm`, None in the stage that has none yet.
            rates: learning rates of "encoder", "reader" or both; the other one is frozen.
            pace: fields of the Stage.
        """
        device, mel = self.device, LogMel().to(self.device)
        learned: dict[str, nn.Module] = {part: {"encoder": encoder, "reader": reader}[part].to(device) for part in rates}
        encoder.to(device).eval().requires_grad_("encoder" in rates)
        if reader is not None:
            with_fast_gradients(reader.to(device)["lm"])
        made = {part: make_optimizers(module, rates[part], rates[part]) for part, module in learned.items()}
        checks = {split: spread(sentences, CHECKED) for split, sentences in self.held_out.items()}
        subwords = self.subwords
        print(f"{name}: {batches.per_epoch} batches an epoch", flush=True)

        def step(index: int) -> dict[str, float]:
            for module in learned.values():
                module.train()
            batch, figures = batches.batch(index), {}
            features, counts = mel(batch.samples.to(device), batch.lengths.to(device))
            if "encoder" in learned:
                hidden = mask_features(features.cpu(), counts.cpu(), generator(self.seed + 1, index))
                features = hidden.to(device)
            with torch.autocast(device, torch.bfloat16):
                encoded = encoder(features, counts)
                read = loss_of_reading(reader, subwords, encoded, batch.texts) if "reader" in learned else None
            if "encoder" in learned:
                final, draft = (ctc_loss(p, encoded.counts, batch.texts) for p in (encoded.log_probs, encoded.draft_log_probs))
                update((1 - DRAFT_SHARE) * final + DRAFT_SHARE * draft, encoder, made["encoder"].values())
                figures = {"ctc_loss": final.item(), "draft_loss": draft.item()}
            if read is not None:
                update(read, reader, made["reader"].values())
                figures["lm_loss"] = read.item()
            return figures

        def evaluate() -> dict[str, float]:
            encoder.eval()
            figures = {}
            if "encoder" in learned:
                figures |= {
                    f"{k}_ctc_wer": greedy_wer(encoder, mel, in_order(c, self.seconds), device) for k, c in checks.items()
                }
            if reader is not None:
                parts = (encoder.cpu(), reader["projector"].cpu(), reader["lm"].cpu().eval())
                recogniser = EmbeddedRecogniser("in training", *parts, subwords)
                figures |= {f"{k}_wer": autoregressive_wer(recogniser, check) for k, check in checks.items()}
                encoder.to(device)
                reader.to(device)
            return figures

        modules = {
            n: m for part, module in learned.items() for n, m in ([(part, module)] if part == "encoder" else module.items())
        }
        optimizers = {f"{part}_{kind}": optimizer for part in made for kind, optimizer in made[part].items()}
        run(Stage(name, self.work, steps, modules, optimizers, step, evaluate, **pace))


def ctc_loss(log_probs: Tensor, frames: Tensor, texts: Sequence[str]) -> Tensor:
    """Return the negative log-likelihood a character (arXiv:2603.11243, Eq. 1) of `texts` under `log_probs [B, 2 S, C]`, of
    which twice `frames [B]` labels count."""
    labels = [torch.tensor(spell(text)) for text in texts]
    lengths = torch.tensor([len(row) for row in labels])
    ratio = log_probs.shape[1] // int(frames.max())
    return F.ctc_loss(
        log_probs.transpose(0, 1), torch.cat(labels).to(log_probs.device), ratio * frames, lengths, BLANK, zero_infinity=True
    )


@torch.inference_mode()
def greedy_wer(encoder: ConformerCTC, mel: LogMel, check: Sequence[SpeechBatch], device: str) -> float:
    """Return the word errors of the best path (arXiv:2603.11243, Eq. 2), over all words."""
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


def spread(sentences: Sequence[SpokenSentence], count: int) -> list[SpokenSentence]:
    """Return `count` of `sentences`, evenly spread, so that every voice is among them."""
    return [sentences[i * len(sentences) // count] for i in range(min(count, len(sentences)))]


def new_reader(recipe: RecogniserRecipe, subwords: Subwords, seed: int) -> nn.ModuleDict:
    """Return a random `projector` and `lm`."""
    torch.manual_seed(seed)
    shape = recipe.reader
    projector = Projector(ProjectorConfig(shape.stack, recipe.encoder.width, LABELS_PER_FRAME, shape.width))
    return nn.ModuleDict({"projector": projector, "lm": new_llama(shape, 1 + subwords.size, 0, 0)})


class ReadingBatch(NamedTuple):
    """embeddings of frames and text `[B, T, D]`, their positions and labels `[B, T]` (model ids, -100 where nothing is
    learned)."""

    embeddings: Tensor
    positions: Tensor
    labels: Tensor


def lay_out(
    reader: nn.ModuleDict, frames: Sequence[Tensor], paths: Sequence[Tensor], tokens: Sequence[Sequence[int]], lengths: Tensor
) -> ReadingBatch:
    """Lay out rows as `EmbeddedRecogniser.read` does: each row's frames `[S, D]`, at the places that its CTC path `[labels]`
    has spelled to, then its text after the opening id. lengths: characters of every token."""
    projector, lm, rows = reader["projector"], reader["lm"], []
    for heard, path, written in zip(frames, paths, tokens, strict=True):
        embeddings, text = projector(heard), torch.tensor(written, dtype=torch.int64, device=heard.device)
        ids = F.pad(text + 1, (1, 0))
        positions = torch.cat([projector.positions(path), F.pad(lengths[text].cumsum(0), (1, 0))])
        labels = F.pad(torch.cat([text + 1, ids[:1]]), (len(embeddings), 0), value=IGNORED)
        rows.append((torch.cat([embeddings, lm.get_input_embeddings()(ids).to(embeddings.dtype)]), positions, labels))
    columns = zip(zip(*rows, strict=True), (0, 0, IGNORED), strict=True)
    return ReadingBatch(*(nn.utils.rnn.pad_sequence(list(c), batch_first=True, padding_value=pad) for c, pad in columns))


def loss_of_reading(reader: nn.ModuleDict, subwords: Subwords, encoded: Encoded, texts: Sequence[str]) -> Tensor:
    """Return the mean cross-entropy of the subwords of `texts`, and of the end, behind the frames that were heard. No gradient
    goes through the frames."""
    counts, lengths, lm = encoded.counts.tolist(), torch.tensor(subwords.lengths, device=encoded.frames.device), reader["lm"]
    frames = [row[:count] for row, count in zip(encoded.frames.detach(), counts, strict=True)]
    paths = [row[: LABELS_PER_FRAME * count] for row, count in zip(encoded.log_probs.argmax(-1), counts, strict=True)]
    batch = lay_out(reader, frames, paths, [subwords.encode(text) for text in texts], lengths)
    # The all-ones mask keeps transformers from taking our positions for packed sequences; with causal attention the padding
    # changes nothing before it.
    mask = torch.ones_like(batch.positions)
    read = lm.model(inputs_embeds=batch.embeddings, attention_mask=mask, position_ids=batch.positions, use_cache=False)
    learned = batch.labels != IGNORED
    return F.cross_entropy(lm.get_output_embeddings()(read.last_hidden_state[learned]).float(), batch.labels[learned])


def autoregressive_wer(recogniser: EmbeddedRecogniser, check: Sequence[SpokenSentence]) -> float:
    found = transcribe(recogniser, [h.samples() for h in check], PRESETS["ar"])
    errors = [word_errors(h.text, t.text) for h, t in zip(check, found, strict=True)]
    return sum(e.errors for e in errors) / sum(e.length for e in errors)


def trained_encoder(directory: Path, config: EncoderConfig) -> ConformerCTC:
    """Load the encoder as far as its own stage has trained it."""
    saved = directory / f"{CTC}.safetensors"
    if not saved.exists():
        raise PCGError(f"The recogniser's encoder is not trained yet: no {saved.name} in {directory}.")
    encoder = ConformerCTC(config)
    load_checkpoint(saved, {"encoder": encoder}, {})
    return encoder.eval()


def publish(work: Path, out: Path, seed: int, recipe: RecogniserRecipe) -> None:
    """Write what is trained in `work`, and its card."""
    saved, together = work / f"{LM}.safetensors", work / f"{TOGETHER}.safetensors"
    if not saved.exists():
        raise PCGError(f"The recogniser's language model is not trained yet: no {saved.name} in {work}.")
    subwords, encoder = Subwords.load(work / SUBWORDS), trained_encoder(work, recipe.encoder)
    parts = dict(new_reader(recipe, subwords, seed).items())
    if together.exists():
        load_checkpoint(together, {"encoder": encoder} | parts, {})
    else:
        load_checkpoint(saved, parts, {})
    save_recogniser(out, NAME, encoder, parts["projector"], parts["lm"], subwords)
    parameters = {}
    for part in PARTS:
        with safe_open(out / part / "model.safetensors", framework="pt") as file:
            parameters[part] = sum(prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118
    logs = {p.stem: read_log(p) for p in sorted(work.glob("recogniser_*.jsonl"))}
    with replacing(out / "MODEL_CARD.md") as temporary:
        temporary.write_text(recogniser_card(parameters, logs, seed), encoding="utf-8")
    write_checksums(out)
    print(f"published to {out}", flush=True)


BEGIN, END = "<s>", "</s>"
DISCOUNT = 0.75
FEWEST = 2
# A listed word that was never seen counts as this share of one use.
UNSEEN = 0.3
# log10 of the probability of a word that is not in the list.
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


LONGEST_WORD = 24


def publish_words(prose: Path | None, out: Path, seed: int) -> None:
    """Write the word list in `out`, of all sentences that the corpus may say in training and of the dictionary. No sentence in
    it is held out; the dictionary's words may be."""
    if prose is None or not prose.is_file():
        raise InputError("prose", str(prose), "a text file with one sentence a line")
    words, pairs = write_bigrams(out / WORDS, build_pool(prose, seed).train, dictionary(LONGEST_WORD))
    renew_checksums(out / WORDS)
    print(f"words: {words} words and {pairs} pairs in {out / WORDS}", flush=True)
