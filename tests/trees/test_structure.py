"""Parsing problems against every tree of small grammars."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import fit, joint_feature, predict
from jaxstruct.core.levels import best_of_levels
from jaxstruct.solvers.most_violated import same_output
from jaxstruct.trees.losses import NAMES, most_constituents
from jaxstruct.trees.parts import SentenceInput
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.bracketing import read_trees
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.integer_trees import encode
from jaxstruct.trees.phrases.tree import tags
from jaxstruct.trees.structure import (
    grammar_potentials,
    sentence_inputs,
    tree_outputs,
    weighted_grammar,
)
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


def problem_of(seed, name, dtype="float64"):
    return weighted_grammar(grammar(seed), loss=name, longest=T, dtype=dtype)


def random_weights(problem, integers, seed=0):
    random = np.random.default_rng(seed)

    def draw(leaf):
        values = random.integers(-1, 2, leaf.shape) if integers else random.normal(size=leaf.shape)
        return jnp.asarray(values, leaf.dtype)

    return jax.tree.map(draw, problem.initial_weights)


def oracles(problem, w, x, y):
    """What the solver asks of one example, under slack and margin re-scaling."""
    theta = problem.model.potentials(w, x)
    losses = problem.oracles.level_losses(y)
    truth = problem.model.score(theta, y)
    _, by_level = best_of_levels(problem, theta, y)
    level_scores = jax.vmap(problem.model.score, (None, 0))(theta, by_level)
    missing = jax.vmap(same_output, (None, 0))(y, by_level)
    level_scores = jnp.where(missing, -jnp.inf, level_scores)
    level = jnp.argmax(losses + level_scores)
    slopes = jnp.stack([losses, jnp.ones_like(losses)])  # slack and margin re-scaling
    lines = jax.vmap(problem.oracles.best_by_level, (None, None, 0, 0))
    found = lines(theta, y, losses[None] - slopes * truth, slopes)
    trees = {
        "decoded": problem.model.decode(theta),
        "wrong": problem.oracles.best_wrong(theta, y),
        "slack": jax.tree.map(lambda leaf: leaf[0], found),
        "margin": jax.tree.map(lambda leaf: leaf[1], found),
        "contender": jax.tree.map(lambda leaf: leaf[level], by_level),
    }
    if problem.oracles.loss_augmented_decode is not None:
        two = jnp.asarray(2.0, losses.dtype)
        trees["augmented"] = problem.oracles.loss_augmented_decode(theta, y, two)
    scores = {name: problem.model.score(theta, tree) for name, tree in trees.items()}
    of_trees = {name: problem.model.loss(y, tree) for name, tree in trees.items()}
    return trees, scores, of_trees, truth, (losses, level_scores)


@pytest.mark.parametrize(
    "name, dtype, integers, seed",
    [
        *((name, "float64", False, 0) for name in NAMES),
        *((name, "float32", True, 1) for name in ("node_f1", "all_node_f1", "f1")),
    ],
)
def test_oracles_are_the_best_of_all_trees(x64, name, dtype, integers, seed):
    problem, (x, y) = problem_of(seed, name, dtype), examples(seed)
    w = random_weights(problem, integers, seed)
    answers = jax.jit(jax.vmap(lambda x, y: oracles(problem, w, x, y)))(x, y)
    vector = flat(w).astype(float)
    close = CLOSE if dtype == "float64" else dict(rtol=0, atol=1e-5)
    for i in range(len(x.length)):
        trees, scores, losses, truth, contenders = row_of(answers, i)
        every, own = all_trees(seed, i), row_of(y, i)
        F = np.array([psi(seed, i, tree) @ vector for tree in every])
        delta = np.array([loss(name, seed, own, tree) for tree in every])
        wrong = np.array([not same(own, tree) for tree in every])
        margin = truth - F
        np.testing.assert_allclose(truth, psi(seed, i, own) @ vector, **close)
        for which, tree in trees.items():
            np.testing.assert_allclose(scores[which], psi(seed, i, tree) @ vector, **close)
            np.testing.assert_allclose(losses[which], loss(name, seed, own, tree), **close)
        np.testing.assert_allclose(scores["decoded"], F.max(), **close)
        if not wrong.any():
            assert same(trees["wrong"], own) and same(trees["slack"], own)
            continue
        np.testing.assert_allclose(scores["wrong"], F[wrong].max(), **close)
        assert not same(trees["wrong"], own)
        bound = bound_by(name, "svm1_margin", delta, wrong)
        if bound.any():
            found = losses["slack"] * (1 - truth + scores["slack"])
            np.testing.assert_allclose(found, (delta * (1 - margin))[bound].max(), **close)
            found = losses["margin"] - truth + scores["margin"]
            np.testing.assert_allclose(found, (delta - margin)[bound].max(), **close)
            found = losses["contender"] + scores["contender"]
            np.testing.assert_allclose(found, (delta + F)[bound].max(), **close)
        if "augmented" in trees:
            found = scores["augmented"] + 2 * losses["augmented"]
            np.testing.assert_allclose(found, (F + 2 * delta).max(), **close)
        for level_loss, level_score in zip(*contenders, strict=True):
            at = bound & (np.abs(delta - level_loss) < 1e-6)
            if level_score > -np.inf:
                assert level_score <= F[at].max() + 1e-5
        for value in set(delta[bound].round(9)):
            at = bound & (np.abs(delta - value) < 1e-6)
            levels = np.abs(contenders[0] - value) < 1e-6
            np.testing.assert_allclose(contenders[1][levels].max(), F[at].max(), **close)


def test_the_loss_of_table_4_6_by_hand(x64):
    """Spans of two tokens and more, over l - 1; two tokens have one such span, one token none."""
    read = read_trees("""
        (S (N a) (N (a a) (b b) (a a)))  (S (N (a a) (a a)) (N (b b) (a a)))
        (S (a a) (b b))  (S (N a) (b b))  (V (a a) (b b))  (S a)  (N a)""")
    own = read_grammar(read, Binarisation(memory=0))
    problem = {name: weighted_grammar(own, loss=name, dtype="float64")
               for name in ("node_f1", "all_node_f1")}  # fmt: skip
    coded = [encode(own, tree, 4).tree for tree in read]
    for a, b, inner, all_nodes in [
        (0, 1, 2 / 3, 3 / 7),  # S over all, three of the tags
        (2, 2, 0, 0), (2, 3, 0, 1 / 3), (2, 4, 1, 1 / 3), (3, 4, 1, 2 / 3),
        (5, 6, 0, 1), (5, 5, 0, 0),
    ]:  # fmt: skip
        for pair in ((a, b), (b, a)):
            true, tree = (coded[place] for place in pair)
            assert problem["node_f1"].model.loss(true, tree) == pytest.approx(inner)
            assert problem["all_node_f1"].model.loss(true, tree) == pytest.approx(all_nodes)


def test_the_levels_of_inner_nodes_are_as_many_as_tokens():
    """And one more, of the trees that have the inner nodes of the true one; m falls from T - 1."""
    (_, y), many = examples(0), {}
    for name in ("node_f1", "all_node_f1"):
        many[name] = jax.vmap(problem_of(0, name, "float32").oracles.level_losses)(y)
    assert many["node_f1"].shape[1] == T + 1 and many["all_node_f1"].shape[1] == 2 * T
    for losses, symbols in zip(many["node_f1"], y.symbols, strict=True):
        most = int((symbols >= 0).sum()) - 1
        wanted = [1 - m / most for m in range(most)] + [0] * (T + 1 - most)
        np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-6)


def test_psi_inner_products_and_the_sums_of_planes(x64):
    seed = 0
    problem, (x, y) = problem_of(seed, "zero_one"), examples(seed)
    w, n = random_weights(problem, False), len(x.length)
    feature = jax.jit(joint_feature)
    decoded = predict(problem, w, x)
    wrong = jax.jit(
        jax.vmap(lambda x, y: problem.oracles.best_wrong(problem.model.potentials(w, x), y))
    )(x, y)
    planes = jax.tree.map(lambda a, b: np.stack([a, b], axis=1), wrong, decoded)
    gram = jax.jit(jax.vmap(problem.space.plane_gram))(x, y, planes, wrong)
    norms = jax.jit(jax.vmap(problem.space.plane_norms))(x, y, planes)
    values = jax.jit(problem.space.plane_values)(w, x, planes)
    c = np.random.default_rng(1).normal(size=(n, 2))
    total, expected = jax.jit(problem.space.add_planes)(w, x, planes, c), flat(w)
    for i in range(n):
        own = psi(seed, i, row_of(y, i))
        if i < 4:
            np.testing.assert_array_equal(flat(feature(problem, row_of(x, i), row_of(y, i))), own)
        two = np.array([psi(seed, i, row_of(each, i)) for each in (wrong, decoded)])
        np.testing.assert_allclose(gram[i], (own - two) @ (own - two[0]), **CLOSE)
        np.testing.assert_allclose(norms[i], ((own - two) ** 2).sum(axis=1), **CLOSE)
        np.testing.assert_allclose(values[i], two @ flat(w), **CLOSE)
        expected = expected + c[i] @ two
    np.testing.assert_allclose(flat(total), expected, **CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_sparseness_of_trees(seed):
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


def test_padding_and_single_sentences_change_nothing(x64):
    problem, (x, _) = problem_of(0, "node_f1"), examples(0)
    w = random_weights(problem, False)
    wanted = predict(problem, w, x)
    wider = x._replace(terminals=np.pad(x.terminals, ((0, 0), (0, 2)), constant_values=-1))
    padded = predict(problem, w, wider)
    for a, b in zip(padded, wanted, strict=True):
        np.testing.assert_array_equal(a[:, : b.shape[1]], b)
        assert (a[:, b.shape[1] :] == -1).all()
    decode = jax.jit(lambda x: problem.model.decode(problem.model.potentials(w, x)))
    for i in range(3):
        assert same(decode(row_of(x, i)), row_of(wanted, i))


def test_a_sentence_without_a_parse_gives_no_tree():
    problem = problem_of(0, "zero_one", "float32")
    x = sentence_inputs(grammar(0), [["a"], ["?", "a"]], T)
    assert x.terminals.tolist()[1][:2] == [-1, grammar(0).terminals.index("a")]
    found = predict(problem, problem.initial_weights, x)
    assert all((leaf[1] == -1).all() for leaf in found)


def test_features_of_spans(x64):
    """Psi of the additional features is the sum over nodes; their Gram matrix goes with it."""
    D, own = 2, grammar(0)
    problem = weighted_grammar(own, loss="node_f1", span_features=D, dtype="float64")
    x, y = examples(0)
    random = np.random.default_rng(3)
    x = x._replace(spans=random.normal(size=(len(x.length), T, T, D)))
    w = random_weights(problem, False)
    decoded = predict(problem, w, x)
    for i in (1, 2, 5):

        def full(tree, i=i):
            spans = np.zeros((D, len(own.symbols)))
            for rule, begin, end in zip(tree.rules, tree.begins, tree.ends, strict=True):
                if rule >= 0:
                    spans[:, own.binary_rules[rule, 0]] += x.spans[i, begin, end - 1]
            lexical_root_rules, split = psi(0, i, tree), len(flat(w)) - spans.size
            assert len(lexical_root_rules) == split
            return np.concatenate([lexical_root_rules, spans.ravel()])

        one, truth, best = row_of(x, i), row_of(y, i), row_of(decoded, i)
        found = flat(jax.jit(joint_feature)(problem, one, truth))
        np.testing.assert_allclose(found, full(truth), **CLOSE)
        F = np.array([full(tree) @ flat(w) for tree in all_trees(0, i)])
        assert full(best) @ flat(w) == pytest.approx(F.max())
        gram = jax.jit(problem.space.plane_gram)(
            one, truth, jax.tree.map(lambda a: a[None], best), best
        )
        difference = full(truth) - full(best)
        assert gram[0] == pytest.approx(difference @ difference)


def test_most_constituents_is_reached():
    """By trees of the grammar over every number of tokens."""
    from jaxstruct.trees.phrases.integer_trees import decode
    from jaxstruct.trees.phrases.tree import constituents

    own, (x, _) = grammar(0), examples(0)
    most = most_constituents(own, T)
    seen = np.zeros(T, int)
    for i, length in enumerate(x.length):
        for tree in all_trees(0, i):
            count = len(list(constituents(decode(own, tree))))
            assert count <= most[length - 1]
            seen[length - 1] = max(seen[length - 1], count)
    assert seen[T - 1] > T and list(most) == sorted(most)


@pytest.mark.parametrize(
    "change, message",
    [
        (("terminals", (0, 0), 99), "inputs.terminals row 0 has 99 at 0"),
        (("terminals", (0, 0), -1), "inputs.terminals row 0 has -1 at 0"),
        (("length", 0, 0), r"inputs.length\[0\] is 0: expected 1..4"),
        (("symbols", (2, 0), 0), "outputs row 2 is no tree of the grammar"),
        (("rules", (2, 0), 99), "rule 99 of node 0"),
        (("ends", (2, 0), 1), "outputs row 2 is no tree"),
        (("splits", (2, 0), 0), "outputs row 2 is no tree"),
        (("symbols", (2, 3), 0), "outputs row 2 is no tree"),
    ],
)
def test_the_door_names_what_does_not_fit(change, message):
    (x, y), (field, index, value) = examples(0), change
    assert 2 <= x.length[2] < T or field != "symbols"
    where = x if field in x._fields else y
    leaf = np.array(getattr(where, field))
    leaf[index] = value
    x, y = (each._replace(**{field: leaf}) if field in each._fields else each for each in (x, y))
    with pytest.raises(ValueError, match=message):
        fit(problem_of(0, "node_f1", "float32"), x, y, "svm2")


def test_other_doors():
    x, y = examples(0)
    with pytest.raises(ValueError, match="longest"):
        weighted_grammar(grammar(0), loss="f1")
    with pytest.raises(ValueError, match="loss is 'hamming'"):
        weighted_grammar(grammar(0), loss="hamming")
    with pytest.raises(ValueError, match="padded to 4 tokens, longer than longest = 3"):
        weighted_grammar(grammar(0), loss="f1", longest=3).check(x, y)
    with pytest.raises(ValueError, match="SentenceInput"):
        problem_of(0, "node_f1", "float32").check(x.terminals, y)
    with pytest.raises(ValueError, match="outputs must have shapes"):
        problem_of(0, "node_f1", "float32").check(x, y._replace(rules=y.rules[:, :1]))
    with pytest.raises(ValueError, match=r"inputs.spans must be \(10, 4, 4, 2\)"):
        weighted_grammar(grammar(0), span_features=2).check(x, y)
    with pytest.raises(ValueError, match=r"sentences\[0\] has 5 tokens"):
        sentence_inputs(grammar(0), [["a"] * 5], T)
    with pytest.raises(ValueError, match="empty"):
        tree_outputs([])
    assert isinstance(x, SentenceInput)


def test_sentences_of_other_types():
    own, words = grammar(0), [["a"], ["b", "a"]]
    for arguments, message in [
        ((words, own, T), "grammar: got list, expected a Grammar"),
        ((own, "a b", T), "sentences must be a list of lists of str, .* got 'a b'"),
        ((own, None, T), "sentences must be a list of lists"),
        ((own, ["a", "b"], T), r"sentences\[0\]: got 'a', expected a list of str, one a token"),
        ((own, [["a"], None], T), r"sentences\[1\]: got None, expected a list of str"),
        ((own, [["a", 3]], T), r"sentences\[0\]: got 3 among them, expected str"),
        ((own, words, 4.0), "tokens must be an integer, got 4.0"),
        ((own, [["a"], []], None), r"sentences\[1\] has 0 tokens, expected at least 1"),
        ((own, words, None, np.zeros(3)), "spans are .* give tokens, T, with them"),
    ]:
        with pytest.raises(ValueError, match=message):
            sentence_inputs(*arguments)
    with pytest.raises(ValueError, match=r"spans must be numbers \[2, 4, 4, D\], got shape \(3,\)"):
        sentence_inputs(own, words, T, np.zeros(3))


def test_only_features_of_spans_that_are_read_must_be_finite():
    spans = np.full((2, T, T, 1), np.nan)
    spans[1, 0, 1] = 0.5
    found = sentence_inputs(grammar(0), [["a"], ["b", "a"]], T, spans)
    assert found.spans is spans
    spans[1, 0, 1] = np.inf
    with pytest.raises(ValueError, match=r"must be finite, got inf at \(1, 0, 1, 0\) \(1 such"):
        sentence_inputs(grammar(0), [["a"], ["b", "a"]], T, spans)
    x, y = examples(0)
    x = x._replace(spans=np.full((len(x.length), T, T, 1), np.nan))
    with pytest.raises(ValueError, match="inputs.spans must be finite, got nan"):
        weighted_grammar(grammar(0), span_features=1).check(x, y)


def test_outputs_of_other_types():
    own, (first, second) = grammar(0), [tree for tree in trees(seed=0) if len(tags(tree)) > 2][:2]
    wide, narrow = encode(own, first, 8), encode(own, second, 7)
    for given, error, message in [
        (None, ValueError, "trees must be a list of BinaryTrees, got NoneType"),
        (wide.tree, ValueError, r"got BinaryTree; write \[tree\]"),
        ([wide], ValueError, r"trees\[0\] must be a BinaryTree, got Encoding; take its field"),
        ([wide.tree, None], ValueError, r"trees\[1\] must be .* the grammar lacks a part of it"),
        ([first], ValueError, r"trees\[0\] must be a BinaryTree, got Tree; see"),
        (
            [narrow.tree._replace(rules=np.zeros(2))],
            ValueError,
            r"trees\[0\].rules must be .T. int",
        ),
    ]:
        with pytest.raises(error, match=message):
            tree_outputs(given)
    with pytest.raises(ValueError, match=r"trees\[0\] has . tokens, expected 1..2"):
        tree_outputs([wide.tree, narrow.tree], 2)
    x, y = examples(0)
    floats = y._replace(rules=y.rules.astype(float))
    with pytest.raises(ValueError, match="outputs.rules must be integers, got dtype float64"):
        problem_of(0, "node_f1", "float32").check(x, floats)
    with pytest.raises(ValueError, match="inputs.terminals has rows of different lengths"):
        problem_of(0, "node_f1", "float32").check(x._replace(terminals=[[1], [1, 2]]), y)


@pytest.mark.parametrize("options, error, message", [
    (dict(longest="8", loss="f1"), ValueError, "longest must be an integer, got '8'"),
    (dict(longest=1, loss="f1"), ValueError, "longest must be at least 2, got 1"),
    (dict(span_features=2.0), ValueError, "span_features must be an integer, got 2.0"),
    (dict(span_features=-1), ValueError, "span_features must be at least 0, got -1"),
    (dict(dtype=None), ValueError, "dtype must be \"float32\" or \"float64\", got None"),
    (dict(dtype="int32"), ValueError, "dtype must be \"float32\" or \"float64\", got 'int32'"),
    (dict(dtype="float64"), ValueError, "jax is in its float32 mode"),
    (dict(loss=["f1"]), ValueError, r"loss is \['f1'\]; choose one of"),
])  # fmt: skip
def test_options_of_other_types(options, error, message):
    with pytest.raises(error, match=message):
        weighted_grammar(grammar(0), **options)


def test_no_grammar_and_no_problem_of_one():
    with pytest.raises(ValueError, match="grammar: got tuple, expected a Grammar"):
        weighted_grammar(trees(seed=0))
    with pytest.raises(ValueError, match="problem must be made by"):
        grammar_potentials(None, None)
    assert weighted_grammar(grammar(0), dtype=np.float32).initial_weights["root"].dtype == "float32"
