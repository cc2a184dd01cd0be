"""Other people's solvers get our data and our objective, whole and unchanged."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import scipy.sparse

from experiments.lib.peers import crf_trainer, linear_svc, sparse_matrix
from experiments.tasks.token_features import FeatureOptions, token_features
from jaxstruct import fit, from_scipy
from jaxstruct.data.conll import Sentence
from jaxstruct.multiclass.structure import multiclass

SENTENCES = (
    Sentence(("Ana", "vive", "en", "Madrid", "."), (), ("B-PER", "O", "O", "B-LOC", "O")),
    Sentence(("Luis", "llega", "."), (), ("B-PER", "O", "O")),
)


def test_a_sparse_matrix_is_the_dense_one():
    random = np.random.default_rng(0)
    x = random.normal(size=(7, 6)) * (random.random((7, 6)) < 0.5)
    x[3] = 0  # a row without features
    for width in (6, 9):
        matrix = sparse_matrix(from_scipy(scipy.sparse.csr_matrix(x)), width)
        assert matrix.dtype == np.float64 and matrix.nnz == np.count_nonzero(x)
        np.testing.assert_array_equal(matrix.toarray(), np.pad(x, ((0, 0), (0, width - 6))))


def _overlapping(n=16, d=5, k=4):
    """Classes that no w parts: (x [n, d], y [n]), with a mean far from 0 for a bias to catch."""
    random = np.random.default_rng(1)
    y = np.arange(n, dtype=np.int32) % k
    return random.normal(size=(n, d)) + np.eye(k, d)[y] + 0.5, y


def _objective(rows, x, y, C):
    """1/2 |w|^2 + C sum_i max_y (Delta + <w_y - w_{y_i}, x_i>), Delta the zero-one loss."""
    scores = x @ rows.T
    own = scores[np.arange(len(y)), y]
    slack = np.max(scores + (np.arange(len(rows)) != y[:, None]) - own[:, None], axis=1)
    return 0.5 * np.sum(rows**2) + C * np.sum(slack)


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_linear_svc_has_the_optimum_of_our_objective(x64, C):
    """Its C is ours divided by n."""
    x, y = _overlapping()
    machine = linear_svc(C, 1e-10).fit(x, y)
    problem = multiclass(5, 4, dtype="float64")
    ours = fit(problem, x, y, "svm1_margin", C * len(y), tolerance=1e-8)
    theirs = _objective(machine.coef_, x, y, C)
    assert theirs == pytest.approx(ours.primal, rel=1e-6)
    np.testing.assert_allclose(machine.coef_.T, ours.weights["weights"], rtol=0, atol=2e-3)
    assert not np.any(machine.intercept_)
    assert theirs < 0.999 * _objective(linear_svc(0.5 * C, 1e-10).fit(x, y).coef_, x, y, C)


class _Recorder:
    """Stands for pycrfsuite.Trainer, which not every machine has: keeps what it is given."""

    def __init__(self, algorithm, verbose):
        self.algorithm, self.read, self.params = algorithm, [], {}

    def set_params(self, params):
        self.params |= params

    def append(self, features, labels):
        self.read.append((features, labels))


def test_crfsuite_reads_every_sentence_and_its_penalties(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycrfsuite", types.SimpleNamespace(Trainer=_Recorder))
    features = token_features(SENTENCES, FeatureOptions(affixes=2))
    trainer = crf_trainer(features, [each.labels for each in SENTENCES], 0.3)
    assert trainer.algorithm == "lbfgs" and trainer.params == {"c1": 0.0, "c2": 0.3}
    assert trainer.read == [(f, s.labels) for f, s in zip(features, SENTENCES, strict=True)]
