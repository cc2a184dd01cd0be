"""Weighted context-free grammars: the tree of a sentence (thesis 4.5, JMLR 4.5).

    f(x) = argmax over trees y of F(x, y; w)
    F(x, y; w) = sum_t w_{A_t -> x^t} + sum over inner nodes of w_{A -> B C} + w_root    (4.32)

Psi counts how often each rule is used (4.33). All rules are those of a
`trees.phrases.grammar.Grammar` in Chomsky normal form; trees are `BinaryTree`s of its numbers. The
loss enters through levels: the best tree at every number of matched nodes, or of matched and
predicted constituents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_record
from jaxstruct.core.contract import Model, Oracles, Padding, Problem, Space, Truth
from jaxstruct.core.padding import without_padding
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import ragged
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import Array, BinaryTree, PyTree, Static
from jaxstruct.trees import example_checks as tree_checks
from jaxstruct.trees import losses as tree_losses
from jaxstruct.trees.forests import Forest, forests_of
from jaxstruct.trees.inference import tree_inference
from jaxstruct.trees.losses import Stratification, stratification
from jaxstruct.trees.oracles.forest_trees import ForestTree
from jaxstruct.trees.parts import (
    NOWHERE,
    GrammarTables,
    SentenceInput,
    TreeTheta,
    added,
    given_of,
    plane_products,
    restricted,
    score_use,
    span_feature_count,
    span_scores,
    tree_use,
    weight_use,
)
from jaxstruct.trees.phrases.grammar import Grammar, terminals_of
from jaxstruct.trees.potentials import GrammarRules, TreePotentials
from jaxstruct.trees.search import (
    augmented_parts,
    best_of_levels,
    best_tree,
    parts_of,
    parts_of_same_inner,
)


def sentence_inputs(
    grammar: Grammar,
    sentences: Sequence[Sequence[str]],
    tokens: int | None = None,
    spans: np.ndarray | None = None,
    token_features: Sequence[np.ndarray] | None = None,
) -> SentenceInput:
    """A batch of n sentences: a `Ragged` store, or padded to T tokens.

    Args:
      grammar: whose terminals they are read with.
      sentences: the tags, or words, of each; tokens without a terminal become -1 (no parse).
      tokens: T >= 2, at least as many as the longest sentence has; None for a store.
      spans: [n, T, T, D] finite features of spans, or None. They need T.
      token_features: None, or of each sentence integers [tokens, A], the features of its tokens,
        from 0; -1 for none. `weighted_grammar` makes features of spans of them.

    Raises:
      ValueError: a sentence is empty or longer than T, T is less than 2, or spans or features do
        not fit.
    """
    sentences = tree_checks.checked_sentences(grammar, sentences, tokens)
    store = ragged([terminals_of(grammar, sentence) for sentence in sentences], -1)
    lengths = store.lengths.astype(np.int32)
    forest = forests_of(grammar, store)
    features = tree_checks.checked_token_features(token_features, store)
    if tokens is None:
        if spans is not None:
            raise ValueError("spans are [n, T, T, D]: give tokens, T, with them")
        return SentenceInput(store, lengths, forest=forest, tokens=features)
    tree_checks.check_spans(spans, lengths, tokens)
    every = np.arange(len(store))
    if forest is not None:
        forest = Forest(*(leaf.padded(every, max(leaf.lengths.max(), 1)) for leaf in forest))
    if features is not None:
        features = features.padded(every, tokens)
    return SentenceInput(store.padded(every, tokens), lengths, spans, forest, features)


def tree_outputs(trees: Sequence[BinaryTree]) -> BinaryTree:
    """A batch of trees, leaves `Ragged`.

    Args:
      trees: as `trees.encode` makes them, padded or not.

    Raises:
      ValueError: there is none, or they are no BinaryTrees.
    """
    columns = zip(*tree_checks.checked_trees(trees), strict=True)
    return BinaryTree(*(ragged([without_padding(row) for row in rows], -1) for rows in columns))


def _output_sizes(x: SentenceInput) -> BinaryTree:
    """The positions of every leaf of a tree over so many (padded) tokens."""
    check_record("inputs", x, SentenceInput, "sentence_inputs")
    tokens = x.terminals.shape[1]
    return BinaryTree(tokens, *[tokens - 1] * 4)


EXACT = 64
"""Up to so many tokens a chart is not rounded up, since it costs their third power."""


def _size(longest: int) -> int:
    """Of tokens, and of the nodes and edges of forests."""
    return max(longest, 2) if longest <= EXACT else size_class(longest)


_PADDING = Padding(price=1 << 21, output_sizes=_output_sizes, size=_size)


def _potentials(D: int, w: PyTree, x: SentenceInput) -> TreeTheta:
    """theta; D features of a token, of which x may have some."""
    x = jax.tree.map(jnp.asarray, x)
    spans = None
    if x.tokens is not None:
        spans = span_scores(w["spans"], x.tokens, x.length, D)
    elif "spans" in w:
        spans = jnp.einsum("abd,ds->abs", x.spans, w["spans"])
    bare = x._replace(spans=None, tokens=None)
    return TreeTheta(w["lexical"], w["rules"], w["root"], spans, bare)


def _score(tables: GrammarTables, theta: TreeTheta, y: BinaryTree) -> Array:
    return score_use(theta, tree_use(tables, theta.x, y))


def _uses(tables: GrammarTables, D: int, x: SentenceInput, y: BinaryTree) -> PyTree:
    """The places in the weights of planes y [B, K] of a batch."""
    return jax.vmap(lambda x, y: jax.vmap(partial(weight_use, tables, D, x))(y))(x, y)


def _plane_values(
    tables: GrammarTables, D: int, w: PyTree, x: SentenceInput, y: BinaryTree
) -> Array:
    """Straight from the weights, which all sentences share."""
    theta = TreeTheta(**{"spans": None, "x": None, **w})
    return jax.vmap(jax.vmap(partial(score_use, theta)))(_uses(tables, D, x, y))


def _add_planes(
    tables: GrammarTables, D: int, w: PyTree, x: SentenceInput, y: BinaryTree, c: Array
) -> PyTree:
    use = _uses(tables, D, x, y)
    return {name: added(table, getattr(use, name), c) for name, table in w.items()}


def _plane_gram(
    tables: GrammarTables, D: int, x: SentenceInput, y_true: BinaryTree, y: BinaryTree,
    other: BinaryTree,
) -> Array:  # fmt: skip
    use = partial(weight_use, tables, D, x)
    return plane_products(use(y_true), jax.vmap(use)(y), use(other))


def grammar_potentials(
    problem: Problem, theta: TreeTheta
) -> tuple[GrammarRules, TreePotentials, Array]:
    """The potentials of a sentence's theta as the oracles take them.

    Args:
      problem: made by `weighted_grammar`.
      theta: problem.model.potentials(w, x) of one sentence.

    Returns:
      (rules, potentials, length), with -inf where the grammar has no rule or no such root.

    Raises:
      ValueError: the problem is no weighted grammar.
    """
    if not isinstance(problem, Problem) or problem.model.decode.func is not _decode:
        raise ValueError("problem must be made by jaxstruct.trees.structure.weighted_grammar")
    (tables,) = problem.model.decode.args
    return given_of(tables, theta)


def _decode(tables: GrammarTables, theta: TreeTheta) -> BinaryTree:
    return best_tree(tables, theta, parts_of(tables, theta))


def _or_truth(found: ForestTree, y_true: BinaryTree) -> BinaryTree:
    """y_true where there is no other tree."""
    none = found.value == -jnp.inf
    return jax.tree.map(lambda a, b: jnp.where(none, b, a).astype(jnp.int32), found.tree, y_true)


def _best_by_level(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta,
    y_true: BinaryTree, offsets: Array, slopes: Array,
) -> BinaryTree:  # fmt: skip
    losses = strata.levels(tables, y_true, theta.rules.dtype).reshape(-1)
    lines = offsets[: losses.size], slopes[: losses.size], losses > 0
    parts = parts_of(tables, theta)
    found = best_of_levels(tables, strata, theta, y_true, parts, lines)
    if strata.has_level_of_no_loss:  # other trees with the same inner nodes
        lines = jnp.full(2, offsets[-1]), jnp.full(2, slopes[-1]), jnp.array([False, True])
        parts = parts_of_same_inner(tables, theta, y_true)
        last = best_of_levels(tables, tree_losses.ZERO_ONE, theta, y_true, parts, lines)
        found = jax.tree.map(partial(jnp.where, last.value > found.value), last, found)
    return _or_truth(found, y_true)


def _level_losses(
    tables: GrammarTables, strata: Stratification, dtype: Static[str], y_true: BinaryTree
) -> Array:
    """[L] of all levels, the last one for the trees y != y_true of loss 0."""
    losses = strata.levels(tables, y_true, dtype.value).reshape(-1)
    return jnp.append(losses, 0) if strata.has_level_of_no_loss else losses


def _best_wrong(tables: GrammarTables, theta: TreeTheta, y_true: BinaryTree) -> BinaryTree:
    dtype = theta.rules.dtype
    ones = jnp.ones(2, dtype)
    return _best_by_level(tables, tree_losses.ZERO_ONE, theta, y_true, jnp.zeros(2, dtype), ones)


def _loss_augmented(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree | Truth,
    scale: Array,
) -> BinaryTree:  # fmt: skip
    return best_tree(tables, theta, augmented_parts(tables, strata, theta, y_true, scale))


def _loss(
    tables: GrammarTables, strata: Stratification, dtype: Static[str],
    y_true: BinaryTree | Truth, y: BinaryTree,
) -> Array:  # fmt: skip
    return strata.loss(tables, y_true, y, dtype.value)


def _check(
    tables: GrammarTables, strata: Stratification, D: int, token_features: int,
    inputs: SentenceInput, outputs: BinaryTree | Truth | None = None,
) -> None:  # fmt: skip
    """All checks of values. Each relies on those before it; outputs are given for training only."""
    check_record("inputs", inputs, SentenceInput, "sentence_inputs")
    training = outputs is not None
    V = tables.lexical.shape[0]
    sizes = tree_checks.check_sentences(V, D, token_features, inputs, training)
    if not training:
        return
    strata.check_tokens(sizes["T"])
    if isinstance(outputs, Truth):
        strata.check_additive()
        outputs = tree_checks.checked_completions(outputs, sizes | {"S": tables.lexical.shape[1]})
    check_record("outputs", outputs, BinaryTree, "tree_outputs")
    tree_checks.check_trees(tables, inputs, outputs, sizes)


def grammar_tables(grammar: Grammar) -> GrammarTables:
    """The rules of a grammar as arrays that oracles look up."""
    lexical = np.full((len(grammar.terminals), len(grammar.symbols)), NOWHERE, np.int32)
    symbols, terminals = grammar.lexical_rules.T
    lexical[terminals, symbols] = np.arange(len(symbols))
    rules = GrammarRules(*grammar.binary_rules.T.astype(np.int32))
    return jax.device_put(GrammarTables(rules, lexical, grammar.root_counts > 0))


def _initial_weights(grammar: Grammar, D: int, dtype: str) -> dict[str, Array]:
    S = len(grammar.symbols)
    shapes: dict[str, tuple[int, ...]] = {
        "lexical": (len(grammar.lexical_rules),), "rules": (len(grammar.binary_rules),),
        "root": (S,),
    }  # fmt: skip
    if D:
        shapes["spans"] = (D, S)
    return {name: jax.device_put(np.zeros(shape, dtype)) for name, shape in shapes.items()}


def weighted_grammar(
    grammar: Grammar,
    *,
    loss: str = "node_f1",
    longest: int | None = None,
    span_features: int = 0,
    token_features: int = 0,
    dtype: str = "float32",
) -> Problem:
    """Parsing with a weighted grammar (thesis 4.5); see the module for F.

    Weights w = {"lexical": [Q], "rules": [R], "root": [S]}, one for each lexical rule, binary rule
    and root of the grammar, and as chosen "spans": [D, S].

    Args:
      grammar: read off the training trees; at least one binary rule.
      loss: "zero_one", "node_f1" (as the thesis has it), "all_node_f1" or "f1", whose levels are
        all pairs of matched and predicted constituents: on charts it takes much longer.
      longest: tokens of the longest (padded) sentence, needed by "f1" only.
      span_features: D, how many features `SentenceInput.spans` has; 0 for none. With the features
        of `kernels.features_of` a node's weight is a kernelised function of x and the span (4.5.1).
      token_features: D, how many features `SentenceInput.tokens` has; 0 for none. Phi of a span
        then says how wide it is and which features the tokens before it, at its ends and behind
        it have (`parts.span_rows`): D is 4 (D + 1) + 16 in the shape of w["spans"].
      dtype: "float32" or "float64".

    Returns:
      A Problem on `SentenceInput`s; outputs are `BinaryTree`s. Ties are broken as
      `cky` does; a sentence without a parse gives a tree of -1 throughout.

    Raises:
      ValueError: an argument does not fit, or dtype is float64 and jax's x64 mode is off.
    """
    dtype = tree_checks.checked_options(grammar, longest, span_features, token_features, dtype)
    tables = grammar_tables(grammar)
    strata = stratification(grammar, loss, longest)
    kind = Static(dtype)
    sparse = span_features == 0  # planes are places in the weights
    rows = span_feature_count(token_features) if token_features else span_features
    additive = Partial(_loss_augmented, tables, strata) if strata.is_additive else None
    return make_problem(
        _initial_weights(grammar, rows, dtype),
        Model(
            Partial(_potentials, token_features),
            Partial(_score, tables),
            Partial(_decode, tables),
            Partial(_loss, tables, strata, kind),
            restrict=restricted,
        ),
        Oracles(
            loss_augmented_decode=additive,
            best_wrong=Partial(_best_wrong, tables),
            level_losses=Partial(_level_losses, tables, strata, kind),
            best_by_level=Partial(_best_by_level, tables, strata),
        ),
        Space(
            plane_values=Partial(_plane_values, tables, token_features) if sparse else None,
            add_planes=Partial(_add_planes, tables, token_features) if sparse else None,
            plane_gram=Partial(_plane_gram, tables, token_features) if sparse else None,
        ),
        Partial(_check, tables, strata, span_features, token_features),
        _PADDING,
        tree_inference(tables, strata),
        tested=True,
    )
