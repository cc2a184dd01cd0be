"""The trainings that are measured: what `fit` gets, and a peer on the same task where there is one.

A task prepares its data before the clock starts. Every one is trained with default settings.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.lib.peers import crf_trainer, linear_svc, sparse_matrix
from experiments.tasks import generated
from jaxstruct import Problem, Ragged, Solution, take
from jaxstruct.alignments.homologues import homologue_search
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.data.digits import load_digits_split
from jaxstruct.data.homologues import LETTERS, generate_homologues
from jaxstruct.multiclass import multiclass
from jaxstruct.solvers.checkpoints.resuming import digest_of
from jaxstruct.trees import weighted_grammar

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
    formulation: str = "svm1_margin"


class Task(NamedTuple):
    """A row of the table.

    Fields:
      prepare: (size, dtype of the weights) -> the training. peer: its name.
    """

    prepare: Callable[[int, str], Training]
    title: str
    size: int = 0
    peer: str = ""


def _linear_svc(inputs: Any, labels: np.ndarray, C: float) -> Callable[[], Any]:
    machine = linear_svc(C, 0.01)
    return lambda: machine.fit(inputs, labels)


def digits(tenths: int, dtype: str = "float32") -> Training:
    """scikit-learn's digits, C / n in tenths."""
    data = load_digits_split()
    x, y = data.train_x, data.train_y
    peer = _linear_svc(np.asarray(x, np.float64), y, tenths / 10)
    return Training(multiclass(64, 10, dtype=dtype), x, y, tenths / 10 * len(y), len(y), peer)


def texts(n: int, dtype: str = "float32") -> Training:
    """Generated texts of 20 classes, C / n = 1."""
    data = generated.texts(n)
    problem = multiclass(generated.WORDS, generated.CLASSES, dtype=dtype)
    peer = _linear_svc(sparse_matrix(data.features, generated.WORDS), data.classes, 1.0)
    return Training(problem, data.features, data.classes, float(n), n, peer)


def words(n: int, dtype: str = "float32") -> Training:
    """The first n handwritten words of fold 1 (0: all), 26 letters of 128 pixels, C / n = 0.1."""
    from experiments.tasks import handwriting

    data = handwriting.load(None, dtype)
    train = handwriting.one_split(data.words, ("1",), 0).train[: n or None]
    x, y = take(data.inputs, train), take(data.outputs, train)
    return Training(chain(128, 26, dtype=dtype), x, y, 0.1 * len(train), len(train))


def spanish(n: int, dtype: str = "float32") -> Training:
    """The first n Spanish sentences (0: all), named entities, C / n = 0.1; CRFsuite beside."""
    from experiments.tasks.token_model import prepare
    from jaxstruct.data.conll import load_conll2002
    from jaxstruct.data.token_features import FeatureOptions

    options = FeatureOptions(4, 1, False)
    train = load_conll2002("esp").train[: n or None]
    data = prepare(train, options, False, dtype)
    peer = _crfsuite(train, options) if importlib.util.find_spec("pycrfsuite") else None
    inputs, outputs = data.corpus.inputs, data.corpus.outputs
    return Training(data.problem, inputs, outputs, 0.1 * len(train), len(train), peer)


def _crfsuite(sentences: Any, options: Any) -> Callable[[], Any]:
    trainer = crf_trainer(sentences, options, 1.0)

    def train() -> None:
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(str(Path(folder) / "model"))

    return train


def sentences(n: int, dtype: str = "float32") -> Training:
    """Generated sentences of 9 labels, C / n = 0.1."""
    data = generated.sentences(n, FEATURES)
    values = np.ones(data.features.shape, np.float32)
    features = SparseFeatures(
        Ragged(data.features, data.offsets, FEATURES), Ragged(values, data.offsets)
    )
    x, y = chain_inputs(features), Ragged(data.labels, data.offsets, -1)
    return Training(chain(FEATURES, generated.LABELS, dtype=dtype), x, y, 0.1 * n, n)


def clinc150(_: int, dtype: str = "float32") -> Training:
    """The whole of CLINC150, C / n = 1."""
    from experiments.tasks.documents import clinc150 as load

    data = load(None)
    x, y = take(data.inputs, data.train), data.labels[data.train]
    problem = multiclass(data.number_of_features, len(data.taxonomy.classes), dtype=dtype)
    peer = _linear_svc(sparse_matrix(x, data.number_of_features), y, 1.0)
    return Training(problem, x, y, float(len(y)), len(y), peer)


def gum(n: int, dtype: str = "float32") -> Training:
    """The first n short sentences of GUM (0: all), SVM2 for the zero-one loss, C / n = 0.1."""
    from experiments.tasks.parsing_options import Options
    from experiments.tasks.treebanks import load_treebank, prepare

    options = Options(corpus="gum", sentences=n)
    data = prepare(load_treebank(options), options)
    problem = weighted_grammar(data.grammar, loss="zero_one", longest=data.longest, dtype=dtype)
    count = len(data.train.trees)
    return Training(
        problem, data.train.inputs, data.outputs, 0.1 * count, count, formulation="svm2"
    )


def homologues(n: int, dtype: str = "float32") -> Training:
    """n examples of table 4: a native sequence and 11 candidates; SVM2, C / n = 0.1."""
    from experiments.tasks.homologues import as_examples

    data = generate_homologues(np.random.default_rng(0), n, padding="both")
    x, y = as_examples(data)
    return Training(homologue_search(LETTERS, dtype=dtype), x, y, 0.1 * n, n, formulation="svm2")


TASKS = {
    "digits": Task(digits, "digits, C/n = 0.1", 1, "LinearSVC"),
    "digits_large_C": Task(digits, "digits, C/n = 1", 10, "LinearSVC"),
    "texts": Task(texts, "2,000 texts, 20 classes", 2000, "LinearSVC"),
    "words": Task(words, "OCR words, fold 1"),
    "spanish": Task(spanish, "300 Spanish sentences", 300, "CRFsuite"),
    "sentences": Task(sentences, "1,000 generated sentences", 1000),
    "clinc150": Task(clinc150, "CLINC150, 150 classes", 0, "LinearSVC"),
    "gum": Task(gum, "GUM, short sentences"),
    "homologues": Task(homologues, "homologues of table 4", 80),
    "spanish_whole": Task(spanish, "8,323 Spanish sentences", 0, "CRFsuite"),
}

TIMES = ("seconds", "processor_seconds", "compile_seconds")
"""What of a trace no two runs share."""


def digest(solution: Solution) -> str:
    """The sha256 of all that a run ends with, but for its times."""
    trace = [getattr(solution.trace, name) for name in solution.trace._fields if name not in TIMES]
    counts = solution.statistics._replace(seconds={}, history=None, compilations=0)
    found = (
        solution.weights, solution.state, solution.slack, solution.certificate, trace, counts,
        int(solution.status),
    )  # fmt: skip
    return digest_of(*map(np.asarray, jax.tree.leaves(found)))
