"""Parse trees: the k best of a weighted grammar, and features of whole trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import jax
import numpy as np

from experiments.reranking.lists import Features, Lists, Options, folds_of, joined
from experiments.tasks.parsers import problem_of, train_pcfg
from experiments.tasks.treebanks import Options as ParsingOptions
from experiments.tasks.treebanks import Prepared, Treebank, load_treebank, prepare
from jaxstruct import Problem
from jaxstruct.core.padding import bucketed_inputs
from jaxstruct.core.types import BinaryTree, PyTree
from jaxstruct.data.trees import Tree, leaves, words
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.parts import SentenceInput
from jaxstruct.trees.phrases.evaluation import ALL_TOKENS, count_constituents, score, summarise
from jaxstruct.trees.phrases.integer_trees import decode
from jaxstruct.trees.potentials import Parsed
from jaxstruct.trees.structure import grammar_potentials

BATCH = 256


def one_minus_f1(true: Tree, tree: Tree) -> float:
    """1 - F1 of labelled constituents; 0 where neither tree has one."""
    right, made = (count_constituents(one, ALL_TOKENS) for one in (true, tree))
    total = right.total() + made.total()
    return 1 - 2 * (right & made).total() / total if total else 0.0


def _below(tree: Tree) -> Iterator[tuple[Tree, Tree | None, tuple[Tree, ...], int]]:
    """(constituent, the one above, its leaves, its height) of every constituent."""
    waiting: list[tuple[Tree, Tree | None]] = [(tree, None)]
    while waiting:
        node, above = waiting.pop()
        if node.is_leaf:
            continue
        yield node, above, tuple(leaves(node)), height(node)
        waiting += [(child, node) for child in node.children]


def height(tree: Tree) -> int:
    """Levels of constituents; 0 of a leaf."""
    levels, row = 0, [tree]
    while row := [child for node in row for child in node.children]:
        levels += 1
    return levels


def parents(tree: Tree) -> Features:
    """Whole rules, with the constituent above them, and pairs of neighbouring children."""
    found: Counter = Counter()
    for node, above, _, _ in _below(tree):
        children = tuple(child.label for child in node.children)
        over = above.label if above is not None else ""
        found["rule", node.label, children] += 1
        found["rule below", over, node.label, children] += 1
        edged = ("<", *children, ">")
        for pair in zip(edged, edged[1:], strict=False):
            found["pair", node.label, pair] += 1
    return found


def parents_and_shapes(tree: Tree) -> Features:
    """Those, heights and widths of constituents, the tags at their edges, and the right branch."""
    found = Counter(parents(tree))
    for node, above, tips, levels in _below(tree):
        label, over = node.label, above.label if above is not None else ""
        found["height", label, levels] += 1
        found["width", label, len(tips)] += 1
        found["edges", label, tips[0].label, tips[-1].label] += 1
        found["first", over, label, tips[0].label] += 1
        found["last", over, label, tips[-1].label] += 1
        if len(tips) <= 3:
            found["tags", label, tuple(tip.label for tip in tips)] += 1
    found["height of the tree", height(tree)] += 1
    branch, node = 0, tree
    while node.children:
        node, branch = node.children[-1], branch + 1
    found["right branch", branch] += 1
    return found


@partial(jax.jit, static_argnums=3)
def _k_best_of_batch(problem: Problem, w: PyTree, inputs: SentenceInput, k: int) -> Parsed:
    def of_one(x: SentenceInput) -> Parsed:
        return k_best_trees(*grammar_potentials(problem, problem.model.potentials(w, x)), k)

    return jax.vmap(of_one)(inputs)


def _padded(inputs: SentenceInput, start: int) -> SentenceInput:
    """BATCH sentences from `start` on, the last one repeated."""
    rows = np.minimum(np.arange(start, start + BATCH), len(inputs.length) - 1)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], inputs)


def k_best_parses(data: Prepared, problem: Problem, w: PyTree, k: int) -> Lists:
    """The k best trees of the test sentences, with what they cost; equal trees once."""
    gold = data.test.trees
    outputs: list[list[Tree]] = [[] for _ in gold]
    scores: list[list[float]] = [[] for _ in gold]
    buckets = bucketed_inputs(problem.padding, data.test.inputs)
    for part, index in zip(buckets.parts, buckets.index, strict=True):
        for start in range(0, len(index), BATCH):
            found = _k_best_of_batch(problem, w, _padded(part, start), k)
            found = jax.tree.map(np.asarray, jax.device_get(found))
            for row, i in enumerate(index[start : start + BATCH]):
                _decode_row(data, found, row, outputs[i], scores[i], words(gold[i]))
    pairs = zip(gold, outputs, strict=True)
    costs = [[one_minus_f1(true, tree) for tree in own] for true, own in pairs]
    return Lists(outputs, scores, costs, list(gold))


def _decode_row(
    data: Prepared,
    found: Parsed,
    row: int,
    outputs: list[Tree],
    scores: list[float],
    words: Sequence[str],
) -> None:
    for rank, value in enumerate(found.score[row]):
        if not np.isfinite(value):
            break
        binary = BinaryTree(*(leaf[row, rank][: _size(leaf[row, rank])] for leaf in found.tree))
        tree = decode(data.grammar, binary, words)
        if tree is not None and tree not in outputs:
            outputs.append(tree)
            scores.append(float(value))


def _size(row: np.ndarray) -> int:
    return int((row >= 0).sum())


def parsing_options(options: Options) -> ParsingOptions:
    """How `experiments.parsing` would read the corpus and train."""
    corpus = "files" if options.train_trees else "gum"
    return ParsingOptions(
        corpus=corpus, sentences=options.examples, train_trees=options.train_trees,
        test_trees=options.test_trees,
    )  # fmt: skip


def load_lists(options: Options, dtype: str) -> tuple[Lists, Lists]:
    """(training lists, each of a grammar read off the other folds; test lists).

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    parsing = parsing_options(options)
    whole = load_treebank(parsing)
    whole = whole._replace(test=whole.test[: options.test_examples or len(whole.test)])

    def parsed(train: Sequence[Tree], test: Sequence[Tree]) -> Lists:
        data = prepare(Treebank(whole.name, tuple(train), tuple(test)))
        problem, weights = problem_of(data, "zero_one", dtype), train_pcfg(data, dtype).weights
        return k_best_parses(data, problem, weights, options.k_trees)

    parts = []
    for others, held in folds_of(len(whole.train), options.base_folds, options.seed):
        lists = parsed([whole.train[i] for i in others], [whole.train[i] for i in held])
        parts.append((held, lists))
    return joined(parts), parsed(whole.train, whole.test)


def measures(lists: Lists, places: Sequence[int]) -> tuple[float, float]:
    """(whole trees right, F1 of labelled constituents), in %; without a tree all are missed."""
    chosen = [own[k] if own else None for own, k in zip(lists.outputs, places, strict=True)]
    scores = score(lists.truths, chosen, ALL_TOKENS)
    same = [a == b for a, b in zip(lists.truths, chosen, strict=True)]
    return 100 * float(np.mean(same)), 100 * summarise(scores, failed_are_wrong=True).f1
