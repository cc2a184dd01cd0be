"""McNemar's test against SciPy's binomial test and chi-square tail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from jaxstruct.evaluation.metrics import EXACT_BELOW, mcnemar
from tests.lib.refusals import refused


def make(only_a, only_b, both=3, neither=2):
    a = np.repeat([True, False, True, False], [only_a, only_b, both, neither])
    b = np.repeat([False, True, True, False], [only_a, only_b, both, neither])
    order = np.random.default_rng(0).permutation(len(a))
    return a[order], b[order]


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 5), (1, 8), (7, 7), (12, 3), (20, 4), (1, 0)])
def test_exact_against_scipy(only_a, only_b):
    result = mcnemar(*make(only_a, only_b))
    assert (result.only_a, result.only_b, result.exact) == (only_a, only_b, True)
    assert result.statistic == min(only_a, only_b)
    want = stats.binomtest(only_a, only_a + only_b, 0.5).pvalue
    np.testing.assert_allclose(result.p_value, want, rtol=1e-12)


@pytest.mark.parametrize(("only_a", "only_b"), [(25, 0), (30, 12), (40, 41), (20, 20), (900, 700)])
def test_chi_square_against_scipy(only_a, only_b):
    result = mcnemar(*make(only_a, only_b))
    assert not result.exact
    want = max(abs(only_a - only_b) - 1, 0) ** 2 / (only_a + only_b)
    np.testing.assert_allclose(result.statistic, want, rtol=1e-15)
    np.testing.assert_allclose(result.p_value, stats.chi2.sf(want, 1), rtol=1e-12)


def test_the_default_changes_at_25_discordant_examples():
    assert EXACT_BELOW == 25
    assert mcnemar(*make(12, 12)).exact and not mcnemar(*make(12, 13)).exact
    assert mcnemar(*make(12, 13), exact=True).exact and not mcnemar(*make(1, 2), exact=False).exact


def test_both_tests_agree_for_many_examples():
    exact = mcnemar(*make(1060, 940), exact=True)
    rough = mcnemar(*make(1060, 940), exact=False)
    np.testing.assert_allclose(exact.p_value, stats.binomtest(1060, 2000, 0.5).pvalue, rtol=1e-9)
    np.testing.assert_allclose(rough.p_value, exact.p_value, rtol=2e-2)


def test_swapping_the_classifiers_keeps_the_p_value():
    a, b = make(14, 5)
    assert mcnemar(a, b).p_value == mcnemar(b, a).p_value < 0.1


@pytest.mark.parametrize("exact", [None, True, False])
def test_no_discordant_example_says_nothing(exact):
    result = mcnemar(np.array([True, False]), np.array([True, False]), exact)
    assert result.p_value == 1 and result.statistic == 0


def test_errors():
    with refused("correct_b: got 1 examples, expected 2"):
        mcnemar(np.array([True, False]), np.array([True]))
    with refused("correct_a: got int64 .*expected bool"):
        mcnemar(np.array([1, 0]), np.array([True, False]))
    refused("correct_a: got bool of shape", mcnemar, np.zeros((2, 2), bool), np.zeros((2, 2), bool))
    refused("n >= 1", mcnemar, np.zeros(0, bool), np.zeros(0, bool))
