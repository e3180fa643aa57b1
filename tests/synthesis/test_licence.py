"""Whose terms a sound carries, on the page and in files; the cards; and a page that stays up without the wanted model."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from huggingface_hub import ModelCard
from packaging.utils import canonicalize_name

import app
from explorers.listen.share import wav_file
from explorers.shared.readout import banner_html, masthead_html, voice_line
from pcg.places import PROJECT
from pcg.saved_take import Origin, Stored
from pcg.serving.staging import read_requirements
from pcg.settings import Settings
from pcg.synthesis.synthesizer import Synthesizer
from pcg.synthesis.voice import Voice
from tests.wav_comment import read_stored

ROOT = PROJECT
ASSETS = ROOT / "assets"


@pytest.fixture(scope="module")
def synthesizer(voice: Voice, tmp_path_factory: pytest.TempPathFactory) -> Synthesizer:
    return Synthesizer(replace(voice, licence="CC-BY-NC-4.0"), tmp_path_factory.mktemp("cache"))


def test_the_head_names_the_voice_and_its_licence(voice: Voice) -> None:
    assert voice_line(voice) == "Voice: tiny (Apache-2.0)"
    told = voice_line(replace(voice, name="LLaSA", licence="CC-BY-NC-4.0"))
    assert told == "Voice: LLaSA, CC BY-NC 4.0: non-commercial use only; sounds made with it carry this licence"
    html = masthead_html("PCG Lab", replace(voice, name="<script>"))
    assert "<script>" not in html
    assert "&lt;script&gt; (Apache-2.0)" in html


def test_a_banner_holds_its_sentence_as_text() -> None:
    assert "&lt;b&gt;" in banner_html("model is '<b>', but must be 'x'.")


def test_every_file_of_a_take_carries_the_licence(synthesizer: Synthesizer, tmp_path: Path) -> None:
    origin = Origin.of(synthesizer.voice)
    take = synthesizer.take("Hello, yes.", Settings(seed=3), "two")
    take = replace(take, audio=np.zeros(160, np.float32))
    wav = wav_file(take, Stored.of(take, origin), tmp_path)
    assert read_stored(wav).origin.licence == "CC-BY-NC-4.0"
    assert json.loads(Stored.of(take, origin).to_json())["origin"]["licence"] == "CC-BY-NC-4.0"


def test_files_of_before_are_read_and_no_take_depends_on_a_licence(synthesizer: Synthesizer) -> None:
    origin = Origin.of(synthesizer.voice)
    values = json.loads(Stored(text="Hello.", voice="one", settings=Settings(), origin=origin).to_json())
    del values["origin"]["licence"]
    before = Stored.from_json(json.dumps(values))
    assert before.origin == origin.with_(licence="")
    assert before.caveats(origin) == ()


@pytest.mark.parametrize(("part", "task"), [("voice", "text-to-speech"), ("recogniser", "automatic-speech-recognition")])
def test_the_shipped_cards_are_in_the_hubs_form(part: str, task: str) -> None:
    card = ModelCard.load(ASSETS / part / "MODEL_CARD.md")
    values = card.data.to_dict()
    assert (values["license"], values["language"], values["pipeline_tag"]) == ("apache-2.0", "en", task)
    assert values["library_name"] == "pcg-lab"
    assert len(values["tags"]) >= 2
    for heading in ("## Use", "## Limits", "## Licence", "## How this run went"):
        assert f"\n{heading}\n" in card.text
    assert "Apache-2.0: the weights, and the sounds that are made with them." in card.text


def test_the_voices_card_has_the_word_error_rates_of_the_shipped_results() -> None:
    data = ModelCard.load(ASSETS / "voice" / "MODEL_CARD.md").data
    rates = {re.search(r"%, (.+), by Whisper", each.metric_name)[1]: each.metric_value for each in data.eval_results}
    tables = {table["name"]: table for table in json.loads((ASSETS / "results" / "results.json").read_text())["tables"]}
    measured = {row["setting"]: row["WER %"]["value"] for row in tables["conditions"]["rows"]}
    assert {"AR", "PCG, theta 0.3"} <= rates.keys()
    assert all(rate == pytest.approx(100 * measured[name], abs=0.01) for name, rate in rates.items())


def test_the_notice_names_everything_that_is_installed() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    named = {canonicalize_name(word.strip("(),:")) for word in re.split(r"\s+", notice)}
    for file in ("requirements.txt", "requirements-nodeps.txt"):
        assert {canonicalize_name(each.name) for each in read_requirements(ROOT / file)} - named == set()


@pytest.mark.parametrize("options", [["--model", "nowhere/at-all"], ["--device", "cuda"], ["--device", "abacus"]])
def test_without_the_wanted_model_the_page_stays_up_and_says_why(
    options: list[str], synthesizer: Synthesizer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    troubles, load, page = [], app.load_voice, SimpleNamespace(settle=lambda: None, block_thread=lambda: None)
    monkeypatch.setattr(app, "load_voice", lambda *asked: load(*asked) if asked else synthesizer.voice)
    monkeypatch.setattr(app, "build_page", lambda *_, trouble, **__: troubles.append(trouble) or page)
    monkeypatch.setattr(app, "_launch", lambda *_: None)
    monkeypatch.setattr(app.signal, "signal", lambda *_: None)
    monkeypatch.setattr(app, "OPENING_SECONDS", 0)
    monkeypatch.setenv(app.FILES, "")  # `main` sets it: pages of later tests would keep their files where others sweep
    assert app.main(options) == 0
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert options[1] in told
    assert troubles == [f"{told} The embedded voice is used instead."]


def test_variables_choose_as_options_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "nowhere")
    monkeypatch.setenv("DEVICE", "")
    options = app._parser().parse_args([])
    assert (options.model, options.device) == ("nowhere", "cpu")
    assert app._parser().parse_args(["--model", "embedded"]).model == "embedded"
