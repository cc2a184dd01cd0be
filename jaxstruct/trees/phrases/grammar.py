"""Context-free grammars: symbols and rules in Chomsky normal form, read off trees.

Words that are too rare to be terminals of their own have classes. The class of a word is the first
of these that fits:

  UNK-num     it holds a digit
  UNK-punct   it holds no letter
  UNK-caps    two letters or more, all of them capitals
  UNK-cap     its first character is a capital
  UNK-hyphen  it holds a hyphen
  UNK-ing, UNK-ed, UNK-ly, UNK-ion, UNK-er, UNK-est, UNK-al, UNK-ity, UNK-s, UNK-y
              it ends so, after at least two other characters
  UNK         any other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, check_record, checked_size, distinct_texts, text_of
from jaxstruct.core.plain_values import check_fields
from jaxstruct.core.spec import array, refuse
from jaxstruct.core.types import AnyArray
from jaxstruct.data.trees import OUTER_LABELS, Tree, check_tree, leaves, preorder, tags, words
from jaxstruct.trees.phrases.binarisation import (
    FULL,
    Binarisation,
    binarise,
    chain_labels,
    check_binarisation,
)

OTHER = "UNK"
"""The class of words that fit no other."""

_SUFFIXES = ("ing", "ed", "ly", "ion", "er", "est", "al", "ity", "s", "y")
_SPELLINGS = ("num", "punct", "caps", "cap", "hyphen")

CLASSES = (OTHER, *(f"{OTHER}-{part}" for part in (*_SPELLINGS, *_SUFFIXES)))
"""All classes."""


class UnknownWords(NamedTuple):
    """How words become terminals.

    Fields:
      rare: words seen at most so often in training count as their class. With 0 no word does, and
        every unknown word is without a terminal.
    """

    rare: int = 1


def check_unknown_words(options: UnknownWords) -> None:
    """Raises a ValueError unless these are UnknownWords, a ValueError unless `rare` >= 0."""
    check_record("unknown_words", options, UnknownWords, "None for tags, or UnknownWords(1)")
    checked_size("rare", options.rare, 0)


def signature(word: str) -> str:
    """Returns the class of a word; see the module's docstring."""
    return OTHER + _spelling(word)


def _spelling(word: str) -> str:
    if any(letter.isdigit() for letter in word):
        return "-num"
    letters = [letter for letter in word if letter.isalpha()]
    if not letters:
        return "-punct"
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        return "-caps"
    if word[0].isupper():
        return "-cap"
    if "-" in word:
        return "-hyphen"
    lower = word.lower()
    fits = (part for part in _SUFFIXES if lower.endswith(part) and len(lower) >= len(part) + 2)
    found = next(fits, None)
    return f"-{found}" if found else ""


def frequent_words(words: Iterable[str], options: UnknownWords) -> frozenset[str]:
    """Returns the words seen more than `rare` times, but for words spelt like a class."""
    counts = Counter(words)
    return frozenset(
        word for word, count in counts.items() if count > options.rare and word not in CLASSES
    )


def words_read(words: Iterable[str], known: Container[str]) -> list[str]:
    """Returns each word if it is known, else its class."""
    return [word if word in known else signature(word) for word in words]


class Grammar(NamedTuple):
    """A context-free grammar in Chomsky normal form, with counts. Made by `read_grammar`.

    S symbols, V terminals, R binary rules, Q lexical rules. A symbol stands above tokens: a tag
    (NN), a chain over a tag (NP+NN), a constituent (NP), a chain (S+VP), or an intermediate symbol
    of the binarisation. A terminal is what is read: a tag, or a word or class of words.

    Fields:
      symbols: S names, those of the trees first, then the intermediate ones, each sorted.
      terminals: V names, sorted.
      binary_rules: [R, 3] int32, (parent, left, right), sorted by parent, then left, then right.
      binary_counts: [R] int64, how often the trees use each, at least 1.
      lexical_rules: [Q, 2] int32, (symbol, terminal), sorted by symbol, then terminal.
      lexical_counts: [Q] int64.
      root_counts: [S] int64, how often each symbol is a root.
      constituents: [S] int32, for how many constituents a node of this symbol stands over two
        tokens or more: one for each label of its chain. 0 for intermediate symbols, and for
        symbols that are no parent in a binary rule.
      token_constituents: [S] int32, the same over one token: one for each label of its chain but
        the tag. 0 for symbols without lexical rule.
      binarisation: how the trees were brought into this form.
      unknown_words: how words become terminals, or None if the terminals are tags.
    """

    symbols: tuple[str, ...]
    terminals: tuple[str, ...]
    binary_rules: np.ndarray
    binary_counts: np.ndarray
    lexical_rules: np.ndarray
    lexical_counts: np.ndarray
    root_counts: np.ndarray
    constituents: np.ndarray
    token_constituents: np.ndarray
    binarisation: Binarisation
    unknown_words: UnknownWords | None


class LabelCounts(NamedTuple):
    """Which constituents a node of each symbol stands for; L labels, sorted.

    A node of symbol s and a gold node of symbol g over the same tokens share
    sum_l min(inner[s, l], inner[g, l]) constituents. Over one token it is the same with `token`.

    Fields:
      inner: [S, L] int32, over two tokens or more; its rows sum to `Grammar.constituents`.
      token: [S, L] int32, over one token; its rows sum to `Grammar.token_constituents`.
    """

    inner: AnyArray
    token: AnyArray


def read_grammar(
    trees: Iterable[Tree],
    binarisation: Binarisation = FULL,
    unknown_words: UnknownWords | None = None,
) -> Grammar:
    """Reads a grammar off trees (cleaned, not binarised).

    Args:
      trees: n trees.
      binarisation: how to binarise them.
      unknown_words: None makes the part-of-speech tags the terminals, as in the paper; else words
        are terminals, and rare ones count as their class by spelling.

    Raises:
      ValueError: no tree; a label that the binarisation cannot take; a wrong option; what should be
        a tree, or an option, is of another type.
    """
    trees = as_list("trees", trees, "several Trees: read_trees(text), or [tree]")
    for row, tree in enumerate(trees):
        check_tree(tree, f"trees[{row}]")
    frequent = None
    if unknown_words is not None:
        check_unknown_words(unknown_words)
        frequent = frequent_words((word for tree in trees for word in words(tree)), unknown_words)
    counts = GrammarCounts(binarisation, unknown_words, frequent)
    for tree in trees:
        counts.add(tree)
    return counts.grammar()


class GrammarCounts:
    """The rules of trees that are seen one after the other; for `read_grammar` see there."""

    def __init__(
        self,
        binarisation: Binarisation = FULL,
        unknown_words: UnknownWords | None = None,
        frequent: frozenset[str] | None = None,
    ) -> None:
        """No rule yet.

        Args:
          frequent: with unknown_words, of `frequent_words` of all trees.
        """
        check_binarisation(binarisation)
        self._options = binarisation, unknown_words
        self._frequent = frequent
        self._binary, self._lexical, self._roots = Counter(), Counter(), Counter()

    def add(self, tree: Tree) -> None:
        """Count the rules of a tree (cleaned, not binarised).

        Raises:
          ValueError: it has a label that the binarisation cannot take, and nothing was counted.
        """
        normal = binarise(tree, self._options[0])
        self._roots[normal.label] += 1
        pairs = (node for node in preorder(normal) if not node.is_leaf)
        self._binary.update(
            (node.label, *(child.label for child in node.children)) for node in pairs
        )
        frequent = self._frequent
        read = tags(tree) if frequent is None else words_read(words(tree), frequent)
        above = [leaf.label for leaf in leaves(normal)]
        self._lexical.update(zip(above, read, strict=True))

    def grammar(self) -> Grammar:
        """The grammar of all trees so far.

        Raises:
          ValueError: there was none.
        """
        if not self._roots:
            raise ValueError("trees: got none, expected at least one to read a grammar off")
        return _number(self._binary, self._lexical, self._roots, *self._options)


_ARRAYS = {
    "binary_rules": ("R 3", np.int32), "binary_counts": ("R", np.int64),
    "lexical_rules": ("Q 2", np.int32), "lexical_counts": ("Q", np.int64),
    "root_counts": ("S", np.int64), "constituents": ("S", np.int32),
    "token_constituents": ("S", np.int32),
}  # fmt: skip
"""Axes and dtypes; S symbols, R rules, Q lexical rules."""


def fields_of(grammar: Grammar) -> dict[str, Any]:
    """Returns the fields by name as files hold them, arrays as lists."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in grammar._asdict().items()
    }


def grammar_of(fields: dict[str, Any]) -> Grammar:
    """Returns the grammar of such fields.

    Raises:
      ValueError: they are others, rules are out of order, repeated or of numbers that do not exist,
        or an option does not fit.
    """
    check_fields(fields, Grammar._fields)
    for name in ("symbols", "terminals"):
        distinct_texts(name, fields[name])
    check_binarisation(fields["binarisation"])
    if fields["unknown_words"] is not None:
        check_unknown_words(fields["unknown_words"])
    sizes, tables = {"S": len(fields["symbols"]), "V": len(fields["terminals"])}, {}
    for name, (axes, dtype) in _ARRAYS.items():
        none = np.zeros([0, *map(int, axes.split()[1:])], dtype)
        within = range(np.iinfo(dtype).max + 1)
        table = array(name, fields[name] or none, axes, sizes=sizes, within=within)
        tables[name] = table.astype(dtype)
    for name, ends in (("binary_rules", "SSS"), ("lexical_rules", "SV")):
        table, most = tables[name], [sizes[letter] for letter in ends]
        refuse(name, table, table >= most, f"below {most}, the symbols and terminals")
        falls = np.zeros(len(table), bool)
        falls[1:] = [b <= a for a, b in pairwise(table.tolist())]
        refuse(name, table, falls, "more than before it: each rule once, in ascending order")
    return Grammar(**{**fields, **tables})


def _number(
    binary: Counter,
    lexical: Counter,
    roots: Counter,
    binarisation: Binarisation,
    unknown_words: UnknownWords | None,
) -> Grammar:
    """Names become numbers, counters sorted arrays."""
    names = {symbol for symbol, _ in lexical} | {symbol for rule in binary for symbol in rule}
    symbols = sorted(names, key=lambda name: (name.startswith(binarisation.mark), name))
    terminals = sorted({terminal for _, terminal in lexical})
    of_symbol, of_terminal = numbers_of(tuple(symbols)), numbers_of(tuple(terminals))
    rules, counts = _table(
        {tuple(of_symbol[name] for name in rule): count for rule, count in binary.items()}, 3
    )
    lexical_rules, lexical_counts = _table(
        {(of_symbol[name], of_terminal[read]): count for (name, read), count in lexical.items()}, 2
    )
    none = np.zeros(len(symbols), np.int32)
    grammar = Grammar(
        symbols=tuple(symbols),
        terminals=tuple(terminals),
        binary_rules=rules,
        binary_counts=counts,
        lexical_rules=lexical_rules,
        lexical_counts=lexical_counts,
        root_counts=np.array([roots[name] for name in symbols], np.int64),
        constituents=none,
        token_constituents=none,
        binarisation=binarisation,
        unknown_words=unknown_words,
    )
    inner, token = (table.sum(axis=1, dtype=np.int32) for table in label_counts(grammar))
    return grammar._replace(constituents=inner, token_constituents=token)


def _table(counts: dict[tuple[int, ...], int], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rules in ascending order, and their counts."""
    rules = sorted(counts)
    rows = np.array(rules, np.int32).reshape(len(rules), width)
    return rows, np.array([counts[rule] for rule in rules], np.int64)


def label_counts(grammar: Grammar) -> LabelCounts:
    """Returns how often each label is among the constituents of each symbol; an outer bracket is
    none."""
    parents, above = set(grammar.binary_rules[:, 0]), set(grammar.lexical_rules[:, 0])
    chains = [chain_labels(symbol, grammar.binarisation) for symbol in grammar.symbols]
    inner = [chain if number in parents else () for number, chain in enumerate(chains)]
    token = [chain[:-1] if number in above else () for number, chain in enumerate(chains)]
    labels = {label for chain in (*inner, *token) for label in chain} - set(OUTER_LABELS)
    columns = numbers_of(tuple(sorted(labels)))
    return LabelCounts(_histograms(inner, columns), _histograms(token, columns))


def _histograms(chains: list[tuple[str, ...]], columns: dict[str, int]) -> np.ndarray:
    table = np.zeros((len(chains), len(columns)), np.int32)
    for row, chain in enumerate(chains):
        for label in chain:
            if label in columns:
                table[row, columns[label]] += 1
    return table


def terminals_of(grammar: Grammar, tokens: Sequence[str]) -> np.ndarray:
    """Returns the terminal of each token: [T] int32, -1 where the grammar has none.

    Tags: a tag that the training trees lack is -1. Words: a word that is no terminal is read as its
    class. If training saw no rare word of that class, it is read as UNK. If it saw no rare word of
    the class UNK either, the word is -1.

    Raises:
      ValueError: the grammar is none, or the tokens are no sequence of str.
    """
    check_record("grammar", grammar, Grammar, "read_grammar")
    check_tokens(tokens, "tokens")
    number = numbers_of(grammar.terminals)
    if grammar.unknown_words is None:
        found = [number.get(token, -1) for token in tokens]
    else:
        other = number.get(OTHER, -1)
        read = words_read(tokens, number.keys() - set(CLASSES))
        found = [number.get(name, other) for name in read]
    return np.array(found, np.int32)


def check_tokens(tokens: object, name: str) -> None:
    """Raises a ValueError unless these are several str, one a token."""
    for token in as_list(name, tokens, "a list of str, one a token, such as ['DT', 'NN']"):
        if not isinstance(token, str):
            raise ValueError(f"{name}: got {text_of(token)} among them, expected str, one a token")


@lru_cache(maxsize=16)
def numbers_of(names: tuple[str, ...]) -> dict[str, int]:
    """Returns the position of each name; the result is shared, so do not change it."""
    return {name: number for number, name in enumerate(names)}
