"""Dependency trees and phrase trees of sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.prepared import Prepared, held
from jaxstruct.data.trees import is_of_nltk
from jaxstruct.dependencies import prepare as dependency_examples
from jaxstruct.estimators.base import ListEstimator, Training, check_as_many, example_weights
from jaxstruct.evaluation import attachment
from jaxstruct.solvers.predict import predict
from jaxstruct.trees import Brackets, Tree, leaves, score
from jaxstruct.trees import prepare as tree_examples
from jaxstruct.trees.encoding import as_tree


class DependencyParser(ListEstimator):
    """Dependency trees by features of their arcs: a structural SVM, or a random field ("log_loss").

    X is a list of n sentences, lists of tokens, mappings of the same columns to texts such as
    {"word": "dogs", "tag": "NNS"}, or words, or pairs (word, tag); y a list of n trees, lists of
    heads (0 for the root, 1.. for words) or of pairs (head, label). In `fit` None is a head or a
    label that is not known, a set names those that it may be. Training trees whose arcs cross
    are refused where `projective` is: lift them before by `jaxstruct.dependencies.lifted`. There is
    no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being sentences. objective: a formulation of
        `jaxstruct.fit`, or "log_loss".
      projective: whether predicted arcs never cross; those of y must not then.
      loss: "hamming", "labelled_hamming" or one of them "normalised_" (`dependency_parser`).
      templates, label_templates, min_count, table, label_table: features of arcs, as
        `jaxstruct.dependencies.prepare` takes them.

    Attributes, beside those of `StructuralEstimator`:
      encoding_: the values of the columns, the templates and the labels.
    """

    projective: bool = True
    loss: str = "hamming"
    templates: Any = None
    label_templates: Any = None
    min_count: int = 2
    table: int = 2**16
    label_table: int = 2**12

    _read = staticmethod(dependency_examples)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of words with the right head (and label, where y has some): UAS or LAS.

        The words of a sentence count `sample_weight` times.
        """
        y = held(y)
        weights = example_weights(sample_weight, len(y))
        found = [attachment([a], [b]) for a, b in zip(y, self.predict(X), strict=True)]
        shares = np.array([one.uas if one.las is None else one.las for one in found])
        words = weights * np.array([len(tree) for tree in y])
        return float(words @ shares / words.sum())


class TreeParser(ListEstimator):
    """Parsing with a grammar that is read off the training trees, one weight a rule.

    X is a list of n sentences, lists of tags (or of words, with read_words); y a list of n trees,
    bracketed texts, `jaxstruct.trees.Tree` or trees of NLTK. Trees stand for their own sentences,
    too, so that X may be y. In `fit` `jaxstruct.trees.Brackets` are a tree of which some
    constituents are known: `fit_latent` trains then ("svm1_margin"), or the likelihood of what is
    known ("log_loss"). A sentence of which the grammar has no tree gets None (`predict`). There is
    no `partial_fit`: later trees would bring rules of their own.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being sentences. objective: a formulation of
        `jaxstruct.fit`, or "log_loss", a log-linear grammar.
      loss: "zero_one", "node_f1" or "all_node_f1" (`jaxstruct.trees.weighted_grammar`).
      read_words: whether sentences are words, in place of part-of-speech tags.
      memory: children that an intermediate symbol remembers, None for all.

    Attributes, beside those of `StructuralEstimator`:
      encoding_: the grammar that is read off the training trees.
    """

    objective: str = "svm2_margin"
    loss: str = "node_f1"
    read_words: bool = False
    memory: int | None = 0

    def _read(self, X: Any, y: Any, **options: Any) -> Prepared:
        y = _trees(y)
        check_as_many(len(X), len(y), "sentences", " trees")
        for i, (sentence, tree) in enumerate(zip(X, y, strict=True)):
            tokens = len(tree.sentence if isinstance(tree, Brackets) else leaves(tree))
            whole = isinstance(sentence, (str, Tree, Brackets))
            given = tokens if whole or is_of_nltk(sentence) else len(sentence)
            if given != tokens:
                raise ValueError(f"y[{i}] has {tokens} leaves, but X[{i}] has {given} tokens")
        return tree_examples(y, **options)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        found = super()._prepare(X, y, sample_weight)
        return found._replace(inputs=self.encoding_.inputs(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Labelled F1 of all constituents together, as EVALB counts them.

        A sentence without a parse misses all of its own. Those of a sentence count `sample_weight`
        times.
        """
        X, y = held(X), _trees(y)
        weights = example_weights(sample_weight, len(y))
        model = self.model_
        counts = score(y, model.decode(predict(*model.on(X)), y))
        matched, gold, made = (weights @ each for each in (counts.matched, counts.gold,
                                                           counts.predicted))  # fmt: skip
        return float(2 * matched / (gold + made)) if gold + made else 0.0


def _trees(y: Any) -> list[Any]:
    return [as_tree(f"y[{i}]", one) for i, one in enumerate(y)]
