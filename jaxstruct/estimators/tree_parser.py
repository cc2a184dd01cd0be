"""`TreeParser`: phrase trees of sentences, under a weighted grammar (thesis 4.5)."""

from __future__ import annotations

from typing import Any

from jaxstruct.core.prepared import Prepared, held
from jaxstruct.estimators.base import (
    ListEstimator,
    Training,
    check_as_many,
    example_weights,
)
from jaxstruct.solvers.predict import predict
from jaxstruct.trees import Brackets, Tree, leaves, prepare, score
from jaxstruct.trees.encoding import as_tree
from jaxstruct.trees.phrases.tree import is_of_nltk


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
        return prepare(y, **options)

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
