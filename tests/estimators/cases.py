"""Small training sets of every estimator, each trained once for all tests of a worker.

Rows are as many, and of as many columns, as the estimators fill training sets up to: `fit`, which
does not, trains by the same programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

import jaxstruct as js
from jaxstruct.multiclass import multiclass, taxonomy_features, taxonomy_from_paths, tree_loss
from tests.assignments.cases import examples
from tests.dependencies.test_encoding import english
from tests.rankings.cases import queries
from tests.segments.cases import names

E = js.estimators


def blobs(n: int = 60, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """n points [n, d] about three means, and their classes "a", "b", "c"."""
    random = np.random.default_rng(0)
    classes = np.arange(n) % 3
    means = 2.0 * np.eye(3, d)
    return means[classes] + 0.7 * random.normal(size=(n, d)), np.array(["a", "b", "c"])[classes]


def sentences(n: int = 24) -> tuple[list, list]:
    """n sequences of tokens as mappings, and labels that follow the word or the one before."""
    random = np.random.default_rng(1)
    X, y = [], []
    for _ in range(n):
        words = random.integers(0, 15, random.integers(3, 8))
        X.append([{"word": str(word), "even": bool(word % 2 == 0)} for word in words])
        labels = ["name" if word % 6 < 2 else "other" for word in words]
        after = [False, *(word % 6 == 5 for word in words[:-1])]
        y.append(["next" if a else label for label, a in zip(labels, after, strict=True)])
    return X, y


def reordered(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two folds: all n examples in another order, scored on a half of them.

    The programs of the other tests serve them: folds of another size would compile their own.
    """
    order = np.random.default_rng(2).permutation(n)
    return [(order, order[: n // 2]), (order[::-1], order[n // 2 :])]


ROWS, CLASSES = blobs(64, 15)
SETS = (ROWS[:, :3] > 0).astype(int)
WORDS, LABELS = sentences()
COLOURS = ("red", "green", *(f"grey {percent}" for percent in range(8, 20)))
NAMED = [({"colour": one, "size": float(n)} if n % 3 else {"colour": one})
         for n, one in enumerate(COLOURS)] * 4 + [{"size": 2.0}] * 8  # fmt: skip
SIDES = [*"abbaabbabaabba"] * 4 + [*"b"] * 8
TREES = [
    "(S (NP (NN dogs)) (VP (VB see) (NP (NN cats) (PP (IN in) (NP (NN town))))))",
    "(S (NP (NN kings)) (VP (VB know) (NP (NN dogs) (PP (IN of) (NP (NN towns))))))",
    "(S (NP (NN cats)) (VP (VB see) (NP (NN dogs)) (PP (IN by) (NP (NN night)))))",
]
ALIGNED = [("ACGTTGCA", "ACG--GCA"), ("TTGACA", "T-GGCA"), ("GATTACA", "GA-TGCA")]
GRAPHS = [({"p": ["f"], "q": ["g"]}, [("p", "q")]), ({"s": ["g"], "t": ["f"]}, [("s", "t")])]
NODES = [{"p": "A", "q": "B"}, {"s": "B", "t": "A"}]
PATHS = {"c": ("top", "right"), "a": ("top", "left"), "b": ("top", "left"), "d": ("top", "right")}
ARCS = dict(loss="labelled_hamming", min_count=1, templates=["head.tag child.tag distance"],
            label_templates=["child.tag"])  # fmt: skip
TOKENS, SPANS = names()
SEGMENTS = dict(phrases=["word"], window=1, start_stop=True)
PAIRS = examples(0, 8, unmatched=True, listed=True)
QUERIES = queries(0, 12, 37)


def in_taxonomy() -> tuple:
    """The same by the functions of classes; of "d" there is no example."""
    taxonomy = taxonomy_from_paths({name: PATHS[name] for name in "abcd"})
    features = taxonomy_features(taxonomy, normalise=True)
    problem = multiclass(16, 4, output_features=features, loss=tree_loss(taxonomy))
    X = np.column_stack([ROWS, np.ones(len(ROWS))])
    return problem, X, np.searchsorted(list("abcd"), CLASSES).astype(np.int32)


class Way(NamedTuple):
    """An estimator of options of its own, X, y, what its explanation names, data for `fit`."""

    estimator: Any
    X: Any
    y: Any
    named: str
    prepared: Callable[[], Any] | None = None


WAYS = {
    "classes": Way(
        E.StructuralClassifier(), ROWS, CLASSES, "features of b",
        lambda: js.multiclass.prepare(ROWS, CLASSES.tolist()),
    ),
    "named rows": Way(
        E.StructuralClassifier(loss=3 - 3 * np.eye(2)), NAMED, SIDES, "colour=red",
        lambda: js.multiclass.prepare(NAMED, SIDES, loss=3 - 3 * np.eye(2)),
    ),
    "log-linear": Way(
        E.StructuralClassifier(objective="log_loss"), ROWS, CLASSES, "features of b",
    ),
    "taxonomy": Way(E.TaxonomyClassifier(PATHS), ROWS, CLASSES, "features of b", in_taxonomy),
    "sets": Way(
        E.MultiLabelClassifier(C=1.0, loss="zero_one"), ROWS, SETS, "pairs of labels",
        lambda: js.graphs.prepare_sets(
            ROWS, [[*np.flatnonzero(row)] for row in SETS], classes=range(3), loss="zero_one"
        ),
    ),
    "sequences": Way(
        E.SequenceLabeller(1.0, window=1, start_stop=True,
                           class_weight={"name": 1, "next": 5, "other": 1}),
        WORDS, LABELS, "word=5 [-1]",
        lambda: js.chains.prepare(
            WORDS, LABELS, window=1, start_stop=True, loss=js.chains.label_weights([1, 5, 1])
        ),
    ),
    "segments": Way(
        E.SegmentLabeller(C=1.0, **SEGMENTS), TOKENS, SPANS, "word=New York",
        lambda: js.segments.prepare(TOKENS, SPANS, **SEGMENTS),
    ),
    "trees": Way(
        E.TreeParser(C=10.0), TREES, TREES, "NP -> N",
        lambda: js.trees.prepare(TREES, loss="node_f1"),
    ),
    "dependencies": Way(
        E.DependencyParser(C=10.0, **ARCS), *english(), "",
        lambda: js.dependencies.prepare(*english(), **ARCS),
    ),
    "graphs": Way(
        E.GraphLabeller(symmetric=True, plans=True), GRAPHS, NODES, "features of A",
        lambda: js.graphs.prepare(GRAPHS, NODES, constant=1.0, symmetric=True, plans=True),
    ),
    "alignments": Way(
        E.PairAligner(C=3.0, gaps="linear"), ALIGNED, ALIGNED, "costs of gaps",
        lambda: js.alignments.prepare(ALIGNED, gaps="linear"),
    ),
    "matchings": Way(
        E.SetMatcher(unmatched=True, loss="items"), *PAIRS, "unmatched columns",
        lambda: js.assignments.prepare(*PAIRS, unmatched=True, loss="items"),
    ),
    "queries": Way(
        E.DocumentRanker(C=10.0, at=2), *QUERIES, "features of documents",
        lambda: js.rankings.prepare(*QUERIES, at=2),
    ),
}  # fmt: skip


@functools.cache
def trained(way: str) -> Any:
    """The estimator of a way, trained once for all tests."""
    estimator, X, y, *_ = WAYS[way]
    return clone(estimator).fit(X, y)
