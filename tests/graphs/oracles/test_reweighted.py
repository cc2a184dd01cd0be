"""Tree-reweighted message passing against enumeration: value <= max F <= bound, and above log Z."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.graphs.oracles.reweighted import Reweighted, log_partition_bound, reweighted
from tests.graphs.random_graphs import Cases, cases, quick_jit
from tests.lib.enumeration import check_alone
from tests.lib.refusals import refused

together = quick_jit(jax.vmap(reweighted, (0, None, None)))
bounds = quick_jit(jax.vmap(log_partition_bound, (0, None)))
pytestmark = pytest.mark.usefixtures("x64")


def _check(given: Cases, found: Reweighted, tolerance: float) -> None:
    value, bound = np.asarray(found.value, float), np.asarray(found.bound, float)
    room = tolerance * np.maximum(1, np.abs(given.best))
    allowed = given.best > -np.inf
    assert (value[allowed] <= (given.best + room)[allowed]).all()
    assert (bound[allowed] >= (given.best - room)[allowed]).all()
    assert (value[~allowed] == -np.inf).all()
    given.check_labels(found.labels, value, tolerance)
    exact = np.isin(given.kinds, ("tree", "apart")) & allowed
    np.testing.assert_allclose(bound[exact], given.best[exact], rtol=tolerance, atol=1e-4)
    assert (given.best - value <= 1e-4)[exact].all()


def test_both_sides_of_thousands_of_graphs() -> None:
    given = cases()
    found = together(given.batch, 100, 1e-9)
    _check(given, found, 1e-9)
    closed = np.asarray(found.bound - found.value) < 1e-6
    assert closed.mean() > 0.95 and not closed.all()  # some relaxations have no integral optimum
    assert (np.asarray(found.passes) >= 1).all()


def test_the_bound_never_rises() -> None:
    given, last = cases(), np.inf
    for passes in (1, 2, 3, 5, 10, 30):
        bound = np.asarray(together(given.batch, passes, 0.0).bound)
        assert (bound <= last + 1e-12).all()
        last = bound


@pytest.mark.thorough
def test_in_float32() -> None:
    given = cases()
    _check(given, together(given.cast("float32"), 60, 1e-6), 2e-5)


@pytest.mark.thorough
def test_alone_as_in_a_batch() -> None:
    """A graph stops by itself, whatever else is in the batch."""
    given = cases()
    batch = jax.device_get(together(given.batch, 100, 1e-6))
    check_alone(quick_jit(reweighted), (given.batch,), batch, (0, 201, 402, 1001), 1e-12)


def test_log_partition_is_bounded() -> None:
    given = cases()
    found = np.asarray(bounds(given.batch, 50))
    low = np.where(given.best > -np.inf, given.log_partition - 1e-9, -np.inf)
    assert (found >= low).all() and not np.isnan(found).any()
    apart = given.kinds == "apart"
    np.testing.assert_allclose(found[apart], given.log_partition[apart], atol=1e-9)
    loose = (found - given.log_partition)[given.kinds == "tree"]
    assert loose.mean() < 0.02


def test_no_derivative_and_no_passes_are_refused() -> None:
    own = jax.tree.map(lambda leaf: leaf[0], cases().batch)
    refused("passes must be at least 1, got 0", reweighted, own, 0)
    slope = jax.grad(lambda nodes: reweighted(own._replace(nodes=nodes)).bound)
    refused(
        "has no derivative in JAX", jax.eval_shape, slope, own.nodes, error=TypeError
    )  # tracing is enough
