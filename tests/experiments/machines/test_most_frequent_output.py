"""The most frequent output and its ties."""

from __future__ import annotations

from experiments.machines.most_frequent_output import most_frequent_output


def test_it_is_where_the_commonest_output_first_occurs() -> None:
    assert most_frequent_output(["a", "bc", "d", "bc"]) == 1
    assert most_frequent_output([(1, 2), (0,), (0,)]) == 1


def test_of_equals_the_first_one() -> None:
    assert most_frequent_output([5, 3, 3, 5]) == 0
