"""experiments.benchmarks: every part of a small task in this process, and the slope of growth."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks import command as benchmarks
from experiments.benchmarks.command import Growth, Options
from experiments.tasks import benchmarks as tasks
from experiments.tasks import generated
from tests.experiments.scripts import kept_settings, strict_json


@pytest.fixture
def here(monkeypatch):
    """Parts run in this process, for speed."""

    def run_here(options, name):
        benchmarks.run_part(options.replace(cache=""))
        return strict_json(Path(options.output) / f"{name}.json")["rows"]

    with kept_settings():
        monkeypatch.setattr(benchmarks, "run_apart", run_here)
        yield


def test_a_row_a_task(here, tmp_path, monkeypatch):
    small = tasks.TASKS["texts"]._replace(size=60)
    monkeypatch.setitem(tasks.TASKS, "texts", small)
    options = Options(tasks=("texts",), output=str(tmp_path), tolerance=1e-2, progress=False)
    outcome = benchmarks.run(options)
    (row,) = outcome.numbers["rows"]
    assert row["first_n"] == row["peer_n"] == 60
    assert row["first_status"] == "CONVERGED" and row["first_again_programs"] == 0
    assert 0 <= row["first_primal"] - row["first_dual"] <= 1e-2 * row["first_primal"]
    assert row["first_primal"] == row["cached_primal"]
    assert row["first_seconds"] > 0 and row["peer_seconds"] > 0
    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    assert kept["rows"][0]["task"] == "texts" and (tmp_path / "benchmarks.png").exists()


def test_growth_has_a_slope(here, tmp_path):
    options = Options(growth=("30", "60"), output=str(tmp_path), tolerance=1e-1, progress=False)
    outcome = benchmarks.run(options.replace(tasks=("texts",)))
    assert [row["size"] for row in outcome.numbers["rows"]] == [30, 60]
    assert outcome.table.rows[-1][0] == "texts" and math.isfinite(outcome.table.rows[-1][-1])
    assert (tmp_path / "benchmarks_growth.png").exists()
    assert benchmarks._growing_tasks(options) == ("texts", "sentences")


def test_a_path_of_C_beside_cold_starts(here, tmp_path):
    options = Options(
        tasks=("texts",), path=("1", "0.1"), size=60, output=str(tmp_path), progress=False
    )
    outcome = benchmarks.run(options)
    rows = outcome.numbers["rows"]
    assert [row["C_over_n"] for row in rows] == [0.1, 1.0] and all(row["solved"] for row in rows)
    for row in rows:
        assert row["warm_primal"] == pytest.approx(row["cold_primal"], rel=2e-3)
    assert rows[0]["warm_rounds"] == rows[0]["cold_rounds"]  # nothing to start from
    assert outcome.table.rows[-1][3] == sum(row["cold_rounds"] for row in rows)
    assert (tmp_path / "benchmarks_path.png").exists()


def test_a_training_on_a_mesh(here, tmp_path, monkeypatch):
    """Of one device, which is what tests have."""
    monkeypatch.setattr(benchmarks, "have_devices", lambda count: None)
    options = Options(
        tasks=("texts",), shards=("1",), size=60, output=str(tmp_path), progress=False
    )
    (row,) = benchmarks.run(options).numbers["rows"]
    assert (row["shards"], row["n"], row["status"]) == (1, 60, "CONVERGED")
    assert 0 <= row["primal"] - row["dual"] <= 1e-3 * row["primal"]
    assert row["again_programs"] == 0 and (tmp_path / "benchmarks_shards.png").exists()
    with pytest.raises(ValueError, match="shards is 64, but there are"):
        benchmarks.run(options.replace(shards=("64",)))


def test_a_grid_search_chooses_as_its_errors_say(here, tmp_path):
    options = Options(
        grid=("1", "0.01"), size=200, tolerance=1e-2, output=str(tmp_path), progress=False
    )
    outcome = benchmarks.run(options)
    ours, peer = outcome.numbers["rows"]
    assert [ours["method"], peer["method"]] == ["jaxstruct", "LinearSVC"]
    assert ours["C_over_n"] == [0.01, 1.0] and len(ours["error"]) == 2
    assert ours["chosen"] == ours["C_over_n"][int(np.argmin(ours["error"]))]
    np.testing.assert_allclose(ours["error"], peer["error"], atol=5)
    assert (tmp_path / "benchmarks_grid.json").exists()


def test_strings_hold_the_words_of_the_texts():
    texts, (strings, classes) = generated.texts(30), generated.strings(30)
    np.testing.assert_array_equal(classes, texts.classes)
    for string, words in zip(strings, texts.features.indices, strict=True):
        assert {int(word[1:]) for word in string.split()} == set(words.tolist())


def test_the_slope_is_that_of_a_power():
    sizes = [10, 100, 1000]
    assert Growth("texts", sizes, [0.2 * n**1.5 for n in sizes]).slope == pytest.approx(1.5)
    assert math.isnan(Growth("texts", [10], [1.0]).slope)


def test_a_part_needs_one_task(tmp_path):
    with pytest.raises(ValueError, match="part needs exactly one task"):
        benchmarks.run_part(Options(part="first", output=str(tmp_path)))


def test_generated_data_repeat_and_fit_their_problems():
    texts, again = generated.texts(40), generated.texts(40)
    np.testing.assert_array_equal(texts.features.indices.rows, again.features.indices.rows)
    norms = [np.linalg.norm(values) for values in texts.features.values]
    np.testing.assert_allclose(norms, 1, rtol=1e-5)
    assert set(texts.classes) <= set(range(generated.CLASSES))
    sentences = generated.sentences(50, 100)
    assert sentences.features.shape == (sentences.offsets[-1], 1 + generated.AFFIXES)
    assert sentences.features.min() >= 0 and sentences.features.max() < 100
    assert sentences.offsets.shape == (51,) and (np.diff(sentences.offsets) >= 1).all()
    assert 0.5 < (sentences.labels == 0).mean() < 0.95
