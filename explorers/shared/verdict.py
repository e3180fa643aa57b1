"""Which rule won over all sentences, and at what price: the first sentences of the page and of its results."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from explorers.shared.readout import percent
from pcg.places import ASSETS
from pcg.settings import METHODS, Settings

SHIPPED = ASSETS / "results"
ROWS = {
    "ar": "AR",
    "sd": "SD",
    "ssd": f"SSD, beta {Settings().beta:g}",
    "pcg": f"PCG, theta {Settings().theta:g}",
    "membership": "target's top 50",
    "floor": "original",
}
"""The rows of the tables of results that have the page's settings; "floor": recordings."""
NAMES = {name: name.upper() for name in METHODS} | {"membership": "the large model's top 50"}


@dataclass(frozen=True)
class Measured:
    """Results of one method: speed over AR on the `n` sentences that were timed, share of words misheard on these or more, and
    nats a token by which its text is less likely under the target than AR's, None where that was not measured."""

    n: int
    speed_up: float
    wer: float
    less_likely: float | None = None


def winner_lines(results: Mapping[str, Measured]) -> list[str]:
    """Name the fastest rule in a line of two numbers, and then all rules with their prices."""
    rules = {name: row for name, row in results.items() if name in NAMES and name != "ar"}
    if not rules or "ar" not in results:
        return []
    best = max(rules, key=lambda name: rules[name].speed_up)
    lines = [f"Over {rules[best].n} sentences {NAMES[best]} won: {rules[best].speed_up:.2f} times as fast as AR."]
    others = [f"{NAMES[n]} {r.speed_up:.2f} ×" for n, r in rules.items() if n != best]
    misheard = [f"{NAMES[n]} {percent(results[n].wer)}" for n in ("ar", *rules)]
    floor = f"; original speech by the same judge {percent(results['floor'].wer)}" if "floor" in results else ""
    unlikely = [f"{NAMES[n]} {r.less_likely:.2f}" for n, r in rules.items() if r.less_likely is not None]
    nats = f" Less likely than AR's text, nats a token: {', '.join(unlikely)}." if unlikely else ""
    return [*lines, f"{', '.join(others)}. Words misheard: {', '.join(misheard)}{floor}.{nats}"] if others else lines


def measured(content: Mapping) -> dict[str, Measured]:
    """Read ROWS from the results of a report."""
    tables, found = {table["name"]: table["rows"] for table in content.get("tables", ())}, {}
    words, prices = ({row["setting"]: row for row in tables.get(name, ())} for name in ("main", "overview"))
    for name, setting in ROWS.items():
        row, price = words.get(setting), prices.get(setting, {})
        if row and row["WER %"]:
            speed_up = row["speed-up"]["value"] if row["speed-up"] else 1.0
            timed, nats = price.get("n of the speed-ups") or row["n"], price.get("NLL to AR, nats")
            found[name] = Measured(timed, speed_up, row["WER %"]["value"], nats and nats["value"])
    return found


def shipped(voices: Collection[str], folder: Path = SHIPPED) -> dict[str, Measured]:
    """`measured` of the shipped results of one of `voices`; empty without any."""
    for path in sorted(folder.rglob("results.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if set(voices) & set(content["made"].get("voice", ())):
            return measured(content)
    return {}
