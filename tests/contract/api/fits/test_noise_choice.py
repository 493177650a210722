"""The choice of noise: one sentence on every face, of a choice that is made once for a model."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.client import Client
from sampler.preparation import encode
from tests.support.api_calls import of_file
from tests.support.command_line import bartserve
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, extended, fitted

pytestmark = only("sqlite")
ROOT = Path(__file__).parents[4]
ALONE = (
    "import sys; from sampler import load; from sampler.preparation import encode; "
    "encode.choose_noise = None; print(load(sys.argv[1]).model_card().to_markdown())"
)


def table(rows: int, spread: float) -> str:
    """Return rows with normal noise, so many times as large where a feature is above one half."""
    rng = np.random.default_rng(0)
    x, z = rng.uniform(size=(2, rows)).round(3)
    y = 4 * x + rng.normal(size=rows) * np.where(z > 0.5, spread, 1.0) / 3
    return "y,x,z\n" + "\n".join(f"{a:.3f},{b},{c}" for a, b, c in zip(y, x, z, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "spread", "begins"),
    [
        (150, 1.0, "constant: quick regressions on 150 rows ask for no other"),
        (500, 5.0, "forest: "),
    ],
)
def test_why_the_noise_was_chosen_is_said_on_every_face(
    client, settings, tmp_path, monkeypatch, rows, spread, begins
):
    """HTTP, client, command line, page, card and file say it; a longer fit doesn't choose again."""
    made, choose = [], encode.choose_noise
    monkeypatch.setattr(encode, "choose_noise", lambda *given: made.append(1) or choose(*given))
    model = fitted(client, settings, text=table(rows, spread), name="mine", num_trees=5)
    assert len(made) == 1  # though two chains begin
    sentence = model["diagnostics"]["noise_choice"]["text"]
    assert sentence.startswith(begins)
    faces = {
        "settings": page_of(client.get("/ui/models/mine/settings")).words,
        "card": client.get("/models/mine/card").text,
        "command line": bartserve(
            "models", "show", "mine", "--url", str(client.base_url), cwd=tmp_path
        ).stdout,
    }
    with Client(str(client.base_url)) as other:
        faces["client"] = other.model("mine").diagnostics["noise_choice"]["text"]
        other.download("mine", tmp_path / "model")
    command = [sys.executable, "-c", ALONE, tmp_path / "model"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    faces["file in another process"] = done.stdout or done.stderr
    silent = {face: words for face, words in faces.items() if sentence not in " ".join(words.split())}
    assert silent == {}

    monkeypatch.setattr(encode, "choose_noise", None)  # which no further chain may call
    longer = extended(client, settings, "/models/mine")
    assert (longer["state"], longer["diagnostics"]["noise_choice"]["text"]) == ("succeeded", sentence)
    chosen = of_file(client, longer)
    assert chosen.header.noise_choice.in_words(chosen.settings.get("noise", "constant")) == sentence
    assert chosen.num_draws == SMALL["num_draws"] + 10
