"""The machines of the tables."""

from __future__ import annotations

import pytest

from experiments.named_entities.command import Options
from experiments.tasks import taggers as methods
from tests.experiments.named_entities.cases import corpora


def test_kernel_rows_are_visited_in_small_groups(sentences):
    sparse, kernel = corpora(sentences)
    options = Options(capacity=64, seed=3)
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
