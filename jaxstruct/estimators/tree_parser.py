"""`TreeParser`: phrase trees of sentences, under a weighted grammar (thesis 4.5)."""

from __future__ import annotations

from typing import Any

from jaxstruct.core.prepared import held
from jaxstruct.estimators.base import ListEstimator, Training, example_weights
from jaxstruct.solvers.predict import predict
from jaxstruct.trees import (
    Tree,
    leaves,
    prepare,
    score,
    summarise,
)
from jaxstruct.trees.encoding import as_tree
from jaxstruct.trees.phrases.tree import is_of_nltk


class TreeParser(ListEstimator):
    """Parsing with a grammar that is read off the training trees, one weight a rule.

    X is a list of n sentences, lists of tags (or of words, with read_words); y a list of n trees,
    bracketed texts, `jaxstruct.trees.Tree` or trees of NLTK. Trees stand for their own sentences,
    too, so that X may be y. A sentence of which the grammar has no tree gets None (`predict`).
    There is no `partial_fit`: later trees would bring rules of their own.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being sentences. objective: a formulation of
        `jaxstruct.fit`, or "log_loss", a log-linear grammar.
      loss: "zero_one", "node_f1" or "all_node_f1" (`jaxstruct.trees.weighted_grammar`).
      read_words: whether sentences are words, in place of part-of-speech tags.
      memory: children that an intermediate symbol remembers, None for all.

    Attributes, beside those of `StructuralEstimator`:
      encoding_: the grammar that is read off the training trees.
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        objective: str = "svm2_margin",
        loss: str = "node_f1",
        read_words: bool = False,
        memory: int | None = 0,
        tol: float = 1e-3,
        max_iter: int = 500,
    ) -> None:
        """Keep the parameters; `fit` checks them."""
        self.C = C
        self.objective = objective
        self.loss = loss
        self.read_words = read_words
        self.memory = memory
        self.tol = tol
        self.max_iter = max_iter

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        y = _trees(y)
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} sentences, but y has {len(y)} trees")
        for i, (sentence, tree) in enumerate(zip(X, y, strict=True)):
            tokens = len(leaves(tree))
            whole = isinstance(sentence, (str, Tree))
            given = tokens if whole or is_of_nltk(sentence) else len(sentence)
            if given != tokens:
                raise ValueError(f"y[{i}] has {tokens} leaves, but X[{i}] has {given} tokens")
        data = prepare(y, read_words=self.read_words, memory=self.memory, loss=self.loss)
        found = self._training(data, example_weights(sample_weight, len(y)))
        return found._replace(inputs=data.encoding.inputs(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Labelled F1 of all constituents together, as EVALB counts them.

        A sentence without a parse misses all of its own. Those of a sentence count `sample_weight`
        times.
        """
        X, y = held(X), _trees(y)
        weights = example_weights(sample_weight, len(y))
        model = self.model_
        counts = score(y, model.decode(predict(*model.on(X)), y))
        if sample_weight is None:
            return summarise(counts, failed_are_wrong=True).f1
        matched, gold, made = (weights @ each for each in (counts.matched, counts.gold,
                                                           counts.predicted))  # fmt: skip
        return float(2 * matched / (gold + made)) if gold + made else 0.0


def _trees(y: Any) -> list[Tree]:
    return [as_tree(f"y[{i}]", one) for i, one in enumerate(y)]
