"""The embedded recogniser: a Conformer with a CTC head, a projector, and a small Llama that writes subwords.

Its folder holds `recogniser.json`, `subwords.json` and, each as `config.json` and `model.safetensors`, `encoder/`,
`projector/` and `lm/`.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from pcg.asr.network import (
    LABELS_PER_FRAME,
    SAMPLE_RATE,
    ConformerCTC,
    EncoderConfig,
    LogMel,
    Projector,
    ProjectorConfig,
    Subwords,
    read_path,
)
from pcg.errors import AssetError, first_line
from pcg.files import check_checksums, replacing, write_json, write_safetensors
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, read_checkpoint
from pcg.places import ASSETS

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

FORMAT = 1
PARTS = ("encoder", "projector", "lm")
EMBEDDED = ASSETS / "recogniser"


@dataclass(frozen=True)
class Heard:
    """One utterance after the encoder: `log_probs [T, C]` of the CTC classes; `draft`, the text of their best path
    (arXiv:2603.11243, Eq. 2); and `embeddings [T', D]`, what the adapter hands to the language model (g in Eq. 4)."""

    log_probs: Tensor
    draft: str
    embeddings: Tensor

    @property
    def most_tokens(self) -> int:
        """The limit of a continued text: it has no more tokens than CTC frames."""
        return len(self.log_probs) + 8


@dataclass(frozen=True)
class Reading:
    """The language model after one pass over a prompt of `prompt` positions and the U tokens of a hypothesis.

    log_likelihoods `[U]`: log p(y_i | y_<i, g) of each token. choices: the U + 1 likeliest tokens, after each prefix.
    keys, values `[layers, heads, prompt + U, dim]`: its cache."""

    log_likelihoods: Tensor
    choices: tuple[int, ...]
    prompt: int
    keys: Tensor
    values: Tensor


def vocabulary_of(subwords: Subwords) -> Vocabulary:
    """Id 0 opens and closes a text, subwords follow."""
    return Vocabulary(codes=subwords.size, first_code=1, end=0)


class Recogniser:
    """A speech-aware language model with a CTC encoder, in float32 on a CPU. Its tokens are integers; `end` closes a text."""

    sample_rate = SAMPLE_RATE

    def __init__(
        self, name: str, encoder: ConformerCTC, projector: Projector, lm: "Checkpoint | LlamaForCausalLM", subwords: Subwords
    ) -> None:
        self.name = name
        self._mel, self._encoder, self._projector, self._subwords = LogMel(), encoder.eval(), projector.eval(), subwords
        self._lm = DecodingLlama(lm, vocabulary_of(subwords))
        # By token, characters that it adds to the text; the end stands where it is said.
        self._lengths = torch.tensor([*subwords.lengths, 0])

    @property
    def end(self) -> int:
        return self._lm.vocabulary.eos

    def tokens(self, text: str) -> list[int]:
        return self._subwords.encode(text)

    def text(self, tokens: Sequence[int]) -> str:
        return self._subwords.decode(tokens)

    @torch.inference_mode()
    def hear(self, samples: Sequence[Tensor]) -> list[Heard]:
        """Encode utterances `[N]`, float32 at `sample_rate`."""
        padded = nn.utils.rnn.pad_sequence([s.float() for s in samples], batch_first=True)
        encoded = self._encoder(*self._mel(padded, torch.tensor([len(s) for s in samples])))
        heard = []
        for frames, log_probs, count in zip(encoded.frames, encoded.log_probs, encoded.counts.tolist(), strict=True):
            spelled = log_probs[: LABELS_PER_FRAME * count]
            heard.append(Heard(spelled, read_path(spelled.argmax(-1).tolist()), self._projector(frames[:count])))
        return heard

    @torch.inference_mode()
    def read(self, heard: Sequence[Heard], hypotheses: Sequence[Sequence[int]]) -> list[Reading]:
        """Read each utterance's prompt and hypothesis, which may be empty, in one pass."""
        rows = len(heard)
        prompts = [len(h.embeddings) + 1 for h in heard]
        width = max(prompt + len(tokens) for prompt, tokens in zip(prompts, hypotheses, strict=True))
        ids, positions = torch.zeros(rows, width, dtype=torch.int64), torch.zeros(rows, width, dtype=torch.int64)
        first = len(self._lm.embedding)
        for row, (h, tokens) in enumerate(zip(heard, hypotheses, strict=True)):
            count = len(h.embeddings)
            ids[row, :count] = first + torch.arange(count)
            ids[row, count + 1 : count + 1 + len(tokens)] = torch.tensor(tokens, dtype=torch.int64) + 1
            positions[row, :count] = self._projector.positions(h.log_probs.argmax(-1))
            positions[row, count : count + 1 + len(tokens)] = self._written(tokens)
            first += count
        # Frames enter as if they were further tokens, since the model's pass knows ids only; the compiled one knows its own.
        seeing = copy.copy(self._lm)
        seeing.embedding = torch.cat([self._lm.embedding, *(h.embeddings for h in heard)])
        cache = seeing.cache(rows, width)
        last = width - min(prompts) + 1
        logits = seeing.run(ids, seeing.rotary(positions), cache, torch.zeros(rows, dtype=torch.int64), width, last)
        readings = []
        for row, (prompt, tokens) in enumerate(zip(prompts, hypotheses, strict=True)):
            begin, length = prompt - 1 - (width - last), prompt + len(tokens)
            own = logits[row, begin : begin + len(tokens) + 1]
            log_likelihoods = own.log_softmax(-1)[range(len(tokens)), list(tokens)]
            choices = tuple(own.argmax(-1).tolist())
            keys, values = (t[:, row, :, :length] for t in (cache.keys, cache.values))
            readings.append(Reading(log_likelihoods, choices, prompt, keys, values))
        return readings

    @torch.inference_mode()
    def go_on(self, heard: Sequence[Heard], readings: Sequence[Reading], prefixes: Sequence[Sequence[int]]) -> list[list[int]]:
        """Write the likeliest tokens until the end, which is left out, behind each prefix of the hypothesis that was read
        (arXiv:2603.11243, Eq. 6, searched greedily), on the cache of that pass, cropped."""
        lengths = [r.prompt + len(prefix) for r, prefix in zip(readings, prefixes, strict=True)]
        cache = self._lm.cache(len(heard), max(lengths) + max(h.most_tokens for h in heard))
        for row, (length, r) in enumerate(zip(lengths, readings, strict=True)):
            cache.keys[:, row, :, :length], cache.values[:, row, :, :length] = r.keys[:, :, :length], r.values[:, :, :length]
            cache.lengths[row] = length
        positions = [int(self._written(prefix)[-1]) for prefix in prefixes]
        newest = {row: r.choices[len(prefix)] for row, (r, prefix) in enumerate(zip(readings, prefixes, strict=True))}
        written: list[list[int]] = [[] for _ in heard]
        while newest := {row: token for row, token in newest.items() if token != self.end}:
            for row, token in newest.items():
                written[row].append(token)
                positions[row] += self._lengths[token].item()
            rows = [row for row in newest if len(written[row]) < heard[row].most_tokens]
            if not rows:
                break
            ids = torch.tensor([[newest[row] + 1] for row in rows])
            rotary = self._lm.rotary(torch.tensor([[positions[row]] for row in rows]))
            likeliest = self._lm.forward(ids, rotary, cache, 1, rows)[:, 0].argmax(-1).tolist()
            newest = dict(zip(rows, likeliest, strict=True))
        return written

    def _written(self, tokens: Sequence[int]) -> Tensor:
        """Characters written before each of the U + 1 tokens after the opening one, `[U + 1]`: the positions of the inputs."""
        return torch.cat([torch.zeros(1, dtype=torch.int64), self._lengths[list(tokens)].cumsum(0)])


def save_recogniser(
    folder: Path,
    name: str,
    encoder: ConformerCTC,
    projector: Projector,
    lm: "LlamaForCausalLM",
    subwords: Subwords,
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    """Write the folder that `load_recogniser` reads, weights in `dtype`."""
    for part, module in (("encoder", encoder), ("projector", projector)):
        write_json(folder / part / "config.json", asdict(module.config))
        tensors = {key: t.to(dtype).contiguous() for key, t in module.state_dict().items()}
        write_safetensors(folder / part / "model.safetensors", tensors)
    copy.deepcopy(lm).to(dtype).save_pretrained(folder / "lm")
    with replacing(folder / "subwords.json") as temporary:
        temporary.write_text(subwords.to_json(), encoding="utf-8")
    write_json(folder / "recogniser.json", {"format": FORMAT, "name": name})


def load_recogniser(folder: Path = EMBEDDED) -> Recogniser:
    """Load a folder that `save_recogniser` wrote; raise AssetError if a file is missing, damaged or of another shape."""
    check_checksums(folder)
    try:
        card = json.loads((folder / "recogniser.json").read_text(encoding="utf-8"))
        if card["format"] != FORMAT:
            raise ValueError(f"format {card['format']!r} is not {FORMAT}")
        encoder, projector = (
            kind(config(**json.loads((folder / part / "config.json").read_text(encoding="utf-8"))))
            for part, kind, config in (("encoder", ConformerCTC, EncoderConfig), ("projector", Projector, ProjectorConfig))
        )
        for part, module in (("encoder", encoder), ("projector", projector)):
            module.load_state_dict({k: t.float() for k, t in load_file(folder / part / "model.safetensors").items()})
        subwords = Subwords.load(folder / "subwords.json")
    except Exception as error:
        raise AssetError(f"The recogniser in {folder} is missing or damaged ({first_line(error)}).") from error
    lm = read_checkpoint(folder / "lm", vocabulary_of(subwords))
    # A recogniser that was trained on is another judge.
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update((folder / part / "model.safetensors").read_bytes())
    name = f"{card['name']} (weights {digest.hexdigest()[:8]})"
    return Recogniser(name, encoder, projector, lm, subwords)
