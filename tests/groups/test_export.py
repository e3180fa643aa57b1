"""What other programs read is what the groups are."""

import pandas as pd
import pyarrow.parquet
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from pcg.groups.atlas import Atlas, export_atlas, export_groups
from pcg.groups.groups import Groups
from pcg.groups.neighbours import build_neighbours

THETA = 0.35


@pytest.fixture(scope="module")
def groups() -> Groups:
    return build_neighbours(torch.randn(80, 4, generator=torch.Generator().manual_seed(1)), 0.2).groups_at(THETA)


def test_three_files_hold_the_same_groups(groups, tmp_path):
    tensors_file, tokens_file, groups_file = export_groups(groups, tmp_path, "cosine", "a model")
    tensors, tokens, rows = load_file(tensors_file), pd.read_parquet(tokens_file), pd.read_parquet(groups_file)
    starts, token_starts = tensors["group_starts"], tensors["token_starts"]
    for k in range(len(groups)):
        expected = groups.members_of(k).tolist()
        assert tensors["members"][starts[k] : starts[k + 1]].tolist() == expected
        assert rows.members[k].tolist() == expected
        assert rows["size"][k] == len(expected)
    for t in range(groups.vocabulary):
        expected = groups.groups_of(t).tolist()
        assert tensors["token_groups"][token_starts[t] : token_starts[t + 1]].tolist() == expected
        assert tokens.groups[t].tolist() == expected
        assert tokens["count"][t] == len(expected)
        assert tokens.weight[t] == pytest.approx(1 / len(expected))
    assert tokens.group_of_centre.tolist() == groups.group_of_centre.tolist()


def test_the_files_say_what_they_are_of(groups, tmp_path):
    files = export_groups(groups, tmp_path, "mel", "a model")
    with safe_open(files[0], "pt") as file:
        said = [file.metadata()]
    for file in files[1:]:
        metadata = pyarrow.parquet.read_schema(file).metadata
        said.append({key.decode(): value.decode() for key, value in metadata.items()})
    for facts in said:
        assert {key: facts[key] for key in ("model", "similarity", "theta")} == {
            "model": "a model",
            "similarity": "mel",
            "theta": "0.35",
        }


def test_the_map_has_the_columns_that_embedding_atlas_reads(tmp_path):
    nearest = torch.tensor([[1, 2], [0, 2], [1, 0]], dtype=torch.int32)
    atlas = Atlas(torch.tensor([0.0, 1, 2]), torch.tensor([3.0, 4, 5]), nearest, torch.tensor([[0.9, 0.5]] * 3))
    table = pd.read_parquet(export_atlas(atlas, tmp_path / "map.parquet", "a model"))
    assert table.token.tolist() == [0, 1, 2]
    assert (table.x.tolist(), table.y.tolist()) == ([0, 1, 2], [3, 4, 5])
    assert [row["ids"].tolist() for row in table.neighbors] == nearest.tolist()
    assert all(row["distances"] == pytest.approx([0.1, 0.5], abs=1e-6) for row in table.neighbors)
