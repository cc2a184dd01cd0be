"""Scores of rows of features under one vector of weights."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree, SparseFeatures


def feature_scores(weights: Array, features: PyTree) -> Array:
    """[..] <w, Phi> of rows [.., d], or of `SparseFeatures` whose leaves are [.., m]; w is [d]."""
    if isinstance(features, SparseFeatures):
        entries = weights.at[features.indices].get(mode="fill", fill_value=0)
        return jnp.sum(features.values * entries, axis=-1)
    return features @ weights
