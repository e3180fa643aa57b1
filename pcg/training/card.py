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
        *(stage_row(name, log) for name, log in logs.items()),
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


def stage_row(name: str, log: Log) -> str:
    """A row of the table of losses: the last of each kind."""
    last = log[-1]
    merged: dict[str, float] = {}
    for row in log:
        merged |= row
    losses = ", ".join(f"{k} {v:.3f}" for k, v in merged.items() if k not in ("step", "seconds"))
    return f"| {name} | {int(last['step'])} | {last['seconds']:.0f} | {losses} |"


def recogniser_card(parameters: dict[str, int], logs: dict[str, Log], seed: int, notes: str) -> str:
    """Markdown: what the recogniser is, what it learned from, its losses, and what it is not for."""
    lines = [
        "# The embedded recogniser",
        "",
        "A Conformer that spells what it hears (CTC over characters), a projector, and a small Llama that reads the",
        "Conformer's frames and writes subwords: the pair that self-speculative decoding (arXiv 2603.11243) needs. Trained",
        "from nothing by `python -m pcg train recogniser`, on the embedded voice's corpus (flite: rms, slt, awb, kal16), 25",
        "variants of espeak-ng, and a share of the corpus through the voice's codec and back; with noise, rooms, narrow",
        "channels, few bits and other speeds.",
        "",
        "| part | parameters |",
        "|---|---|",
        *(f"| {part} | {count:,} |" for part, count in parameters.items()),
        "",
        "## Losses and word error rates",
        "",
        "| stage | steps | seconds | last losses |",
        "|---|---|---|---|",
        *(stage_row(name, log) for name, log in logs.items()),
        "",
        f"Seed {seed}. Losses are in nats, a character (ctc), a frame (phones) or a subword (lm). Held-out rates while",
        "training are of 24 or 48 utterances; `python -m pcg bench judge` measures more. Training never heard `kal` (the",
        "diphones of kal16, at 8 kHz) and the variants of espeak-ng in `espeak`.",
        "",
        *(["## How this run went", "", notes, ""] if notes else []),
        "## Limits",
        "",
        "English with the voices of small synthesizers: it judges such speech, and is no recogniser of people.",
    ]
    return "\n".join(lines) + "\n"
