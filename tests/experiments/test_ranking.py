"""experiments.ranking on drawn queries, in this process: table, picture, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import ranking
from experiments.lib import common
from experiments.ranking import Options
from tests.experiments.corpora.packed import lambdarank
from tests.experiments.scripts import QUIET


def drawn(random, n: int) -> tuple[str, str]:
    """(documents, numbers of documents) of n queries in the form of the corpus."""
    lines, sizes = [], random.integers(3, 8, n)
    for _ in range(sizes.sum()):
        x = random.normal(size=3)
        relevance = int(np.digitize(x[0] + 0.3 * random.normal(), [-0.5, 0.5, 1.5]))
        lines.append(
            f"{relevance} " + " ".join(f"{j + 1}:{value:.4f}" for j, value in enumerate(x))
        )
    return "\n".join(lines) + "\n", "\n".join(map(str, sizes)) + "\n"


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    folder, random = tmp_path_factory.mktemp("ranking"), np.random.default_rng(0)
    train, test = drawn(random, 30), drawn(random, 20)
    parts = {"rank.train": train[0], "rank.train.query": train[1], "rank.test": test[0]}
    path = lambdarank(folder / "queries", **parts, **{"rank.test.query": test[1]})
    return Options(
        path=str(path), output=str(folder), methods=("ndcg", "pairs"), splits=2, folds=2,
        c_over_n=("0.1",), tolerance=1e-2, apart=False, **QUIET,
    )  # fmt: skip


def test_both_machines_rank(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [(row["method"], row["draw"]) for row in rows] == [
        ("ndcg", 0), ("ndcg", 1), ("pairs", 0), ("pairs", 1),
    ]  # fmt: skip
    for row in rows:
        assert 90 < row["ndcg"][9] <= 100 and 80 < row["map"] <= 100
    assert rows[0]["status"] == "CONVERGED" and rows[2]["chosen"] in ranking.C_OF_PAIRS
