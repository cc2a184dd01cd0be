"""Precision, recall and F1 by hand, as EVALB counts them, and against a plain recount."""

from __future__ import annotations

import itertools

import pytest

from jaxstruct.data.bracketing import read_tree
from jaxstruct.data.trees import Tree, constituents
from jaxstruct.trees.phrases.evaluation import (
    ALL_TOKENS,
    COLLINS,
    ERROR,
    SKIPPED,
    VALID,
    Measure,
    count_constituents,
    score,
    summarise,
)
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.integer_trees import encode
from tests.lib.refusals import refused
from tests.trees.random_trees import random_trees

GOLD = "(S (NP (DT the) (NN man)) (VP (VBD saw) (NP (PRP her)) (PP (IN at) (NP (NN noon)))) (. .))"
WRONG = (
    "(S (NP (DT the) (NN man)) "
    "(VP (VBD saw) (NP (NP (PRP her)) (PP (IN at) (NP (NN noon))))) (. .))"
)


def _one(gold: str, predicted: str | None, measure: Measure = ALL_TOKENS) -> tuple[int, ...]:
    """(status, m, g, p) of one sentence."""
    made = None if predicted is None else read_tree(predicted)
    found = score([read_tree(gold)], [made], measure)
    return tuple(int(column[0]) for column in found)


def test_attachment_by_hand() -> None:
    """Gold S NP VP NP PP NP; the wrong one has NP 3-5 more."""
    assert _one(GOLD, WRONG) == (VALID, 6, 6, 7)
    assert _one(GOLD, GOLD) == (VALID, 6, 6, 6)
    found = summarise(score([read_tree(GOLD)], [read_tree(WRONG)]))
    assert found.precision == pytest.approx(6 / 7)
    assert found.recall == 1.0
    assert found.f1 == pytest.approx(12 / 13)
    assert found.exact == 0.0


COUNTS = (
    ("(NP (NP (NN a)))", "(NP (NN a))", (1, 2, 1)),
    ("(NP (NN a))", "(NP (NP (NN a)))", (1, 1, 2)),
    ("(NP (NP (NN a)))", "(NP (NP (NP (NN a))))", (2, 2, 3)),
    ("(NP (S (NN a)))", "(S (NP (NN a)))", (2, 2, 2)), ("(NN a)", "(NP (NN a))", (0, 0, 1)),
    ("(NP (NN a))", "(NP (VB a))", (1, 1, 1)), ("(TOP (NP (NN a)))", "(NP (NN a))", (1, 1, 1)),
    ("( (S (NP-SBJ-1 (NN a))))", "(ROOT (S=2 (NP (NN a))))", (2, 2, 2)),
)  # fmt: skip


def test_multisets_tags_outer_labels_and_function_tags() -> None:
    for gold, predicted, counts in COUNTS:
        assert _one(gold, predicted) == (VALID, *counts)


def test_unlabelled() -> None:
    gold = "(S (NP (DT the) (NN man)) (VP (VB saw)))"
    predicted = "(X (S (NX (DT the) (NN man)) (VB saw)))"
    assert _one(gold, predicted) == (VALID, 1, 3, 3)
    assert _one(gold, predicted, Measure(labelled=False)) == (VALID, 2, 3, 3)


def test_punctuation_is_deleted_and_spans_are_renumbered() -> None:
    """Where the comma and the stop hang makes no difference, what holds only them is gone."""
    gold = "(S (NP (NN a)) (, ,) (VP (VB b)) (. .))"
    predicted = "(S (NP (NN a) (, ,)) (VP (VB b) (NX (. .))))"
    assert _one(gold, predicted) == (VALID, 1, 3, 4)
    assert _one(gold, predicted, COLLINS) == (VALID, 3, 3, 3)
    found = count_constituents(read_tree(predicted), COLLINS)
    assert found == {("S", 0, 2): 1, ("NP", 0, 1): 1, ("VP", 1, 2): 1}


def test_traces_and_equal_labels() -> None:
    gold = "(S (SBAR (-NONE- 0) (S (-NONE- *))) (PRT (RP up)))"
    assert _one(gold, "(S (ADVP (RP up)))", COLLINS) == (VALID, 2, 2, 2)
    assert _one(gold, "(S (ADVP (RP up)))") == (ERROR, 0, 4, 0)


def test_other_tags_can_be_deleted_than_the_right_tree_has() -> None:
    """As in EVALB, each tree's own tags decide; then the tokens may differ."""
    assert _one("(S (NN a) (. .))", "(S (NN a) (SYM .))", COLLINS)[0] == ERROR


def test_failed_sentences() -> None:
    """EVALB leaves errors and skipped sentences out of all sums."""
    good, bad = read_tree(GOLD), read_tree(WRONG)
    other = read_tree("(S (NN x))")
    only_stop = read_tree("(S (. .))")
    found = score([good] * 4, [bad, None, other, only_stop], COLLINS)
    assert found.status.tolist() == [VALID, SKIPPED, ERROR, SKIPPED]
    assert found.gold.tolist() == [6] * 4
    assert found.matched.tolist() == [6, 0, 0, 0]
    as_evalb = summarise(found)
    assert (as_evalb.valid, as_evalb.errors, as_evalb.skipped) == (1, 1, 2)
    assert as_evalb.recall == 1.0
    strict = summarise(found, failed_are_wrong=True)
    assert strict.recall == 6 / 24
    assert strict.precision == as_evalb.precision == 6 / 7
    assert strict.f1 == pytest.approx(2 * 0.25 * (6 / 7) / (0.25 + 6 / 7))


def test_micro_average_and_exact_match() -> None:
    """F1 of sums, not the mean of the sentences' F1."""
    gold = [read_tree(GOLD), read_tree("(NP (NN a))"), read_tree("(S (NP (NN a) (NN b)))")]
    made = [read_tree(WRONG), read_tree("(NP (NN a))"), read_tree("(VP (NP (NN a) (NN b)))")]
    found = score(gold, made)
    assert found.exact.tolist() == [False, True, False]
    total = summarise(found)
    assert total.precision == pytest.approx(8 / 10)
    assert total.recall == pytest.approx(8 / 9)
    assert total.f1 == pytest.approx(2 * 8 / (10 + 9))
    assert total.exact == pytest.approx(1 / 3)
    failed = summarise(score(gold, [None, made[1], None]), failed_are_wrong=True)
    assert failed.exact == pytest.approx(1 / 3)


def test_nothing_to_count_is_zero() -> None:
    leaf = read_tree("(NN a)")
    found = summarise(score([leaf], [leaf]))
    assert (found.precision, found.recall, found.f1, found.exact) == (0.0, 0.0, 0.0, 1.0)
    assert score([leaf], [None]).exact.tolist() == [False]
    empty = summarise(score([], []))
    assert (empty.f1, empty.exact, empty.valid) == (0.0, 0.0, 0)


def _with_words(tree: Tree, numbers: itertools.count) -> Tree:
    if tree.is_leaf:
        return Tree(tree.label, word=f"w{next(numbers)}")
    return Tree(tree.label, tuple(_with_words(child, numbers) for child in tree.children))


def test_random_pairs_against_a_greedy_matching() -> None:
    """EVALB's own loop: each right bracket takes the first equal one that is still free."""
    trees = [_with_words(tree, itertools.count()) for tree in random_trees(40, 3000, 5)]
    pairs = 0
    for gold, made in zip(trees[::2], trees[1::2], strict=True):
        free = constituents(made)
        matched = 0
        for part in constituents(gold):
            if part in free:
                free.remove(part)
                matched += 1
        status, *counts = (int(column[0]) for column in score([gold], [made]))
        if status == VALID:
            assert counts == [matched, len(constituents(gold)), len(constituents(made))]
            pairs += matched > 0
    assert pairs > 50


def test_the_grammar_counts_the_same_constituents() -> None:
    trees = random_trees(41, 100)
    trees = [Tree("ROOT", (tree,)) for tree in trees]
    grammar = read_grammar(trees)
    for tree in trees:
        coded = encode(grammar, tree).tree
        parents = grammar.binary_rules[coded.rules[coded.rules >= 0], 0]
        above = coded.symbols[coded.symbols >= 0]
        found = grammar.constituents[parents].sum() + grammar.token_constituents[above].sum()
        assert found == count_constituents(tree, ALL_TOKENS).total()


def test_other_types() -> None:
    tree = Tree("S", (Tree("NN", word="dog"),))
    for arguments, message in [
        ((None, [tree]), "gold must be a list of Trees, got None"),
        (([None], [tree]), r"gold\[0\]: got NoneType, expected one Tree"),
        (([tree], ["(S a)"]), r"predicted\[0\]: got str, expected one Tree"),
        (([tree], []), "predicted: got 0 trees, expected 1"),
        (([tree], [tree], "f1"), "measure must be a Measure .*got str 'f1'"),
    ]:
        refused(message, score, *arguments)
