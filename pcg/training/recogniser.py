"""The embedded recogniser: an encoder that spells what it hears, and a language model that reads it."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from pcg.asr.self_speculative import PRESETS, transcribe
from pcg.errors import InputError
from pcg.files import replacing, write_checksums
from pcg.metrics.intelligibility import pooled, word_errors
from pcg.models.weights import check_device
from pcg.recipe import Count, Recipe
from pcg.synthesis.voice import EMBEDDED, load_codec
from pcg.training import loop, speech
from pcg.training.models import Shape, new_llama, stages, write_card
from pcg.training.shards import Utterance, shards
from pcg.training.tokens import IGNORED

NAME = "embedded recogniser 2"
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
    steps: Count = 5000


def train_recogniser(work: Path, out: Path, device: str, seed: int, processes: int, recipe: RecogniserRecipe) -> None:
    """Train in `work`, which has a `corpus`, and write the recogniser to `out`; a killed run resumes."""
    corpus, more = work / "corpus", work / "recogniser_corpus"
    if not shards(corpus):
        raise InputError("work", str(work), "a folder whose corpus `pcg train corpus` has made")
    check_device(device)
    speech.make_voices(more, corpus, seed, processes)
    codec = load_codec(EMBEDDED / "codec")
    for split in ("train", "held_out_sentences"):
        speech.make_round_trips(more, corpus, codec, seed, split)
    held_out = {
        "sentences": speech.read_spoken([corpus], "held_out_sentences"),
        "words": speech.read_spoken([corpus], "held_out_words"),
        "codec": speech.read_spoken([more], "held_out_sentences"),
    }
    train = speech.read_spoken([corpus, more], "train")
    parts, subwords = train_parts(work, device, seed, recipe, train, held_out)
    save_recogniser(out, NAME, *parts.cpu().values(), subwords)
    facts = {
        "parameters": {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()},
        "logs": stages(work, "recogniser.jsonl"),
        "seed": seed,
    }
    write_card(out, "recogniser", "automatic-speech-recognition", ["ctc", "self-speculative-decoding"], **facts)
    write_checksums(out)
    print(f"published to {out}", flush=True)


def new_parts(recipe: RecogniserRecipe, subwords: Subwords, seed: int) -> nn.ModuleDict:
    """Return a random `encoder`, `projector` and `lm`."""
    torch.manual_seed(seed)
    encoder, shape = ConformerCTC(recipe.encoder), recipe.reader
    projector = Projector(ProjectorConfig(shape.stack, recipe.encoder.width, LABELS_PER_FRAME, shape.width))
    return nn.ModuleDict({"encoder": encoder, "projector": projector, "lm": new_llama(shape, 1 + subwords.size, 0, 0)})


def train_parts(
    work: Path,
    device: str,
    seed: int,
    recipe: RecogniserRecipe,
    train: Sequence[Utterance],
    held_out: Mapping[str, Sequence[Utterance]],
    seconds: float = SECONDS,
) -> tuple[nn.ModuleDict, Subwords]:
    """Train the encoder by CTC over characters, at its end and at the draft in its middle; and the reader, which is projector
    and language model, by the cross-entropy of the text behind the encoder's frames. Neither's loss reaches the other. seconds:
    padded speech in a batch."""
    path = work / "recogniser_subwords.json"
    if not path.exists():
        with replacing(path) as temporary:
            learned = Subwords.learn((utterance.text for utterance in train), recipe.reader.subwords)
            temporary.write_text(learned.to_json(), encoding="utf-8")
    subwords = Subwords.load(path)
    parts = new_parts(recipe, subwords, seed).to(device)
    loop.with_fast_gradients(parts["lm"])
    encoder, reader = parts["encoder"], nn.ModuleDict({name: parts[name] for name in ("projector", "lm")})
    spelling, reading = loop.make_optimizers(encoder, 1e-3, 1e-3), loop.make_optimizers(reader, 2e-3, 2e-3)
    mel, batches = LogMel().to(device), speech.SpeechBatches(train, seconds, seed)

    def step(index: int) -> dict[str, float]:
        parts.train()
        batch, rng = batches.batch(index), loop.generator(seed + 1, index)
        features, counts = mel(batch.samples.to(device), batch.lengths.to(device))
        features = speech.mask_features(features.cpu(), counts.cpu(), rng).to(device)
        with torch.autocast(device, torch.bfloat16):
            encoded = encoder(features, counts)
            read = loss_of_reading(reader, subwords, encoded, batch.texts)
        final, draft = (ctc_loss(p, encoded.counts, batch.texts) for p in (encoded.log_probs, encoded.draft_log_probs))
        loop.update((1 - DRAFT_SHARE) * final + DRAFT_SHARE * draft, encoder, spelling.values())
        loop.update(read, reader, reading.values())
        return {"ctc_loss": final.item(), "draft_loss": draft.item(), "lm_loss": read.item()}

    def evaluate() -> dict[str, float]:
        """Return word error rates of each held-out set, of the encoder's characters and of the reader's text."""
        recogniser, rates = Recogniser("in training", *copy.deepcopy(parts).cpu().eval().values(), subwords), {}
        for split, sentences in held_out.items():
            # Evenly spread, so that every voice is among them.
            count = min(CHECKED, len(sentences))
            check = [sentences[i * len(sentences) // count] for i in range(count)]
            transcripts = transcribe(recogniser, [s.samples() for s in check], PRESETS["ar"])
            for rate, texts in (("ctc_wer", [t.draft for t in transcripts]), ("wer", [t.text for t in transcripts])):
                errors = [word_errors(s.text, text) for s, text in zip(check, texts, strict=True)]
                rates[f"{split}_{rate}"] = pooled(errors).value
        return rates

    optimizers = {f"encoder_{kind}": o for kind, o in spelling.items()} | {f"reader_{kind}": o for kind, o in reading.items()}
    loop.run("recogniser", work, recipe.steps, parts, optimizers, step, evaluate, warmup=200, decay_share=0.6)
    return parts.eval(), subwords


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
    """Lay out rows as `Recogniser.read` does: each row's frames, at the places that its CTC path has spelled to, then its text
    after the opening id. Return embeddings `[B, T, D]`, through which no gradient goes to the encoder, and positions and labels
    `[B, T]`."""
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
