"""The embedded recogniser: an encoder that spells what it hears, a language model that reads it, and the word list.

Three stages, each of which resumes where it was stopped: the encoder alone by CTC, the language model behind the frozen
encoder, and both together.
"""

import gzip
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log10
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pcg.asr.embedded import Recogniser, save_recogniser
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
    spell,
)
from pcg.asr.self_speculative import PRESETS, Thresholds, transcribe
from pcg.asr.word_search import FILE as WORDS
from pcg.asr.word_search import UNKNOWN
from pcg.errors import InputError, PCGError
from pcg.files import renew_checksums, replacing, write_checksums
from pcg.metrics.intelligibility import pooled, spoken_words, word_errors
from pcg.recipe import Count, Recipe
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.training import loop, speech
from pcg.training.corpus import HELD_OUT, shards
from pcg.training.publish import stages, write_card
from pcg.training.sentences import build_pool, dictionary
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
    loop.check_device(device)
    speech.make_voices(more, corpus, seed, processes)
    codec = load_codec(EMBEDDED / "codec")
    for split in ("train", *HELD_OUT):
        speech.make_round_trips(more, corpus, codec, seed, split)
    held_out = {
        "sentences": speech.read_spoken([corpus], "held_out_sentences"),
        "words": speech.read_spoken([corpus], "held_out_words"),
        "codec": speech.read_spoken([more], "held_out_sentences"),
        "espeak": speech.read_spoken([more], speech.HELD_OUT_VOICES),
    }
    training = RecogniserTraining(work, device, seed, recipe, speech.read_spoken([corpus, more], "train"), held_out)
    training.spell()
    training.read()
    training.together()
    training.publish(out)


@dataclass(frozen=True)
class RecogniserTraining:
    """A run: its folder, and the sentences that it learns from and is checked on."""

    work: Path
    device: str
    seed: int
    recipe: RecogniserRecipe
    train: Sequence[speech.SpokenSentence]
    held_out: Mapping[str, Sequence[speech.SpokenSentence]]
    seconds: float = SECONDS

    def spell(self) -> None:
        """Train the encoder by CTC over characters, at its end and at the draft in its middle."""
        self._learn(CTC, self.recipe.ctc_steps, {"encoder": 1e-3}, self.seed, warmup=200, every=50)

    def read(self) -> None:
        """Train projector and language model by the cross-entropy of the text behind the frozen encoder's frames."""
        self._learn(LM, self.recipe.lm_steps, {"reader": 3e-3}, self.seed + 2, warmup=200, every=50)

    def together(self) -> None:
        """Train encoder and reader on, each by its own loss."""
        rates = {"encoder": 1e-3, "reader": 2e-3}
        self._learn(TOGETHER, self.recipe.together_steps, rates, self.seed + 3, easy=0, decay_share=0.6)

    def publish(self, out: Path) -> None:
        """Write what is trained, and its card."""
        encoder, reader = self.trained(TOGETHER if self._saved(TOGETHER).exists() else LM)
        parts = {"encoder": encoder, "projector": reader["projector"], "lm": reader["lm"]}
        save_recogniser(out, NAME, *parts.values(), self.subwords)
        write_card(
            out,
            "recogniser",
            "automatic-speech-recognition",
            ["ctc", "self-speculative-decoding"],
            parameters={name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()},
            logs=stages(sorted(self.work.glob("recogniser_*.jsonl"))),
            seed=self.seed,
        )
        write_checksums(out)
        print(f"published to {out}", flush=True)

    @cached_property
    def subwords(self) -> Subwords:
        """The subwords of this run, learned once."""
        path = self.work / SUBWORDS
        if not path.exists():
            with replacing(path) as temporary:
                text = Subwords.learn((h.text for h in self.train), self.recipe.reader.subwords).to_json()
                temporary.write_text(text, encoding="utf-8")
        return Subwords.load(path)

    def trained(self, stage: str | None) -> tuple[ConformerCTC, nn.ModuleDict]:
        """Return the encoder and the reader (`projector` and `lm`) as `stage` left them; random ones for None."""
        torch.manual_seed(self.seed)
        encoder = ConformerCTC(self.recipe.encoder)
        torch.manual_seed(self.seed)
        shape = self.recipe.reader
        projector = Projector(ProjectorConfig(shape.stack, self.recipe.encoder.width, LABELS_PER_FRAME, shape.width))
        reader = nn.ModuleDict({"projector": projector, "lm": new_llama(shape, 1 + self.subwords.size, 0, 0)})
        modules = {"encoder": encoder} | dict(reader.items())
        weights = {CTC: ("encoder",), LM: ("projector", "lm"), TOGETHER: ("encoder", "projector", "lm")}
        for saved in {None: (), CTC: (CTC,), LM: (CTC, LM), TOGETHER: (TOGETHER,)}[stage]:
            if not self._saved(saved).exists():
                raise PCGError(f"The recogniser is not trained so far: no {saved}.safetensors in {self.work}.")
            loop.load_checkpoint(self._saved(saved), {name: modules[name] for name in weights[saved]})
        return encoder.eval(), reader.eval()

    def _saved(self, stage: str) -> Path:
        return self.work / f"{stage}.safetensors"

    def _learn(self, name: str, steps: int, rates: Mapping[str, float], seed: int, easy: int = 150, **pace: float) -> None:
        """Train stage `name`, and log losses and the word error rates of each held-out set.

        Args:
            rates: learning rates of "encoder", "reader" or both; the other one is frozen.
            seed: of the batches.
            easy: batches of the shortest sentences at the beginning.
            pace: fields of the Stage.
        """
        device, mel, subwords = self.device, LogMel().to(self.device), self.subwords
        encoder, reader = self.trained({CTC: None, LM: CTC, TOGETHER: LM}[name])
        modules = {"encoder": encoder.to(device), "reader": reader.to(device)}
        learned = {part: module for part, module in modules.items() if part in rates}
        encoder.requires_grad_("encoder" in learned)
        loop.with_fast_gradients(reader["lm"])
        made = {part: loop.make_optimizers(module, rates[part], rates[part]) for part, module in learned.items()}
        batches = speech.SpeechBatches(self.train, self.seconds, seed, speech.Disturbances(), easy)
        print(f"{name}: {batches.per_epoch} batches an epoch", flush=True)

        def step(index: int) -> dict[str, float]:
            for module in learned.values():
                module.train()
            batch, figures = batches.batch(index), {}
            features, counts = mel(batch.samples.to(device), batch.lengths.to(device))
            if "encoder" in learned:
                hidden = speech.mask_features(features.cpu(), counts.cpu(), loop.generator(self.seed + 1, index))
                features = hidden.to(device)
            with torch.autocast(device, torch.bfloat16):
                encoded = encoder(features, counts)
                read = loss_of_reading(reader, subwords, encoded, batch.texts) if "reader" in learned else None
            if "encoder" in learned:
                final, draft = (ctc_loss(p, encoded.counts, batch.texts) for p in (encoded.log_probs, encoded.draft_log_probs))
                loop.update((1 - DRAFT_SHARE) * final + DRAFT_SHARE * draft, encoder, made["encoder"].values())
                figures = {"ctc_loss": final.item(), "draft_loss": draft.item()}
            if read is not None:
                loop.update(read, reader, made["reader"].values())
                figures["lm_loss"] = read.item()
            return figures

        def evaluate() -> dict[str, float]:
            parts = (encoder.cpu(), reader["projector"].cpu(), reader["lm"].cpu().eval())
            recogniser, figures = Recogniser("in training", *parts, subwords), {}
            # Without a reader that has learned, the characters of the encoder are the text.
            thresholds = PRESETS["ar"] if "reader" in learned else Thresholds(inf, None)
            for split, sentences in self.held_out.items():
                # Evenly spread, so that every voice is among them.
                count = min(CHECKED, len(sentences))
                check = [sentences[i * len(sentences) // count] for i in range(count)]
                found = transcribe(recogniser, [s.samples() for s in check], thresholds)
                texts = {"ctc_wer": [t.draft for t in found]}
                if "reader" in learned:
                    texts["wer"] = [t.text for t in found]
                for figure, heard in texts.items():
                    errors = [word_errors(s.text, text) for s, text in zip(check, heard, strict=True)]
                    figures[f"{split}_{figure}"] = pooled(errors).value
            encoder.to(device)
            reader.to(device)
            return figures

        saved = {"encoder": {"encoder": encoder}, "reader": dict(reader.items())}
        kept = {name: module for part in learned for name, module in saved[part].items()}
        optimizers = {f"{part}_{kind}": optimizer for part in made for kind, optimizer in made[part].items()}
        loop.run(loop.Stage(name, self.work, steps, kept, optimizers, step, evaluate, **pace))


def ctc_loss(log_probs: Tensor, frames: Tensor, texts: Sequence[str]) -> Tensor:
    """Return the negative log-likelihood a character (arXiv:2603.11243, Eq. 1) of `texts` under `log_probs [B, 2 S, C]`, of
    which twice `frames [B]` labels count."""
    labels = [torch.tensor(spell(text)) for text in texts]
    lengths = torch.tensor([len(row) for row in labels])
    ratio = log_probs.shape[1] // int(frames.max())
    return F.ctc_loss(
        log_probs.transpose(0, 1), torch.cat(labels).to(log_probs.device), ratio * frames, lengths, BLANK, zero_infinity=True
    )


def lay_out(reader: nn.ModuleDict, subwords: Subwords, encoded: Encoded, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Lay out rows as `Recogniser.read` does: each row's frames, at the places that its CTC path has spelled to, then
    its text after the opening id.

    Returns:
        Embeddings `[B, T, D]`, through which no gradient goes to the encoder, and positions and labels `[B, T]`.
    """
    projector, lm, rows = reader["projector"], reader["lm"], []
    lengths = torch.tensor(subwords.lengths, device=encoded.frames.device)
    paths = encoded.log_probs.argmax(-1)
    for frames, path, count, text in zip(encoded.frames.detach(), paths, encoded.counts.tolist(), texts, strict=True):
        embeddings = projector(frames[:count])
        tokens = torch.tensor(subwords.encode(text), dtype=torch.int64, device=frames.device)
        ids = F.pad(tokens + 1, (1, 0))
        spelled = projector.positions(path[: LABELS_PER_FRAME * count])
        positions = torch.cat([spelled, F.pad(lengths[tokens].cumsum(0), (1, 0))])
        labels = F.pad(torch.cat([tokens + 1, ids[:1]]), (len(embeddings), 0), value=IGNORED)
        rows.append((torch.cat([embeddings, lm.get_input_embeddings()(ids).to(embeddings.dtype)]), positions, labels))
    columns = zip(zip(*rows, strict=True), (0, 0, IGNORED), strict=True)
    return tuple(nn.utils.rnn.pad_sequence(list(c), batch_first=True, padding_value=padding) for c, padding in columns)


def loss_of_reading(reader: nn.ModuleDict, subwords: Subwords, encoded: Encoded, texts: Sequence[str]) -> Tensor:
    """Return the mean cross-entropy of the subwords of `texts`, and of the end, behind the frames that were heard."""
    lm = reader["lm"]
    embeddings, positions, labels = lay_out(reader, subwords, encoded, texts)
    # The all-ones mask keeps transformers from taking our positions for packed sequences; with causal attention the padding
    # changes nothing before it.
    mask = torch.ones_like(positions)
    read = lm.model(inputs_embeds=embeddings, attention_mask=mask, position_ids=positions, use_cache=False)
    learned = labels != IGNORED
    return F.cross_entropy(lm.get_output_embeddings()(read.last_hidden_state[learned]).float(), labels[learned])


BEGIN, END = "<s>", "</s>"
LONGEST_WORD = 24
DISCOUNT, FEWEST = 0.75, 2
UNSEEN, OUTSIDE = 0.3, -18.0
"""Uses of a listed word that was never seen, and log10 of the probability of a word that is not listed."""


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


def publish_words(prose: Path | None, out: Path, seed: int) -> None:
    """Write the word list in `out`, of all sentences that the corpus may say in training and of the dictionary. No sentence in
    it is held out; the dictionary's words may be."""
    if prose is None or not prose.is_file():
        raise InputError("prose", str(prose), "a text file with one sentence a line")
    words, pairs = write_bigrams(out / WORDS, build_pool(prose, seed).train, dictionary(LONGEST_WORD))
    renew_checksums(out / WORDS)
    print(f"words: {words} words and {pairs} pairs in {out / WORDS}", flush=True)
