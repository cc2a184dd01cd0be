"""Treebanks for `experiments.parsing`: its options, short sentences, a grammar read off them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.treebanks import TreebankFile, load_gum, load_ldc, load_treebank_sample
from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import BinaryTree
from jaxstruct.data.bracketing import clean, read_trees
from jaxstruct.data.errors import decoded as decoded_text
from jaxstruct.data.trees import Tree, leaves, tags, words
from jaxstruct.trees.parts import SentenceInput
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.grammar import Grammar, read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode
from jaxstruct.trees.structure import sentence_inputs, tree_outputs

CORPORA = ("gum", "wsj", "ldc", "files")
GUM_PARTS = ("test", "dev", "test2")
"""Documents to test on; test2 are of genres that the training documents lack (GENTLE)."""
SHORTEST = 2
"""Tokens of a sentence, at least."""
CHUNKS = 32
"""Parts of a pass of a training, each called at one w."""
OF_THE_PAPER = ("pcfg", "svm2", "svm2_slack", "svm2_margin")
METHODS = ("pcfg", "log_linear", "svm1_margin", *OF_THE_PAPER[1:])
"""All but the first two are formulations of the solver."""
LOSSES = ("f1", "node_f1", "all_node_f1", "zero_one")
FEATURES = ("rules", "tags", "words")
"""What Psi counts; see `treebanks.with_span_features`."""


class Options(fields.Solver):
    """The flags of `experiments.parsing`, of which other commands set some."""

    corpus: str = flag(
        "gum",
        "gum: document split; wsj: the 5 % sample, section 01 to train, 00 to test; ldc: "
        "sections 02-21 and 22 of your own Penn Treebank in --path; files: --train_trees, "
        "--test_trees.",
        CORPORA,
    )
    path: str | None = flag(None, "The archive, or the folder of wsj_*.mrg with --corpus=ldc.")
    test_part: str = flag(
        "test", "--corpus=gum: the documents to test on; choose options on dev.", GUM_PARTS
    )
    train_trees: str | None = flag(None, "Your file of bracketed trees to train on.")
    test_trees: str | None = flag(None, "Your file of bracketed trees to test on.")
    longest: int = flag(10, "Tokens of a sentence, at most.", least=2)
    sentences: int = flag(0, "The first so many training sentences; 0: all.", least=0)
    methods: Sequence[str] = flag(
        OF_THE_PAPER,
        "Some of pcfg (maximum likelihood), svm2 (zero-one loss), svm2_slack, svm2_margin "
        "(the loss of --loss); and, not in the paper, log_linear (maximum conditional "
        "likelihood) and svm1_margin, which with losses of nodes searches by plain CKY and so "
        "suits long sentences.",
        METHODS,
        some=True,
    )
    c_over_n: Sequence[str] = flag(
        ("0.1",),
        "Values of C' = C / n, n training sentences, of all methods but pcfg; a/n is C = a. "
        "Pictures, plots and tests are of the first.",
        each=fields.ratio,
        some=True,
    )
    sweep: Sequence[str] = flag(
        (),
        "Further values of C'; each method goes on from the next smaller one. Empty: none.",
        each=fields.ratio,
    )
    loss: Sequence[str] = flag(
        ("node_f1", "all_node_f1", "f1"),
        "Losses of the re-scaled SVMs, a row each; see jaxstruct.trees.losses.",
        LOSSES,
        some=True,
    )
    features: Sequence[str] = flag(
        ("rules",),
        "What the score of a tree counts, a row of each SVM: rules; tags: for each symbol, too, "
        "how wide its span is, and the tags at its ends and beside them; words: and the words "
        "there.",
        FEATURES,
        some=True,
    )
    folds: int = flag(
        0,
        "Test on each of so many parts of all sentences, drawn at random, and train on the others; "
        "0: the parts that the corpus comes in.",
        least=0,
    )
    epsilon: float = flag(0.01, "Training stops when no constraint is violated by more.", above=0)
    max_passes: int = flag(100, "Passes of a training at most.", least=1)
    pictures: int = flag(4, "Test sentences to draw trees of.", least=0)
    resume: bool = flag(
        False,
        "Go on where a run with the same flags and output stopped, training by training. In "
        "the sweep the first training after that starts from zero.",
    )


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
    kept = [_short(files, options.longest) for files in (train, test, dev)]
    if options.sentences:
        kept[0] = kept[0][: options.sentences]
    for part, trees in zip(("train", "test"), kept, strict=False):
        if not trees:
            raise ValueError(f"{part}: no tree of {SHORTEST} to {options.longest} tokens")
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
        files, part = load_gum(path), options.test_part
        name = "GUM, document split" + (f", {part} documents" if part != "test" else "")
        dev = _of(files, "dev") if part != "dev" else []
        return name, _of(files, "train"), _of(files, part), dev
    if options.corpus == "wsj":
        files = load_treebank_sample(path)
        return "WSJ sample, section 01 to 00", _of(files, "01"), _of(files, "00"), []
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


def _short(files: Iterable[TreebankFile], longest: int) -> tuple[Tree, ...]:
    """The cleaned trees of the wanted lengths, in the order of the files."""
    cleaned = (clean(tree) for file in files for tree in read_trees(file.text, file.name))
    return tuple(
        tree for tree in cleaned if tree is not None and SHORTEST <= len(leaves(tree)) <= longest
    )


def grammar_of(trees: Sequence[Tree]) -> Grammar:
    """Read off trees, of whose siblings one is remembered; at each token its tag is read."""
    return read_grammar(trees, Binarisation(memory=1))


def prepare(treebank: Treebank) -> Prepared:
    """Read the grammar off the training trees, and all sentences and trees with it."""
    grammar = grammar_of(treebank.train)
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


def _part(grammar: Grammar, trees: tuple[Tree, ...]) -> Part:
    inputs = sentence_inputs(grammar, [tags(tree) for tree in trees])
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
