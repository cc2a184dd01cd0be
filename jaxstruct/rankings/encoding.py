"""Queries with their documents, and labelled samples, as people hold them, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_array, as_list, check_one_each, check_record, text_of, warn
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import Rows, read_sequences
from jaxstruct.core.labels import LabelCodec, codec_of_lists, decode_lists, encode_lists
from jaxstruct.core.prepared import Prepared, held
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.tables import Table, ranking
from jaxstruct.rankings.inputs import SampleInput
from jaxstruct.rankings.structure import document_ranking, sample_inputs, sample_labels


def read_filled(name: str, rows: Any, what: str) -> tuple[Rows, np.ndarray]:
    """`read_sequences` of queries or samples; ValueError where one has no row. what: the rows."""
    found, offsets = read_sequences(name, rows)
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if empty.size:
        raise ValueError(f"{name}[{empty[0]}] has no {what}: expected 1 or more; leave it out")
    return found, offsets


def rows_of_groups(groups: Any, count: int) -> list[np.ndarray]:
    """Of each query the places of its rows, queries in the order in which they first come.

    Args:
      groups: [count] the query of each row: integers or texts. Rows of one query need not stand
        together. count: rows.

    Raises:
      ValueError: there is not one for each row.
    """
    found = as_array("groups", groups, f"[{count}], the query of each row")
    if found.ndim != 1 or len(found) != count or found.dtype.kind not in "iuUSO":
        raise ValueError(
            f"groups must be [{count}], the query of each row (integers or texts), got "
            f"{found.dtype} of shape {found.shape}: of sizes make them by "
            "np.repeat(np.arange(len(sizes)), sizes)"
        )
    _, first, group = np.unique(found, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    own = np.split(order, np.cumsum(np.bincount(group))[:-1])
    return [own[g] for g in np.argsort(first)]


def _inputs(features: FeatureEncoding, name: str, rows: Any, what: str) -> SampleInput:
    found, offsets = read_filled(name, rows, what)
    return sample_inputs(inputs_of(dense_or_sparse(features, name, found), offsets))


class RankingEncoding(NamedTuple):
    """What the features of documents mean. Made by `prepare`.

    Fields:
      features: which feature is which column.
    """

    features: FeatureEncoding
    structure = "document_ranking"

    def problem(self, **options: Any) -> Problem:
        """`document_ranking` of these features; options are its own."""
        return document_ranking(self.features.number_of_features, **options)

    def inputs(self, queries: Any) -> SampleInput:
        """The inputs of n queries, ragged, without relevances.

        Raises:
          ValueError: they are none, or have other columns than those of training.
        """
        return _inputs(self.features, "queries", queries, "document")

    def outputs(self, relevances: Sequence[Iterable[int]]) -> Ragged:
        """The relevances of the documents of n queries, ragged."""
        return ragged([np.asarray(list(own), np.int32) for own in relevances], -1)

    def decode(self, outputs: Ragged, queries: Any = None) -> list[list[int]]:
        """Of each query, before how many documents each one stands; the best one has k - 1."""
        del queries
        check_record("outputs", outputs, Ragged, "predict")
        return [own.tolist() for own in outputs]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The largest weights."""
        del options
        return [ranking("features of documents", self.features.names,
                        weights["weights"], largest)]  # fmt: skip


class SampleEncoding(NamedTuple):
    """What the features of examples and the two labels mean. Made by `prepare_samples`.

    Fields:
      features: which feature is which column. codec: the labels, the second one is positive.
    """

    features: FeatureEncoding
    codec: LabelCodec
    structure = "sample_labels"

    def problem(self, **options: Any) -> Problem:
        """`sample_labels` of these features; options are its own."""
        return sample_labels(self.features.number_of_features, **options)

    def inputs(self, samples: Any) -> SampleInput:
        """The inputs of n samples, ragged.

        Raises:
          ValueError: they are none, or have other columns than those of training.
        """
        return _inputs(self.features, "samples", samples, "row")

    def outputs(self, labels: Sequence[Iterable[Hashable]]) -> Ragged:
        """The labels of n samples, ragged; ValueError names one that is none of the two."""
        return encode_lists(self.codec, labels)

    def decode(self, outputs: Ragged, samples: Any = None) -> list[list[Hashable]]:
        """The labels of n samples."""
        del samples
        return decode_lists(self.codec, outputs)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The largest weights."""
        del options
        title = f"features of {self.codec.texts[1]}"
        return [ranking(title, self.features.names, weights["weights"], largest)]


def _grades(i: int, own: Any) -> np.ndarray:
    """The relevances of one query as integers, or ValueError."""
    found = as_list(
        f"relevances[{i}]", own,
        "a list, the relevance of each document (of a flat list of all rows give DocumentRanker "
        "their groups, the query of each row)",
    )  # fmt: skip
    grades = np.asarray(found)
    if grades.size and (
        grades.ndim != 1 or grades.dtype.kind not in "iubf" or (grades < 0).any()
        or (grades != np.floor(grades)).any() or np.isinf(grades).any()
    ):  # fmt: skip
        raise ValueError(f"relevances[{i}] must be integers >= 0, got {text_of(found)}")
    return grades.astype(np.int64)


def prepare(
    queries: Any, relevances: Sequence[Iterable[float]], *, min_count: int = 1, **options: Any
) -> Prepared:
    """A training set of rankings: `js.fit(*prepare(queries, relevances), C=10.0)`.

    Args:
      queries: n queries. Each holds the features of its documents: an array [k, d], a SciPy matrix
        or a pandas frame of k rows, or a list of mappings name -> number, bool or text.
      relevances: n lists of integers >= 0, one for every document; floats that are integers, too.
      min_count: documents that must have a named feature for it to count.
      options: those of `document_ranking`.

    Raises:
      ValueError: queries, relevances or an option do not fit.
    """
    queries = held(queries)
    relevances = [_grades(i, own) for i, own in enumerate(held(relevances))]
    rows, offsets = read_filled("queries", queries, "document")
    lengths = np.array([*map(len, relevances)], int)
    check_one_each("relevances", lengths, "queries", np.diff(offsets))
    at, longest = options.get("at"), int(np.diff(offsets).max(initial=0))
    if isinstance(at, int) and at > longest:
        warn(
            f"at={at} is beyond the documents of every query, which are {longest} at most: all "
            "places count, as of at=None"
        )
    encoding = RankingEncoding(fit_features(rows, min_count=min_count))
    outputs = encoding.outputs(relevances)
    inputs = encoding.inputs(queries)._replace(relevance=outputs)
    return Prepared(encoding, inputs, outputs, options)


def warn_of_texts(classes: Sequence[Hashable], way: str) -> None:
    """Warn where which of two labels is positive rests on the alphabet.

    Args:
      classes: both, the second is positive. way: what to write.
    """
    if all(isinstance(one, str) for one in classes):
        negative, positive = classes
        warn(
            f"labels are the texts {negative!r} and {positive!r}: {positive!r}, the later one in "
            f"the alphabet, is taken as positive; say which one is by {way}"
        )


def prepare_samples(
    samples: Any,
    labels: Sequence[Iterable[Hashable]],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    constant: float = 1.0,
    **options: Any,
) -> Prepared:
    """A training set of labelled samples, often one: `js.fit(*prepare_samples([X], [y]), C=9.0)`.

    Args:
      samples: n samples, rows of features each, as queries are in `prepare`.
      labels: n lists of labels, two kinds in all.
      classes: the two, the second one being positive; None for those of `labels`, sorted; of
        two texts a warning says which one is positive.
      min_count: rows that must have a named feature for it to count.
      constant: value of a feature of every row, which learns a threshold; 0 for none.
      options: those of `sample_labels`.

    Raises:
      ValueError: samples, labels or an option do not fit; there are not two labels.
    """
    samples, labels = held(samples), held(labels)
    rows, offsets = read_filled("samples", samples, "row")
    codec = codec_of_lists(labels, classes, "samples", offsets)
    if len(codec.classes) != 2:
        raise ValueError(f"labels must be of two kinds, got {list(codec.classes)}")
    if classes is None:
        warn_of_texts(codec.classes, "classes=[negative, positive]")
    features = fit_features(rows, min_count=min_count, constant=constant)
    encoding = SampleEncoding(features, codec)
    return Prepared(encoding, encoding.inputs(samples), encoding.outputs(labels), options)
