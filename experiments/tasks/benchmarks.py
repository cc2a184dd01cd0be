"""The trainings that are measured: what `fit` gets, and peers on the same task.

A task prepares its data before the clock starts. Every one is trained with default settings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.corpora.homologues import LETTERS, generate_homologues
from experiments.lib.peers import crf_tagger, crf_trainer, linear_svc, sparse_matrix
from experiments.machines.homologues import homologue_search
from experiments.tasks import generated
from experiments.tasks.work import Row, Tool, Work
from jaxstruct import Problem, Ragged, Solution, fit, take
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.data.digits import load_digits_split
from jaxstruct.multiclass import multiclass
from jaxstruct.solvers.checkpoints.run_state import digest_of
from jaxstruct.trees import weighted_grammar

FEATURES = 20_000
"""Of a token of generated sentences."""
LINEAR_SVC, CRFSUITE, OF_PAIRS = "LinearSVC", "CRFsuite", "LogisticRegression of pairs"
RANK_SVM = "LinearSVC of pairs"
CLINC150_TOLS = {"LinearSVC to 1e-3": 0.025, "LinearSVC to 1e-4": 0.009}
"""LinearSVC's tol that ends within so much of the optimum: .03 within 1.07e-3, .01 1.09e-4."""


Peers = Mapping[str, Callable[[], Tool]]


class Training(NamedTuple):
    """What one `fit` gets. n: examples. peers: as in `Work`."""

    problem: Problem
    inputs: PyTree
    outputs: PyTree
    C: float
    n: int
    peers: Peers = {}
    formulation: str = "svm1_margin"

    def fit(self, tolerance: float) -> Solution:
        """Trained to a relative gap of `tolerance`, its arrays there."""
        solution = fit(
            self.problem, self.inputs, self.outputs, self.formulation, self.C, tolerance=tolerance
        )
        jax.block_until_ready(solution.weights)
        return solution


class Task(NamedTuple):
    """A training by one `fit`.

    Fields:
      prepare: (size, dtype of the weights) -> it. others: as in `Row`.
    """

    prepare: Callable[[int, str], Training]
    title: str
    size: int = 0
    peers: Sequence[str] = ()
    tolerance: float = 1e-3

    def row(self) -> Row:
        """The training as it is measured."""

        def work(size: int, dtype: str, tolerance: float) -> Work:
            training = self.prepare(size, dtype)
            ours = Tool(lambda: training.fit(tolerance))
            return Work(training.n, ours, lambda solution: [solution], training.peers)

        return Row(work, *self[1:])


def _linear_svc(data: Callable[[], Any], labels: np.ndarray, C: float, **tols: float) -> Peers:
    """LinearSVC on the Crammer-Singer objective, once for each name and its tol."""

    def tool(tol: float) -> Tool:
        machine, inputs = linear_svc(C, tol), data()
        return Tool(lambda: machine.fit(inputs, labels))

    tols = tols or {LINEAR_SVC: 0.01}
    return {name: functools.partial(tool, tol) for name, tol in tols.items()}


def digits(tenths: int, dtype: str = "float32") -> Training:
    """scikit-learn's digits, C / n in tenths."""
    data = load_digits_split()
    x, y = data.train_x, data.train_y
    peers = _linear_svc(lambda: np.asarray(x, np.float64), y, tenths / 10)
    return Training(multiclass(64, 10, dtype=dtype), x, y, tenths / 10 * len(y), len(y), peers)


def texts(n: int, dtype: str = "float32") -> Training:
    """Generated texts of 20 classes, C / n = 1."""
    data = generated.texts(n)
    problem = multiclass(generated.WORDS, generated.CLASSES, dtype=dtype)
    peers = _linear_svc(lambda: sparse_matrix(data.features, generated.WORDS), data.classes, 1.0)
    return Training(problem, data.features, data.classes, float(n), n, peers)


def words(n: int, dtype: str = "float32") -> Training:
    """The first n handwritten words of fold 1 (0: all), 26 letters of 128 pixels, C / n = 0.1;
    CRFsuite beside, on the names of the black pixels."""
    from experiments.tasks import handwriting

    data = handwriting.load(None, dtype)
    train = handwriting.one_split(data.words, ("1",), 0).train[: n or None]
    x, y = take(data.inputs, train), take(data.outputs, train)

    def peer() -> Tool:
        pixels = take(Ragged(data.words.pixels, data.words.offsets), train)
        return crfsuite([_names(map(np.flatnonzero, word)) for word in pixels], _texts(y))

    count = len(train)
    return Training(chain(128, 26, dtype=dtype), x, y, 0.1 * count, count, {CRFSUITE: peer})


def spanish(n: int, dtype: str = "float32", c_over_n: float = 0.1) -> Training:
    """The first n Spanish sentences (0: all), named entities; CRFsuite beside."""
    from experiments.corpora.conll2002 import load_conll2002
    from experiments.tasks.news import label_names, sparse_corpus
    from experiments.tasks.token_features import FeatureOptions, fit_token_index, token_features

    options = FeatureOptions(4, 1)
    train = load_conll2002("esp").train[: n or None]
    names, index = label_names(train), fit_token_index(train, options)
    data = sparse_corpus(train, names, index, options)
    problem = chain(data.number_of_features, len(names), dtype=dtype)

    def peer() -> Tool:
        labels = [sentence.labels for sentence in train]
        return crfsuite(token_features(train, options), labels)

    count, peers = len(train), {CRFSUITE: peer}
    return Training(problem, data.inputs, data.outputs, c_over_n * count, count, peers)


def segments(n: int, dtype: str = "float32") -> Training:
    """The first n Spanish sentences, names as segments with phrases, C / n = 0.1."""
    from experiments.corpora.conll2002 import load_conll2002
    from experiments.tasks.token_features import PHRASES, token_features, token_mappings
    from jaxstruct.segments import prepare

    train = load_conll2002("esp").train[:n]
    labels = [list(sentence.labels) for sentence in train]
    data = prepare(token_mappings(train), labels, phrases=PHRASES, dtype=dtype)
    peers = {CRFSUITE: lambda: crfsuite(token_features(train), labels)}
    return Training(*data, 0.1 * n, n, peers)


def chunks(n: int, dtype: str = "float32") -> Training:
    """n English sentences in phrase chunks, C / n = 0.1; CRFsuite beside, on the same features."""
    from experiments.tasks.chunks import chunked
    from jaxstruct.chains import prepare

    features, labels = chunked(n)
    data = prepare(features, labels, dtype=dtype)
    peers = {CRFSUITE: lambda: crfsuite(features, labels)}
    return Training(*data, 0.1 * n, n, peers)


def crfsuite(features: Sequence[Any], labels: Sequence[Sequence[str]]) -> Tool:
    """CRFsuite, c2 = 1, that has read n sequences.

    Raises:
      ImportError: python-crfsuite is missing.
    """
    trainer = crf_trainer(features, labels, 1.0)
    return Tool(lambda: crf_tagger(trainer))


def sentences(n: int, dtype: str = "float32") -> Training:
    """Generated sentences of 9 labels, C / n = 0.1; CRFsuite beside."""
    data = generated.sentences(n, FEATURES)
    values = np.ones(data.features.shape, np.float32)
    features = SparseFeatures(
        Ragged(data.features, data.offsets, FEATURES), Ragged(values, data.offsets)
    )
    x, y = chain_inputs(features), Ragged(data.labels, data.offsets, -1)
    peers = {CRFSUITE: lambda: crfsuite([_names(each) for each in features.indices], _texts(y))}
    return Training(chain(FEATURES, generated.LABELS, dtype=dtype), x, y, 0.1 * n, n, peers)


def _names(tokens: Iterable[np.ndarray]) -> list[list[str]]:
    """Numbers of features as CRFsuite reads them."""
    return [[f"f{number}" for number in token] for token in tokens]


def _texts(labels: Ragged) -> list[list[str]]:
    return [[str(label) for label in own] for own in labels]


def clinc150(_: int, dtype: str = "float32") -> Training:
    """The whole of CLINC150, C / n = 1."""
    from experiments.tasks.documents import clinc150 as load

    data = load(None)
    x, y = take(data.inputs, data.train), data.labels[data.train]
    problem = multiclass(data.number_of_features, len(data.taxonomy.classes), dtype=dtype)
    peers = _linear_svc(lambda: sparse_matrix(x, data.number_of_features), y, 1.0, **CLINC150_TOLS)
    return Training(problem, x, y, float(len(y)), len(y), peers)


def gum(n: int, dtype: str = "float32") -> Training:
    """The first n short sentences of GUM (0: all), SVM2 for the zero-one loss, C / n = 0.1."""
    from experiments.tasks.treebanks import Options, load_treebank, prepare

    options = Options(corpus="gum", sentences=n)
    data = prepare(load_treebank(options))
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


def points(n: int, dtype: str = "float32") -> Training:
    """n drawn pairs of point sets to match, C / n = 0.1; beside it a logistic regression of their
    pairs, which an assignment would follow."""
    from experiments.tasks.point_sets import Drawing, drawn_pairs, pair_features
    from jaxstruct.assignments import prepare

    pairs = drawn_pairs(np.random.default_rng(0), n, Drawing((10, 16), 0.5, 0.02, 0.0, 0.3))
    features = [pair_features(pair, dtype) for pair in pairs]
    data = prepare(features, [pair.matching for pair in pairs], dtype=dtype)

    def peer() -> Tool:
        from sklearn.linear_model import LogisticRegression

        labels = [np.zeros(each.shape[:2], bool) for each in features]
        for own, pair in zip(labels, pairs, strict=True):
            own[tuple(np.transpose(pair.matching))] = True
        x = np.concatenate([each.reshape(-1, each.shape[2]) for each in features])
        y = np.concatenate([each.ravel() for each in labels])
        return Tool(lambda: LogisticRegression(max_iter=5000).fit(x, y))

    return Training(*data, 0.1 * n, n, {OF_PAIRS: peer})


def heads(n: int, dtype: str = "float32") -> Training:
    """The first n sentences of GUM as projective dependency trees without labels, C / n = 0.1."""
    from experiments.corpora.gum_dependencies import load_gum_dependencies
    from jaxstruct.dependencies import lifted, prepare

    train = load_gum_dependencies().train[:n]
    sentences, trees = [each.tokens for each in train], [lifted(each.heads) for each in train]
    return Training(*prepare(sentences, trees, dtype=dtype), 0.1 * n, n)


def queries(n: int, dtype: str = "float32") -> Training:
    """The first n queries of the lambdarank example (0: all), NDCG, C / n = 0.1; beside it
    LinearSVC on the differences of documents of different relevance."""
    from experiments.corpora.lambdarank import load_lambdarank
    from experiments.tasks.graded_queries import rank_svm, taken
    from jaxstruct.rankings import prepare

    train = load_lambdarank().train
    train = taken(train, range(n or len(train.rows)))
    data, count = prepare(*train, dtype=dtype), len(train.rows)
    peers = {RANK_SVM: lambda: Tool(lambda: rank_svm(train, 1e-3))}
    return Training(*data, 0.1 * count, count, peers)


_spanish_large_C = functools.partial(spanish, c_over_n=1.0)

TASKS = {
    "digits": Task(digits, "digits, C/n = 0.1", 1, [LINEAR_SVC]),
    "digits_large_C": Task(digits, "digits, C/n = 1", 10, [LINEAR_SVC]),
    "texts": Task(texts, "2,000 texts, 20 classes", 2000, [LINEAR_SVC]),
    "words": Task(words, "OCR words, fold 1", 0, [CRFSUITE]),
    "spanish": Task(spanish, "300 Spanish sentences", 300, [CRFSUITE]),
    "spanish_large_C": Task(_spanish_large_C, "300 Spanish sentences, C/n = 1", 300, [CRFSUITE]),
    "chunks": Task(chunks, "1,000 sentences in chunks", 1000, [CRFSUITE], 1e-2),
    "chunks_finer": Task(chunks, "1,000 sentences in chunks", 1000, [CRFSUITE]),
    "chunks_whole": Task(chunks, "8,936 sentences in chunks", 8936, [CRFSUITE], 1e-2),
    "sentences": Task(sentences, "1,000 generated sentences", 1000, [CRFSUITE]),
    "clinc150": Task(clinc150, "CLINC150, 150 classes", 0, list(CLINC150_TOLS)),
    "gum": Task(gum, "GUM, short sentences"),
    "homologues": Task(homologues, "homologues of table 4", 80),
    "segments": Task(segments, "300 Spanish sentences in segments", 300, [CRFSUITE]),
    "points": Task(points, "100 pairs of point sets, matched", 100, [OF_PAIRS]),
    "heads": Task(heads, "200 dependency trees of GUM", 200, tolerance=5e-2),
    "queries": Task(queries, "201 queries, documents ranked", 0, [RANK_SVM]),
    "spanish_whole": Task(spanish, "8,323 Spanish sentences", 0, [CRFSUITE]),
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
