"""Iterated conditional modes: no change of a single node improves what it ends with."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from tests.graphs.random_graphs import cases, quick_jit, scores_of
from tests.lib.enumeration import check_alone

together = quick_jit(jax.vmap(conditional_modes))
pytestmark = pytest.mark.usefixtures("x64")


def test_no_single_change_improves() -> None:
    given = cases()
    found = together(given.batch)
    given.check_labels(found.labels, found.score, 1e-12)
    assert (np.asarray(found.score) <= given.best + 1e-12).all()
    for case, own, score in zip(
        given.cases, np.asarray(found.labels), np.asarray(found.score), strict=True
    ):
        V, S = case.graph.nodes.shape
        changed = np.repeat(own[None, :V], V * S, axis=0)
        changed[np.arange(V * S), np.arange(V).repeat(S)] = np.tile(np.arange(S), V)
        assert score >= scores_of(case.graph, np.minimum(changed, S - 1)).max() - 1e-5
    apart = given.kinds == "apart"
    np.testing.assert_allclose(np.asarray(found.score)[apart], given.best[apart], atol=1e-12)
    assert 0.8 < np.mean(given.best - np.asarray(found.score) < 1e-6) < 1


def test_alone_as_in_a_batch() -> None:
    given = cases()
    check_alone(quick_jit(conditional_modes), (given.batch,), together(given.batch), [350], 1e-12)


@pytest.mark.thorough
def test_in_float32() -> None:
    """Rounding may end elsewhere, never above the best nor where a change would gain."""
    given = cases()
    found = together(given.cast("float32"))
    given.check_labels(found.labels, found.score, 1e-5)
    score = np.asarray(found.score, float)
    assert (score <= given.best + 1e-5 * np.maximum(1, np.abs(given.best))).all()
    apart = given.kinds == "apart"
    np.testing.assert_allclose(score[apart], given.best[apart], rtol=1e-5, atol=1e-5)
    assert 0.8 < np.mean(given.best[score > -np.inf] - score[score > -np.inf] < 1e-4) < 1
