"""The model card of a voice, written from what the training recorded."""

from pathlib import Path

Log = list[dict[str, float]]


def model_card(facts: dict[str, object], logs: dict[str, Log], folder: Path) -> str:
    """Markdown: what the voice is, its recipe, its hours, its losses, and what it is not for."""
    hours: dict[str, float] = facts["hours"]
    recipe: dict[str, object] = facts["recipe"]
    sizes = {p.parent.name: p.stat().st_size / 1e6 for p in sorted(folder.glob("*/model.safetensors"))}
    lines = [
        "# The embedded voice",
        "",
        "A codec language model in the shape of LLaSA + X-codec2, trained from nothing by `python -m pcg train all`, on",
        "speech that free synthesizers made. It speaks English with synthetic voices, and imitates the synthesizers only.",
        "",
        "| part | what | MB on disk |",
        "|---|---|---|",
        f"| codec | 16 kHz, {_rate(recipe)} tokens/s, FSQ {list(recipe['codec']['levels'])}, vocoder | {sizes['codec']:.1f} |",
        f"| target | Llama, {_shape(recipe)} | {sizes['target']:.1f} |",
        f"| draft | layers {list(recipe['draft_layers'])} of the target, distilled on its own samples | {sizes['draft']:.1f} |",
        "",
        "## Corpus",
        "",
        f"{facts['utterances']} utterances, {sum(hours.values()):.1f} hours, spoken by flite: "
        + ", ".join(f"{v} {h:.1f} h" for v, h in hours.items())
        + ".",
        "Text: public-domain prose, WordNet glosses and examples, word lists, templates. One sentence in a hundred and one",
        "rare word in forty were held out.",
        "",
        "## Losses",
        "",
        "| stage | steps | seconds | last losses |",
        "|---|---|---|---|",
        *(_stage_row(name, log) for name, log in logs.items()),
        "",
        f"Seed {facts['seed']}. Losses are in nats; `mel` is the L1 distance of log-mel spectra.",
        "",
        *(["## How this run went", "", str(facts["notes"]), ""] if facts["notes"] else []),
        "## Limits",
        "",
        "English only. The text is read through espeak-ng's phonemes, so its mispronunciations are inherited. Quality is that",
        "of the small synthesizers that it learned from. Measured figures: `python -m pcg evaluate`.",
    ]
    return "\n".join(lines) + "\n"


def _rate(recipe: dict[str, object]) -> int:
    codec = recipe["codec"]
    return codec["sample_rate"] // (codec["frame"] * codec["frames_per_token"])


def _shape(recipe: dict[str, object]) -> str:
    shape = recipe["target"]
    return f"{shape['layers']} layers x {shape['width']}, {shape['heads']} heads, tied embeddings"


def _stage_row(name: str, log: Log) -> str:
    last = log[-1]
    merged: dict[str, float] = {}
    for row in log:
        merged |= row
    losses = ", ".join(f"{k} {v:.3f}" for k, v in merged.items() if k not in ("step", "seconds"))
    return f"| {name} | {int(last['step'])} | {last['seconds']:.0f} | {losses} |"
