"""What single steps cost, kept beside the results that were timed on the same machine: the bounds on speed come from it."""

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pcg.errors import PCGError, first_line
from pcg.experiments.unit import Record
from pcg.files import write_json
from pcg.synthesis.costs import StepCosts

COSTS = "steps.json"
# What has to be unchanged, or the costs of steps now do not fit the times then.
MACHINE = ("processor", "device", "precision", "torch", "threads", "kernel")


def same_machine(records: Sequence[Record], machine: Mapping[str, object]) -> bool:
    """Whether all `records` were made where `machine`, an `experiments.context.context`, says."""
    return all(record.context.get(name) == machine[name] for record in records for name in MACHINE)


def keep_costs(folder: Path, voice: str, machine: Mapping[str, object], costs: Mapping[int, StepCosts]) -> None:
    """Write the `costs` by lookahead of `voice` on `machine` into `folder`; warn where that cannot be done."""
    milliseconds = {str(lookahead): asdict(each) for lookahead, each in sorted(costs.items())}
    kept = {"voice": voice, "machine": {name: machine[name] for name in MACHINE}, "milliseconds": milliseconds}
    try:
        write_json(folder / COSTS, {"digest": _digest(kept), "costs": kept})
    except PCGError as error:
        warnings.warn(f"{first_line(error)}: the work goes on without it.", stacklevel=2)


def read_costs(folder: Path, voice: str, records: Sequence[Record]) -> dict[int, StepCosts] | None:
    """What `keep_costs` wrote, if it fits these records; None, with a warning, for a damaged file."""
    try:
        kept = json.loads((folder / COSTS).read_text(encoding="utf-8"))
        if kept["digest"] != _digest(kept["costs"]):
            raise ValueError("they do not fit their digest")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"The costs of single steps in {folder} cannot be used ({first_line(error)}).", stacklevel=2)
        return None
    costs = kept["costs"]
    if costs["voice"] != voice or costs["machine"].keys() != set(MACHINE) or not same_machine(records, costs["machine"]):
        return None
    return {int(lookahead): StepCosts(**each) for lookahead, each in costs["milliseconds"].items()}


def _digest(costs: object) -> str:
    """Of values as JSON has them."""
    return hashlib.sha256(json.dumps(costs, sort_keys=True).encode()).hexdigest()
