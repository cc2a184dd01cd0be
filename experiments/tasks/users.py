"""Rows of `experiments.benchmarks` as users have them: estimators beside others, and the rest.

What a user gives is there before the clock starts: texts, features as mappings, matrices, graphs,
trees. Reading them is part of `fit`. Estimators have their own settings but for C. They bring
scikit-learn, some 80 MB, and so are imported by the rows that use them alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jaxstruct as js
from experiments.lib.peers import crf_tagger, crf_trainer
from experiments.tasks import generated
from experiments.tasks.chunks import chunked
from experiments.tasks.snakes import snakes
from experiments.tasks.work import Row, Tool, Work

CHAIN, EACH = "chain of LinearSVC", "LinearSVC a label"
LOG_LOSS = "jaxstruct, log loss"
PYSTRUCT = {"PyStruct, published": 690.0}
"""Both trainings of the snakes."""
CS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""C / n of the grid search, which is LinearSVC's C."""
FOLDS = 5
HELD_OUT = 500
PAPERS = 25


def _in_float32(prepare: Callable[[int, float], Work]) -> Callable[[int, str, float], Work]:
    """As `Row.work`, of (size, tolerance); it raises ValueError for another dtype."""

    def work(size: int, dtype: str, tolerance: float) -> Work:
        if dtype != "float32":
            raise ValueError("x64: estimators and programs of users are measured in float32")
        return prepare(size, tolerance)

    return work


def _tool(estimator: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> Tool:
    return Tool(lambda: estimator.fit(*train), lambda model: model.score(*test))


def tagger(n: int, tolerance: float) -> Work:
    """n Spanish sentences with mappings of features, C / n = 0.1; the labels right in testb."""
    from experiments.corpora.conll2002 import load_conll2002

    corpus = load_conll2002("esp")
    train, test = (
        ([mappings(one.words) for one in part], [list(one.labels) for one in part])
        for part in (corpus.train[:n], corpus.testb)
    )
    ours = js.estimators.SequenceLabeller(C=0.1 * n, tol=tolerance)
    return Work(n, _tool(ours, train, test), _own_solution, {"CRFsuite": lambda: _crf(train, test)})


def mappings(words: Sequence[str]) -> list[dict[str, Any]]:
    """Features of the tokens of a sentence, as the tutorials of CRFsuite have them."""
    alone = [
        {"word": word.lower(), "ending": word[-3:], "short ending": word[-2:],
         "capitals": word.isupper(), "initial": word.istitle(), "digits": word.isdigit()}
        for word in words
    ]  # fmt: skip
    near = ("word", "capitals", "initial")
    found = []
    for t, own in enumerate(alone):
        both = {
            name: at for name, at in (("before", t - 1), ("after", t + 1)) if 0 <= at < len(words)
        }
        beside = {f"{name} {key}": alone[at][key] for name, at in both.items() for key in near}
        found.append({"bias": 1.0, **own, **beside, "first": t == 0, "last": t == len(words) - 1})
    return found


def _crf(train: tuple[list, list], test: tuple[list, list]) -> Tool:
    import pycrfsuite  # noqa: F401  # pyright: ignore[reportMissingImports]

    def score(model: Any) -> float:
        found = [model.tag(one) for one in test[0]]
        pairs = zip(np.concatenate(found), np.concatenate(test[1]), strict=True)
        return float(np.mean([a == b for a, b in pairs]))

    return Tool(lambda: crf_tagger(crf_trainer(*train, 1.0)), score)


def label_sets(name: str, _: int, tolerance: float) -> Work:
    """Sets of labels of scenes or genes, C / n = 1; the sets right as a whole."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import ClassifierChain
    from sklearn.svm import LinearSVC

    from experiments.corpora.multilabel import load_label_sets

    data = load_label_sets(name)
    train, test = (data.train_x, data.train_y), (data.test_x, data.test_y)
    n = len(data.train_x)
    ours = js.estimators.MultiLabelClassifier(C=n, tol=tolerance)
    peers = {
        EACH: lambda: _tool(OneVsRestClassifier(LinearSVC(random_state=0)), train, test),
        CHAIN: lambda: _tool(ClassifierChain(LinearSVC(random_state=0)), train, test),
    }
    return Work(n, _tool(ours, train, test), _own_solution, peers)


def grid(n: int, tolerance: float) -> Work:
    """n texts of 20 classes as strings: C by five folds, then all texts; the texts right."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    strings, classes = generated.strings(n + HELD_OUT)
    train, test = (strings[:n], classes[:n]), (strings[n:], classes[n:])

    def searched(machine: Any, Cs: Sequence[float]) -> Any:
        name = type(machine).__name__.lower()
        return GridSearchCV(
            make_pipeline(TfidfVectorizer(), machine), {f"{name}__C": list(Cs)}, cv=FOLDS
        )

    # C is of the mean slack: in a fold, as a whole, the ratio to the number of texts is the same
    Cs = [C * n for C in CS]
    ours = searched(js.estimators.StructuralClassifier(tol=tolerance), Cs)
    peers = {"LinearSVC": lambda: _tool(searched(LinearSVC(), CS), train, test)}
    return Work(
        n, _tool(ours, train, test), lambda model: [model.best_estimator_[-1].solution_], peers
    )


def graph(papers: int, tolerance: float) -> Work:
    """Drawn graphs of papers that cite one another, C / n = 1; the papers right of as many others.

    Args:
      papers: in all, PAPERS a graph.
    """
    from sklearn.linear_model import LogisticRegression

    from experiments.tasks.papers import Drawing, drawn_papers

    drawing = Drawing(PAPERS, PAPERS, 6, 120, 6, 0.3, 3, 0.8)
    random, n = np.random.default_rng(0), papers // PAPERS
    parts = [[drawn_papers(random, drawing) for _ in range(n)] for _ in range(2)]
    bags = [[_bags(one.words, drawing.vocabulary) for one in part] for part in parts]
    train, test = (
        ([(rows, one.links) for rows, one in zip(nodes, part, strict=True)],
         [one.y.tolist() for one in part])
        for nodes, part in zip(bags, parts, strict=True)
    )  # fmt: skip
    ours = js.estimators.GraphLabeller(C=n, tol=tolerance)
    alone = [
        (np.concatenate(nodes), np.concatenate([one.y for one in part]))
        for nodes, part in zip(bags, parts, strict=True)
    ]
    peers = {"LogisticRegression": lambda: _tool(LogisticRegression(max_iter=1000), *alone)}
    return Work(n, _tool(ours, train, test), _own_solution, peers)


def _bags(words: np.ndarray, vocabulary: int) -> np.ndarray:
    """[V, vocabulary] whether a paper has a word."""
    rows = np.zeros((len(words), vocabulary), np.float32)
    np.put_along_axis(rows, words, 1, axis=1)
    return rows


def trees(n: int, tolerance: float) -> Work:
    """n sentences of GUM of 2 to 14 tags, C / n = 0.1; F1 in the test documents' ones.

    The log loss, on the same trees, is the peer.
    """
    from experiments.tasks.treebanks import Options, load_treebank
    from jaxstruct.trees import tags

    bank = load_treebank(Options(corpus="gum", longest=14, sentences=n))
    train, test = (([list(tags(tree)) for tree in part], part) for part in (bank.train, bank.test))
    make = functools.partial(js.estimators.TreeParser, C=0.1 * n, tol=tolerance)
    peers = {LOG_LOSS: lambda: _tool(make(objective="log_loss"), train, test)}
    return Work(n, _tool(make(), train, test), _own_solution, peers)


def prediction(n: int, tolerance: float) -> Work:
    """n English sentences in chunks, read and predicted with weights for 1,000 others' features."""
    del tolerance
    data = js.chains.prepare(*chunked(1000))
    random = np.random.default_rng(0)
    weights = {
        key: random.normal(size=leaf.shape).astype(leaf.dtype)
        for key, leaf in data.problem.initial_weights.items()
    }
    sentences, _ = chunked(n, skip=1000)
    ours = Tool(lambda: js.predict(data.problem, weights, data.encoding.inputs(sentences)))
    return Work(n, ours, lambda _: [])


def _own_solution(model: Any) -> list[Any]:
    return [model.solution_]


def _row(prepare: Callable[[int, float], Work], *others: Any, **named: Any) -> Row:
    return Row(_in_float32(prepare), *others, **named)


_scene, _yeast = (functools.partial(label_sets, name) for name in ("scene", "yeast"))

USER_ROWS = {
    "tagger": _row(tagger, "1,500 Spanish sentences, mappings", 1500, ["CRFsuite"]),
    "scene": _row(_scene, "scenes, sets of 6 labels", 0, [EACH, CHAIN]),
    "yeast": _row(_yeast, "genes, sets of 14 labels", 0, [EACH, CHAIN]),
    "grid": _row(grid, "texts, 5 C x 5 folds", 2000, ["LinearSVC"]),
    "graph": _row(graph, "8 graphs of 25 papers", 200, ["LogisticRegression"]),
    "snakes": _row(snakes, "snakes, both trainings", 0, list(PYSTRUCT), 1e-2, PYSTRUCT),
    "trees": _row(trees, "GUM, 900 sentences to 14 tags", 900, [LOG_LOSS]),
    "predict": _row(prediction, "2,012 sentences predicted", 2012),
}
