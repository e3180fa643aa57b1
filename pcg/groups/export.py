"""Groups and map as files for other programs: safetensors and parquet.

Groups at one theta become three files, each with the metadata `model`, `similarity` and `theta`:

- `groups.safetensors`: `members` int32 with `group_starts [M + 1]` int64, group k being
  `members[group_starts[k] : group_starts[k + 1]]`; `token_groups` int32 with `token_starts [V + 1]` int64, the groups of token
  t likewise; `count [V]` and `weight [V]` float64, N(t) and 1 / N(t); `group_of_centre [V]` int64, the number of G(t).
- `tokens.parquet`, a row a token: `token` int32, `groups` list<int32>, `count` int32, `weight` double, `group_of_centre` int32.
- `groups.parquet`, a row a group: `group` int32, `size` int32, `members` list<int32>.

The last token is the end of speech. `python -c "import pandas; print(pandas.read_parquet('tokens.parquet'))"` reads them, too.
"""

from pathlib import Path

import torch
from torch import Tensor

from pcg.files import replacing, write_safetensors
from pcg.groups.atlas import Atlas
from pcg.groups.groups import Groups, row_starts


def export_groups(groups: Groups, folder: Path, similarity: str, model: str) -> list[Path]:
    """Write the three files into `folder`, each whole or not at all, and return their paths."""
    import pyarrow as pa

    facts = {"model": model, "similarity": similarity, "theta": repr(groups.theta)}
    held = [groups.groups_of(t) for t in range(groups.vocabulary)]
    token_starts = row_starts(torch.tensor([len(each) for each in held]))
    tensors = {
        "group_starts": groups.indptr,
        "members": groups.members,
        "token_starts": token_starts,
        "token_groups": torch.cat(held),
        "count": groups.count,
        "weight": 1 / groups.count,
        "group_of_centre": groups.group_of_centre,
    }
    tokens = {
        "token": pa.array(range(groups.vocabulary), pa.int32()),
        "groups": _lists(token_starts, tensors["token_groups"]),
        "count": pa.array(groups.count.int().numpy()),
        "weight": pa.array(tensors["weight"].numpy()),
        "group_of_centre": pa.array(groups.group_of_centre.int().numpy()),
    }
    rows = {
        "group": pa.array(range(len(groups)), pa.int32()),
        "size": pa.array(groups.sizes.int().numpy()),
        "members": _lists(groups.indptr, groups.members),
    }
    write_safetensors(folder / "groups.safetensors", tensors, facts)
    _write_table(tokens, folder / "tokens.parquet", facts)
    _write_table(rows, folder / "groups.parquet", facts)
    return [folder / name for name in ("groups.safetensors", "tokens.parquet", "groups.parquet")]


def export_atlas(atlas: Atlas, path: Path, model: str) -> Path:
    """Write the map as the parquet file that Embedding Atlas opens (`embedding-atlas FILE --x x --y y --neighbors neighbors`).

    A row a code: `token` int32, `x` and `y` float, `neighbors` a struct of `ids` (list<int32>, row numbers, from zero) and
    `distances` (list<float>, 1 - similarity). Metadata: `model`.
    """
    import pyarrow as pa

    codes, k = atlas.nearest.shape
    starts = torch.arange(codes + 1) * k
    ids, distances = _lists(starts, atlas.nearest.flatten()), _lists(starts, (1 - atlas.similarity).flatten())
    columns = {
        "token": pa.array(range(codes), pa.int32()),
        "x": pa.array(atlas.x.numpy()),
        "y": pa.array(atlas.y.numpy()),
        "neighbors": pa.StructArray.from_arrays([ids, distances], ["ids", "distances"]),
    }
    _write_table(columns, path, {"model": model})
    return path


def _lists(starts: Tensor, values: Tensor):
    """Compressed rows as a column of lists."""
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(starts.int().numpy()), pa.array(values.numpy()))


def _write_table(columns: dict, path: Path, facts: dict[str, str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    with replacing(path) as temporary:
        pyarrow.parquet.write_table(pa.table(columns, metadata=facts), temporary)
