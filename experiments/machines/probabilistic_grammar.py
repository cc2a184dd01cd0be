"""Probabilistic context-free grammars by maximum likelihood, from the counts of a `Grammar`.

    P(x, y) = P(A of the top node) prod over nodes of P(A -> B C) or P(A -> x^t)

The binary and the lexical rules of a symbol share one distribution: its nodes either branch or read
a token. The logarithms are weights of `trees.structure`, with which F(x, y; w) is
log P(x, y), so that its decoding finds the most probable tree (thesis 4.27 to 4.29).
"""

from __future__ import annotations

import numpy as np

from jaxstruct.trees.phrases.grammar import Grammar


def fit_probabilistic_grammar(
    grammar: Grammar, *, smoothing: float = 0.0, dtype: str = "float32"
) -> dict[str, np.ndarray]:
    """Log-probabilities of the rules and roots of a grammar: relative frequencies.

    P(A -> beta) = (count(A -> beta) + c) / sum over the rules A -> gamma that the grammar has of
    (count(A -> gamma) + c), and the same of its roots, with c the smoothing. At c = 0 this
    maximises the product of P(x_i, y_i) over the trees that the grammar was read off. No c gives
    mass to what the grammar lacks: an unseen rule stays impossible.

    Args:
      grammar: S symbols, R binary and Q lexical rules, with counts.
      smoothing: c >= 0; a larger one brings the rules of a symbol closer to each other.
      dtype: of the result, a floating-point one.

    Returns:
      Weights {"lexical": [Q], "rules": [R], "root": [S]} of `weighted_grammar`. The rules of each
      symbol sum to one as probabilities, and so do the roots; -inf for a symbol that is no root.
    """
    roots = grammar.root_counts > 0
    lexical, rules = grammar.lexical_counts + smoothing, grammar.binary_counts + smoothing
    above, parents = grammar.lexical_rules[:, 0], grammar.binary_rules[:, 0]
    size = len(grammar.symbols)
    mass = np.bincount(above, lexical, size) + np.bincount(parents, rules, size)
    root = np.where(roots, grammar.root_counts + smoothing, 0)
    with np.errstate(divide="ignore"):
        found = {
            "lexical": np.log(lexical / mass[above]),
            "rules": np.log(rules / mass[parents]),
            "root": np.log(root / root.sum()),
        }
    return {name: table.astype(dtype) for name, table in found.items()}
