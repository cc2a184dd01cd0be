"""`statistics.oracle_calls` beside a counter inside an oracle of one's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Model, Oracles, Settings, fit, make_problem
from jaxstruct.solvers.out_of_core.fit_in_blocks import fit_in_blocks
from tests.solvers.cases import decode, score

K = 5
GROWN = Settings(checked_examples=0, variant="subspace")
ran = [0]


def _count(_: np.ndarray) -> None:
    ran[0] += 1


def _loss(y_true: jax.Array, y: jax.Array) -> jax.Array:
    return (y_true != y).astype(jnp.float32)


def _augmented(theta: jax.Array, y_true: jax.Array, scale: jax.Array) -> jax.Array:
    jax.debug.callback(_count, theta[0])
    return decode(theta + scale * (jnp.arange(K) != y_true))


MODEL = Model(lambda w, x: x @ w, score, decode, _loss)
ORACLES = Oracles(loss_augmented_decode=_augmented)
EXACT = make_problem(jnp.zeros((4, K)), MODEL, ORACLES)


def counted(train, n, problem=EXACT, **options):
    """(a training's statistics, how often the oracle ran in it)."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, 4)).astype(np.float32)
    y = np.argmax(x @ random.normal(size=(4, K)) + random.normal(size=(n, K)), axis=1)
    ran[0] = 0
    found = train(problem, x, y.astype(np.int32), C=10.0, **options)
    jax.effects_barrier()
    return found.statistics, ran[0]


@pytest.mark.parametrize(
    "train, options",
    [
        (fit, {"settings": GROWN}),
        (fit, {"settings": GROWN._replace(variant="full")}),
        (fit, {"settings": GROWN._replace(certify_every=2, cached_sweeps=1), "tolerance": 0.01}),
        (fit_in_blocks, {"settings": GROWN, "blocks": 2}),
    ],
)
def test_what_is_counted_is_what_runs(train, options):
    """Whole batches: every call of every pass. Else rows of padding run too: 128 for 100."""
    statistics, calls = counted(train, 64, **options)
    assert statistics.oracle_calls == calls > 0
    if options.get("tolerance"):
        statistics, calls = counted(train, 100, **options)
        assert statistics.oracle_calls * 128 == calls * 100
