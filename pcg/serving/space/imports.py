"""Which packages Python code imports, and whether its requirements bring them."""

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def third_party(folder: Path) -> dict[str, str]:
    """Packages that neither Python nor `folder` holds: name -> the first file of `folder` that imports it."""
    own = {path.stem for path in folder.iterdir()}
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            if name not in own and name not in sys.stdlib_module_names:
                found.setdefault(name, path.relative_to(folder).as_posix())
    return found


def uncovered(imported: Iterable[str], requirements: Iterable[Requirement]) -> list[str]:
    """Those of the `imported` packages that `requirements` do not bring, by themselves or by what they require in turn.

    What belongs to which package is read from what is installed here.
    """
    distributions = packages_distributions()
    brought = _closure(requirements)
    names = {package: {canonicalize_name(d) for d in distributions.get(package, [package])} for package in imported}
    return sorted(package for package, owners in names.items() if not owners & brought)


def _imported(tree: ast.Module) -> Iterator[str]:
    """First names of all imports, those inside functions included; what only type checkers read is not run."""
    typing_only = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = {id(child) for node in typing_only for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _closure(requirements: Iterable[Requirement]) -> set[str]:
    """The names of `requirements`, and of all that they require; what is not installed here requires nothing."""
    waiting, seen = list(requirements), set()
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if name in seen or (each.marker and not any(each.marker.evaluate({"extra": e}) for e in ("", *each.extras))):
            continue
        seen.add(name)
        try:
            waiting += map(Requirement, requires(each.name) or [])
        except PackageNotFoundError:
            continue
    return seen
