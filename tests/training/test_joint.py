"""Target and draft learn together: the draft's loss reaches the target through the layers that it reads."""

import pytest
import torch
from tiny_target import VOCABULARY, batch_of, make_spoken, make_target, same_voice

from pcg.training.feature_draft import FeatureModel
from pcg.training.models import speech_states
from pcg.training.tokens import IGNORED
from pcg.training.voice import joint_loss, misheard


@pytest.mark.parametrize("share", [0.3, 0.0])
def test_the_drafts_loss_goes_on_into_the_target(share, monkeypatch):
    monkeypatch.setattr("pcg.training.voice.DRAFT_SHARE", share)
    target, batch = make_target(), batch_of(same_voice(8))
    draft = FeatureModel(target, VOCABULARY, (2, 4))
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    loss, found = joint_loss(target, draft, VOCABULARY)(batch)
    with torch.autocast("cpu", torch.bfloat16):
        hidden, head, labels = speech_states(target, batch, VOCABULARY)
        logits = hidden @ head.T
    (loss - torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum")).backward()
    assert (float(target.model.layers[0].mlp.down_proj.weight.grad.abs().max()) > 1e-4) == (share > 0)
    assert (float(draft.features.weight.grad.abs().max()) > 0) == (share > 0)
    tokens = (batch.labels != IGNORED).sum()
    assert all(0 <= found[f"overlap_{k}"] <= tokens for k in (1, 2, 3))


def test_a_share_of_the_codes_is_misheard_and_no_label_is_wrong():
    batch = batch_of(make_spoken(80))
    heard = misheard(batch, VOCABULARY, torch.Generator().manual_seed(3))
    changed = heard.ids != batch.ids
    speech = (batch.ids >= VOCABULARY.first_code) & (batch.ids < VOCABULARY.first_code + VOCABULARY.codes)
    assert not changed[~speech].any()
    assert 0.005 < changed.sum() / speech.sum() < 0.06
    assert 0.1 < (changed.any(1)).float().mean() < 0.8
    assert torch.equal(heard.labels, batch.labels)
