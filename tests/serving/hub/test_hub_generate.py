"""The staged folder, as transformers fetches it from the Hub."""

import importlib.metadata
import inspect
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tiny_llasa import CODES, END, FIRST_CODE
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.streamers import BaseStreamer

from pcg.errors import InputError
from pcg.files import __version__
from pcg.models.weights import Vocabulary, layer_subset
from pcg.serving.hub.generate import generate
from pcg.serving.hub.speculator import speculator
from pcg.serving.staging import main
from pcg.settings import Settings


class Streamed(BaseStreamer):
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ended = False

    def put(self, value: torch.Tensor) -> None:
        self.tokens += value.flatten().tolist()

    def end(self) -> None:
        self.ended = True


IDS = {"codes": 10, "first_code": 6, "end": 2}
ASKED = {"do_sample": True, "temperature": 0.7, "top_k": 0, "max_new_tokens": 12, "pad_token_id": 0, **IDS}
PROMPT = torch.tensor([[1, 3, 4, 5]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("hub") / "pcg"
    assert main(["hub", str(out)]) == 0
    return str(out)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LlamaForCausalLM:
    """A small one; the library counts as installed, and stores its groups elsewhere."""
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: __version__ if name == "pcg-lab" else version(name))
    monkeypatch.setattr("pcg.serving.hub.speculator.CACHE", tmp_path)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = LlamaConfig(vocab_size=16, num_hidden_layers=4, eos_token_id=2, bos_token_id=None, **shape)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6.0 if weight.ndim == 2 else 1.0)
    return model


def said(target: LlamaForCausalLM, folder: str, **asked: object) -> list[int]:
    return target.generate(PROMPT, custom_generate=folder, trust_remote_code=True, **{**ASKED, **asked})[0, 4:].tolist()


@pytest.mark.parametrize("method", ["sd", "ssd", "pcg"])
def test_generate_speaks_speech_only_and_the_same_with_the_same_seed(
    target: LlamaForCausalLM, folder: str, method: str
) -> None:
    first = said(target, folder, method=method, seed=5)
    assert set(first) <= {2, *range(6, 16)}
    assert said(target, folder, method=method, seed=5) == first
    assert said(target, folder, method=method, seed=6) != first


def test_a_draft_of_ones_own_is_the_assistant(target: LlamaForCausalLM, folder: str) -> None:
    whole = layer_subset(target, (0, 1, 2, 3)).eval()
    vocabulary = Vocabulary(IDS["codes"], IDS["first_code"], IDS["end"])
    speculate = speculator(target, whole, Settings("sd", seed=1), vocabulary)
    spoken = target.generate(PROMPT, custom_generate=speculate, **{n: v for n, v in ASKED.items() if n not in IDS})[0, 4:]
    assert spoken.tolist() == said(target, folder, method="sd", assistant_model=whole, seed=1)
    assert all(len(each.tokens) == 4 or each.ended for each in speculate.rounds[0][:-1])  # its drafts all pass


def test_threads_have_the_coins_of_their_seeds(target: LlamaForCausalLM, folder: str) -> None:
    """Six calls at once on one model say what each says alone; the code is loaded once, as CPython 3.11 may fail to parse it in
    several threads at once (SystemError in ast.parse)."""

    def spoken(seed: int) -> list[int]:
        return generate(target, inputs=PROMPT, method="sd", seed=seed, **ASKED)[0, 4:].tolist()

    alone = [said(target, folder, method="sd", seed=seed) for seed in range(6)]
    assert len(set(map(tuple, alone))) > 3
    for _ in range(3):
        with ThreadPoolExecutor(6) as threads:
            together = list(threads.map(spoken, range(6)))
        assert together == alone


def test_weights_that_change_in_place_are_noticed(target: LlamaForCausalLM, folder: str) -> None:
    """As a LoRA that is merged."""
    before = said(target, folder, method="sd", seed=1)
    for layer in target.model.layers:
        layer.mlp.down_proj.weight.data += 0.5 * torch.randn(16, 24, generator=torch.Generator().manual_seed(0))
    assert said(target, folder, method="sd", seed=1) != before


def test_a_streamer_gets_every_token(target: LlamaForCausalLM, folder: str) -> None:
    streamed = Streamed()
    spoken = said(target, folder, method="sd", seed=2, streamer=streamed)
    assert streamed.tokens == [*PROMPT[0].tolist(), *spoken]
    assert streamed.ended


@pytest.mark.parametrize(
    ("asked", "told"),
    [({"method": "ar"}, "method is 'ar'"), ({"theta": 7.0}, "theta is 7"), ({"num_beams": 2}, "num_beams is '2'")],
)
def test_what_it_cannot_do_is_one_sentence(target: LlamaForCausalLM, folder: str, asked: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        said(target, folder, **asked)


def test_its_defaults_are_those_of_the_engine_and_its_card_says_so() -> None:
    card = (Path(generate.__code__.co_filename).parent / "README.md").read_text(encoding="utf-8")
    wanted = ["Base model", "Model compatibility", "Additional Arguments", "Output Type changes", "Example usage"]
    assert re.findall(r"^## (.+)$", card, re.MULTILINE) == wanted
    parameters = inspect.signature(generate).parameters
    for name in ("method", "theta", "lookahead", "beta", "seed"):
        default = getattr(Settings(), name)
        assert parameters[name].default == default, name
        assert re.search(rf"^\| `{name}` \| `?{default}`? \|", card, re.MULTILINE), name


def test_its_example_speaks_with_a_sharded_checkpoint_what_it_speaks_with_a_whole_one(
    target: LlamaForCausalLM, folder: str, llasa_folder: Path, tmp_path: Path
) -> None:
    """The lines of the card, on a small LLaSA; with `target` the library counts as installed."""
    card = (Path(folder) / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1].replace("OWNER/pcg", folder)
    # Groups of 65,536 codes take half a minute.
    example = example.replace('method="pcg"', f'method="sd", first_code={FIRST_CODE}, end={END}').replace("500", "8")
    sharded, whole = tmp_path / "sharded", LlamaForCausalLM.from_pretrained(llasa_folder)
    shutil.copytree(llasa_folder, sharded, ignore=shutil.ignore_patterns("codec", "*.safetensors"))
    whole.save_pretrained(sharded, max_shard_size="1MB")
    assert (sharded / "model.safetensors.index.json").is_file()
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    exec(example.replace("HKUSTAudio/Llasa-1B", str(sharded)), names := {})
    exec(example[example.index("speech = ") :], of_whole := names | {"model": whole})
    assert names["speech"].tolist() == of_whole["speech"].tolist()
    said = names["speech"][0, names["input_ids"].shape[1] :].tolist()
    assert said
    assert set(said) <= {END, *range(FIRST_CODE, FIRST_CODE + CODES)}


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").write_text("")
    assert main(["hub", str(tmp_path / "there")]) == 2
    assert "must be a folder" in capsys.readouterr().err
