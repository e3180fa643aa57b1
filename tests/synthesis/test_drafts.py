"""Speaking without a trained draft: how one is chosen, what is said of it, and that a stored take names it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pcg.cli import main
from pcg.errors import AssetError, InputError
from pcg.experiments.grids import Grid
from pcg.experiments.unit import Condition, Utterance
from pcg.experiments.worker import WorkerSpec
from pcg.models.llama import DecodingLlama
from pcg.models.weights import Checkpoint, Vocabulary, layer_subset
from pcg.saved_take import Origin, Stored, python_snippet, shell_snippet
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import choose_draft, load_voice, untrained_layers
from pcg.synthesis.whatif import follow
from tests.wav_comment import read_stored

WORDS = "hello, is this one sentence?"
CHOICES = ("auto", "layers:0,2", "none")


@pytest.fixture(scope="module")
def draftless(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tiny voice before anyone trained a draft for it."""
    folder = tmp_path_factory.mktemp("draftless")
    shutil.copytree(tiny_voice_folder, folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "draft")
    return str(folder)


@pytest.fixture(scope="module")
def synthesizers(tiny_voice_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Synthesizer]:
    cache = tmp_path_factory.mktemp("cache")
    return {choice: Synthesizer(load_voice(str(tiny_voice_folder), draft=choice), cache) for choice in CHOICES}


def test_the_trained_draft_is_taken_where_there_is_one(
    target: Checkpoint, vocabulary: Vocabulary, tiny_voice_folder: Path, draftless: str
) -> None:
    chosen = choose_draft("auto", target, vocabulary, tiny_voice_folder / "draft")
    assert (chosen.kind, chosen.notice, chosen.model.weights.layers) == ("trained", "", 2)
    for folder in (None, Path(draftless) / "draft"):
        without = choose_draft("auto", target, vocabulary, folder)
        assert (without.kind, without.model.weights.layers) == ("layers:0,2", 2)
        assert "untrained" in without.notice
    voice = load_voice(draftless)
    assert (voice.draft_kind, voice.notice) == (without.kind, without.notice)


def test_another_trained_draft_goes_by_its_content(
    target: Checkpoint, vocabulary: Vocabulary, tiny_voice_folder: Path, tmp_path: Path
) -> None:
    kinds = []
    for name in ("here", "there"):
        shutil.copytree(tiny_voice_folder / "draft", tmp_path / name)
        chosen = choose_draft(str(tmp_path / name), target, vocabulary, None)
        assert chosen.notice == ""
        assert str(tmp_path) not in chosen.kind
        kinds.append(chosen.kind)
    shutil.copytree(tiny_voice_folder / "target", tmp_path / "other")
    kinds.append(choose_draft(str(tmp_path / "other"), target, vocabulary, None).kind)
    assert kinds[0] == kinds[1] != kinds[2]
    (tmp_path / "there" / "model.safetensors").unlink()
    with pytest.raises(AssetError):
        choose_draft(str(tmp_path / "there"), target, vocabulary, None)


@pytest.mark.parametrize(
    "choice",
    [
        "",
        "Auto",
        "m" * 9000,
        "a\0",
        "layers:",
        "layers:0,3",
        "layers:2,0",
        "layers:1,1",
        "layers:-1",
        "layers:0;1",
        "layers:" + "9" * 9000,
    ],
    ids=lambda choice: choice[:12],
)
def test_anything_else_is_one_sentence(choice: str, target: Checkpoint, vocabulary: Vocabulary) -> None:
    with pytest.raises(InputError) as refused:
        choose_draft(choice, target, vocabulary, None)
    assert str(refused.value).startswith("draft is '" if choice else "draft is missing")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_draft_of_other_ids_is_refused(target: Checkpoint, vocabulary: Vocabulary, tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=len(target.embedding) + 1, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=f"draft is 'a model of {config.vocab_size} ids'"):
        choose_draft(str(tmp_path), target, vocabulary, None)


def test_three_layers_draft_untrained_but_never_the_whole_target() -> None:
    assert [untrained_layers(depth) for depth in (28, 4, 3, 2)] == [(0, 1, 27), (0, 1, 3), (0, 2), (1,)]


@pytest.mark.parametrize("tied", [True, False])
def test_layers_of_the_target_compute_what_copied_ones_do_and_take_no_memory(tied: bool) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2,
        tie_word_embeddings=tied,
    )  # fmt: skip
    whole, vocabulary = LlamaForCausalLM(config).eval(), Vocabulary(codes=30, first_code=5, end=3)
    parts = Checkpoint.of(whole)
    shared = parts.subset((0, 3))
    owned = {tensor.data_ptr() for tensor in parts.tensors.values()}
    assert {tensor.data_ptr() for tensor in shared.tensors.values()} < owned
    ids = torch.randint(40, (2, 9))
    positions = torch.arange(9.0).expand(2, 9)

    def logits(decoding: DecodingLlama) -> torch.Tensor:
        return decoding.forward(ids, decoding.rotary(positions), decoding.cache(2, 9))

    of_shared, of_copied = (logits(DecodingLlama(each, vocabulary)) for each in (shared, layer_subset(whole, (0, 3)).eval()))
    assert torch.equal(of_shared, of_copied)
    assert not torch.equal(of_shared, logits(DecodingLlama(parts, vocabulary)))


def test_ar_does_not_depend_on_the_draft(synthesizers: dict[str, Synthesizer]) -> None:
    takes = {each.take(WORDS, Settings("ar", seed=3), "one").tokens for each in synthesizers.values()}
    assert len(takes) == 1
    assert len({each.take(WORDS, Settings("sd", seed=3), "one").tokens for each in list(synthesizers.values())[:2]}) == 2


def test_what_if_needs_a_draft(synthesizers: dict[str, Synthesizer]) -> None:
    synthesizer = synthesizers["none"]
    with pytest.raises(InputError, match="draft is 'none'"):
        follow(synthesizer, synthesizer.take(WORDS, Settings("ar", seed=1), "one"))


def test_the_command_line_names_the_draft_and_says_what_it_is(
    tiny_voice_folder: Path, draftless: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pcg.synthesis.synthesizer.CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    speak = ["speak", "hello, yes", "--model", str(tiny_voice_folder)]
    assert main([*speak, "--draft", "none"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "pcg: method is 'pcg', but must be ar, as no draft is loaded."
    assert main([*speak, "--draft", "none", "--method", "ar"]) == 0
    assert main([*speak[:-1], draftless]) == 0
    assert "untrained" in capsys.readouterr().err
    assert read_stored(Path("speech.wav")).origin.draft == "layers:0,2"
    assert main(["compare", *speak[1:], "--draft", "none", "--json", "--repeat", "1"]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])["takes"]) == {"ar"}
    assert main(["bench", "--draft", "none"]) == 2
    assert main(["bench", "--draft", "magic"]) == 2


def test_a_stored_take_names_its_draft_unless_it_is_the_voices_own(synthesizers: dict[str, Synthesizer]) -> None:
    origins = {choice: Origin.of(each.voice) for choice, each in synthesizers.items()}
    stored = {choice: Stored(text=WORDS, voice="one", settings=Settings(), origin=origin) for choice, origin in origins.items()}
    assert [origins[choice].draft for choice in CHOICES] == ["trained", *CHOICES[1:]]
    for choice, each in stored.items():
        written = json.loads(each.to_json())["origin"]
        assert written["draft"] == ("trained" if choice == "auto" else choice)
        assert Stored.from_json(each.to_json()) == each
        wanted = () if choice == "auto" else ("It was made with another draft.",)
        assert stored["auto"].caveats(origins[choice]) == each.caveats(origins["auto"]) == wanted
    for bad in ("/etc/passwd", "auto", "layers:a", "folder:../..", 7, None, "layers:1" + ",1" * 900):
        values = json.loads(stored["none"].to_json())
        values["origin"]["draft"] = bad
        with pytest.raises(InputError, match="draft"):
            Stored.from_json(json.dumps(values))


def test_the_lines_to_copy_choose_the_draft(synthesizers: dict[str, Synthesizer], tiny_voice_folder: Path) -> None:
    choice = "layers:0,2"
    stored = Stored(text=WORDS, voice="one", settings=Settings(), origin=Origin.of(synthesizers[choice].voice))
    assert f"--draft {choice} " in shell_snippet(stored, "here")
    assert f"load_voice('here', draft={choice!r}, precision='float32')" in python_snippet(stored, "here")
    origin = Origin.of(synthesizers["auto"].voice)
    own = Stored(text=WORDS, voice="one", settings=Settings(), origin=origin)
    assert "draft" not in shell_snippet(own) + python_snippet(own)
    other = own.with_(origin=own.origin.with_(draft="folder:" + "0" * 16))
    assert "say where it lies" in shell_snippet(other)
    compile(python_snippet(other), "snippet", "exec")


def test_experiments_keep_drafts_apart_and_leave_out_what_cannot_be(tiny_voice_folder: Path) -> None:
    specs = [WorkerSpec(str(tiny_voice_folder), draft=choice) for choice in (*CHOICES, str(tiny_voice_folder / "draft"))]
    assert len({spec.voice_id for spec in specs}) == 4
    assert specs[0].voice_id == WorkerSpec(str(tiny_voice_folder)).voice_id
    alone, sd = Condition("draft alone", Settings("ar"), model="draft"), Condition("SD", Settings("sd"))
    grid = Grid("g", (alone, Condition("AR", Settings("ar")), sd), (Utterance("hello", "one", "s"),), (0,))

    def left(draft: str) -> list[str]:
        return [condition.name for condition in grid.for_draft(draft).conditions]

    assert left("trained") == left("layers:0,2") == ["draft alone", "AR", "SD"]
    assert left("none") == ["AR"]
    feature = grid.for_draft("trained", alone=False)
    assert [condition.name for condition in feature.conditions] == ["AR", "SD"]
