"""Similarities L(y, y') of classes (thesis 4.3.1), [k, k] with a unit diagonal.

Each is a positive semi-definite matrix, so that any Lambda with Lambda Lambda' = L makes the same
machine: features of thousands of characters cost what k features do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.class_descriptions.queries import Part, Queries
from jaxstruct.multiclass import description_features, similarity_features, taxonomy_features

PARTS = ("tree", "words", "characters", "latent", "centroids")
METHODS: Mapping[str, tuple[str, ...]] = {
    "flat": (),
    "tree": ("tree",),
    "words": ("words",),
    "characters": ("characters",),
    "latent": ("latent",),
    "centroids": ("centroids",),
    "tree + words": ("tree", "words"),
    "all": PARTS,
}
"""Method -> the similarities that it averages."""
OF_EXAMPLES = ("centroids",)
"""Similarities that need examples of every class."""


def cosines(rows: np.ndarray) -> np.ndarray:
    """Cosines of rows [k, k]; 0 beside a row of zeros, 1 on the diagonal."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    table = unit @ unit.T
    np.fill_diagonal(table, 1.0)
    return table


def similarities_of(queries: Queries, drawn: Part) -> dict[str, np.ndarray]:
    """Every similarity of PARTS.

    tree: features of the taxonomy (4.19). words, characters: tf-idf of the names' words and of
    2 to 4 neighbouring characters in a word. latent: the names' words as a singular value
    decomposition of all training queries, without their labels, places them. centroids: mean
    vectors of the training examples drawn; a class without any is like no other.
    """
    k = len(queries.names)
    characters = {"analyzer": "char_wb", "ngram_range": (2, 4)}
    means = np.zeros((k, drawn.x.shape[1]))
    for y in np.unique(drawn.y):
        means[y] = np.asarray(drawn.x[drawn.y == y].mean(axis=0))
    return {
        "tree": cosines(taxonomy_features(queries.taxonomy)),
        "words": cosines(description_features(queries.names, 0.0)),
        "characters": cosines(description_features(queries.names, 0.0, characters)),
        "latent": cosines(queries.latent_names),
        "centroids": cosines(means),
    }


def output_features(
    parts: Sequence[str], similarities: Mapping[str, np.ndarray], identity_weight: float
) -> np.ndarray:
    """Lambda [k, k] with Lambda Lambda' = (mean of the parts + g^2 I) / (1 + g^2), g the weight.

    The identity where there are no parts. The corollary 4 of the thesis: with g > 0 this moves no
    function in or out of reach, only its norm.
    """
    k = len(next(iter(similarities.values())))
    if not parts:
        return np.eye(k)
    mean = sum(similarities[part] for part in parts) / len(parts)
    g = identity_weight**2
    features = similarity_features((mean + g * np.eye(k)) / (1 + g))
    return np.hstack([features, np.zeros((k, k - features.shape[1]))])
