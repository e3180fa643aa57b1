"""The loop inside transformers' own `generate`."""

import pytest
import torch
from tiny_llama import tiny_llama
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from pcg.decode.hf_generate import SpeculativeGenerate
from pcg.errors import InputError
from pcg.models.weights import Vocabulary, layer_subset
from pcg.rules import Verdict, exact

SPEECH = Vocabulary(codes=10, first_code=6, end=2)
ASKED = {"do_sample": True, "temperature": 0.7, "top_k": 0, "max_new_tokens": 6, "pad_token_id": 0}


@pytest.fixture(scope="module")
def pair():
    target = tiny_llama(6.0, 0, vocab_size=16, num_hidden_layers=3, num_key_value_heads=1, eos_token_id=2, bos_token_id=None)
    return target, layer_subset(target, (0, 2)).eval()


def test_it_speaks_speech_only_behind_the_prompt(pair):
    target, draft = pair
    speculate = SpeculativeGenerate(target, draft, SPEECH, exact)
    prompt = torch.tensor([[1, 3, 4, 5]])
    said = target.generate(prompt, custom_generate=speculate, **ASKED)
    assert torch.equal(said[:, :4], prompt)
    assert 4 < said.shape[1] <= 10
    assert all(6 <= token < 16 or token == 2 for token in said[0, 4:].tolist())
    assert sum(len(r.tokens) for r in speculate.rounds[0]) == (said[0, 4:] != 2).sum()
    again = SpeculativeGenerate(target, draft, SPEECH, exact)
    assert torch.equal(target.generate(prompt, custom_generate=again, **ASKED), said)
    assert not torch.equal(target.generate(prompt, custom_generate=speculate, **ASKED), said)


def test_rows_padded_on_the_left_say_what_they_say_alone(pair):
    target, draft = pair
    short, long = torch.tensor([[3, 4]]), torch.tensor([[1, 3, 4, 5]])
    padded = torch.cat([torch.nn.functional.pad(short, (2, 0)), long])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    asked = ASKED | {"max_new_tokens": 8}
    both = target.generate(
        padded, attention_mask=mask, custom_generate=SpeculativeGenerate(target, draft, SPEECH, exact), **asked
    )
    for row, prompt in enumerate((short, long)):
        alone = target.generate(prompt, custom_generate=SpeculativeGenerate(target, draft, SPEECH, exact, seed=row), **asked)
        new = alone[0, prompt.shape[1] :]
        assert torch.equal(both[row, 4 : 4 + len(new)], new)
        assert (both[row, 4 + len(new) :] == 0).all()


def test_without_sampling_it_says_what_generate_says(pair):
    """Greedy decoding: token for token that of transformers, whatever the draft proposes, with a processor, too."""
    target, draft = pair
    prompt, others = torch.tensor([[1, 3, 4, 5]]), [i for i in range(16) if i not in SPEECH.model_ids()]
    asked = {"do_sample": False, "max_new_tokens": 30, "pad_token_id": 0, "top_k": 0}
    heard = []
    for penalty in (1.0, 1.4):
        plain = target.generate(prompt, suppress_tokens=others, repetition_penalty=penalty, **asked)
        speculate = SpeculativeGenerate(target, draft, SPEECH, exact)
        heard.append(target.generate(prompt, custom_generate=speculate, repetition_penalty=penalty, **asked))
        assert torch.equal(heard[-1], plain)
    assert not torch.equal(*heard)


class Only(LogitsProcessor):
    """Leaves no id but 7."""

    def __call__(self, input_ids, scores):
        return torch.full_like(scores, -torch.inf).index_fill(1, torch.tensor([7]), 0.0)


class AfterThree(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return torch.full((len(input_ids),), input_ids.shape[1] >= 4 + 3)


ARGUMENTS = [
    ({"logits_processor": LogitsProcessorList([Only()])}, lambda said: set(said) == {7}),
    ({"stopping_criteria": StoppingCriteriaList([AfterThree()])}, lambda said: len(said) <= 3),
    ({"max_time": 1e-9}, lambda said: len(said) == 1),
    ({"eos_token_id": 9}, lambda said: 9 not in said[:-1]),
    ({"eos_token_id": [2, 9]}, lambda said: not {2, 9} & set(said[:-1])),
    ({"suppress_tokens": [8]}, lambda said: 8 not in said),
    ({"bad_words_ids": [[8]]}, lambda said: 8 not in said),
    ({"sequence_bias": {(8,): -100.0}}, lambda said: 8 not in said),
    ({"prefix_allowed_tokens_fn": lambda batch, ids: [7]}, lambda said: set(said) == {7}),
    ({"begin_suppress_tokens": list(range(6, 15))}, lambda said: said[0] in (2, 15)),
    ({"min_new_tokens": 10, "max_new_tokens": 12}, lambda said: len(said) >= 10),
    ({"top_k": 1}, lambda said: True),
    ({"exponential_decay_length_penalty": (3, 1.5)}, lambda said: True),
]


@pytest.mark.parametrize(("changed", "holds"), ARGUMENTS, ids=[next(iter(changed)) for changed, _ in ARGUMENTS])
def test_arguments_of_generate_are_obeyed(pair, changed, holds):
    target, draft = pair
    for seed in range(6):
        speculate = SpeculativeGenerate(target, draft, SPEECH, exact, seed=seed)
        said = target.generate(torch.tensor([[1, 3, 4, 5]]), custom_generate=speculate, **(ASKED | changed))[0, 4:].tolist()
        assert said
        assert holds(said)


def test_exact_has_the_law_of_plain_generate_and_blind_acceptance_has_not(pair):
    """1500 rows a side over 11 outcomes: two samples of one law differ by about 0.03 in total variation."""
    target, draft = pair
    torch.manual_seed(1)
    prompt, asked = torch.tensor([[1, 3, 4, 5]]).expand(1500, 4), ASKED | {"max_new_tokens": 2}

    def second_token(**how):
        return torch.bincount(target.generate(prompt, **how, **asked)[:, 5], minlength=16) / 1500

    def blind(drafted, p, q, coins):
        return Verdict(len(drafted), int(q[-1].argmax()), "bonus", ())

    wanted = second_token(suppress_tokens=[i for i in range(16) if i not in SPEECH.model_ids()])
    for rule, close in ((exact, True), (blind, False)):
        said = second_token(custom_generate=SpeculativeGenerate(target, draft, SPEECH, rule))
        assert ((said - wanted).abs().sum() / 2 < 0.08) == close


@pytest.mark.parametrize(("changed", "named"), [({"num_beams": 2}, "num_beams"), ({"guidance_scale": 1.5}, "guidance_scale")])
def test_a_law_that_it_does_not_know_is_refused(pair, changed, named):
    target, draft = pair
    speculate = SpeculativeGenerate(target, draft, SPEECH, exact)
    with pytest.raises(InputError, match=named):
        target.generate(torch.tensor([[1, 3]]), custom_generate=speculate, **(ASKED | changed))


def test_a_pair_that_does_not_fit_is_refused(pair):
    target, draft = pair
    with pytest.raises(InputError, match="lookahead"):
        SpeculativeGenerate(target, draft, SPEECH, exact, lookahead=17)
    with pytest.raises(InputError, match="lookahead"):
        SpeculativeGenerate(target, draft, SPEECH, exact, lookahead=2.5)
    with pytest.raises(InputError, match="target"):
        SpeculativeGenerate(target, draft, Vocabulary(codes=40, first_code=6, end=2), exact)
    other = tiny_llama(vocab_size=20)
    with pytest.raises(InputError, match="draft"):
        SpeculativeGenerate(target, other, SPEECH, exact)
