"""Other people's solvers, set up for our tasks: liblinear (through scikit-learn) and CRFsuite."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxstruct.core.types import SparseFeatures

if TYPE_CHECKING:
    import scipy.sparse

DIGITS_OPTIMA = {0.1: 29.9341439, 1.0: 100.6926605}
"""C' -> the optimum of SVM1 on scikit-learn's digits, the whole split of seed 0, to 1e-7.

From scikit-learn's LinearSVC(multi_class="crammer_singer", fit_intercept=False, tol=1e-9), its
weights put into the objective in float64.
"""


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


def crf_trainer(features: Iterable[Any], labels: Iterable[Sequence[str]], c2: float) -> Any:
    """A trainer of CRFsuite (L-BFGS, L2 penalty c2) that has read sequences; `train(path)`.

    Args:
      features: of each token of each sequence, names or mappings name -> value. labels: of each.

    Raises:
      ImportError: python-crfsuite is missing.
    """
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    trainer = pycrfsuite.Trainer(  # pyright: ignore[reportAttributeAccessIssue]
        algorithm="lbfgs", verbose=False
    )
    trainer.set_params({"c1": 0.0, "c2": c2})
    for own_features, own_labels in zip(features, labels, strict=True):
        trainer.append(own_features, own_labels)
    return trainer


def crf_tagger(trainer: Any) -> Any:
    """What a trainer of `crf_trainer` learns; `tag(features)`."""
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()  # pyright: ignore[reportAttributeAccessIssue]
        tagger.open_inmemory(Path(path).read_bytes())
    return tagger
