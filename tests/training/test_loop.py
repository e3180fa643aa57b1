"""A killed run that resumes ends where an unbroken one does."""

from datetime import timedelta

import pytest
import torch
from tiny_target import read_log
from torch import nn

from pcg.errors import AssetError
from pcg.training.loop import Muon, generator, learning_rate_factor, load_checkpoint, make_optimizers, run


def train(directory, stop_after=None, total=12):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
    optimizers = make_optimizers(model, lr=1e-2, muon_lr=1e-2)

    def step(index):
        if index == stop_after:
            raise KeyboardInterrupt
        x = torch.randn(16, 4, generator=generator(0, index))
        loss = (model(x)[:, 0] - x.sum(1)).square().mean()
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return {"loss": loss.item()}

    run("toy", directory, total, {"model": model}, optimizers, step, dict, warmup=2, every=4)
    return model


def test_resuming_after_a_kill_gives_the_same_weights(tmp_path):
    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", stop_after=10)
    resumed = train(tmp_path / "broken")
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert [row["step"] for row in read_log(tmp_path / "broken" / "toy.jsonl")] == [4, 8, 12]


def test_a_run_by_the_clock_ends_in_time_and_resumes(tmp_path):
    ends = []
    for seconds in (0.4, 0.4, 0.8):
        train(tmp_path, total=timedelta(seconds=seconds))
        ends.append(read_log(tmp_path / "toy.jsonl")[-1])
    first, again, last = ends
    assert again == first  # no time was left
    assert 0.4 <= first["seconds"] < 1.4
    assert 0.8 <= last["seconds"] < 1.8
    assert last["step"] > first["step"]


def test_the_schedule_rises_stays_and_falls_to_zero():
    factors = [learning_rate_factor(i, i / 100, 10, 0.4) for i in range(101)]
    assert factors[0] == 0.1
    assert factors[20] == factors[59] == 1.0
    assert 0 < factors[90] < 0.5
    assert factors[100] == 0


def test_a_damaged_or_foreign_checkpoint_is_named(tmp_path):
    train(tmp_path, total=4)
    checkpoint = tmp_path / "toy.safetensors"
    whole = checkpoint.read_bytes()
    with pytest.raises(AssetError, match=r"toy\.safetensors is damaged, or of another shape"):
        load_checkpoint(checkpoint, {"model": nn.Linear(3, 2)}, {})
    checkpoint.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AssetError, match=r"toy\.safetensors is damaged, or of another shape"):
        train(tmp_path, total=8)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_a_step_of_muon_is_orthogonal(shape):
    weights = [nn.Parameter(torch.zeros(shape)) for _ in range(3)]
    for i, weight in enumerate(weights):
        weight.grad = torch.randn(shape, generator=torch.Generator().manual_seed(i))
    Muon(weights, lr=1.0, weight_decay=0.0).step()
    for weight in weights:
        values = torch.linalg.svdvals(weight.detach() / (0.2 * max(shape) ** 0.5))
        assert 0.5 < values.min() <= values.max() < 1.4
    plain = torch.linalg.svdvals(weights[0].grad)
    assert plain.max() / plain.min() > 2
