"""experiments.multiclass on a few digits: rows, objectives of others, files."""

from __future__ import annotations

from experiments.multiclass.command import Options
from experiments.multiclass.machines import MACHINES
from tests.experiments.scripts import options_of

options = options_of(Options, data=("digits",), per_class=4, tolerance=1e-5, x64=True, twice=False)


def rows_of(outcome, peer=None):
    return [row for row in outcome.numbers["rows"] if (row["peer"] is None) == (peer is None)]


def test_every_machine_is_trained_and_better_than_chance(outcome):
    own = rows_of(outcome)
    assert [row["machine"] for row in own[:10]] == [name for name in MACHINES for _ in "12"]
    for row in own:
        assert row["status"] == "CONVERGED" and row["gap"] <= 1e-5
        assert row["accuracy"] > 50 and row["support"] > 0
        assert min(row["first"].wall, row["seconds"].wall) > 0


def test_libsvm_and_liblinear_without_a_bias_have_our_optimum(outcome):
    same = [row for row in rows_of(outcome, "theirs") if "SVC" in row["peer"]]
    exact = [
        row for row in same if row["peer"].startswith("SVC") or row["machine"] == "crammer_singer"
    ]
    assert {row["machine"] for row in exact} == {"one_against_all", "all_pairs", "crammer_singer"}
    for row in exact:
        assert abs(row["above_ours"]) < 1e-4, row
    near = [row["above_ours"] for row in same if row["objective"] == row["objective"]]
    assert min(near) > -1e-4  # a bias that costs makes other machines, worse by our objective
    assert len(near) < len(same)  # codes of its own are other machines
