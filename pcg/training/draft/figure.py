"""What training does for a draft of the shipped voice: acceptance against steps, by objective, and against depth.

Every draft begins as layers of the target. Needs the shipped voice and a corpus; a run that was killed goes on.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from transformers import LlamaForCausalLM

from pcg.errors import InputError
from pcg.files import replacing, write_json
from pcg.metrics.estimate import Estimate
from pcg.models.llama import DecodingLlama
from pcg.models.weights import load_llama
from pcg.settings import Settings
from pcg.synthesis.voice import Voice
from pcg.training.data.corpus import shards
from pcg.training.data.samples import Sampling, own_samples
from pcg.training.draft.acceptance import EXPECTED, AcceptanceTrial, Examiner, draw_pairs, sd_and_pcg
from pcg.training.draft.distil import OBJECTIVES, Material, Schedule, train_draft
from pcg.training.draft.layers import DraftPlan, ends, new_draft
from pcg.training.loop import read_log
from pcg.training.note import agrees
from pcg.training.voice.voice_tokens import identity, voice_tokens
from pcg.training.workers import Workers

FIGURES = ("sd", "pcg", EXPECTED)
NAMES = {"sd": "SD", "pcg": "PCG", EXPECTED: "sum min(p, q)", "ce": "cross-entropy", "distil": "distillation"}
COLOURS = {"ce": "#b4552d", "distil": "#1f6f8b"}
LINES = {"sd": "-", "pcg": "--", EXPECTED: ":"}


@dataclass(frozen=True)
class FigurePlan:
    """How large the proof is: `shards` of the corpus, `samples` that the target says, `sentences` that drafts are tried on."""

    steps: int = 300
    every: int = 50
    budget: int = 2048
    shards: int = 12
    samples: int = 768
    sentences: int = 24
    seed: int = 0


@dataclass(frozen=True)
class Curve:
    """One draft: what it learns from, and how deep it is. Its lowest layer is the target's lowest, the others the highest."""

    objective: str
    depth: int

    @property
    def name(self) -> str:
        return f"{self.objective}_{self.depth}_layers"

    def layers(self, target: LlamaForCausalLM) -> tuple[int, ...]:
        return ends(target.config.num_hidden_layers, 1, self.depth - 1)


SHALLOW = 2
CURVES = (Curve("ce", SHALLOW), Curve("distil", SHALLOW), Curve("distil", 3), Curve("distil", 4))


def draft_figure(voice: Voice, corpus: Path, work: Path, out: Path, plan: FigurePlan) -> dict[str, object]:
    """Train every draft of CURVES in `work`; write what came of it as `out`.json and `out`.png, and return it."""
    if not agrees(work / "plan.json", asdict(plan) | identity(voice)):
        raise InputError("work", str(work), "a folder without a figure of another plan or voice")
    target = load_llama(voice.target_folder, voice.vocabulary).requires_grad_(False)
    train = voice_tokens(voice, corpus, work / "tokens", "train", plan.shards)
    held_out = voice_tokens(voice, corpus, work / "tokens", "held_out_sentences", len(shards(corpus, "held_out_sentences")))
    sampling = Sampling(plan.samples, seed=plan.seed)
    alone, settings = Workers(), Settings(seed=plan.seed)
    samples = own_samples(work / "samples", DecodingLlama(target, voice.vocabulary), train, voice.reader, sampling, alone)
    material = Material(train, samples, voice.reader, voice.vocabulary)
    rules = sd_and_pcg(target, voice.vocabulary, voice.usage > 0, settings.theta)
    pairs = draw_pairs(held_out, plan.sentences, plan.seed)
    examiner = Examiner(target, AcceptanceTrial(pairs, voice.reader, voice.vocabulary, rules, settings))
    for curve in CURVES:
        _train(curve, target, material, examiner, plan, work)
    found = {
        "voice": voice.name,
        "settings": settings.as_dict(),
        "plan": asdict(plan),
        "objectives": {c.objective: asdict(OBJECTIVES[c.objective]) for c in CURVES},
        "utterances": {"corpus": len(train), "own samples": len(samples), "tried on": len(pairs)},
        "curves": [
            asdict(curve) | {"layers": curve.layers(target), "points": _points(work / f"{curve.name}.jsonl")}
            for curve in CURVES
        ],
    }
    write_json(out.with_suffix(".json"), found)
    draw(found, out.with_suffix(".png"))
    return found


def draw(found: dict[str, object], path: Path) -> None:
    """The figure of what `draft_figure` found: against steps on the left, against depth on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for curve in (c for c in found["curves"] if c["depth"] == SHALLOW):
        for name in FIGURES:
            label = f"{NAMES[curve['objective']]}, {NAMES[name]}"
            _line(left, [(p["step"], p[name]) for p in curve["points"]], label, COLOURS[curve["objective"]], LINES[name])
    distilled = sorted((c for c in found["curves"] if c["objective"] == "distil"), key=lambda c: c["depth"])
    for which, colour, when in ((0, "#777777", "untrained"), (-1, COLOURS["distil"], "distilled")):
        for name in FIGURES:
            points = [(curve["depth"], curve["points"][which][name]) for curve in distilled]
            _line(right, points, f"{when}, {NAMES[name]}", colour, LINES[name])
    left.set_ylim(0, 1.45 * left.get_ylim()[1])  # room for the legends
    settings, tried = found["settings"], found["utterances"]["tried on"]
    left.set(xlabel="training steps", ylabel="share of drafted tokens accepted")
    left.set_ylim(bottom=0)
    left.set_title(f"{SHALLOW} layers, by objective")
    right.set(xlabel="layers of the draft", xticks=[curve["depth"] for curve in distilled])
    right.set_title(f"after {found['plan']['steps']} steps, by depth")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    knobs = f"temperature {settings['temperature']:g}, lookahead {settings['lookahead']}, theta {settings['theta']:g}"
    figure.suptitle(
        f"Drafts of voice {found['voice']}: {tried} held-out sentences, {knobs}; bars: 95 % over sentences", fontsize=9
    )
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, bbox_inches="tight")
    pyplot.close(figure)


def _train(
    curve: Curve, target: LlamaForCausalLM, material: Material, examiner: Examiner, plan: FigurePlan, work: Path
) -> None:
    draft = new_draft(target, DraftPlan(curve.layers(target)))
    # Of the deeper drafts only the first and the last trial are drawn, and trials take long.
    between = 1 if curve.depth == SHALLOW else plan.steps
    schedule = Schedule(plan.steps, plan.budget, every=plan.every, rows_between=between, untrained=True)

    def evaluate() -> dict[str, float]:
        found = examiner.examine(draft)
        return {f"{name}_{field}": value for name, estimate in found.items() for field, value in asdict(estimate).items()}

    objective = OBJECTIVES[curve.objective]
    train_draft(work, draft, target, material, objective, schedule, plan.seed, Workers(), evaluate, curve.name)


def _points(log: Path) -> list[dict[str, object]]:
    """The trials in a log, as estimates; a step that a killed run left and another repeated counts once."""
    rows = {row["step"]: row for row in read_log(log) if f"held_out_{EXPECTED}_value" in row}
    points = []
    for step, row in sorted(rows.items()):
        found = {n: asdict(Estimate(*(row[f"held_out_{n}_{end}"] for end in ("value", "low", "high")))) for n in FIGURES}
        points.append({"step": step} | found)
    return points


def _line(axes: object, points: list[tuple[int, dict[str, float]]], label: str, colour: str, line: str) -> None:
    x, estimates = zip(*points, strict=True)
    value, low, high = ([e[end] for e in estimates] for end in ("value", "low", "high"))
    spread = [[v - a for v, a in zip(value, low, strict=True)], [b - v for v, b in zip(value, high, strict=True)]]
    axes.errorbar(
        x, value, spread, label=label, color=colour, linestyle=line, marker="o", markersize=3, capsize=2, linewidth=1.2
    )
