"""The machines of the tables."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.named_entities.command import Options
from experiments.tasks import taggers as methods
from tests.experiments.named_entities.cases import corpora


def test_kernel_rows_are_visited_in_small_groups(sentences):
    sparse, kernel = corpora(sentences)
    options = Options(capacity=64, solver_seed=3)
    assert methods.settings_of(options, sparse) == options.settings()
    found = methods.settings_of(options, kernel)
    assert (found.group, found.oracle_batch, found.cached_sweeps) == (8, 8, 1)
    assert (found.capacity, found.seed) == (64, 3)


@pytest.mark.parametrize(
    "word, kind",
    [("1998", "digits"), ("...", "signs"), ("EFE", "capitals"), ("Ana", "initial"),
     ("A", "initial"), ("va", "small")],
)  # fmt: skip
def test_spelling(word, kind):
    assert methods.spelling(word) == kind


def test_c_is_divided_by_the_sentences_of_the_outer_fold(sentences):
    sparse, _ = corpora(sentences)
    fold = methods.fold_of(sparse, np.arange(4, 16), np.arange(4))
    inner = next(methods.inner_folds(fold, 2, 0))
    assert methods.ratio_of("1/n", fold) == methods.ratio_of("1/n", inner) == 1 / 12
    assert methods.ratio_of("0.1", inner) == 0.1
