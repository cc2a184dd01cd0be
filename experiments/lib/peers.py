"""Other people's solvers, set up for our tasks: liblinear (through scikit-learn) and CRFsuite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxstruct.core.types import SparseFeatures

if TYPE_CHECKING:
    import scipy.sparse

    from jaxstruct.data.conll import Sentence
    from jaxstruct.data.token_features import FeatureOptions


def sparse_matrix(features: SparseFeatures, width: int) -> scipy.sparse.csr_matrix:
    """Ragged rows as a SciPy matrix of float64.

    Args:
      features: a store of n rows. width: columns.
    """
    import scipy.sparse

    indices, values = features
    entries = values.rows.astype(np.float64), indices.rows, indices.offsets
    return scipy.sparse.csr_matrix(entries, (len(indices), width))


def linear_svc(C: float, tolerance: float, seed: int = 0) -> Any:
    """An untrained LinearSVC of our objective: C sum_i xi_i, Crammer and Singer's margin, no bias.

    Args:
      C: our C / n. tolerance: LinearSVC's tol.
    """
    from sklearn.svm import LinearSVC

    return LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, C=C, tol=tolerance, max_iter=100_000,
        random_state=seed,
    )  # fmt: skip


def crf_trainer(sentences: Sequence[Sentence], options: FeatureOptions, c2: float) -> Any:
    """A trainer of CRFsuite (L-BFGS, L2 penalty c2) that has read the sentences; `train(path)`.

    Raises:
      ImportError: python-crfsuite is missing.
    """
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    from jaxstruct.data.token_features import token_features

    trainer = pycrfsuite.Trainer(  # pyright: ignore[reportAttributeAccessIssue]
        algorithm="lbfgs", verbose=False
    )
    trainer.set_params({"c1": 0.0, "c2": c2})
    for sentence, features in zip(sentences, token_features(sentences, options), strict=True):
        trainer.append(features, sentence.labels)
    return trainer
