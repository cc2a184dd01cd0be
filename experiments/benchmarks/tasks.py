"""The trainings that are measured: what `fit` gets, and a peer on the same task where there is one.

A task prepares its data before the clock starts. Every one is svm1_margin with default settings.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.benchmarks import generated
from experiments.lib import common
from jaxstruct import Buckets, Problem
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.data.digits import load_digits_split
from jaxstruct.data.length_buckets import (
    assign_buckets,
    bucket_lengths,
    pad_dense,
    pad_labels,
)
from jaxstruct.data.ocr_letters import load_ocr_letters
from jaxstruct.multiclass import multiclass

FEATURES = 20_000
"""Of a token of generated sentences."""


class Training(NamedTuple):
    """What one `fit` gets. n: examples. peer: trains a peer, () -> None, or None."""

    problem: Problem
    inputs: PyTree
    outputs: PyTree
    C: float
    n: int
    peer: Callable[[], Any] | None = None


class Task(NamedTuple):
    """A row of the table. size: what `prepare` is called with. peer: its name."""

    prepare: Callable[[int], Training]
    title: str
    size: int = 0
    peer: str = ""


def _linear_svc(inputs: Any, labels: np.ndarray, C: float) -> Callable[[], Any]:
    from sklearn.svm import LinearSVC

    machine = LinearSVC(multi_class="crammer_singer", C=C, tol=0.01, fit_intercept=False)
    return lambda: machine.fit(inputs, labels)


def _csr(features: SparseFeatures, width: int) -> Any:
    from scipy.sparse import csr_matrix

    real = np.asarray(features.indices) < width
    rows = np.nonzero(real)[0]
    entries = np.asarray(features.values)[real], (rows, np.asarray(features.indices)[real])
    return csr_matrix(entries, shape=(real.shape[0], width))


def digits(tenths: int) -> Training:
    """scikit-learn's digits, C / n in tenths."""
    data = load_digits_split()
    x, y = data.train_x, data.train_y
    peer = _linear_svc(np.asarray(x, np.float64), y, tenths / 10)
    return Training(multiclass(64, 10), x, y, tenths / 10 * len(y), len(y), peer)


def texts(n: int) -> Training:
    """Generated texts of 20 classes, C / n = 1."""
    data = generated.texts(n)
    problem = multiclass(generated.WORDS, generated.CLASSES)
    peer = _linear_svc(_csr(data.features, generated.WORDS), data.classes, 1.0)
    return Training(problem, data.features, data.classes, float(n), n, peer)


def words(n: int) -> Training:
    """Handwritten words, fold 1 (or its first n), 26 letters of 128 pixels, C / n = 0.1."""
    corpus = load_ocr_letters()
    lengths = np.diff(corpus.offsets)
    train = np.flatnonzero(corpus.folds == 1)[: n or None]
    parts, outputs, index = [], [], []
    for bucket in assign_buckets(lengths[train], bucket_lengths(lengths[train])):
        rows = train[bucket.index]
        pixels = pad_dense(corpus.pixels, corpus.offsets, rows, bucket.length)
        parts.append(chain_inputs(pixels, lengths[rows]))
        outputs.append(pad_labels(corpus.letters, corpus.offsets, rows, bucket.length))
        index.append(bucket.index)
    x, y = Buckets(tuple(parts), tuple(index)), Buckets(tuple(outputs), tuple(index))
    return Training(chain(128, 26), x, y, 0.1 * len(train), len(train))


def spanish(n: int) -> Training:
    """The first n Spanish sentences (0: all), named entities, C / n = 0.1; CRFsuite beside."""
    from experiments.named_entities.model import prepare
    from jaxstruct.data.conll import load_conll2002
    from jaxstruct.data.token_features import FeatureOptions

    options = FeatureOptions(4, 1, False)
    train = load_conll2002("esp").train[: n or None]
    data = prepare(train, options, False, "float32", 6)
    peer = _crfsuite(train, options) if importlib.util.find_spec("pycrfsuite") else None
    inputs, outputs = data.corpus.inputs, data.corpus.outputs
    return Training(data.problem, inputs, outputs, 0.1 * len(train), len(train), peer)


def _crfsuite(sentences: Any, options: Any) -> Callable[[], Any]:
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    from jaxstruct.data.token_features import token_features

    trainer = pycrfsuite.Trainer(  # pyright: ignore[reportAttributeAccessIssue]
        algorithm="lbfgs", verbose=False
    )
    trainer.set_params({"c1": 0.0, "c2": 1.0})
    for sentence, features in zip(sentences, token_features(sentences, options), strict=True):
        trainer.append(features, sentence.labels)
    return lambda: trainer.train(str(Path(tempfile.mkdtemp()) / "model"))


def sentences(n: int) -> Training:
    """Generated sentences of 9 labels, C / n = 0.1."""
    data = generated.sentences(n, FEATURES)
    lengths, parts, outputs, index = np.diff(data.offsets), [], [], []
    for bucket in assign_buckets(lengths, bucket_lengths(lengths)):
        padded = pad_dense(data.features + 1, data.offsets, bucket.index, bucket.length)
        indices = np.where(padded > 0, padded - 1, FEATURES).astype(np.int32)
        features = SparseFeatures(indices, (padded > 0).astype(np.float32))
        parts.append(chain_inputs(features, lengths[bucket.index]))
        outputs.append(pad_labels(data.labels, data.offsets, bucket.index, bucket.length))
        index.append(bucket.index)
    x, y = Buckets(tuple(parts), tuple(index)), Buckets(tuple(outputs), tuple(index))
    return Training(chain(FEATURES, generated.LABELS), x, y, 0.1 * n, n)


def clinc150(_: int) -> Training:
    """The whole of CLINC150, C / n = 1."""
    from experiments.taxonomy.documents import clinc150 as load

    data = load(None)
    x, y = common.take_rows(data.inputs, data.train), data.labels[data.train]
    problem = multiclass(data.number_of_features, len(data.taxonomy.classes))
    peer = _linear_svc(_csr(x, data.number_of_features), y, 1.0)
    return Training(problem, x, y, float(len(y)), len(y), peer)


TASKS = {
    "digits": Task(digits, "digits, C/n = 0.1", 1, "LinearSVC"),
    "digits_large_C": Task(digits, "digits, C/n = 1", 10, "LinearSVC"),
    "texts": Task(texts, "2,000 texts, 20 classes", 2000, "LinearSVC"),
    "words": Task(words, "OCR words, fold 1"),
    "spanish": Task(spanish, "300 Spanish sentences", 300, "CRFsuite"),
    "sentences": Task(sentences, "1,000 generated sentences", 1000),
    "clinc150": Task(clinc150, "CLINC150, 150 classes", 0, "LinearSVC"),
    "spanish_whole": Task(spanish, "8,323 Spanish sentences", 0, "CRFsuite"),
}
