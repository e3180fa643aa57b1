"""The model cards of a voice and of a recogniser, in the Hub's form, written from what the training recorded."""

from pathlib import Path

Log = list[dict[str, float]]
LICENCE = """## Licence

Apache-2.0: the weights, and the sounds that are made with them. What the sources of the data ask for stands in `NOTICE`.
"""
VOICE_USE = """## Use

```python
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import load_voice

take = Synthesizer(load_voice("embedded")).take("The morning sun was warm.", Settings("pcg"), "rms")
```

Meant for studying speculative decoding of speech tokens on any computer. Not meant for products, for other languages, or for
imitating a person: it knows the synthesizers' voices only.
"""
VOICE_DATA = """Text: LJ Speech's transcripts or other public-domain prose, WordNet glosses and examples, word lists, templates.
One sentence in a hundred and one rare word in forty were held out. No person's speech is in it.
"""
VOICE_LIMITS = """## Limits

English only. The text is read through espeak-ng's phonemes, so its mispronunciations are inherited. Quality is that
of the small synthesizers that it learned from; words can be missed, rare ones more often. Measured figures: the tables in
`docs/results.md`, `python -m pcg evaluate`.
"""
RECOGNISER_USE = """## Use

```python
from pcg.recognition.embedded import load_recogniser

recogniser = load_recogniser()
```

Meant for judging the speech of the embedded voice, and for studying self-speculative recognition. Not meant for the
speech of people.
"""
RECOGNISER_LIMITS = """## Limits

English with the voices of small synthesizers: it judges such speech, and is no recogniser of people.
"""


def model_card(facts: dict[str, object], logs: dict[str, Log], folder: Path) -> str:
    """Markdown: what the voice is, its use, its hours, its recipe and losses, its limits and its licence."""
    hours: dict[str, float] = facts["hours"]
    recipe: dict[str, object] = facts["recipe"]
    sizes = {p.parent.name: p.stat().st_size / 1e6 for p in sorted(folder.glob("*/model.safetensors"))}
    lines = [
        front_matter("text-to-speech", ("speculative-decoding", "speech-tokens")),
        "# The embedded voice",
        "",
        "A codec language model in the shape of LLaSA + X-codec2, trained from nothing by `python -m pcg train all`, on",
        "speech that free synthesizers made. It speaks English with synthetic voices, and imitates the synthesizers only.",
        "",
        "| part | what | MB on disk |",
        "|---|---|---|",
        f"| codec | 16 kHz, {_rate(recipe)} tokens/s, FSQ {list(recipe['codec']['levels'])}, vocoder | {sizes['codec']:.1f} |",
        f"| target | Llama, {_shape(recipe)} | {sizes['target']:.1f} |",
        f"| draft | one layer that reads the target's hidden states, rank {recipe['draft_rank']}, from the target's own "
        f"samples | {sizes['draft']:.1f} |",
        "",
        VOICE_USE,
        "## Data",
        "",
        f"{facts['utterances']} utterances, {sum(hours.values()):.1f} hours, spoken by flite: "
        + ", ".join(f"{v} {h:.1f} h" for v, h in hours.items())
        + ".",
        VOICE_DATA,
        "## Losses",
        "",
        "| stage | steps | seconds | last losses |",
        "|---|---|---|---|",
        *(stage_row(name, log) for name, log in logs.items()),
        "",
        f"Seed {facts['seed']}. Losses are in nats; `mel` is the L1 distance of log-mel spectra.",
        "",
        *(["## How this run went", "", str(facts["notes"]), ""] if facts["notes"] else []),
        VOICE_LIMITS,
        LICENCE,
    ]
    return "\n".join(lines).rstrip() + "\n"


def front_matter(task: str, tags: tuple[str, ...]) -> str:
    """What the Hub reads of a model card; `task` is the Hub's name of what the model does."""
    lines = ["license: apache-2.0", "language: en", "library_name: pcg-lab", f"pipeline_tag: {task}", "tags:"]
    return "\n".join(["---", *lines, *(f"- {tag}" for tag in tags), "---", ""])


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
    """Markdown: what the recogniser is, what it learned from, its use, its losses, its limits and its licence."""
    lines = [
        front_matter("automatic-speech-recognition", ("ctc", "self-speculative-decoding")),
        "# The embedded recogniser",
        "",
        "A Conformer that spells what it hears (CTC over characters), a projector, and a small Llama that reads the",
        "Conformer's frames and writes subwords: the pair that self-speculative decoding (arXiv 2603.11243) needs. Trained",
        "from nothing by `python -m pcg train recogniser`, on the embedded voice's corpus (flite: rms, slt, awb, kal16), 25",
        "variants of espeak-ng, and a share of the corpus through the voice's codec and back; with noise, rooms, narrow",
        "channels, few bits and other speeds.",
        "",
        "`words.arpa.gz` lists words and bigrams, from text alone (`python -m pcg train words`): all that the corpus may say",
        "in training, spoken or not, and a dictionary. The judge searches it. No held-out sentence is in it; held-out words",
        "are, where the dictionary has them.",
        "",
        "| part | parameters |",
        "|---|---|",
        *(f"| {part} | {count:,} |" for part, count in parameters.items()),
        "",
        RECOGNISER_USE,
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
        RECOGNISER_LIMITS,
        LICENCE,
    ]
    return "\n".join(lines).rstrip() + "\n"


def detector_card(facts: dict[str, object], figures: dict[str, object]) -> str:
    """Markdown: what the detectors are, what they were trained on, how well they tell, and their licence."""
    recipe, config = facts["recipe"], facts["config"]
    said = ", ".join(f"{count} at temperature {temperature}" for temperature, count in recipe["samples"].items())
    rows = [f"| {name} | {f['auc']:.3f} | {f['accuracy']:.3f} | {f['macro_f1']:.3f} | {f['n']} |" for name, f in _only(figures)]
    lines = [
        front_matter("audio-classification", ("spoof-detection", "speech-tokens")),
        "# Spoof detectors of the embedded voice",
        "",
        "Five small Conformers over speech codes (MSpoofTTS, arXiv 2603.05373, section 2.2), which tell codes of the corpus",
        "from codes that the voice generated. Made by `python -m pcg train detectors`; they guide hierarchical decoding, and",
        "draw the curve that shows where an utterance stops sounding like speech.",
        "",
        "## Data",
        "",
        f"{facts['utterances']} real utterances ({facts['hours']:.1f} hours), and texts that the voice said: {said}.",
        "Held-out sentences at the first of these temperatures.",
        "",
        "## Recipe",
        "",
        f"Width {config['width']}, {config['layers']} layers, {config['heads']} heads (in the paper 256, 4 and 8).",
        "Embeddings begin with the target's own of the same codes: from random ones, the same data taught them much less.",
        "",
        "## Figures, on held-out utterances (`python -m pcg bench spoof`)",
        "",
        "| detector | AUC | accuracy | macro-F1 | segments |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "## Limits",
        "",
        "They know this voice and its codec alone. A segment of 50 codes is two seconds here, one in the paper.",
        "",
        LICENCE,
    ]
    return "\n".join(lines)


def _only(figures: dict[str, object]) -> list[tuple[str, dict[str, float]]]:
    return [(name, values) for name, values in figures.items() if isinstance(values, dict)]
