"""Treebanks for `experiments.parsing`: short sentences, and a grammar read off them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.treebanks import TreebankFile, load_gum, load_ldc, load_treebank_sample
from experiments.tasks.parsing_options import CORPORA, GUM_PARTS, Options
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import BinaryTree
from jaxstruct.data.errors import decoded as decoded_text
from jaxstruct.trees.parts import SentenceInput
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.bracketing import clean, read_trees
from jaxstruct.trees.phrases.grammar import Grammar, UnknownWords, read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode
from jaxstruct.trees.phrases.tree import Tree, leaves, tags, words
from jaxstruct.trees.structure import sentence_inputs, tree_outputs

TRAIN_SECTIONS = tuple(f"{section:02d}" for section in range(2, 22))
TEST_SECTIONS = ("22",)


class Treebank(NamedTuple):
    """Cleaned trees of the wanted lengths.

    Fields:
      name: of the corpus and its split, in words. train, test: trees. dev: those that choices
        are made on, where the corpus has them.
    """

    name: str
    train: tuple[Tree, ...]
    test: tuple[Tree, ...]
    dev: tuple[Tree, ...] = ()


class Part(NamedTuple):
    """The training, test or dev sentences.

    Fields:
      trees: the right ones. inputs: a store of them as sentences.
      outside: [n] bool, whether the grammar cannot make the right tree.
    """

    trees: tuple[Tree, ...]
    inputs: SentenceInput
    outside: np.ndarray


class Prepared(NamedTuple):
    """A grammar and its sentences.

    Fields:
      grammar: read off the training trees. longest: tokens of the longest sentence, at least 2.
      train, test: the sentences. outputs: a store of the training trees.
      dev: None where the treebank has none. token_features: D of `weighted_grammar`.
    """

    grammar: Grammar
    longest: int
    train: Part
    test: Part
    outputs: BinaryTree
    dev: Part | None = None
    token_features: int = 0


def load_treebank(options: Options) -> Treebank:
    """The corpus that `corpus`, `path`, `train_trees` and `test_trees` of the options name.

    Raises:
      ValueError: an option is missing or does not fit; no sentence of the wanted lengths.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    name, train, test, dev = _parts(options)
    bounds = options.shortest, options.longest
    if not 1 <= bounds[0] <= bounds[1] or bounds[1] < 2:
        raise ValueError(
            f"shortest, longest: got {bounds[0]}, {bounds[1]}, expected 1 <= shortest <= longest "
            "and longest >= 2"
        )
    kept = [_short(files, *bounds) for files in (train, test, dev)]
    if options.sentences:
        kept[0] = kept[0][: options.sentences]
    for part, trees in zip(("train", "test"), kept, strict=False):
        if not trees:
            raise ValueError(f"{part}: no tree of {bounds[0]} to {bounds[1]} tokens")
    return Treebank(name, *kept)


def folds_of(treebank: Treebank, options: Options) -> list[Treebank]:
    """The treebank, or with `folds` of the options one of each fold of all its sentences."""
    if not options.folds:
        return [treebank]
    trees = treebank.train + treebank.test
    if not 2 <= options.folds <= len(trees):
        raise ValueError(f"folds: got {options.folds}, expected 0, or 2 to {len(trees)} sentences")
    order = np.random.default_rng(options.seed).permutation(len(trees))
    name = f"{treebank.name}, all sentences in {options.folds} folds"
    return [
        Treebank(
            name, tuple(tree for i, tree in enumerate(trees) if i not in held),
            tuple(trees[i] for i in sorted(held)),
        )
        for held in (set(part.tolist()) for part in np.array_split(order, options.folds))
    ]  # fmt: skip


def _parts(
    options: Options,
) -> tuple[str, list[TreebankFile], list[TreebankFile], list[TreebankFile]]:
    """(name, files to train on, to test on, to make choices on)."""
    path = Path(options.path) if options.path else None
    own = [name for name in (options.train_trees, options.test_trees) if name]
    if options.test_part != "test" and options.corpus != "gum":
        raise ValueError("test_part: this goes with --corpus=gum")
    if options.corpus == "files":
        if len(own) < 2:
            raise ValueError("corpus: 'files' needs --train_trees and --test_trees")
        return "own files", [_file(own[0])], [_file(own[1])], []
    if own:
        raise ValueError("train_trees, test_trees: these go with --corpus=files")
    if options.corpus == "gum":
        if options.test_part not in GUM_PARTS:
            raise ValueError(f"test_part: got {options.test_part!r}, expected one of {GUM_PARTS}")
        files, part = load_gum(path), options.test_part
        name = "GUM, document split" + (f", {part} documents" if part != "test" else "")
        dev = _of(files, "dev") if part != "dev" else []
        return name, _of(files, "train"), _of(files, part), dev
    if options.corpus == "wsj":
        files = load_treebank_sample(path)
        return "WSJ sample, section 01 to 00", _of(files, "01"), _of(files, "00"), []
    if options.corpus != "ldc":
        raise ValueError(f"corpus: got {options.corpus!r}, expected one of {', '.join(CORPORA)}")
    if path is None:
        raise ValueError("path: --corpus=ldc needs the folder that holds wsj_*.mrg of LDC99T42")
    files = load_ldc(path, (*TRAIN_SECTIONS, *TEST_SECTIONS))
    train = [file for file in files if file.part in TRAIN_SECTIONS]
    return "WSJ, sections 02-21 to 22", train, _of(files, "22"), []


def _of(files: Iterable[TreebankFile], part: str) -> list[TreebankFile]:
    return [file for file in files if file.part == part]


def _file(name: str) -> TreebankFile:
    path = Path(name)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file of bracketed trees")
    return TreebankFile(path.name, "", decoded_text(path.read_bytes(), str(path)))


def _short(files: Iterable[TreebankFile], shortest: int, longest: int) -> tuple[Tree, ...]:
    """The cleaned trees of the wanted lengths, in the order of the files."""
    cleaned = (clean(tree) for file in files for tree in read_trees(file.text, file.name))
    return tuple(
        tree for tree in cleaned if tree is not None and shortest <= len(leaves(tree)) <= longest
    )


def grammar_of(trees: Sequence[Tree], options: Options) -> Grammar:
    """Read off trees, as `branching`, `memory`, `terminals` and `rare` of the options say."""
    memory = None if options.memory < 0 else options.memory
    unknown = UnknownWords(options.rare) if options.terminals == "words" else None
    return read_grammar(trees, Binarisation(options.branching, memory), unknown)


def prepare(treebank: Treebank, options: Options) -> Prepared:
    """Read the grammar off the training trees, and all sentences and trees with it."""
    grammar = grammar_of(treebank.train, options)
    longest = max(2, *(len(leaves(tree)) for part in treebank[1:] for tree in part))
    outputs = tree_outputs([_encoded(grammar, tree) for tree in treebank.train])
    train, test = (_part(grammar, trees) for trees in (treebank.train, treebank.test))
    dev = _part(grammar, treebank.dev) if treebank.dev else None
    return Prepared(grammar, longest, train, test, outputs, dev)


FREQUENT = 5
"""Training tokens that a word needs to be a feature."""


def with_span_features(data: Prepared, features: str) -> Prepared:
    """Sentences whose tokens have the features of "tags", or of "words", which has both.

    A word is a feature, in small letters, where training has it `FREQUENT` times.
    """
    if features == "rules":
        return data
    V, numbers = len(data.grammar.terminals), dict[str, int]()
    if features == "words":
        counts = Counter(word.lower() for tree in data.train.trees for word in words(tree))
        frequent = sorted(word for word, count in counts.items() if count >= FREQUENT)
        numbers = {word: V + place for place, word in enumerate(frequent)}

    def seen(part: Part) -> Part:
        terminals = part.inputs.terminals
        columns = [terminals.rows]
        if features == "words":
            every = (word.lower() for tree in part.trees for word in words(tree))
            columns.append(np.array([numbers.get(word, -1) for word in every]))
        rows = np.stack(columns, axis=1).astype(np.int32)
        tokens = Ragged(rows, terminals.offsets, -1)
        return part._replace(inputs=part.inputs._replace(tokens=tokens))

    return data._replace(
        train=seen(data.train), test=seen(data.test), dev=seen(data.dev) if data.dev else None,
        token_features=V + len(numbers),
    )  # fmt: skip


def tokens_read(grammar: Grammar, tree: Tree) -> tuple[str, ...]:
    """The tags or the words of a tree, whichever the grammar reads."""
    return tags(tree) if grammar.unknown_words is None else words(tree)


def _part(grammar: Grammar, trees: tuple[Tree, ...]) -> Part:
    inputs = sentence_inputs(grammar, [tokens_read(grammar, tree) for tree in trees])
    outside = np.array([encode(grammar, tree).tree is None for tree in trees])
    return Part(trees, inputs, outside)


def _encoded(grammar: Grammar, tree: Tree) -> BinaryTree:
    found = encode(grammar, tree).tree
    assert found is not None, "a training tree, of whose parts the grammar is made"
    return found


def decoded(
    grammar: Grammar, predicted: BinaryTree, words: Sequence[Sequence[str]]
) -> list[Tree | None]:
    """A store of predicted trees as trees over words; None where there is no parse."""
    rows = map(BinaryTree, *predicted)
    return [
        decode(grammar, row, of) if len(row.symbols) else None
        for row, of in zip(rows, words, strict=True)
    ]
