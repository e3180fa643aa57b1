"""The embedded recogniser: a Conformer with a CTC head, a projector, and a small Llama that writes subwords.

Its folder holds `recogniser.json`, `subwords.json` and, each as `config.json` and `model.safetensors`, `encoder/`,
`projector/` and `lm/`.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
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
from pcg.asr.self_speculative import Heard, Reading, continue_greedily, reading
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


def vocabulary_of(subwords: Subwords) -> Vocabulary:
    """Id 0 opens and closes a text, subwords follow."""
    return Vocabulary(codes=subwords.size, first_code=1, end=0)


class EmbeddedRecogniser:
    """The shipped implementation of `Recogniser`, in float32 on a CPU."""

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        name: str,
        encoder: ConformerCTC,
        projector: Projector,
        lm: "Checkpoint | LlamaForCausalLM",
        subwords: Subwords,
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
        padded = nn.utils.rnn.pad_sequence([s.float() for s in samples], batch_first=True)
        encoded = self._encoder(*self._mel(padded, torch.tensor([len(s) for s in samples])))
        heard = []
        for frames, log_probs, count in zip(encoded.frames, encoded.log_probs, encoded.counts.tolist(), strict=True):
            spelled = log_probs[: LABELS_PER_FRAME * count]
            heard.append(Heard(spelled, read_path(spelled.argmax(-1).tolist()), self._projector(frames[:count])))
        return heard

    @torch.inference_mode()
    def read(self, heard: Sequence[Heard], hypotheses: Sequence[Sequence[int]]) -> list[Reading]:
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
            keys, values = (t[:, row, :, :length] for t in (cache.keys, cache.values))
            readings.append(reading(logits[row, begin : begin + len(tokens) + 1], tokens, prompt, keys, values))
        return readings

    @torch.inference_mode()
    def go_on(self, heard: Sequence[Heard], readings: Sequence[Reading], prefixes: Sequence[Sequence[int]]) -> list[list[int]]:
        limits = [h.most_tokens for h in heard]
        cropped = [r.crop(len(prefix)) for r, prefix in zip(readings, prefixes, strict=True)]
        lengths = [keys.shape[2] for keys, _ in cropped]
        cache = self._lm.cache(len(cropped), max(lengths) + max(limits))
        for row, (length, (keys, values)) in enumerate(zip(lengths, cropped, strict=True)):
            cache.keys[:, row, :, :length], cache.values[:, row, :, :length], cache.lengths[row] = keys, values, length
        at = [int(self._written(prefix)[-1]) for prefix in prefixes]

        def step(rows: list[int], tokens: list[int]) -> list[int]:
            for row, token in zip(rows, tokens, strict=True):
                at[row] += self._lengths[token].item()
            ids = torch.tensor([[token + 1] for token in tokens])
            rotary = self._lm.rotary(torch.tensor([[at[row]] for row in rows]))
            return self._lm.forward(ids, rotary, cache, 1, rows)[:, 0].argmax(-1).tolist()

        first = [r.choices[len(prefix)] for r, prefix in zip(readings, prefixes, strict=True)]
        return continue_greedily(first, self.end, limits, step)

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


def load_recogniser(folder: Path = EMBEDDED) -> EmbeddedRecogniser:
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
    except Exception as error:
        raise AssetError(f"The recogniser in {folder} is missing or damaged ({first_line(error)}).") from error
    subwords = Subwords.load(folder / "subwords.json")
    lm = read_checkpoint(folder / "lm", vocabulary_of(subwords))
    # A recogniser that was trained on is another judge.
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update((folder / part / "model.safetensors").read_bytes())
    name = f"{card['name']} (weights {digest.hexdigest()[:8]})"
    return EmbeddedRecogniser(name, encoder, projector, lm, subwords)
