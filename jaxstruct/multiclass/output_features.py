"""Output features Lambda(y): one row for every class, [k, p] float64 (thesis 4.1 and 4.3.1).

With Psi(x, y) = Phi(x) (x) Lambda(y) the joint kernel is K(x, x') L(y, y') with
L = Lambda Lambda' (proposition 21): features shared by classes carry learning from one to another.
The bound of proposition 23, ||Psi(x, y) - Psi(x, y')||^2 <= 2 R^2 S^2, needs L >= 0 entry by
entry, as taxonomies and descriptions have it; for similarities below zero it is 4 R^2 S^2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxstruct.core.checks import as_list, check_flag, check_record, checked_number, text_of
from jaxstruct.core.spec import array, refuse
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.multiclass.taxonomy import Taxonomy, ancestors_or_self, node_depths


def _named_weights(node_weights: Mapping[str, float], names: Sequence[str]) -> list[float]:
    missing = [name for name in names if name not in node_weights]
    unknown = [name for name in node_weights if name not in set(names)]
    if missing or unknown:
        raise ValueError(
            f"node_weights: expected one weight for each of {len(names)} nodes; missing "
            f"{missing[:5]}, not in the taxonomy {unknown[:5]}"
        )
    return [node_weights[name] for name in names]


def _node_weights(taxonomy: Taxonomy, node_weights: Any) -> np.ndarray:
    check_record("taxonomy", taxonomy, Taxonomy, "taxonomy_from_parents")
    if node_weights is None:
        return np.ones(len(taxonomy.names))
    if callable(node_weights):
        node_weights = [node_weights(int(depth)) for depth in node_depths(taxonomy)]
    elif isinstance(node_weights, Mapping):
        node_weights = _named_weights(node_weights, taxonomy.names)
    names = taxonomy.names
    beta = array("node_weights", node_weights, "nodes", "numbers", {"nodes": len(names)})

    def expected(node: int) -> str:
        return (
            f"a finite number > 0 for node {names[node]!r}: leave the node out of the taxonomy to "
            "do without it"
        )

    refuse("node_weights", beta, ~(np.isfinite(beta) & (beta > 0)), expected)
    return beta.astype(np.float64)


def taxonomy_features(
    taxonomy: Taxonomy,
    node_weights: Mapping[str, float] | Sequence[float] | Callable[[int], float] | None = None,
    normalise: bool = False,
) -> np.ndarray:
    """Returns beta_z lambda_z(y), lambda_z(y) = 1 if z is y or above y, else 0 (4.19).

    Args:
      taxonomy: k classes among its nodes.
      node_weights: beta_z > 0 as {name: beta} for all nodes, an array [nodes], or a function of a
        node's depth (0 at the top, along the longest chain); None for all 1.
      normalise: divide every row by its norm, so that ||Lambda(y)|| = 1 for classes of any depth.

    Returns:
      [k, nodes] float64, columns in the order of `taxonomy.names`; for a flat taxonomy
      (Z = Y) the canonical features.
    """
    check_flag("normalise", normalise)
    features = ancestors_or_self(taxonomy) * _node_weights(taxonomy, node_weights)[None, :]
    if normalise:
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
    return features


def _tf_idf(texts: Sequence[str], options: Mapping[str, Any]) -> np.ndarray:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise ImportError(
            "description_features needs scikit-learn; install the extra jaxstruct[experiments]"
        ) from error
    try:
        return TfidfVectorizer(**{"dtype": np.float64, **options}).fit_transform(texts).toarray()
    except TypeError as error:
        raise ValueError(f"vectoriser_options: scikit-learn refuses them: {error}") from error
    except ValueError as error:
        raise ValueError(f"texts: no terms could be made of them: {error}") from error


def description_features(
    texts: Sequence[str],
    identity_weight: float = 1.0,
    vectoriser_options: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """Returns the tf-idf of class descriptions beside the class identity (thesis 4.3.1).

    Lambda(y) = (tfidf(text_y)', identity_weight Lambda^c(y)')'. Rows of tf-idf have norm 1, so
    <Lambda(y), Lambda(y')> of two classes is the cosine of their descriptions, and L(y, y) =
    1 + identity_weight^2. A text without a known term has zeros in place of its tf-idf.

    Args:
      texts: k descriptions in the order of the classes.
      identity_weight: >= 0; 0 leaves the identity columns out, and classes with proportional
        descriptions can then not be distinguished.
      vectoriser_options: passed to scikit-learn's TfidfVectorizer (stop_words, ngram_range, ...).

    Returns:
      [k, terms + k] float64 ([k, terms] where identity_weight = 0), terms in alphabetical order.

    Raises:
      ImportError: scikit-learn is not installed.
      ValueError: texts hold something else than str or no terms, identity_weight is negative, or
        it is 0 and a description is empty.
    """
    expected = "a non-empty sequence of str, one for each class"
    texts = as_list("texts", texts, expected)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts must be {expected}, got {text_of(texts)}")
    identity_weight = checked_number("identity_weight", identity_weight)
    if not isinstance(vectoriser_options, (Mapping, type(None))):
        raise ValueError(
            "vectoriser_options must be a mapping of option names, got "
            f"{text_of(vectoriser_options)}"
        )
    features = _tf_idf(texts, vectoriser_options or {})
    if identity_weight > 0:
        return np.hstack([features, identity_weight * np.eye(len(texts))])
    empty = np.flatnonzero(~features.any(axis=1))
    if empty.size:
        raise ValueError(
            f"texts[{empty[0]}]: got {texts[empty[0]]!r}, which holds no term, so the class has no "
            "feature; describe it, or set identity_weight > 0"
        )
    return features


def similarity_features(similarity: ArrayLike, tolerance: float = 1e-8) -> np.ndarray:
    """Returns Lambda with Lambda Lambda' = L for a given similarity L of classes (thesis 4.3.1).

    Lambda = U sqrt(D) of the eigendecomposition L = U D U'. Columns whose eigenvalue is rounding
    (<= k eps max D) are left out; the largest entry of every column is positive.

    Args:
      similarity: [k, k], symmetric, positive semi-definite.
      tolerance: relative size of negative eigenvalues, which become 0.

    Returns:
      [k, p] float64, p = the rank of L (1 for L = 0), largest eigenvalue first.

    Raises:
      ValueError: L is not a kernel matrix; the message has its smallest eigenvalue.
    """
    check_positive_semidefinite(similarity, "similarity", tolerance)
    matrix = np.asarray(similarity, np.float64)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    keep = values > len(values) * np.finfo(np.float64).eps * max(values[0], 0.0)
    keep[0] = True
    features = vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0.0))[None, :]
    largest = features[np.abs(features).argmax(axis=0), np.arange(features.shape[1])]
    return features * np.where(largest < 0, -1.0, 1.0)[None, :]


def class_kernel(features: ArrayLike) -> np.ndarray:
    """Returns L(y, y') = <Lambda(y), Lambda(y')> for all classes, [k, k] of Lambda [k, p]."""
    rows = array("features", features, "k p", "numbers").astype(np.float64)
    return rows @ rows.T
