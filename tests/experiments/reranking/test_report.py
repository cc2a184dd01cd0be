"""The figures of the table that compare a re-ranker with the base model."""

from __future__ import annotations

from experiments.reranking.lists import Lists
from experiments.reranking.report import against_one_best, described, oracle

LISTS = Lists([["a", "b"], [], ["c"]], [[1.0, 0.0], [], [0.0]], [[1.0, 0.0], [], [0.5]], [*"bdd"])


def test_the_oracle_and_the_sizes() -> None:
    assert oracle(LISTS) == [1, 0, 0]
    found = described(LISTS, LISTS)["test"]
    assert found == {
        "inputs": 3, "without candidates": 1, "mean length": 1.0, "with the true output": 1 / 3,
    }  # fmt: skip


def test_against_the_one_best() -> None:
    """Six better, one worse, one neither: 2 (1 + 7) / 2^7."""
    costs = [(1.0, 0.0)] * 6 + [(0.0, 0.5), (1.0, 1.0)]
    assert against_one_best({"costs": costs}) == [6, 1, "0.12"]
    assert against_one_best({"costs": []}) == [0, 0, "1"]
    assert against_one_best({"costs": [(1.0, 0.0)] * 3000}) == [3000, 0, "< 1e-300"]
    assert against_one_best({}) == [None] * 3
