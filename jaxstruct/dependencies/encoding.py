"""Sentences and their trees as people hold them, as inputs and outputs of a parser, and back."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxstruct.core.checks import (
    as_list,
    check_one_each,
    check_record,
    checked_size,
    is_integer,
    kind_and_text_of,
    text_of,
)
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import frequent
from jaxstruct.core.labels import (
    LabelCodec,
    encode,
    encode_open_lists,
    fit_open_codec,
    is_open,
    placed_errors,
)
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.tables import Table, ranking
from jaxstruct.dependencies.features import (
    RARE,
    ArcFeatures,
    Slot,
    default_templates,
    parsed,
    values_of,
)
from jaxstruct.dependencies.potentials import Parse
from jaxstruct.dependencies.structure import SentenceInput, dependency_parser, sentence_inputs

Sentences: TypeAlias = Sequence[Sequence[Mapping[str, str]]]
"""n sentences: lists of tokens, mappings of the same columns to texts: {"word": .., "tag": ..}, or
words, or pairs (word, tag)."""
Trees: TypeAlias = Sequence[Sequence[Any]]
"""n trees: lists of heads, 0 for the root and 1.. for words, or of pairs (head, label); None where
a head, a label or both are not known, a set of those that may be."""
NAMED = ("outside", "root", "rare")


class DependencyEncoding(NamedTuple):
    """What the numbers of tokens and labels mean. Made by `prepare`.

        data = prepare(sentences, trees)
        solution = fit(*data, C=10.0)
        found = predict(data.problem, solution, data.encoding.inputs(sentences))
        parsed = data.encoding.decode(found)

    Fields:
      columns: of a token. values: of each column those with a number of their own, RARE + 1 on.
      templates, label_templates, table, label_table: see `ArcFeatures`.
      codec: which label is which number; None where arcs have none.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    templates: tuple[str, ...]
    label_templates: tuple[str, ...]
    table: int
    label_table: int
    codec: LabelCodec | None
    structure = "dependency_parser"

    @property
    def features(self) -> ArcFeatures:
        """Which features arcs have."""
        sizes = tuple(RARE + 1 + len(values) for values in self.values)
        labels = 1 if self.codec is None else len(self.codec.classes)
        label_templates = () if self.codec is None else self.label_templates
        return ArcFeatures(
            self.columns, sizes, self.templates, label_templates, self.table, self.label_table,
            labels,
        )  # fmt: skip

    def problem(self, **options: Any) -> Problem:
        """`dependency_parser` of these features; options are those of `dependency_parser`."""
        return dependency_parser(self.features, labelled=self.codec is not None, **options)

    def inputs(self, sentences: Sentences) -> SentenceInput:
        """The inputs of n sentences, ragged; values that training did not have are RARE.

        Raises:
          ValueError: they are no sentences, or have other columns than those of training.
        """
        sentences = _checked("sentences", sentences, self.columns)
        numbers = [
            {value: number for number, value in enumerate(values, RARE + 1)}
            for values in self.values
        ]
        rows = [
            [numbers[c].get(token[name], RARE) for c, name in enumerate(self.columns)]
            for sentence in sentences
            for token in sentence
        ]
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        shape = offsets[-1], len(self.columns)
        return sentence_inputs(Ragged(np.array(rows, np.int32).reshape(shape), offsets))

    def outputs(self, trees: Trees) -> Parse | Incomplete:
        """The trees of n sentences, ragged; ValueError names a label that training did not have."""
        heads, labels = _read_trees(trees)
        if any(map(is_open, (*heads, *(labels or ())))):
            return self._incomplete(heads, labels)
        offsets = np.cumsum([0, *map(len, heads)], dtype=np.int64)
        flat = Ragged(np.concatenate([np.zeros(0, np.int32), *heads]).astype(np.int32), offsets, -1)
        if self.codec is None:
            return Parse(flat)
        if labels is None:
            raise ValueError("trees must be lists of pairs (head, label), as in training")
        with placed_errors(offsets):
            numbers = encode(self.codec, itertools.chain.from_iterable(labels))
        return Parse(flat, Ragged(numbers, offsets, -1))

    def _incomplete(self, heads: list, labels: list | None) -> Incomplete:
        words = LabelCodec(tuple(range(1 + max(map(len, heads)))))
        arcs, names = encode_open_lists(words, heads, always=True), Incomplete(None, None)
        if self.codec is not None and labels is not None:
            names = encode_open_lists(self.codec, labels, always=True)
        return Incomplete(*map(Parse, arcs, names))

    def decode(self, outputs: Parse, sentences: Any = None) -> list[list[Any]]:
        """The trees of n sentences, such as `predict` returns them, as lists of heads or pairs."""
        del sentences
        check_record("outputs", outputs, Parse, "predict")
        heads = [row.tolist() for row in outputs.heads]
        if self.codec is None:
            return heads
        names = self.codec.classes
        return [
            [(head, names[label]) for head, label in zip(row, own.tolist(), strict=True)]
            for row, own in zip(heads, outputs.labels, strict=True)
        ]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The largest weights of every template that has a place for each of its features."""
        del options
        features, flat = self.features, np.asarray(weights["features"])
        found = []
        groups = itertools.groupby(features.slots, key=lambda slot: (slot.parts, slot.labelled))
        texts = iter((*features.templates, *features.label_templates))
        for (_, labelled), slots in groups:
            title, slots = next(texts), list(slots)
            if slots[0].exact:
                title, own = f"{title}{' label' * labelled}", flat[slots[0].begin : slots[-1].stop]
                found.append(ranking(title, partial(self._name, slots), own, largest))
        return found

    def _name(self, slots: list[Slot], number: int) -> str:
        """The values of one weight of a template."""
        at = slots[0].begin + number
        slot = next(slot for slot in slots if at < slot.stop)
        place, label = divmod(at - slot.begin, (slot.stop - slot.begin) // slot.size)
        texts = [self.codec.texts[label]] if slot.labelled and self.codec is not None else []
        for part in reversed(slot.parts):
            if part.kind == "between":
                value = slot.between[1] if slot.between else 0
            else:
                place, value = divmod(place, values_of(part, self.features.sizes))
            named = part.column >= 0
            texts.append((*NAMED, *self.values[part.column])[value] if named else part.text(value))
        return " ".join(reversed(texts))


def _by_column(token: Any) -> Any:
    """A token by columns, of a text its word, of a pair of texts its word and tag."""
    if isinstance(token, str):
        return {"word": token}
    pair = isinstance(token, tuple) and len(token) == 2 and all(isinstance(t, str) for t in token)
    return dict(zip(("word", "tag"), token, strict=True)) if pair else token


def _checked(name: str, sentences: Any, columns: tuple[str, ...] | None) -> list:
    """n sentences of tokens of these columns, or of those of the first token.

    Raises:
      ValueError: there is none, one has no token, or a token has other columns.
    """
    listed = [*as_list(name, sentences, "a list of sentences, lists of tokens")]
    if not listed:
        raise ValueError(f"{name} must hold a sentence at least, got none")
    for i, sentence in enumerate(listed):
        if isinstance(sentence, (str, Mapping)) or not isinstance(sentence, Sequence):
            raise ValueError(
                f"{name}[{i}] must be a list of tokens, got {kind_and_text_of(sentence)}"
            )
        if not sentence:
            raise ValueError(f"{name}[{i}] has no token: leave it out")
        listed[i] = sentence = [_by_column(token) for token in sentence]
        for at, token in enumerate(sentence):
            if not isinstance(token, Mapping) or not token:
                raise ValueError(
                    f"{name}[{i}][{at}] must be a mapping of columns to texts, such as "
                    f'{{"word": "dogs", "tag": "NNS"}}, a word or a pair (word, tag), got '
                    f"{kind_and_text_of(token)}"
                )
            columns = tuple(token) if columns is None else columns
            if len(token) != len(columns) or any(column not in token for column in columns):
                raise ValueError(
                    f"{name}[{i}][{at}] has the columns {text_of(list(token))}, expected "
                    f"{list(columns)}"
                )
            if not all(isinstance(value, str) for value in token.values()):
                raise ValueError(
                    f"{name}[{i}][{at}] has values that are no texts: {text_of(token)}"
                )
    return listed


def _read_trees(trees: Any) -> tuple[list[list[Any]], list[list[Hashable]] | None]:
    """(heads, labels or None) of n trees.

    Raises:
      ValueError: a tree is no list of integers or of pairs, or trees are of both kinds.
    """
    listed = as_list("trees", trees, "a list of trees: lists of heads, or of pairs (head, label)")
    pairs = {
        isinstance(one, (tuple, list)) and len(one) == 2
        for tree in listed
        for one in tree
        if one is not None
    }
    if len(pairs) > 1:
        raise ValueError("trees must be lists of heads, or all of pairs (head, label)")
    labelled = pairs == {True}
    if labelled:
        listed = [[(None, None) if one is None else one for one in tree] for tree in listed]
    heads = [[one[0] if labelled else one for one in tree] for tree in listed]
    for i, tree in enumerate(heads):
        most = len(tree) if is_open(tree) else math.inf
        for at, head in enumerate(tree):
            if not _are_heads(head, most):
                raise ValueError(
                    f"trees[{i}][{at}] has the head {text_of(head)}: expected an integer, 0 for "
                    "the root and 1.. for the words, a set of them, or None"
                )
    return heads, [[one[1] for one in tree] for tree in listed] if labelled else None


def _are_heads(head: Any, most: float) -> bool:
    """Whether it is an integer in 0..most, None, or a set of such integers."""
    if isinstance(head, set):
        return all(one is not None and _are_heads(one, most) for one in head)
    return head is None or (is_integer(head) and 0 <= head <= most)


def _values(sentences: list, column: str, min_count: int) -> tuple[str, ...]:
    """The values of a column that occur often enough, the most frequent first, ties by name."""
    counts = Counter(token[column] for sentence in sentences for token in sentence)
    return tuple(frequent(counts, min_count))


def prepare(
    sentences: Sentences,
    trees: Trees,
    *,
    templates: Iterable[str] | None = None,
    label_templates: Iterable[str] | None = None,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 2,
    table: int = 2**16,
    label_table: int = 2**12,
    **options: Any,
) -> Prepared:
    """A training set of dependency trees: `js.fit(*prepare(sentences, trees), C=10.0)`.

    Args:
      sentences: n lists of tokens, mappings of the same columns to texts: {"word": "dogs", "tag":
        "NNS"}. By default the first column is the word, and the others are tags.
      trees: n lists of heads, 0 for the root and 1.. for the words, or of pairs (head, label). None
        for what is not known, or a set of what it may be, of heads and of labels: the outputs are
        then `Incomplete`, for `jaxstruct.fit_latent` and `baselines.fit_random_field`.
      templates, label_templates: of arcs and of arcs with labels, texts as `ArcFeatures` reads
        them; None for `default_templates`.
      classes: all labels in the wanted order; None for those of `trees`, sorted if they can be.
      min_count: how often a value must occur to count as itself; others count as one, "rare".
      table, label_table: weights of a template at most (rows of one weight a label); templates of
        more combinations share them by hashing.
      options: those of `dependency_parser` but `labelled`.

    Raises:
      ValueError: sentences, trees or an option do not fit.
    """
    sentences, trees = _checked("sentences", held(sentences), None), held(trees)
    heads, labels = _read_trees(trees)
    sizes = (np.array([*map(len, each)], int) for each in (heads, sentences))
    check_one_each("trees", next(sizes), "sentences", next(sizes))
    columns = tuple(sentences[0][0])
    min_count = checked_size("min_count", min_count)
    of_arcs, of_labels = default_templates(columns)
    of_arcs = of_arcs if templates is None else _templates("templates", templates, columns)
    if label_templates is not None:
        of_labels = _templates("label_templates", label_templates, columns)
    codec = None
    if labels is not None:
        with placed_errors(np.cumsum([0, *map(len, labels)])):
            codec = fit_open_codec([*itertools.chain.from_iterable(labels)], classes)
    encoding = DependencyEncoding(
        columns, tuple(_values(sentences, column, min_count) for column in columns), of_arcs,
        of_labels, checked_size("table", table), checked_size("label_table", label_table), codec,
    )  # fmt: skip
    return prepared(encoding, sentences, encoding.outputs(trees), options)


def _templates(name: str, templates: Iterable[str], columns: tuple[str, ...]) -> tuple[str, ...]:
    listed = as_list(name, templates, "a list of texts")
    for one in listed:
        if not isinstance(one, str):
            raise ValueError(f"{name} must be texts, got {kind_and_text_of(one)}")
        parsed(one, columns)
    if name == "label_templates" and any("between" in one for one in listed):
        raise ValueError("label_templates take no between.COLUMN")
    return tuple(listed)
