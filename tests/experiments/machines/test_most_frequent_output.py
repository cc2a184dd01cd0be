"""The most frequent output, its ties and what is refused."""

from __future__ import annotations

import pytest

from experiments.machines.most_frequent_output import most_frequent_output
from tests.lib.refusals import refused


def test_it_is_where_the_commonest_output_first_occurs() -> None:
    assert most_frequent_output(["a", "bc", "d", "bc"]) == 1
    assert most_frequent_output([(1, 2), (0,), (0,)]) == 1


def test_of_equals_the_first_one() -> None:
    assert most_frequent_output([5, 3, 3, 5]) == 0


@pytest.mark.parametrize(
    ("outputs", "message"),
    [([], "got none"), ([[1], [2]], "outputs must be hashable"), ("ab", "got 'ab'")],
)
def test_what_does_not_fit_is_refused(outputs, message) -> None:
    refused(message, most_frequent_output, outputs)
