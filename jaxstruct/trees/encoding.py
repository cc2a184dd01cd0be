"""Treebanks as people hold them, bracketed text, as inputs and outputs of a grammar, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from jaxstruct.core.checks import as_list, check_flag, check_record, kind_and_text_of, text_of, warn
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.prepared import Prepared, prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.tables import Table, ranking
from jaxstruct.core.types import BinaryTree
from jaxstruct.data.bracketing import read_tree, read_trees, without_outer
from jaxstruct.data.trees import Tree, is_of_nltk, of_nltk, tags, words
from jaxstruct.trees.example_checks import checked_brackets
from jaxstruct.trees.forests import forests_of, store_of
from jaxstruct.trees.parts import KnownNodes, SentenceInput
from jaxstruct.trees.phrases.binarisation import Binarisation, chain_labels
from jaxstruct.trees.phrases.grammar import Grammar, UnknownWords, read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode
from jaxstruct.trees.structure import sentence_inputs, tree_outputs, weighted_grammar

Trees: TypeAlias = "str | Iterable[Any]"
"""Trees: one bracketed text of all, or a list of Trees, trees of NLTK or bracketed texts, and
`Brackets` where a tree is not known whole."""
Sentences: TypeAlias = "Trees | Sequence[Sequence[str]]"
"""Sentences: lists of what the grammar reads, tags or words; or trees, whose leaves are read."""


_NODES = ("rules", "begins", "splits", "ends")
"""Columns of a store with a row for every inner node."""


class Brackets(NamedTuple):
    """A sentence of whose tree some constituents are known.

    Fields:
      sentence: l texts, the tags, or the words where the grammar reads words.
      known: triples (start, end, label) over the tokens start .. end - 1, label None where it is
        not known, a set of those that it may be. They may not cross.
    """

    sentence: Sequence[str]
    known: Sequence[tuple[int, int, Any]]


class TreeEncoding(NamedTuple):
    """What the numbers of symbols, rules and terminals mean. Made by `prepare`.

        data = prepare(trees)
        solution = fit(*data, C=10.0)
        found = predict(data.problem, solution, data.encoding.inputs(sentences))
        parsed = data.encoding.decode(found, sentences)

    Fields:
      grammar: read off the training trees.
    """

    grammar: Grammar
    structure = "weighted_grammar"
    columns = ("offsets", "node_offsets", "terminals", "symbols", *_NODES)

    def problem(self, **options: Any) -> Problem:
        """`weighted_grammar` of these rules; options are those of `weighted_grammar`."""
        return weighted_grammar(self.grammar, **options)

    def inputs(self, sentences: Sentences) -> SentenceInput:
        """The inputs of n sentences, ragged.

        Args:
          sentences: n lists of tags, or of words where the grammar reads words; or trees. A token
            that the grammar does not know has no terminal, and its sentence no parse: a warning
            counts them (`UnseenFeatures`).

        Raises:
          ValueError: they are no sentences, or one is empty.
        """
        read = [self._read(one) for one in _listed(sentences)]
        inputs = sentence_inputs(self.grammar, read)
        assert isinstance(inputs.terminals, Ragged), "no tokens are given"
        unknown = inputs.terminals.rows < 0
        if unknown.any():
            notice = _notice(inputs.terminals, unknown, read)
            warn(notice, UnseenFeatures, int(unknown.sum()))
        return inputs

    def outputs(self, trees: Trees) -> BinaryTree | Incomplete:
        """The trees in the numbers of the grammar, ragged; `Incomplete` with `Brackets` among them.

        Raises:
          ValueError: they are no trees, or one of them needs a rule that training did not have; the
            message names the tree and what the grammar lacks.
        """
        read, encoded = _as_trees("trees", trees), []
        for i, tree in enumerate(read):
            if isinstance(tree, Brackets):
                shape = len(tree.sentence), *[max(len(tree.sentence) - 1, 1)] * 4
                encoded.append(BinaryTree(*(np.zeros(size, np.int32) for size in shape)))
                continue
            found = encode(self.grammar, tree)
            if found.tree is None:
                raise ValueError(
                    f"trees[{i}] is no tree of the grammar, which lacks {found.missing[0]} "
                    f"({len(found.missing)} such): fit the encoding to this tree, too, or leave it "
                    "out"
                )
            encoded.append(found.tree)
        outputs = tree_outputs(encoded)
        if not any(isinstance(tree, Brackets) for tree in read):
            return outputs
        known = [
            self._of_brackets(f"trees[{i}]", tree) if isinstance(tree, Brackets) else
            self._of_tree(own)
            for i, (tree, own) in enumerate(zip(read, encoded, strict=True))
        ]  # fmt: skip
        return Incomplete(outputs, KnownNodes(*map(store_of, zip(*known, strict=True))))

    def _of_tree(self, tree: BinaryTree) -> KnownNodes:
        """All nodes of a whole tree."""
        one = np.eye(len(self.grammar.symbols), dtype=bool)
        inner = tree.rules >= 0
        spans = np.stack([tree.begins, tree.ends - 1], axis=1)[inner]
        parents = self.grammar.binary_rules[tree.rules[inner], 0]
        return KnownNodes(one[tree.symbols[tree.symbols >= 0]], spans, one[parents])

    def _of_brackets(self, name: str, given: Brackets) -> KnownNodes:
        """The nodes that some constituents are part of."""
        grammar, length = self.grammar, len(given.sentence)
        chains = [chain_labels(symbol, grammar.binarisation) for symbol in grammar.symbols]
        tokens, nodes = np.ones((length, len(chains)), bool), {}
        for start, end, label in checked_brackets(name, given.known, length):
            labels = [chain[:-1] if end - start == 1 else chain for chain in chains]
            may = label if isinstance(label, set) else {label}
            fits = np.array([bool(own if label is None else may & {*own}) for own in labels])
            if not fits.any():
                raise ValueError(
                    f"{name} has the label {text_of(label)}, which no constituent of the trees "
                    "that are known whole has: add such a tree, or correct it"
                )
            at = start, end - 1
            nodes[at] = nodes.get(at, True) & fits
        for t in range(length):
            tokens[t] &= nodes.pop((t, t), True)
        spans = np.array([*nodes], np.int32).reshape(-1, 2)
        return KnownNodes(
            tokens, spans, np.array([*nodes.values()], bool).reshape(len(spans), len(chains))
        )

    def decode(self, outputs: BinaryTree, sentences: Sentences | None = None) -> list[Tree | None]:
        """The trees of n sentences, such as `predict` returns them.

        Args:
          outputs: n trees of numbers.
          sentences: the n sentences, whose words stand at the leaves; of lists of tags the tags.
            None: each leaf holds its tag once more.

        Returns:
          n trees, without intermediate symbols; None for a sentence that has no parse.

        Raises:
          ValueError: outputs are no trees of the grammar, or sentences are of other lengths.
        """
        check_record("outputs", outputs, BinaryTree, "tree_outputs")
        found = [_one(outputs, i) for i in range(len(outputs.symbols))]
        if sentences is None:
            texts: list[tuple[str, ...] | None] = [None] * len(found)
        else:
            listed = _listed(sentences)
            texts = [words(one) if isinstance(one, Tree) else tuple(one) for one in listed]
        if len(texts) != len(found):
            raise ValueError(f"sentences are {len(texts)}, outputs {len(found)}: one a tree")
        return [
            decode(self.grammar, tree, text) if (tree.symbols >= 0).any() else None
            for tree, text in zip(found, texts, strict=True)
        ]

    def to_store(self, inputs: SentenceInput, outputs: Any) -> dict[str, np.ndarray]:
        """The columns of ragged sentences and their trees."""
        stores = inputs.terminals, *outputs
        offsets = inputs.terminals.offsets, outputs.rules.offsets
        return dict(zip(self.columns, (*offsets, *(one.rows for one in stores)), strict=True))

    def from_store(self, arrays: Mapping[str, np.ndarray]) -> tuple[SentenceInput, BinaryTree]:
        """(inputs, outputs) of these columns."""
        tokens, nodes = arrays["offsets"], arrays["node_offsets"]
        terminals = Ragged(arrays["terminals"], tokens, -1)
        of_nodes = (Ragged(arrays[name], nodes, -1) for name in _NODES)
        outputs = BinaryTree(Ragged(arrays["symbols"], tokens, -1), *of_nodes)
        forest = forests_of(self.grammar, terminals)
        return SentenceInput(terminals, terminals.lengths.astype(np.int32), None, forest), outputs

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The rules, the lexical rules and the roots."""
        del options
        symbols, terminals = self.grammar.symbols, self.grammar.terminals
        rules = (f"{symbols[a]} -> {symbols[b]} {symbols[c]}"
                 for a, b, c in self.grammar.binary_rules)  # fmt: skip
        lexical = (f"{symbols[a]} -> {terminals[t]}" for a, t in self.grammar.lexical_rules)
        return [
            ranking("rules", rules, weights["rules"], largest),
            ranking("lexical rules", lexical, weights["lexical"], largest),
            ranking("roots", symbols, weights["root"], largest),
        ]

    def _read(self, sentence: Any) -> Sequence[str]:
        """What the grammar reads of one sentence."""
        if isinstance(sentence, Brackets):
            return sentence.sentence
        if isinstance(sentence, Tree):
            return tags(sentence) if self.grammar.unknown_words is None else words(sentence)
        return sentence


def _notice(terminals: Ragged, unknown: np.ndarray, read: list) -> str:
    of_sentence = np.repeat(np.arange(len(terminals)), terminals.lengths)[unknown]
    i = int(of_sentence[0])
    token = read[i][int(np.flatnonzero(unknown)[0] - terminals.offsets[i])]
    return (
        f"sentences hold tokens that the grammar does not know ({unknown.sum()} in all, first "
        f"{token!r} in sentences[{i}]): {len(np.unique(of_sentence))} of {len(read)} sentences "
        "have no parse for it; fit the encoding to trees that have such tokens, too"
    )


def _one(outputs: BinaryTree, i: int) -> BinaryTree:
    return jax.tree.map(
        lambda leaf: np.asarray(leaf[i]), outputs, is_leaf=lambda leaf: isinstance(leaf, Ragged)
    )


def _listed(sentences: Sentences) -> list:
    """Sentences one by one; bracketed texts as trees."""
    if isinstance(sentences, str):
        return _as_trees("sentences", sentences)
    expected = "a list of sentences, each a list of str, or bracketed trees"
    listed = as_list("sentences", sentences, expected)
    return [as_tree(f"sentences[{i}]", one) for i, one in enumerate(listed)]


def as_tree(name: str, given: Any) -> Any:
    """A Tree of bracketed text or of a tree of NLTK; others as they are."""
    if isinstance(given, str):
        return read_tree(given, name)
    return of_nltk(given, name) if is_of_nltk(given) else given


def _as_trees(name: str, trees: Trees) -> list[Any]:
    """Trees one by one, without the outer bracket of a treebank."""
    if isinstance(trees, str):
        return [without_outer(tree) for tree in read_trees(trees, name)]
    expected = "bracketed text, or a list of Trees, trees of NLTK or bracketed texts"
    if isinstance(trees, Tree) or is_of_nltk(trees):
        raise ValueError(f"{name} must be {expected}, got one Tree: put it into a list")
    found = []
    for i, one in enumerate(as_list(name, trees, expected)):
        tree = as_tree(f"{name}[{i}]", one)
        if not isinstance(tree, (Tree, Brackets)):
            raise ValueError(
                f"{name}[{i}] must be a Tree, one of NLTK or bracketed text, got "
                f"{kind_and_text_of(tree)}"
            )
        found.append(tree if isinstance(tree, Brackets) else without_outer(tree))
    return found


def prepare(
    trees: Trees,
    *,
    read_words: bool = False,
    rare: int = 1,
    memory: int | None = 0,
    branching: str = "right",
    **options: Any,
) -> Prepared:
    """A treebank with its grammar in Chomsky normal form: `js.fit(*prepare(trees), C=10.0)`.

    An outer bracket (without label, ROOT, TOP) is taken off. What else a treebank adds to plain
    phrase structure, traces and function tags, is the business of `clean`.

    Args:
      trees: one bracketed text of all trees, or a list of Trees, of trees of NLTK (each word alone
        below its tag) or of bracketed texts. `Brackets` stand for a tree of which some constituents
        are known, under the grammar of the others: the outputs are then `Incomplete`, for
        `jaxstruct.fit_latent` and `baselines.fit_random_field`.
      read_words: whether sentences are words, in place of part-of-speech tags.
      rare: of words, those seen at most so often count as their class (`UnknownWords`), as unknown
        words do when parsing.
      memory: how many children an intermediate symbol remembers; None for all. With few of them the
        grammar accepts more trees than those seen.
      branching: "right" or "left" (`Binarisation`).
      options: those of `weighted_grammar`.

    Raises:
      ValueError: there is no tree, a text is no tree, or an option does not fit.
    """
    check_flag("read_words", read_words)
    unknown = UnknownWords(rare) if read_words else None
    read = _as_trees("trees", trees)
    whole = [tree for tree in read if isinstance(tree, Tree)]
    encoding = TreeEncoding(read_grammar(whole, Binarisation(branching, memory), unknown))
    return prepared(encoding, read, encoding.outputs(read), options)
