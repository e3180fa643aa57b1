"""Which rule won over all sentences, and at what price: the first sentences of the page and of its results."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from explorers.session import CARDS
from explorers.shared.readout import TITLES, percent
from pcg.places import ASSETS
from pcg.settings import Settings

SHIPPED = ASSETS / "results"
ROWS = {
    "AR": ("ar", ()),
    "SD": ("sd", ()),
    "SSD": ("ssd", ("beta",)),
    "PCG cosine": ("pcg", ("theta",)),
    "membership": ("membership", ()),
}
"""Names of methods in the results, and the settings that have to be the page's own."""
TOP_50 = "membership:50"
NAMES = {name: TITLES[name][0] for name in CARDS} | {"membership": "the large model's top 50"}


@dataclass(frozen=True)
class Measured:
    """Results of one method over `n` sentences: speed over AR, share of words misheard, and nats a token by which its text is
    less likely under the target than AR's, None where that was not measured."""

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
    floor = f"; recordings by the same judge {percent(results['floor'].wer)}" if "floor" in results else ""
    unlikely = [f"{NAMES[n]} {r.less_likely:.2f}" for n, r in rules.items() if r.less_likely is not None]
    nats = f" Less likely than AR's text, nats a token: {', '.join(unlikely)}." if unlikely else ""
    return [*lines, f"{', '.join(others)}. Words misheard: {', '.join(misheard)}{floor}.{nats}"] if others else lines


def measured(content: Mapping) -> dict[str, Measured]:
    """Read AR and the rules at the page's settings, and recordings as "floor", from the results of a report."""
    usual, found, tables = Settings(), {}, content.get("tables", ())
    overview = next((table["rows"] for table in tables if table["name"] == "overview"), ())
    nats = {row["setting"]: row.get("NLL to AR, nats") for row in overview}
    for row in content.get("summaries", ()):
        condition = row["condition"]
        if condition["model"] == "original" and row["wer"]:
            found.setdefault("floor", Measured(row["n"], 1.0, row["wer"]["value"]))
        name, knobs = ROWS.get(str(row["method"]), ("", ()))
        settings = condition.get("settings", {})
        asked = (*knobs, "lookahead", "temperature")
        ours = condition.get("rule", "") in ("", TOP_50) and all(settings.get(k) == getattr(usual, k) for k in asked)
        if name and row["speedup"] and row["wer"] and ours:
            less = nats.get(condition.get("name")) if name != "ar" else None
            value = less["value"] if isinstance(less, Mapping) else less
            found.setdefault(name, Measured(row["n"], row["speedup"]["value"], row["wer"]["value"], value))
    return found


def shipped(voices: Collection[str], folder: Path = SHIPPED) -> dict[str, Measured]:
    """`measured` of the shipped results of one of `voices`; empty without any."""
    for path in sorted(folder.rglob("results.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if set(voices) & set(content["made"].get("voice", ())):
            return measured(content)
    return {}
