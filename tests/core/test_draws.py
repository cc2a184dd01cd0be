"""Draws by Gumbel noise: the tail is fine enough, and what is forbidden is never drawn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.scores import draw, drawn, noise
from tests.lib.enumeration import pearson


def test_the_largest_of_four_millions_are_all_different():
    """So that none of as many equal alternatives is preferred, and no rare one is left out."""
    found = np.sort(np.asarray(noise(jax.random.key(0), (2**22,), jnp.float32)))[-64:]
    assert np.isfinite(found).all() and len(set(found.tolist())) == 64


def test_forbidden_places_are_never_drawn():
    random = np.random.default_rng(8)
    logs = random.uniform(-20, 0, (30, 4000)).astype(np.float32)
    logs[random.random(logs.shape) < 0.3] = -np.inf
    own = noise(jax.random.key(1), logs.shape, jnp.float32)
    places = np.asarray(drawn(jnp.asarray(logs), own))
    assert np.isfinite(logs[places, np.arange(4000)]).all()
    assert int(draw(jax.random.key(2), jnp.full(3, -jnp.inf))) == 0


def test_draws_have_the_probabilities_whatever_the_scale():
    logs = jnp.asarray([-1000.0, -1001, -1002, -1007, -1009])
    keys = jax.random.split(jax.random.key(3), 2**18)
    places = np.asarray(jax.vmap(draw, (0, None))(keys, logs))
    p = np.exp(np.asarray(logs, float) + 1000)
    statistic, degrees = pearson(np.bincount(places, minlength=5), len(keys) * p / p.sum())
    assert degrees == 4 and statistic < 24  # chi squared of 4: beyond it 1e-4
