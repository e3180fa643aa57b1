"""The model cards of a voice, a recogniser and its detectors, in the Hub's form: templates in `cards/`, filled from what the
training recorded."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from pcg.spoof.detector import RESOLUTIONS

Log = list[dict[str, float]]


def model_card(facts: dict[str, object], logs: dict[str, Log], folder: Path) -> str:
    """Markdown: what the voice is, its use, its hours, its recipe and losses, its limits and its licence."""
    sizes = {p.parent.name: p.stat().st_size / 1e6 for p in sorted(folder.glob("*/model.safetensors"))}
    codec = facts["recipe"]["codec"]
    rate = codec["sample_rate"] // (codec["frame"] * codec["frames_per_token"])
    return _filled("voice.md", **facts, sizes=sizes, rate=rate, logs=_stages(logs))


def recogniser_card(parameters: dict[str, int], logs: dict[str, Log], seed: int, notes: str) -> str:
    """Markdown: what the recogniser is, what it learned from, its use, its losses, its limits and its licence."""
    return _filled("recogniser.md", parameters=parameters, logs=_stages(logs), seed=seed, notes=notes)


def detector_card(facts: dict[str, object], figures: dict[str, object]) -> str:
    """Markdown: what the detectors are, what they were trained on, how well they tell, and their licence."""
    detectors = {resolution.name: figures[resolution.name] for resolution in RESOLUTIONS}
    return _filled("detectors.md", **facts, detectors=detectors, garbage=figures["garbage"])


def _filled(name: str, **values: object) -> str:
    folder = FileSystemLoader(Path(__file__).with_name("cards"))
    cards = Environment(loader=folder, undefined=StrictUndefined, autoescape=select_autoescape(), lstrip_blocks=True)
    return cards.get_template(name).render(values).strip() + "\n"


def _stages(logs: dict[str, Log]) -> list[dict[str, object]]:
    """Of each stage its last step, and the last loss of each kind."""
    stages = []
    for name, log in logs.items():
        losses = {kind: value for row in log for kind, value in row.items() if kind not in ("step", "seconds")}
        stages.append({"name": name, "step": int(log[-1]["step"]), "seconds": log[-1]["seconds"], "losses": losses})
    return stages
