"""Write a trained voice as the folder that `load_voice` reads, and the model cards.

`python -m pcg.training.publish assets/voice assets/results/results.json` writes measured word error rates into a voice's card.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from torch import Tensor
from transformers import LlamaForCausalLM

from pcg.codec.embedded import EmbeddedCodec
from pcg.files import renew_checksums, replacing, write_json, write_safetensors
from pcg.models.feature_draft import config_of
from pcg.spoof.detectors import RESOLUTIONS
from pcg.synthesis.voice import FORMAT
from pcg.text.prompt import PhonemeReader, Reference
from pcg.training.feature_draft import FeatureModel


def write_voice(
    folder: Path,
    name: str,
    target: LlamaForCausalLM,
    draft: LlamaForCausalLM | FeatureModel,
    codec: EmbeddedCodec,
    reader: PhonemeReader,
    references: Mapping[str, Reference],
    usage: Tensor,
) -> None:
    """Write everything that a Voice is made of; files that are there are replaced one by one."""
    write_model(folder / "target", target)
    write_model(folder / "draft", draft)
    write_json(folder / "codec" / "config.json", codec.config.as_dict())
    write_tensors(folder / "codec" / "model.safetensors", {k: v.half() for k, v in codec.state_dict().items()})
    write_tensors(folder / "usage.safetensors", {"usage": usage.to(torch.int32)})
    card = {
        "format": FORMAT,
        "name": name,
        "symbols": reader.symbols,
        "durations": reader.durations,
        "voices": {voice: {"text": r.text, "codes": r.codes.tolist()} for voice, r in references.items()},
    }
    with replacing(folder / "voice.json") as temporary:
        temporary.write_text(json.dumps(card, ensure_ascii=False) + "\n", encoding="utf-8")


def write_model(folder: Path, model: LlamaForCausalLM | FeatureModel) -> None:
    """Write a Llama as `save_pretrained` would, or a feature draft as `read_feature_draft` reads it, each file whole or not at
    all. In bfloat16, which the CPU kernel reads fastest (`pcg.models.kernel.vectors.pair`)."""
    state = model.state_dict()
    if isinstance(model, FeatureModel):
        config = config_of(model.shape)
    else:
        config = model.config.to_dict() | {"dtype": "bfloat16", "architectures": ["LlamaForCausalLM"]}
        if model.config.tie_word_embeddings:
            del state["lm_head.weight"]
    write_json(folder / "config.json", config)
    write_tensors(folder / "model.safetensors", {name: tensor.bfloat16() for name, tensor in state.items()})


def write_draft(folder: Path, draft: LlamaForCausalLM | FeatureModel, facts: Mapping[str, object]) -> None:
    """Write the folder of a trained draft, which `load_voice(..., draft=folder)` reads, with `facts` on how it was made."""
    write_model(folder, draft)
    write_json(folder / "draft.json", facts)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write `tensors`, named as transformers and safetensors read them, whole or not at all."""
    write_safetensors(path, {k: t.detach().cpu().contiguous() for k, t in tensors.items()}, {"format": "pt"})


Log = list[dict[str, float]]
CARD = "MODEL_CARD.md"
EVALUATED = ("AR", "PCG cosine")
"""Methods whose word error rates stand in a voice's front matter."""


def model_card(facts: dict[str, object], logs: dict[str, Log], folder: Path) -> str:
    """Return the voice's card in markdown."""
    sizes = {p.parent.name: p.stat().st_size / 1e6 for p in sorted(folder.glob("*/model.safetensors"))}
    codec = facts["recipe"]["codec"]
    rate = codec["sample_rate"] // (codec["frame"] * codec["frames_per_token"])
    return _filled(
        "voice.md",
        "text-to-speech",
        ["speculative-decoding", "speech-tokens"],
        **facts,
        sizes=sizes,
        rate=rate,
        logs=_stages(logs),
    )


def recogniser_card(parameters: dict[str, int], logs: dict[str, Log], seed: int) -> str:
    """Return the recogniser's card in markdown."""
    tags = ["ctc", "self-speculative-decoding"]
    return _filled("recogniser.md", "automatic-speech-recognition", tags, parameters=parameters, logs=_stages(logs), seed=seed)


def detector_card(facts: dict[str, object], figures: dict[str, object]) -> str:
    """Return the detectors' card in markdown."""
    detectors = {resolution.name: figures[resolution.name] for resolution in RESOLUTIONS}
    tags = ["spoof-detection", "speech-tokens"]
    return _filled("detectors.md", "audio-classification", tags, **facts, detectors=detectors, garbage=figures["garbage"])


def write_evaluation(voice: Path, results: Path) -> None:
    """Write the word error rates of AR and PCG in the `results` of an experiment into the front matter of a voice's card."""
    found = json.loads(results.read_text(encoding="utf-8"))
    (judge,) = found["made"]["judges: WER, CER"]
    card = ModelCard.load(voice / CARD)
    card.data.model_name = "The embedded voice"
    card.data.eval_results = [
        EvalResult(
            task_type="text-to-speech",
            dataset_type="text",
            dataset_name=f"{row['n']} sentences of PCG Lab (assets/evaluation)",
            metric_type="wer",
            metric_name=f"WER %, {row['condition']['name']}, by {judge.split(';')[0]}",
            metric_value=round(100 * row["wer"]["value"], 2),
        )
        for row in found["summaries"]
        if row["method"] in EVALUATED and row["condition"]["model"] == "target"
    ]
    with replacing(voice / CARD) as temporary:
        temporary.write_text(_with_front_matter(card.data, card.text), encoding="utf-8")
    renew_checksums(voice / CARD)


def _with_front_matter(data: ModelCardData, text: str) -> str:
    return f"---\n{data.to_yaml()}\n---\n\n{text.strip()}\n"


def _filled(name: str, task: str, tags: list[str], **values: object) -> str:
    folder = FileSystemLoader(Path(__file__).with_name("cards"))
    cards = Environment(loader=folder, undefined=StrictUndefined, autoescape=select_autoescape(), lstrip_blocks=True)
    data = ModelCardData(license="apache-2.0", language="en", library_name="pcg-lab", pipeline_tag=task, tags=tags)
    return _with_front_matter(data, cards.get_template(name).render(values))


def _stages(logs: dict[str, Log]) -> list[dict[str, object]]:
    """Return for each stage its last step, and the last loss of each kind."""
    stages = []
    for name, log in logs.items():
        losses = {kind: value for row in log for kind, value in row.items() if kind not in ("step", "seconds")}
        stages.append({"name": name, "step": int(log[-1]["step"]), "seconds": log[-1]["seconds"], "losses": losses})
    return stages


if __name__ == "__main__":
    write_evaluation(*map(Path, sys.argv[1:3]))
