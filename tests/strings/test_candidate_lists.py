"""Gen(x): numbers and targets."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from jaxstruct.strings.candidate_lists import number_candidates
from tests.lib.refusals import refused


def hamming(a: str, b: str) -> float:
    return sum(x != y for x, y in zip(a, b, strict=True))


LISTS, TRUE = [["ab", "bb"], ["bb", "aa", "bb"], ["ba"]], ["bb", "ab", "ba"]


def test_shared_numbers_name_outputs() -> None:
    found = number_candidates(LISTS, TRUE, missing="add", table=["aa", "zz"])
    assert found.outputs == ("aa", "zz", "ab", "bb", "ba")
    assert [own.tolist() for own in found.numbers] == [[2, 3], [3, 0, 2], [4]]
    assert [found.outputs[number] for number in found.targets] == TRUE
    assert found.present.tolist() == [True, False, True]


def test_the_best_candidate_stands_for_a_missing_output() -> None:
    """Numbers by list: every candidate has its own, what comes again is dropped."""
    found = number_candidates(LISTS, TRUE, missing="best", loss=hamming, shared=False)
    assert found.outputs == ("ab", "bb", "bb", "aa", "ba")
    assert found.targets.tolist() == [1, 2, 4]  # of two equally good ones the first
    assert [own.tolist() for own in found.numbers] == [[0, 1], [2, 3], [4]]
    unknown = number_candidates(LISTS)
    assert unknown.targets is None and unknown.present is None
    assert len(unknown.outputs) == len(set(unknown.outputs)) == 4


BAD: dict[str, tuple[Callable, str]] = {
    "missing": (
        lambda: number_candidates(LISTS, TRUE),
        "true_outputs[1] is 'ab', which lists[1] lacks (1 such)",
    ),
    "empty": (lambda: number_candidates([["a"], []]), "lists[1] has no candidate"),
    "lists of lists": (lambda: number_candidates([[[1]]]), "lists[0] must hold hashable outputs"),
    "no loss": (lambda: number_candidates(LISTS, TRUE, missing="best"), "needs loss, a function"),
    "choice": (lambda: number_candidates(LISTS, TRUE, missing="drop"), "missing is 'drop'"),
    "count": (lambda: number_candidates(LISTS, TRUE[:2]), "of n = 3 lists, got 2"),
    "table": (lambda: number_candidates(LISTS, table=["a"], shared=False), "shared numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_one_line(name: str) -> None:
    call, message = BAD[name]
    refused(re.escape(message), call)
