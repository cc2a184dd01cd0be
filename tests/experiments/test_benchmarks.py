"""experiments.benchmarks: every part of small tasks in this process, and the slope of growth."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path

import pytest

from experiments import benchmarks
from experiments.benchmarks import ROWS, Growth, Options
from experiments.corpora import conll2002
from experiments.corpora.locate import available
from experiments.corpora.treebanks import load_gum
from experiments.tasks import treebanks
from experiments.tasks.work import Row, Tool, Work
from jaxstruct.data.bracketing import read_trees
from tests.experiments.scripts import strict_json
from tests.lib.refusals import refused


@pytest.fixture
def here(monkeypatch):
    """Parts run in this process, for speed."""

    def run_here(options, name):
        benchmarks.run_part(options.replace(cache=""))
        return strict_json(Path(options.output) / f"{name}.json")["rows"]

    monkeypatch.setattr(benchmarks, "run_apart", run_here)


@pytest.mark.thorough
def test_a_row_a_task(here, tmp_path, monkeypatch):
    small = ROWS["texts"]._replace(size=60, tolerance=1e-2)
    monkeypatch.setitem(ROWS, "texts", small)
    options = Options(tasks=("texts",), output=str(tmp_path), progress=False)
    outcome = benchmarks.run(options)
    (row,) = outcome.numbers["rows"]
    assert row["first_n"] == row["peer_n"] == 60
    assert row["first_status"] == "CONVERGED" and row["first_again_programs"] == 0
    assert 0 <= row["first_primal"] - row["first_dual"] <= 1e-2 * row["first_primal"]
    assert row["first_primal"] == row["cached_primal"]
    assert row["first_seconds"] > 0 and row["peer_seconds"] > 0
    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    assert kept["rows"][0]["task"] == "texts" and (tmp_path / "benchmarks.png").exists()
    (line,) = outcome.table.rows
    assert line[:2] == ["texts", "0.01"] and "LinearSVC" in line


@pytest.mark.thorough
def test_each_further_peer_has_lines_and_one_that_is_missing_has_none(here, tmp_path, monkeypatch):
    def missing() -> Tool:
        raise ImportError("no such package")

    def work(size: int, dtype: str, tolerance: float) -> Work:
        peers = {"one": lambda: Tool(lambda: None, lambda _: 0.5), "two": missing}
        return Work(size, Tool(lambda: None, lambda _: 1.0), lambda _: [], peers)

    row = Row(work, "three tools", 7, ["one", "two", "three"], published={"three": 9.0})
    monkeypatch.setitem(ROWS, "grid", row)
    outcome = benchmarks.run(Options(tasks=("grid",), output=str(tmp_path), progress=False))
    (row,) = outcome.numbers["rows"]
    assert row["peer_score"] == 0.5 and row["peer2_seconds"] is None and row["first_status"] is None
    names = [line[0] for line in outcome.table.rows]
    assert names[2:] == ["grid.2", "grid+predict.2", "grid.3", "grid+predict.3"]
    assert (row["peer_name"], row["peer3_name"], row["peer3_seconds"]) == ("one", "three", 9)
    own = Options(tasks=("texts",), part="peer2", output=str(tmp_path))
    refused("texts has no peer2", benchmarks.run_part, own)


def test_an_estimator_has_no_growth_and_no_float64(here, tmp_path):
    options = Options(tasks=("texts", "grid"), output=str(tmp_path), progress=False)
    growth, x64 = options.replace(growth=("30",)), options.replace(tasks=("grid",), x64=True)
    refused("tasks: grid: growth and path take", benchmarks.run, growth)
    refused("x64: estimators and programs of users", benchmarks.run, x64)


NEEDS = {
    "words": "ocr_letters", "clinc150": "clinc150", "gum": "gum", "trees": "gum",
    "scene": "multilabel", "yeast": "multilabel", "snakes": "snakes",
    **dict.fromkeys(("spanish", "spanish_large_C", "spanish_whole", "tagger"), "conll2002"),
    **dict.fromkeys(("chunks", "chunks_finer", "chunks_whole", "predict"), "treebank"),
}  # fmt: skip


@pytest.fixture(scope="module")
def read_once():
    """Rows of one corpus share what is read of its files; of GUM it is a tenth."""

    @functools.cache
    def trees_of(text, name):
        return tuple(read_trees(text, name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conll2002, "load_conll2002", functools.cache(conll2002.load_conll2002))
        patch.setattr(treebanks, "load_gum", lambda path: load_gum(path)[::10])
        patch.setattr(treebanks, "read_trees", trees_of)
        patch.setattr(treebanks, "clean", functools.cache(treebanks.clean))
        yield


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_peers_that_it_names(name, read_once):
    """Nothing is trained."""
    if name in NEEDS and not available(NEEDS[name]):
        pytest.skip(f"needs {NEEDS[name]}")
    row = ROWS[name]
    work = row.work(min(row.size, 50) or 50, "float32", 0.5)
    assert set(work.peers) == set(row.peers) - set(row.published) and work.n > 1


@pytest.mark.thorough
def test_growth_has_a_slope(here, tmp_path):
    options = Options(growth=("30", "60"), output=str(tmp_path), tolerance=1e-1, progress=False)
    outcome = benchmarks.run(options.replace(tasks=("texts",)))
    assert [row["size"] for row in outcome.numbers["rows"]] == [30, 60]
    assert outcome.table.rows[-1][0] == "texts" and math.isfinite(outcome.table.rows[-1][-1])
    assert (tmp_path / "benchmarks_growth.png").exists()
    assert benchmarks._trainings(options, benchmarks.GROWING) == ("texts", "sentences")


@pytest.mark.thorough
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
    assert outcome.table.rows[-1][4] == sum(row["cold_rounds"] for row in rows)
    assert (tmp_path / "benchmarks_path.png").exists()


def test_the_slope_is_that_of_a_power():
    sizes = [10, 100, 1000]
    assert Growth("texts", sizes, [0.2 * n**1.5 for n in sizes]).slope == pytest.approx(1.5)
    assert math.isnan(Growth("texts", [10], [1.0]).slope)
