"""Products of rounded numbers: the kernel in bfloat16 against transformers, what takes keep of it, and the kernel's cache."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pcg.cli import main
from pcg.decode.device_loop import DevicePool, decode
from pcg.decode.runners import make_runners
from pcg.decode.sequence import RowRequest
from pcg.decode.speculative import Request
from pcg.errors import InputError, PCGError
from pcg.models import feature_draft, llama
from pcg.models.kernel import packing, passes
from pcg.models.llama import DecodingLlama
from pcg.places import PROJECT
from pcg.rules import exact
from pcg.sampling import Plain
from pcg.saved_take import Origin, Stored, python_snippet, read_link, shell_snippet, write_link
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import auto_precision, load_voice
from pcg.text.prompt import Prompt
from tests.models.test_kernel import VOCABULARY, check, feature_pair, logits_of, make_model, read_in_pieces

LANES = packing.lanes_here()
needs_bfloat16 = pytest.mark.skipif(packing.words_here(LANES, []) is None, reason="neither AMX nor AVX512-BF16 here")


@pytest.fixture(params=[np.int32, np.uint32], ids=["vectors", "tiles"])
def words(request, monkeypatch):
    """Models made in this test multiply by vectors, or by tiles, whichever this CPU has."""
    if request.param not in (packing.words_here(LANES, inputs) for inputs in ([], [UNTILED])):
        pytest.skip("this CPU has no such products")
    for module in (llama, feature_draft):
        monkeypatch.setattr(module, "words_here", lambda lanes, inputs: request.param)
    return request.param


UNTILED = 48
"""Inputs that fill no tiles."""


def rms(x: torch.Tensor) -> float:
    return float(x.square().mean().sqrt())


@needs_bfloat16
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_rounded_products_are_those_of_rounded_numbers(kv_heads, words):
    """Against transformers in double precision, whose matrices and attention take inputs that are rounded to bfloat16. A number
    near the middle between two of them may be rounded to the other one, since the kernel adds up in another order; what comes
    behind it in its row then differs."""
    model = make_model(kv_heads, biased=True, kind=torch.bfloat16)
    decoding = DecodingLlama(model, VOCABULARY, rounded=True)
    assert (decoding.precision, decoding._packed.panels.dtype) == ("bfloat16", words)
    ids = torch.randint(0, 320, (12, 36), generator=torch.Generator().manual_seed(2))
    wanted, exact = logits_of(model, ids, rounded=True), logits_of(model, ids)
    found = read_in_pieces(decoding, ids)
    assert agreeing(found, wanted)[:, :6].float().mean() > 0.6
    assert agreeing(found, wanted).float().mean() > 0.25
    assert not agreeing(exact, wanted).any()
    assert rms(found - wanted) < 0.7 * rms(exact - wanted)
    assert rms(exact - wanted) < 0.02 * rms(exact)


def agreeing(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """At which positions all logits are the same but for the last digits of single precision."""
    return (found - wanted).abs().amax(-1) < 1e-5


@needs_bfloat16
@pytest.mark.parametrize("rank", [0, 24])
def test_a_rounded_feature_draft_draws_from_nearly_the_same_probabilities(rank, words):
    """In three rounds of three tokens, behind its target's states and behind its own."""
    coins = torch.rand(3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    prompt, probs = Prompt(torch.arange(12), torch.arange(12.0), 12.0), []
    for rounded in (False, True):
        pair = feature_pair(rank, 16, True, torch.bfloat16, rounded)
        runners, draft = make_runners(*pair, [prompt], 60)
        for each in (runners, draft):
            each.prefill()
        runners.feed([0], [[7, 8, 9, 5]], 1)
        said = []
        for new, coin in zip(([], [7, 8, 9], [5]), coins, strict=True):
            (proposal,) = draft.propose([RowRequest(0, new, Plain(0.8), coins=coin)])
            said.append(proposal)
        probs.append(said)
    assert all(torch.equal(a.drafted, b.drafted) for a, b in zip(*probs, strict=True))
    apart = torch.stack([(a.probs - b.probs).abs().sum(-1) / 2 for a, b in zip(*probs, strict=True)])
    assert 0 < apart.min() <= apart.max() < 0.01


@needs_bfloat16
def test_long_prompts_and_copies_of_rounded_caches(words):
    """More tokens than the kernel takes at once, and a row that goes on from half of another."""
    decoding = DecodingLlama(make_model(1, kind=torch.bfloat16), VOCABULARY, rounded=True)
    ids = torch.randint(0, 320, (1, 600), generator=torch.Generator().manual_seed(6))
    cos, sin = decoding.rotary(torch.arange(600.0)[None])
    whole = decoding.forward(ids, (cos, sin), decoding.cache(1, 600))
    cache = decoding.cache(2, 617)
    decoding.forward(ids[:, :310], (cos[:, :310], sin[:, :310]), cache, 1, [0])
    decoding.forward(ids[:, :293], (cos[:, :293], sin[:, :293]), cache, 1, [1])
    decoding.forward(ids[:, :17], (cos[:, :17], sin[:, :17]), cache, 1, [1])
    cache.copy(0, 1, 293, 310)
    last = decoding.forward(ids[:, 310:], (cos[:, 310:], sin[:, 310:]), cache, 7, [1])
    assert torch.equal(last, whole[:, -7:])


@needs_bfloat16
def test_rounded_tokens_do_not_depend_on_their_company(words):
    decoding = DecodingLlama(make_model(kind=torch.bfloat16), VOCABULARY, rounded=True)
    ids = torch.randint(0, 320, (3, 36), generator=torch.Generator().manual_seed(4))
    together = read_in_pieces(decoding, ids)
    for row in range(3):
        assert torch.equal(read_in_pieces(decoding, ids[row : row + 1], widths=(1,) * 36)[0], together[row])


@needs_bfloat16
def test_matrices_that_fill_no_tiles_are_multiplied_by_vectors():
    model = make_model(kind=torch.bfloat16, intermediate_size=UNTILED)
    assert DecodingLlama(model, VOCABULARY, rounded=True)._packed.panels.dtype == np.int32


def test_only_weights_in_bfloat16_and_a_cpu_that_multiplies_them_round():
    assert DecodingLlama(make_model(kind=torch.float16), VOCABULARY, rounded=True).precision == "float32"
    brain = make_model(kind=torch.bfloat16)
    assert DecodingLlama(brain, VOCABULARY).precision == "float32"
    assert DecodingLlama(brain, VOCABULARY, lanes=8, rounded=True).precision == "float32"
    check(DecodingLlama(brain, VOCABULARY, lanes=8, rounded=True), brain, torch.randint(0, 320, (1, 36)))
    assert DecodingLlama(brain.to(torch.bfloat16), VOCABULARY).precision == "bfloat16"


def test_weights_of_8_bits_say_nearly_the_same_and_read_half_the_bytes():
    """Against transformers with the weights as they are; another seed's weights are far from both."""
    model = make_model(kind=torch.bfloat16).to(torch.bfloat16)
    decoding, whole = DecodingLlama(model, VOCABULARY, int8=True), DecodingLlama(model, VOCABULARY)
    assert decoding.precision == "int8"
    assert 0.5 < decoding.bytes_per_step / whole.bytes_per_step < 0.6
    ids = torch.randint(0, 320, (4, 36), generator=torch.Generator().manual_seed(2))
    found, wanted = (read_in_pieces(each, ids).float() for each in (decoding, whole))
    assert 0 < rms(found - wanted) < 0.05 * rms(wanted)
    assert rms(wanted.roll(1, -1) - wanted) > rms(wanted)


def test_a_voice_of_8_bits_speaks_on_the_device_as_on_the_host(tiny_voice_folder):
    """The program of a GPU, run here, and the loop of the host begin alike (in bfloat16 they round apart later); the take notes
    what it was made with."""
    voice = load_voice(str(tiny_voice_folder), precision="int8", draft="layers:0")
    assert (voice.precision, voice.draft.precision) == ("int8", "int8")
    name, text = next(iter(voice.references)), "The morning sun."
    take = Synthesizer(voice).take(text, Settings("ar"), name)
    assert "--precision int8 " in shell_snippet(Stored.of(take, Origin.of(voice)))
    prompt, said = voice.reader.prompt(text, voice.reference(name)), []
    for pool in (None, DevicePool()):
        request = Request(prompt, 12, torch.Generator().manual_seed(4), Plain(0.8), exact, 3)
        said.append([token for step in decode(voice.target, voice.draft, [request], pool) for token in step[0].tokens])
    assert said[0] == said[1]
    assert len(said[0]) == 12


def test_who_has_no_torchao_is_told_how_to_get_it(monkeypatch, tiny_voice_folder):
    monkeypatch.setitem(sys.modules, "torchao.quantization", None)
    with pytest.raises(PCGError, match="pip install -r requirements-int8"):
        load_voice(str(tiny_voice_folder), precision="int8")


def test_what_numba_keeps_is_outdated_when_any_file_of_the_kernel_changes():
    """Else whoever updates would go on with the kernel of before."""
    folder = Path(passes.__file__).parent
    called = b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")) if file.name != "passes.py")
    assert hashlib.sha256(called).hexdigest()[:16] == passes.CALLED


@pytest.mark.slow
@pytest.mark.parametrize("rounded", [False, True])
def test_a_process_that_compiles_computes_what_one_that_reads_the_result_does(rounded, tmp_path):
    """To the last bit: the same take has the same tokens in both."""
    environment, said = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, []
    for _ in range(2):
        run = [sys.executable, "-c", f"from tests.models.test_precision import digest; print(digest({rounded}))"]
        said.append(subprocess.run(run, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True).stdout)
    assert said[0] == said[1]
    assert len(said[0]) > 64


def digest(rounded: bool) -> str:
    """Of the logits of 200 tokens, several at a time."""
    decoding = DecodingLlama(make_model(kind=torch.bfloat16), VOCABULARY, rounded=rounded)
    ids = torch.randint(0, 320, (1, 200), generator=torch.Generator().manual_seed(5))
    return hashlib.sha256(read_in_pieces(decoding, ids, widths=(1, 3, 4) * 25).numpy().tobytes()).hexdigest()


@needs_bfloat16
def test_a_take_keeps_the_precision_it_was_made_in():
    voices = {precision: load_voice(precision=precision) for precision in ("float32", "bfloat16")}
    takes = {p: Synthesizer(voice).take("The morning sun was warm.", Settings("sd"), "heart") for p, voice in voices.items()}
    assert takes["float32"].tokens != takes["bfloat16"].tokens
    stored = {p: Stored.of(takes[p], Origin.of(voice)) for p, voice in voices.items()}
    for precision, each in stored.items():
        linked, filed = read_link(write_link(each)), Stored.from_json(each.to_json())
        assert linked.origin.precision == filed.origin.precision == each.origin.precision
        assert f"precision={precision!r}" in python_snippet(each)
        assert f"--precision {precision} " in shell_snippet(each)
    assert stored["float32"].origin.precision == ""  # as in files of before there was a choice
    warning = ("It was made with products of another precision.",)
    assert stored["float32"].caveats(stored["bfloat16"].origin) == warning
    assert stored["float32"].caveats(stored["float32"].origin) == ()


def test_auto_is_what_the_machine_multiplies_and_a_precision_that_is_none_or_not_here_is_refused(tiny_voice_folder, capsys):
    assert load_voice().precision == auto_precision("cpu")
    with pytest.raises(InputError, match="precision is 'half', but must be one of auto, float32, bfloat16, int8"):
        load_voice(precision="half")
    with pytest.raises(InputError, match="precision is 'bfloat16', but must be auto or float32"):
        load_voice(str(tiny_voice_folder), precision="bfloat16")  # whose weights are not exact in it
    assert main(["speak", "hello", "--out", "no.wav", "--precision", "half"]) == 2
    assert "precision is 'half'" in capsys.readouterr().err
