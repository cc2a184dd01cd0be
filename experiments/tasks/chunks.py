"""Sentences in base phrases (chunks), read off treebanks, with features as taggers have them.

A token belongs to the chunk of the lowest phrase above it, B- where it begins there and I- where
the token before has the same phrase; a verb phrase right within another goes on with it ("will
have gone"). Punctuation, and what hangs on a clause alone, is O. The labels are those of the
CoNLL-2000 task, which were read off sections of the same corpus by longer rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from experiments.corpora.treebanks import TreebankFile, load_gum, load_treebank_sample
from jaxstruct.data.bracketing import clean, read_trees
from jaxstruct.data.trees import Tree, leaves

PHRASES = {
    **{name: name for name in ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT", "SBAR",
                               "UCP", "VP")},
    "NX": "NP", "QP": "NP", "WHADVP": "ADVP", "WHNP": "NP", "WHPP": "PP",
}  # fmt: skip
"""Label of a phrase -> kind of its chunk; others are none."""
WINDOW = (-1, 0, 1)

Token = tuple[str, str]
"""(word, part-of-speech tag)"""


def sentences(count: int) -> Iterator[Tree]:
    """The first `count` trees of the WSJ sample, and of GUM's training documents after these."""
    left = count
    for files in (load_treebank_sample, _gum):
        for tree in _cleaned(files()):
            if not left:
                return
            left -= 1
            yield tree


def _gum() -> Iterable[TreebankFile]:
    return (file for file in load_gum() if file.part == "train")


def _cleaned(files: Iterable[TreebankFile]) -> Iterator[Tree]:
    trees = (clean(tree) for file in files for tree in read_trees(file.text, file.name))
    return (tree for tree in trees if tree is not None)


def chunk_labels(tree: Tree) -> list[str]:
    """IOB2 labels of the tokens, from left to right."""
    labels: list[str] = []
    before: object = None
    for leaf, above, chunk in _placed(tree):
        kind = PHRASES.get(above) if leaf.label[0].isalpha() else None
        labels.append("O" if kind is None else f"{'I' if chunk is before else 'B'}-{kind}")
        before = None if kind is None else chunk
    return labels


def _placed(tree: Tree) -> Iterator[tuple[Tree, str, Tree]]:
    """(leaf, label of its phrase, the phrase that its chunk begins at)."""
    todo = [(tree, "", tree)]
    while todo:
        node, above, chunk = todo.pop()
        if node.is_leaf:
            yield node, above, chunk
            continue
        goes_on = node.label == above == "VP"
        own = chunk if goes_on else node
        todo.extend((child, node.label, own) for child in reversed(node.children))


def features(tokens: Sequence[Token]) -> list[list[str]]:
    """Names of the features of each token: its word, tag, ending, and its neighbours' words and
    tags, alone and in pairs."""
    found = []
    for t, (word, _) in enumerate(tokens):
        own = ["bias", f"ending={word[-3:].lower()}", f"capital={word[0].isupper()}"]
        for offset in WINDOW:
            if 0 <= t + offset < len(tokens):
                near, tag = tokens[t + offset]
                own += [f"{offset}:word={near.lower()}", f"{offset}:tag={tag}"]
            else:
                own.append(f"{offset}:none")
        if t:
            own.append(f"tags={tokens[t - 1][1]}|{tokens[t][1]}")
        found.append(own)
    return found


def chunked(count: int, skip: int = 0) -> tuple[list[list[list[str]]], list[list[str]]]:
    """(features, labels) of the tokens of the sentences from number `skip` on.

    Raises:
      CorpusMissing: a treebank is not on this machine; the message says how to get it.
    """
    trees = [*sentences(skip + count)][skip:]
    rows = [features([(leaf.word or "", leaf.label) for leaf in leaves(tree)]) for tree in trees]
    return rows, [chunk_labels(tree) for tree in trees]
