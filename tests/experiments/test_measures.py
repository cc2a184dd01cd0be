"""experiments.measures on drawn rows, in this process: tables and curves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from experiments import measures
from experiments.corpora.multilabel import LabelSets
from experiments.lib import common
from experiments.measures import Options
from tests.experiments.scripts import QUIET


def drawn(_: str) -> LabelSets:
    """One label of a tenth of 600 rows, and one of half of them.

    A third trains: as many as in `tests/estimators/test_rankers.py`, whose programs serve them.
    """
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 4)).astype(np.float32)
    noisy = x + 0.3 * random.normal(size=x.shape)
    y = np.stack([noisy[:, 0] > 1.4, noisy[:, 1] > 0], axis=1).astype(np.int32)
    return LabelSets(x[:200], y[:200], x[200:], y[200:])


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Iterator[Options]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "load_label_sets", drawn)
        folder = str(tmp_path_factory.mktemp("measures"))
        yield Options(
            output=folder, data=("scene",), measures=("f1",), splits=1, c=("100",), apart=False,
            **QUIET,
        )  # fmt: skip


def test_rare_labels_are_learned_in_every_way(outcome: common.Outcome) -> None:
    rows = {(row["measure"], row["method"]): row for row in outcome.numbers["rows"]}
    assert [*rows] == [("f1", method) for method in measures.METHODS]
    assert all(row["label"] == 0 and row["value"] > 50 for row in rows.values())
    assert rows["f1", "measure"]["status"] == "CONVERGED"
    assert rows["f1", "measure"]["value"] > rows["f1", "plain"]["value"] - 10
    assert 0 < rows["f1", "threshold"]["share"] < 0.5
    machine = measures._machine(Options(), "precision", "measure", measures.Choice(30.0), 3)
    assert (machine.loss, machine.at, machine.C) == ("precision_at", 3, 30.0)


def test_precision_is_of_the_largest_scores() -> None:
    """One of the two largest is right, and of the two that tie for the third place half a one."""
    y, scores = np.array([1, 0, 1, 0, 1]), np.array([3.0, 2.0, 1.0, 1.0, 0.0])
    assert measures._value("precision", y, scores, 0.0, 3) == pytest.approx(100 * 1.5 / 3)
