"""Parsing problems against every tree of small grammars."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import fit, joint_feature, predict
from jaxstruct.core.padding import padded
from jaxstruct.data.bracketing import read_trees
from jaxstruct.data.trees import constituents, tags
from jaxstruct.trees.losses import NAMES, most_constituents
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode
from jaxstruct.trees.structure import (
    grammar_potentials,
    sentence_inputs,
    tree_outputs,
    weighted_grammar,
)
from tests.lib.enumeration import flat as flat_output
from tests.lib.refusals import refused
from tests.lib.structures import Every, check_oracles
from tests.lib.thorough import thorough_after
from tests.trees.structure_cases import (
    T,
    all_trees,
    bound_by,
    examples,
    flat,
    grammar,
    loss,
    nodes,
    psi,
    row_of,
    same,
    trees,
)

CLOSE = dict(rtol=0, atol=1e-9)


@cache
def problem_of(seed, name, dtype="float64"):
    return weighted_grammar(grammar(seed), loss=name, longest=T, dtype=dtype)


def random_weights(problem, integers, seed=0):
    random = np.random.default_rng(seed)

    def draw(leaf):
        values = random.integers(-1, 2, leaf.shape) if integers else random.normal(size=leaf.shape)
        return values.astype(leaf.dtype)

    return jax.tree.map(draw, problem.initial_weights)


@pytest.mark.parametrize(
    "name, dtype, seed, charts",
    thorough_after(
        4, [*((name, "float64", 0, False) for name in NAMES), ("node_f1", "float64", 0, True)]
    ),
)
def test_oracles_are_the_best_of_all_trees(x64, name, dtype, seed, charts):
    """Under random weights, and under integers, where many trees are equal."""
    problem, (x, y) = problem_of(seed, name, dtype), examples(seed)
    x = x._replace(forest=None) if charts else x
    for integers in (False, True)[dtype == "float32" :]:
        w = random_weights(problem, integers, seed)
        theta = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))(w, x)

        def every(i, w=w):
            trees, own = all_trees(seed, i), row_of(y, i)
            F = np.array([psi(seed, i, tree) @ flat(w).astype(float) for tree in trees])
            delta = np.array([loss(name, seed, own, tree) for tree in trees])
            (true,) = (k for k, tree in enumerate(trees) if same(own, tree))
            bound = bound_by(name, "svm1_margin", delta, np.arange(len(trees)) != true)
            return Every(np.array([flat_output(tree, 0) for tree in trees]), F, delta, true, bound)

        close = 1e-9 if dtype == "float64" else 1e-5
        check_oracles(problem, theta, y, every, close, plain=name == "zero_one")


@pytest.mark.smoke
def test_the_loss_of_table_4_6_by_hand(x64):
    """Spans of two tokens and more, over l - 1; two tokens have one such span, one token none."""
    read = read_trees("""
        (S (N a) (N (a a) (b b) (a a)))  (S (N (a a) (a a)) (N (b b) (a a)))
        (S (a a) (b b))  (S (N a) (b b))  (V (a a) (b b))  (S a)  (N a)""")
    own = read_grammar(read, Binarisation(memory=0))
    problem = {name: weighted_grammar(own, loss=name, dtype="float64")
               for name in ("node_f1", "all_node_f1")}  # fmt: skip
    coded = [encode(own, tree, 4).tree for tree in read]
    losses = {name: jax.jit(each.model.loss) for name, each in problem.items()}
    for a, b, inner, all_nodes in [
        (0, 1, 2 / 3, 3 / 7),  # S over all, three of the tags
        (2, 2, 0, 0), (2, 3, 0, 1 / 3), (2, 4, 1, 1 / 3), (3, 4, 1, 2 / 3),
        (5, 6, 0, 1), (5, 5, 0, 0),
    ]:  # fmt: skip
        for pair in ((a, b), (b, a)):
            true, tree = (coded[place] for place in pair)
            assert losses["node_f1"](true, tree) == pytest.approx(inner)
            assert losses["all_node_f1"](true, tree) == pytest.approx(all_nodes)


def test_the_levels_of_inner_nodes_are_as_many_as_tokens():
    """And one more, of the trees that have the inner nodes of the true one; m falls from T - 1."""
    (_, y), many = examples(0), {}
    for name in ("node_f1", "all_node_f1"):
        many[name] = jax.jit(jax.vmap(problem_of(0, name, "float32").oracles.level_losses))(y)
    assert many["node_f1"].shape[1] == T + 1 and many["all_node_f1"].shape[1] == 2 * T
    for losses, symbols in zip(many["node_f1"], y.symbols, strict=True):
        most = int((symbols >= 0).sum()) - 1
        wanted = [1 - m / most for m in range(most)] + [0] * (T + 1 - most)
        np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-6)


def random_planes(seed, random):
    """Two of the trees of each sentence of a grammar."""
    drawn = []
    for row in range(len(trees(seed=seed))):
        every = all_trees(seed, row)
        two = [every[place] for place in random.integers(0, len(every), 2)]
        drawn.append(jax.tree.map(lambda *leaves: np.stack(leaves), *two))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)


@jax.jit
def hooks(problem, w, x, y, planes, c):
    """Psi of the true trees and every hook on a batch of planes."""
    other = jax.tree.map(lambda leaf: leaf[:, 0], planes)
    return (
        jax.vmap(partial(joint_feature, problem))(x, y),
        jax.vmap(problem.space.plane_gram)(x, y, planes, other),
        jax.vmap(problem.space.plane_norms)(x, y, planes),
        problem.space.plane_values(w, x, planes),
        problem.space.add_planes(w, x, planes, c),
    )


def test_psi_inner_products_and_the_sums_of_planes(x64):
    seed, random = 0, np.random.default_rng(1)
    problem, (x, y) = problem_of(seed, "zero_one"), examples(seed)
    w, n, planes = random_weights(problem, False), len(x.length), random_planes(seed, random)
    c = random.normal(size=(n, 2))
    found = jax.tree.map(np.asarray, hooks(problem, w, x, y, planes, c))
    (feature, gram, norms, values, total), expected = found, flat(w)
    for i in range(n):
        own = psi(seed, i, row_of(y, i))
        np.testing.assert_array_equal(flat(row_of(feature, i)), own)
        two = np.array([psi(seed, i, row_of(row_of(planes, i), k)) for k in range(2)])
        np.testing.assert_allclose(gram[i], (own - two) @ (own - two[0]), **CLOSE)
        np.testing.assert_allclose(norms[i], ((own - two) ** 2).sum(axis=1), **CLOSE)
        np.testing.assert_allclose(values[i], two @ flat(w), **CLOSE)
        expected = expected + c[i] @ two
    np.testing.assert_allclose(flat(total), expected, **CLOSE)
    assert np.abs(gram).max() > 1 and (gram[:, 0] != gram[:, 1]).sum() > 2


def test_sparseness_of_trees(seed=0):
    """Thesis 4.5.3: l tokens make 2 l - 1 nodes and |Psi(x, y) - Psi(x, y')| < 2 sqrt(2) l.

    Ours count the symbol at the root besides, which the bound has room for.
    """
    compared = 0
    for row in range(len(trees(seed=seed))):
        length = int(examples(seed)[0].length[row])
        counts = np.array([psi(seed, row, tree) for tree in all_trees(seed, row)])
        assert (counts >= 0).all() and (counts.sum(axis=1) == 2 * length - 1 + 1).all()
        assert all(len(nodes(seed, tree)) == 2 * length - 1 for tree in all_trees(seed, row))
        squares = ((counts[:, None] - counts) ** 2).sum(axis=2)
        assert squares.max() <= 4 * length**2 + 4 * (length - 1) ** 2 + 2
        assert squares.max() < 8 * length**2
        compared += len(counts) > 1
    assert compared >= 2


def test_a_sentence_without_a_parse_gives_no_tree(x64):
    problem = problem_of(0, "node_f1")
    sentences = [["?", "a"], *(tags(tree) for tree in trees()[1:])]
    x = sentence_inputs(grammar(0), sentences, T + 2)
    assert x.terminals.tolist()[0][:2] == [-1, grammar(0).terminals.index("a")]
    found = predict(problem, problem.initial_weights, x)
    assert all((leaf[0] == -1).all() for leaf in found)
    assert (found.symbols[1:, 0] >= 0).all()


A, D = 2, 3
"""Features of a token, of so many; features of a span."""


@cache
def token_features():
    """[tokens, A] of each sentence, some of them none."""
    random, words = np.random.default_rng(4), [tags(tree) for tree in trees()]
    return [random.integers(-1, D, (len(each), A)) for each in words]


def edges_of(tokens, begin, end):
    """Phi of a span by what stands at its four edges, feature by feature."""
    phi = np.zeros(4 * (D + 1) + 16)
    phi[4 * (D + 1) + end - begin - 2] = 1
    for place, t in enumerate((begin - 1, begin, end - 1, end)):
        numbers = tokens[t] if 0 <= t < len(tokens) else np.array([D])
        np.add.at(phi, place * (D + 1) + numbers[numbers >= 0], 1)
    return phi


@cache
def with_features(given):
    """(problem, x, y, Phi of a span of sentence i), Phi given or made of features of tokens."""
    own, (x, y) = grammar(0), examples(0)
    if given:
        spans = np.random.default_rng(3).normal(size=(len(x.length), T, T, D))
        options, x = dict(span_features=D), x._replace(spans=spans)
        phi = lambda i, begin, end: spans[i, begin, end - 1]  # noqa: E731
    else:
        words, tokens = [tags(tree) for tree in trees()], token_features()
        options, x = dict(token_features=D), sentence_inputs(own, words, T, token_features=tokens)
        phi = lambda i, begin, end: edges_of(tokens[i], begin, end)  # noqa: E731
    problem = weighted_grammar(own, loss="all_node_f1", dtype="float64", **options)
    return problem, x, y, phi


@pytest.mark.parametrize("given", thorough_after(1, [False, True]))
def test_features_of_spans(x64, given):
    """Oracles, Psi, and what the space makes of the places alone, against every tree."""
    problem, x, y, phi = with_features(given)
    model, space = problem.model, problem.space
    w = jax.tree.map(jnp.asarray, random_weights(problem, False))

    def full(i, tree):
        spans = np.zeros(w["spans"].shape)
        for rule, begin, end in zip(tree.rules, tree.begins, tree.ends, strict=True):
            if rule >= 0:
                spans[:, grammar(0).binary_rules[rule, 0]] += phi(i, begin, end)
        return np.concatenate([psi(0, i, tree), spans.ravel()])

    @jax.jit
    @jax.vmap
    def answers(x, y):
        theta, two = model.potentials(w, x), jnp.asarray(2.0)
        best = model.decode(theta), problem.oracles.loss_augmented_decode(theta, y, two)
        best = jax.tree.map(lambda *each: jnp.stack(each), *best)
        grams = space.plane_gram(x, y, best, row_of(best, 1))
        return best, grams, joint_feature(problem, x, y)

    best, grams, features = jax.tree.map(np.asarray, answers(x, y))
    rows = range(len(x.length))
    every = [[full(i, row_of(row_of(best, i), k)) for k in range(2)] for i in rows]
    for i in rows:
        truth, (decoded, augmented) = full(i, row_of(y, i)), every[i]
        np.testing.assert_allclose(flat(row_of(features, i)), truth, **CLOSE)
        F = np.array([full(i, tree) @ flat(w) for tree in all_trees(0, i)])
        true = row_of(y, i)
        losses = np.array([loss("all_node_f1", 0, true, tree) for tree in all_trees(0, i)])
        assert decoded @ flat(w) == pytest.approx(F.max())
        found = loss("all_node_f1", 0, true, row_of(row_of(best, i), 1))
        assert augmented @ flat(w) + 2 * found == pytest.approx((F + 2 * losses).max())
        difference = truth - augmented
        expected = [(truth - decoded) @ difference, difference @ difference]
        np.testing.assert_allclose(grams[i], expected, **CLOSE)
    assert grams.max() > 1
    c = np.linspace(-1, 1, 20).reshape(10, 2)

    @jax.jit
    def of_planes(w, x, best):
        return space.plane_values(w, x, best), space.add_planes(w, x, best, c)

    values, moved = of_planes(w, x, best)
    np.testing.assert_allclose(values, every @ flat(w), **CLOSE)
    expected = flat(w) + np.einsum("ik,ikf->f", c, every)
    np.testing.assert_allclose(flat(moved), expected, **CLOSE)


def test_ragged_features_of_tokens_are_padded_as_given(x64):
    problem, x, y, _ = with_features(False)
    words = [tags(tree) for tree in trees()]
    ragged = sentence_inputs(grammar(0), words, token_features=token_features())
    outputs = tree_outputs([row_of(y, i) for i in range(len(words))])
    found, of_trees = padded(problem.padding, ragged, outputs)
    for name in ("terminals", "length", "tokens"):
        leaf = np.asarray(getattr(found, name))
        np.testing.assert_array_equal(leaf[:, :T] if leaf.ndim > 1 else leaf, getattr(x, name))
    np.testing.assert_array_equal(np.asarray(of_trees.symbols)[:, : 2 * T - 1], y.symbols)


def test_features_of_tokens_that_do_not_fit():
    own, words, (x, y) = grammar(0), [["a"], ["b", "a"]], examples(0)
    message = r"token_features must be integers \[tokens, A\] of each sentence"
    for wrong in ([[[0]]], [[[0]], [[0]]], [[[0]], [[0, 1], [0, 1]]], [[0], [0, 1]]):
        refused(message, sentence_inputs, own, words, token_features=wrong)
    refused("one of them at most", weighted_grammar, own, span_features=1, token_features=1)
    tokens = np.zeros((10, T, 1), int)
    for given, count, message in [
        (None, 3, "inputs.tokens must be given"),
        (tokens, 0, "inputs.tokens must be None"),
        (tokens + 3, 3, r"inputs.tokens\[0, 0, 0\] is 3: expected -1..2"),
    ]:
        problem = weighted_grammar(own, token_features=count)
        refused(message, problem.check, x._replace(tokens=given), y)


def test_most_constituents_is_reached():
    """By trees of the grammar over every number of tokens."""
    own, (x, _) = grammar(0), examples(0)
    most = most_constituents(own, T)
    seen = np.zeros(T, int)
    for i, length in enumerate(x.length):
        for tree in all_trees(0, i):
            count = len(list(constituents(decode(own, tree))))
            assert count <= most[length - 1]
            seen[length - 1] = max(seen[length - 1], count)
    assert seen[T - 1] > T and list(most) == sorted(most)


def test_examples_that_do_not_fit_are_refused():
    x, y = examples(0)
    assert 2 <= x.length[2] < T
    for field, index, value, message in (
        ("terminals", (0, 0), 99, r"inputs.terminals\[0, 0\] is 99: expected 0..\d, terminals of"),
        ("terminals", (0, 0), -1, r"inputs.terminals\[0, 0\] is -1: expected 0.."),
        ("length", 0, 0, r"inputs.length\[0\] is 0: expected 1..4"),
        ("symbols", (2, 0), 0, "outputs row 2 is no tree of the grammar"),
        ("rules", (2, 0), 99, "rule 99 of node 0"),
        ("splits", (2, 0), 0, "outputs row 2 is no tree"),
        ("symbols", (2, 3), 0, "outputs row 2 is no tree"),
    ):
        leaf = np.array(getattr(x if field in x._fields else y, field))
        leaf[index] = value
        changed = [one._replace(**{field: leaf}) if field in one._fields else one for one in (x, y)]
        refused(message, fit, problem_of(0, "node_f1", "float32"), *changed, "svm2")
    check = problem_of(0, "node_f1", "float32").check
    refused("SentenceInput", check, x.terminals, y)
    words = r"outputs.rules must be \[n = 10, T-1 = 3\] integers, got .*see tree_outputs"
    refused(words, check, x, y._replace(rules=y.rules[:, :1]))
    refused("which pads them", check, x._replace(terminals=[[1], [1, 2]]), y)
    words = "padded to 4 tokens, longer than longest = 3"
    refused(words, weighted_grammar(grammar(0), loss="f1", longest=3).check, x, y)
    spans = weighted_grammar(grammar(0), span_features=2).check
    words = "inputs.spans must be given, see .*: the problem has span_features = 2"
    refused(words, spans, x, y)
    missing = x._replace(spans=np.full((len(x.length), T, T, 2), np.nan))
    refused(r"inputs.spans.* is nan: expected finite", spans, missing, y)


def test_options_and_builders_that_do_not_fit():
    own, words = grammar(0), [["a"], ["b", "a"]]
    for options, message in (
        ({"loss": "f1"}, "longest"),
        ({"loss": "hamming"}, "loss is 'hamming'"),
        ({"longest": 1, "loss": "f1"}, "longest must be at least 2, got 1"),
        ({"span_features": -1}, "span_features must be at least 0, got -1"),
        ({"dtype": "float64"}, "jax is in its float32 mode"),
    ):
        refused(message, weighted_grammar, own, **options)
    refused("grammar must be a Grammar .*, got ", weighted_grammar, trees(seed=0))
    refused("problem must be made by", grammar_potentials, None, None)
    for arguments, message in (
        ((words, own, T), "grammar must be a Grammar .*, got "),
        ((own, ["a", "b"], T), r"sentences\[0\] must be a list of str, one a token, .*, got 'a'"),
        ((own, [["a", 3]], T), r"sentences\[0\]: got 3 among them, expected str"),
        ((own, [["a"], []], None), r"sentences\[1\] has 0 tokens, expected at least 1"),
        ((own, [["a"] * 5], T), r"sentences\[0\] has 5 tokens"),
        ((own, words, None, np.zeros(3)), "spans are .* give tokens, T, with them"),
        ((own, words, T, np.zeros(3)), r"spans must be \[n = 2, T = 4, T = 4, D\] numbers, got"),
    ):
        refused(message, sentence_inputs, *arguments)
    spans = np.full((2, T, T, 1), np.nan)  # only those that are read must be finite
    spans[1, 0, 1] = 0.5
    assert sentence_inputs(own, words, T, spans).spans is spans
    spans[1, 0, 1] = np.inf
    refused(r"spans\[1, 0, 1, 0\] is inf: expected finite", sentence_inputs, own, words, T, spans)
    first = next(tree for tree in trees(seed=0) if len(tags(tree)) > 2)
    wide = encode(own, first, 8).tree
    for given, message in (
        ([], "empty"),
        (wide, r"got BinaryTree; write \[tree\]"),
        ([wide, None], r"trees\[1\] must be .* the grammar lacks a part of it"),
        ([first], r"trees\[0\] must be a BinaryTree, got Tree; see"),
    ):
        refused(message, tree_outputs, given)


def test_sentences_of_one_token_alone():
    """They have no edges, and the trees that they have among others."""
    alone, among = (sentence_inputs(grammar(0), words) for words in ([["a"]], [["a"], ["b", "a"]]))
    assert not len(alone.forest.edges.rows)
    np.testing.assert_array_equal(alone.forest.nodes[0], among.forest.nodes[0])
