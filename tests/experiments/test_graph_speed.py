"""The benchmark of inference in graphs runs, and its tables are those of its times."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import graph_speed
from experiments import graph_speed as peer
from experiments.graph_speed import Options
from experiments.lib import common
from tests.experiments.scripts import kept_settings, strict_json

SMALL = Options(
    grids=("3x4x3",), batches=("1", "2"), bipartite=("3x2",), bipartite_batch=2, passes=4,
    relaxed=("3x3x2",), repeats=1, compilation_cache=False, progress=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> common.Outcome:
    with kept_settings():
        return graph_speed.run(SMALL.replace(output=str(tmp_path_factory.mktemp("speed"))))


def test_message_updates_are_counted(outcome: common.Outcome) -> None:
    rows = [row for row in outcome.numbers["rows"] if row["program"] == "jaxstruct"]
    assert [(row["graph"], row["batch"], row["kind"]) for row in rows] == [
        (graph, batch, kind)
        for graph, batch in (("grid 3 x 4", 1), ("grid 3 x 4", 2), ("bipartite 3 + 2", 2))
        for kind in ("max", "sum")
    ]
    for row in rows:
        edges = 17 if "grid" in row["graph"] else 6
        assert row["rate"] == pytest.approx(2e-6 * edges * row["batch"] / (row["processor"] / 1e3))
        assert row["compile_seconds"] > 0 and row["passes"] == 4


def test_the_bound_is_near_that_of_the_linear_program(outcome: common.Outcome) -> None:
    ours, *others = outcome.numbers["relaxed"]
    assert ours["program"] == "jaxstruct" and len(others) == 2
    assert others[0]["bound"] == pytest.approx(others[1]["bound"], rel=1e-6)
    assert -1e-5 <= ours["gap"] <= 1e-3 and ours["value"] <= ours["bound"]
    assert ours["gap"] == pytest.approx(ours["bound"] / others[0]["bound"] - 1, abs=1e-6)


def test_both_tables_are_written(outcome: common.Outcome) -> None:
    names = {path.name: path for path in outcome.files}
    assert set(names) == {f"graph_speed{part}.{kind}" for part in ("", "_relaxed")
                          for kind in ("json", "csv")}  # fmt: skip
    rows = strict_json(names["graph_speed.json"])["rows"]
    assert len(rows) == len(outcome.numbers["rows"])
    if not peer.installed():
        assert "PGMax is not installed" in outcome.table.notes[0]
        assert {row["ratio"] for row in rows} == {None}


def test_with_a_peer_ratios_and_differences_are_told(monkeypatch) -> None:
    """A peer that gives our own beliefs, shifted: their differences vanish."""

    def other(graph, kind, passes, damping):
        own = graph_speed._own_beliefs(graph, kind, passes, damping)
        return lambda nodes: jnp.log(own(nodes)) + 3 if kind == "sum" else own(nodes) - 2

    monkeypatch.setattr(graph_speed, "installed", lambda: True)
    monkeypatch.setattr(graph_speed, "peer_beliefs", other)
    (case, *_) = graph_speed._cases(SMALL, "float32")
    rows = list(graph_speed._propagation(SMALL, case))
    assert [row["program"] for row in rows] == ["jaxstruct", "PGMax"] * 2
    for ours, theirs in zip(rows[::2], rows[1::2], strict=True):
        assert ours["difference"] is None and theirs["difference"] < 1e-5
        assert theirs["ratio"] == 1 and ours["ratio"] > 0


def test_the_peer_is_set_up(monkeypatch) -> None:
    """Modules of its names that keep what they are given stand for PGMax."""
    seen: dict = {}
    modules = {name: ModuleType(f"pgmax.{name}") for name in
               ("fgraph", "fgroup", "infer", "vgroup")}  # fmt: skip
    modules["vgroup"].NDVarArray = lambda num_states, shape: tuple(range(shape[0]))
    model = SimpleNamespace(bp_state="state", add_factors=lambda group: seen.update(group))
    modules["fgraph"].FactorGraph = lambda variable_groups: model
    modules["fgroup"].PairwiseFactorGroup = dict
    inferer = SimpleNamespace(
        init=lambda evidence_updates: evidence_updates,
        run=lambda arrays, **options: seen.update(options) or arrays,
        get_beliefs=lambda arrays: arrays,
    )
    modules["infer"].build_inferer = lambda state, backend: inferer
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"pgmax.{name}", module)
    monkeypatch.setitem(sys.modules, "pgmax", ModuleType("pgmax"))
    (case, *_) = graph_speed._cases(SMALL, "float32")
    nodes = np.asarray(case.nodes)
    np.testing.assert_array_equal(peer.peer_beliefs(case.graph, "max", 3, 0.4)(nodes), nodes)
    assert seen["num_iters"] == 3 and seen["temperature"] == 0 and seen["damping"] == 0.4
    assert len(seen["variables_for_factors"]) == 17
    assert seen["log_potential_matrix"].shape == (17, 3, 3)
