"""All of GUM and of the Penn Treebank's sample is read; some trees go there and back."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from experiments.corpora import locate
from experiments.corpora.treebanks import TreebankFile, load_gum, load_treebank_sample
from jaxstruct.data.bracketing import (
    TRACE,
    clean,
    read_tree,
    read_trees,
    without_traces,
    write_line,
)
from jaxstruct.data.trees import Tree, tags, words
from jaxstruct.trees.phrases.binarisation import Binarisation, binarise, debinarise
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode


def _require(corpus: str, path: str) -> None:
    named = os.environ.get(locate.DATA_VARIABLE, "")
    if not named or not (Path(named) / corpus / path).is_file():
        pytest.skip(f"{locate.DATA_VARIABLE} is unset or its folder lacks {corpus}/{path}")


def _trees(files: tuple[TreebankFile, ...]) -> dict[str, list[Tree]]:
    found = defaultdict(list)
    for file in files:
        found[file.part] += read_trees(file.text, file.name)
    return found


@pytest.fixture(scope="module")
def gum() -> dict[str, list[Tree]]:
    _require("gum", "gum-const.tar.xz")
    return _trees(load_gum())


@pytest.fixture(scope="module")
def short(gum) -> dict[str, list[Tree]]:
    return {part: _short(gum[part], 2) for part in ("train", "dev", "test")}


@pytest.fixture(scope="module")
def sample() -> dict[str, list[Tree]]:
    _require("treebank", "treebank.zip")
    return _trees(load_treebank_sample())


def _check_there_and_back(parts: dict[str, list[Tree]], step: int) -> None:
    trees = [tree for part in parts.values() for tree in part]
    assert all(read_tree(write_line(tree)) == tree for tree in trees[:: 2 * step + 1])
    cleaned = [clean(tree) for tree in trees[::step]]  # all of them take half a minute
    assert None not in cleaned
    short = Binarisation("left", 1)
    assert all(debinarise(binarise(tree, short), short) == tree for tree in cleaned[::3])
    grammar = read_grammar(cleaned)
    for tree in cleaned[::3]:
        found = encode(grammar, tree)
        assert found.missing == ()
        assert decode(grammar, found.tree, words(tree)) == tree


@pytest.mark.thorough
def test_every_tree_of_gum(gum) -> None:
    assert {part: len(trees) for part, trees in gum.items()} == {
        "train": 10_224, "dev": 1_575, "test": 1_464, "test2": 1_334,
    }  # fmt: skip
    _check_there_and_back(gum, 10)


def test_every_tree_of_the_sample(sample) -> None:
    assert {part: len(trees) for part, trees in sample.items()} == {"00": 1_921, "01": 1_993}
    assert any(TRACE in tags(tree) for tree in sample["00"])
    _check_there_and_back(sample, 3)


def _short(trees: list[Tree], least: int) -> list[Tree]:
    """Cleaned trees of at most 10 tokens, punctuation counted, traces not."""
    kept = [tree for tree in trees if least <= len(words(without_traces(tree))) <= 10]
    return [clean(tree) for tree in kept]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("memory", "sizes", "outside"),
    [(None, (1_287, 3_401, 139), 141), (2, (1_022, 3_217, 139), 138), (0, (188, 1_755, 139), 78)],
)
def test_short_sentences_of_gum(short, memory, sizes, outside) -> None:
    assert [*map(len, short.values())] == [3_793, 579, 411]
    grammar = read_grammar(short["train"], Binarisation("right", memory))
    found = len(grammar.symbols), len(grammar.binary_rules), len(grammar.lexical_rules)
    assert found == sizes
    assert sum(bool(encode(grammar, tree).missing) for tree in short["test"]) == outside


def test_short_sentences_of_the_sample(sample) -> None:
    train, test = _short(sample["01"], 1), _short(sample["00"], 1)
    assert (len(train), len(test)) == (209, 184)
    grammar = read_grammar(train)
    found = len(grammar.symbols), len(grammar.binary_rules), len(grammar.lexical_rules)
    assert found == (227, 469, 68)
    assert sum(bool(encode(grammar, tree).missing) for tree in test) == 140
