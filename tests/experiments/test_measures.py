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
    """One label of a tenth of 240 rows, and one of half of them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 4)).astype(np.float32)
    noisy = x + 0.4 * random.normal(size=x.shape)
    y = np.stack([noisy[:, 0] > 1.4, noisy[:, 1] > 0], axis=1).astype(np.int32)
    return LabelSets(x[:160], y[:160], x[160:], y[160:])


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Iterator[Options]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "load_label_sets", drawn)
        folder = str(tmp_path_factory.mktemp("measures"))
        yield Options(output=folder, data=("scene",), splits=1, c=("100",), apart=False, **QUIET)


def test_rare_labels_are_learned_in_every_way(outcome: common.Outcome) -> None:
    rows = {(row["measure"], row["method"]): row for row in outcome.numbers["rows"]}
    assert [*rows] == [("f1", method) for method in measures.METHODS] + [
        ("precision", method) for method in measures.METHODS if method != "threshold"
    ]
    assert all(row["label"] == 0 and row["value"] > 50 for row in rows.values())
    assert rows["f1", "measure"]["status"] == "CONVERGED"
    assert rows["f1", "measure"]["value"] > rows["f1", "plain"]["value"] - 10
    assert 0 < rows["f1", "threshold"]["share"] < 0.5
