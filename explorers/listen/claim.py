"""The claim above the player: what the shipped results say of this voice, in one sentence. Knows nothing of gradio."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from explorers.shared.terms import term_html
from pcg.places import ASSETS
from pcg.settings import Settings

SHIPPED = ASSETS / "results"
DATA = "results.json"
IDEA = (
    f"A small model, the {term_html('draft-model')}, proposes speech tokens, and a large one, the {term_html('target-model')}, "
    f"checks several of them in one {term_html('call', 'call')}. {term_html('pcg')} tests the group of similar tokens in place "
    "of the single token: more drafted tokens pass, so fewer calls are needed."
)
ALL_RESULTS = '<a href="#evidence" data-opens="evidence">All results</a>'


@dataclass(frozen=True)
class Measured:
    """The figures of one method over `n` sentences: times AR's speed, calls of the target for each token, WER. knob: at which
    value of its own knob."""

    n: int
    speed_up: float
    calls: float
    wer: float
    knob: str = ""

    @property
    def at(self) -> str:
        return f" ({self.knob})" if self.knob else ""


def measured(voices: Collection[str], folder: Path = SHIPPED) -> dict[str, Measured]:
    """AR, PCG and SSD at the page's own settings, from the results in `folder` and below that are of one of `voices`
    (`explorers.experiments.archive.shipped_ids`); empty where there are none."""
    for path in sorted(folder.rglob(DATA)):
        found = json.loads(path.read_text(encoding="utf-8"))
        if set(voices) & set(found["made"].get("voice", ())):
            return _rows(found["summaries"])
    return {}


def claim_html(rows: Mapping[str, Measured]) -> str:
    """The idea, and the figures of PCG beside those of AR and SSD, where there are any; a phone shows the first of them."""
    if not {"ar", "pcg"} <= rows.keys():
        return f'<div class="claim"><p>{IDEA}</p></div>'
    ar, pcg = rows["ar"], rows["pcg"]
    short = f"On {pcg.n} sentences PCG{pcg.at} was {pcg.speed_up:.2f} times as fast as AR"
    more = f", {_cost(pcg, ar)} (AR: {ar.wer:.1%})."
    if "ssd" in rows:
        more += f" SSD{rows['ssd'].at}: {rows['ssd'].speed_up:.2f} times, {_cost(rows['ssd'], ar)}."
    said = f'<span class="claim-short">{short}</span><span class="claim-more">{more}</span>'
    return f'<div class="claim"><p><strong>{said}</strong> {ALL_RESULTS}</p><p>{IDEA}</p></div>'


def _cost(row: Measured, ar: Measured) -> str:
    return f"with {1 - row.calls / ar.calls:.0%} fewer calls of the target and {row.wer:.1%} of the words misheard"


def _rows(summaries: Iterable[Mapping[str, object]]) -> dict[str, Measured]:
    usual, found = Settings(), {}
    wanted = {"AR": ("ar", {}), "PCG cosine": ("pcg", {"theta": usual.theta}), "SSD": ("ssd", {"beta": usual.beta})}
    for row in summaries:
        method, knobs = wanted.get(str(row["method"]), ("", {}))
        settings = row["condition"]["settings"]
        asked = {**knobs, "lookahead": usual.lookahead, "temperature": usual.temperature}
        if method and row["speedup"] and row["wer"] and all(settings[name] == value for name, value in asked.items()):
            length = row["mean_acceptance_length"]["value"]
            knob = ", ".join(f"{name} {settings[name]:g}" for name in knobs)
            found.setdefault(method, Measured(row["n"], row["speedup"]["value"], 1 / length, row["wer"]["value"], knob))
    return found
