"""experiments.handwriting_speed on random words: counts until each level, Ctrl-C."""

from __future__ import annotations

import pytest

from experiments import handwriting_speed
from experiments.handwriting import command as handwriting
from experiments.handwriting_speed import Options
from experiments.lib import common
from experiments.tasks.handwriting import load
from tests.experiments.handwriting_cases import C, random_words, write_letter_data
from tests.experiments.scripts import kept_settings, stop_after, strict_json


@pytest.fixture
def path(tmp_path):
    write_letter_data(tmp_path / "letter.data", random_words())
    return str(tmp_path / "letter.data")


@pytest.fixture
def data(path):
    return load(path, "float32")


@pytest.mark.thorough
def test_the_speed_run_counts_until_each_level(path, data, tmp_path, monkeypatch):
    monkeypatch.setattr(handwriting_speed, "load", lambda *_: data)
    monkeypatch.setattr(handwriting_speed, "RATIO", C)
    training = handwriting.Options(
        letter_data=path, baselines=(), picture_words=0, variant="subspace", capacity=32,
        c_over_n=C, tolerance=1e-2, output=str(tmp_path), compilation_cache=False,
        progress=False,
    )  # fmt: skip
    with kept_settings():
        best = handwriting.run(training).numbers["rows"][0]
    options = Options(
        repeats=2,
        tolerance=1e-2,
        variant="subspace",
        capacity=32,
        output=str(tmp_path),
        progress=False,
    )
    with kept_settings():
        found = handwriting_speed.run(options, best["primal"])
    for row in found.numbers["rows"]:
        near, nearer = (row["seconds"][level] for level in handwriting_speed.LEVELS)
        assert 0 < nearer <= row["cpu"] * 1.5 and near > 0  # two runs: no order of their times
        near, nearer = (row["oracle_calls"][level] for level in handwriting_speed.LEVELS)
        assert 0 < near <= nearer <= row["calls"] == best["oracle_calls"]
    assert strict_json(found.files[0])["optimum"] == best["primal"]


def test_ctrl_c_keeps_the_timed_runs(data, tmp_path, monkeypatch):
    monkeypatch.setattr(handwriting_speed, "load", lambda *_: data)
    monkeypatch.setattr(handwriting_speed, "_one_fit", stop_after(2, {"cpu": 1.0}))
    with kept_settings(), pytest.raises(common.Stopped):
        handwriting_speed.run(Options(output=str(tmp_path)))
    content = strict_json(tmp_path / "handwriting_speed.stopped.json")
    assert content["runs"] == [{"cpu": 1.0}] * 2
