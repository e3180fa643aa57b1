"""The papers' drafts of the embedded voice, and a subset of its layers: what its feature draft is to be compared with."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from pcg.settings import Settings
from pcg.training import checkpoint
from pcg.training.data.tokens import used_codes
from pcg.training.draft.acceptance import AcceptanceTrial, Examiner, Pair, sd_and_pcg
from pcg.training.draft.distil import OBJECTIVES, Material, Objective, Schedule, train_draft
from pcg.training.draft.layers import OBJECTIVE_OF, OTHERWISE, PLANS, DraftPlan, ends, new_draft, write_draft
from pcg.training.loop import read_log
from pcg.training.workers import Workers

SUBSET = "subset"
BASELINES = (*PLANS, SUBSET)


def plan_of(name: str, depth: int) -> DraftPlan:
    """Of a baseline, for a target of `depth` layers; the subset is the lowest and the highest of them."""
    return DraftPlan(ends(depth, 1, 1)) if name == SUBSET else DraftPlan.read(name, depth)


def _objective(name: str) -> Objective:
    return OBJECTIVES[OBJECTIVE_OF.get(name, OTHERWISE)]


def train_baselines(
    directory: Path,
    target: LlamaForCausalLM,
    material: Material,
    pairs: Sequence[Pair],
    schedule: Schedule,
    temperature: float,
    seed: int,
    workers: Workers,
) -> None:
    """Train each of BASELINES to the last step of `schedule`; checkpoints and logs lie in `directory` by their names. What the
    engine accepts of them on `pairs` at `temperature` is logged on the way."""
    settings = Settings(temperature=temperature, seed=seed)
    used = used_codes(material.corpus, material.vocabulary.codes) > 0
    rules = sd_and_pcg(target, material.vocabulary, used, settings.theta)
    examiner = Examiner(target, AcceptanceTrial(pairs, material.reader, material.vocabulary, rules, settings))
    for name in BASELINES:
        draft = new_draft(target, plan_of(name, target.config.num_hidden_layers))

        def evaluate(draft: LlamaForCausalLM = draft) -> dict[str, float]:
            return examiner.figures(draft)

        asked = (_objective(name), schedule, seed, workers, evaluate, name)
        train_draft(directory, draft, target, material, *asked)


def write_baselines(out: Path, directory: Path, target: LlamaForCausalLM) -> None:
    """Put the baselines that are trained in `directory` beside the voice's own draft, each as `draft-NAME`."""
    for name in BASELINES:
        saved = directory / f"{name}.safetensors"
        if not saved.exists():
            continue
        plan = plan_of(name, target.config.num_hidden_layers)
        draft = new_draft(target, plan)
        step = checkpoint.load(saved, {"draft": draft}, {})["step"]
        rows = read_log(directory / f"{name}.jsonl")
        held_out = {key: value for row in rows for key, value in row.items() if key.startswith("held_out")}
        facts = {"plan": asdict(plan), "objective": asdict(_objective(name)), "steps": int(step), "acceptance": held_out}
        with torch.no_grad():
            write_draft(out / f"draft-{name}", draft, facts)
