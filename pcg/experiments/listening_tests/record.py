"""A finished test as files: JSON with everything, CSV with a line for each sound that was heard."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pcg.experiments.listening_tests.design import OPEN, VERSION, Plan, Vote
from pcg.experiments.listening_tests.outcome import outcome, scores_of

COLUMNS = ("version", "design", "seed", "trial", "text", "take_seed", "letter", "system", "plays", "vote", "score")


def as_dict(
    plan: Plan, texts: Sequence[str], votes: Sequence[Vote], systems: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Ready for JSON: the design, its seed, the order in which everything was heard, votes and outcome.

    texts: one for each item of the plan. systems: what is to be told of each, by name.
    """
    result = outcome(plan, votes)
    return {
        "version": VERSION,
        "design": asdict(plan.design),
        "seed": plan.seed,
        "systems": {name: dict(told) for name, told in systems.items()},
        "trials": [
            {
                "text": texts[trial.item],
                "take_seed": trial.seed,
                "order": dict(zip(plan.design.letters, trial.systems, strict=True)),
                "vote": asdict(votes[i]) if i < len(votes) else None,
            }
            for i, trial in enumerate(plan.trials)
        ],
        "outcome": asdict(result) | {"too_small": result.too_small, "told": list(result.sentences)},
    }


def as_csv(plan: Plan, texts: Sequence[str], votes: Sequence[Vote]) -> str:
    """COLUMNS, and a line for each letter of each trial that was voted on, in the order in which they were heard."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(COLUMNS)
    for i, vote in enumerate(votes):
        trial, rated = plan.trials[i], plan.design.kind == "rating"
        scores = scores_of(plan, i, vote) if rated else {}
        head = (VERSION, plan.design.kind, plan.seed, i + 1, texts[trial.item], trial.seed)
        for letter, system, plays in zip(plan.design.letters, trial.systems, vote.plays, strict=True):
            score = "" if not rated or letter == OPEN else f"{scores[system]:g}"
            lines.writerow((*head, letter, system, plays, "" if rated else vote.answer, score))
    return file.getvalue()
