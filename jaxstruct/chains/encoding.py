"""Sequences and their labels as people hold them, as inputs and outputs of `chain`, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from jaxstruct.chains.example_checks import check_allowed
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import (
    SPARSE_COLUMNS,
    FeatureEncoding,
    encoded_sequences,
    fit_features,
    sparse_from,
)
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.core.labels import (
    LabelCodec,
    codec_of_lists,
    decode_lists,
    encode_open_lists,
    fit_open_codec,
)
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.tables import Table, pairs_table, ranking, rankings_by_label
from jaxstruct.kernels.anchors import Anchors, fit_anchors


class ChainEncoding(NamedTuple):
    """What the columns of tokens and the numbers of labels mean. Made by `prepare`.

        data = prepare(sequences, labels)
        solution = fit(*data, C=10.0)
        new = data.encoding.inputs(new_sequences)
        predicted = data.encoding.decode(predict(data.problem, solution, new))

    Fields:
      features: which feature is which column. codec: which label is which number.
    """

    features: FeatureEncoding
    codec: LabelCodec
    structure = "chain"
    columns = SPARSE_COLUMNS

    def problem(self, **options: Any) -> Problem:
        """`chain` of these features and labels; options are those of `chain`."""
        return chain(self.features.number_of_features, len(self.codec.classes), **options)

    def inputs(self, sequences: Any) -> ChainInput:
        """The inputs of n sequences, ragged.

        Args:
          sequences: n sequences of tokens, of the kind of training.

        Raises:
          ValueError: they are none, or have other columns.
        """
        return chain_inputs(encoded_sequences(self.features, "sequences", sequences))

    def outputs(self, labels: Sequence[Iterable[Hashable]]) -> Ragged | Incomplete:
        """The labels of n sequences, ragged; ValueError names one that training did not have."""
        return encode_open_lists(self.codec, labels)

    def decode(self, outputs: Ragged, sequences: Any = None) -> list[list[Hashable]]:
        """The labels of n sequences, such as `predict` returns them; these are not needed."""
        del sequences
        return decode_lists(self.codec, outputs)

    def from_store(self, arrays: Mapping[str, np.ndarray]) -> tuple[ChainInput, Ragged]:
        """(inputs, outputs) of these columns."""
        features = sparse_from(arrays, self.features.number_of_features)
        return chain_inputs(features), Ragged(arrays["labels"], arrays["offsets"], -1)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of each label, transitions, and what else the options made weights of."""
        names = names_in_window(self.features, options)
        return weights_by_name(names, self.codec.texts, weights, largest)


def names_in_window(features: FeatureEncoding, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The features of a token, then with the option `window` those of its neighbours, too."""
    radius = options.get("window", 0)
    at = [f" [{place:+d}]" if place else "" for place in range(-radius, radius + 1)]
    return tuple(f"{name}{place}" for place in at for name in features.names)


def weights_by_name(
    names: tuple[str, ...], labels: tuple[str, ...], w: Mapping[str, np.ndarray], largest: int
) -> list[Table]:
    """Features of each label, by these names, transitions, and what else a chain has weights of."""
    found = rankings_by_label(names, labels, w["emissions"], largest)
    title = "transitions, from the label of a row to that of a column"
    found.append(pairs_table(title, labels, w["transitions"], largest))
    for name in ("start", "stop"):
        if name in w:
            found.append(ranking(f"{name} of a sequence", labels, w[name], largest))
    if "triples" in w:
        triples = (f"{a} {b} {c}" for a in labels for b in labels for c in labels)
        found.append(ranking("label triples", triples, w["triples"], largest))
    if "pairs" in w:
        both = (f"{name}: {a} {b}" for name in names for a in labels for b in labels)
        found.append(ranking("features of label pairs", both, w["pairs"], largest))
    return found


class KernelChainEncoding(NamedTuple):
    """A kernel of tokens with its anchors, and the labels. Made by `prepare_kernel`.

    Fields:
      anchors: the tokens of training. codec: which label is which number.
    """

    anchors: Anchors
    codec: LabelCodec
    structure = "kernel_chain"

    def problem(self, **options: Any) -> Problem:
        """`chain` over coefficients of the anchors; options are those of `chain`."""
        return chain(len(self.anchors), len(self.codec.classes), **options)

    def inputs(self, sequences: Any) -> ChainInput:
        """K of the tokens of n sequences and the anchors, ragged.

        Raises:
          ValueError: they are none, or have other columns than those of training.
        """
        rows, offsets = read_sequences("sequences", sequences)
        gram, _ = self.anchors.values(None, rows)
        none = np.full(rows.count, len(self.anchors), np.int32)
        return chain_inputs(KernelTokens(Ragged(np.asarray(gram), offsets), Ragged(none, offsets)))

    def outputs(self, labels: Sequence[Iterable[Hashable]]) -> Ragged | Incomplete:
        """The labels of n sequences, ragged; ValueError names one that training did not have."""
        return encode_open_lists(self.codec, labels)

    def decode(self, outputs: Ragged, sequences: Any = None) -> list[list[Hashable]]:
        """The labels of n sequences, such as `predict` returns them; these are not needed."""
        del sequences
        return decode_lists(self.codec, outputs)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The anchors of the largest coefficients of each label, transitions, and the others."""
        del options
        return weights_by_name(self.anchors.names, self.codec.texts, weights, largest)


def prepare(
    sequences: Any,
    labels: Sequence[Iterable[Hashable]],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    constant: float = 0.0,
    **options: Any,
) -> Prepared:
    """A training set of label sequences: `js.fit(*prepare(sequences, labels), C=10.0)`.

    Args:
      sequences: n sequences. Each holds the features of its tokens: a list of lists of names, or of
        mappings name -> number, bool or text; an array [l, d]; a SciPy matrix or a pandas frame of
        l rows.
      labels: n lists of labels of any hashable kind, as many as the sequence has tokens. None for
        a label that is not known, or a set of those that it may be: the outputs are then
        `Incomplete`, for `jaxstruct.fit_latent` and `baselines.fit_random_field`.
      classes: all labels in the wanted order; None for those of `labels`, sorted if they can be.
      min_count: tokens that must have a named feature for it to count.
      constant: value of a feature that every token has, which learns a constant for each label; 0
        for none.
      options: those of `chain`.

    Raises:
      ValueError: sequences, labels or an option do not fit; there is one label only.
    """
    sequences, labels = held(sequences), held(labels)
    rows, offsets = read_sequences("sequences", sequences)
    codec = codec_of_lists(labels, classes, "sequences", offsets, fit_open_codec)
    encoding = ChainEncoding(fit_features(rows, min_count=min_count, constant=constant), codec)
    return _within_rules(prepared(encoding, sequences, encoding.outputs(labels), options))


def prepare_kernel(
    kernel: Partial,
    sequences: Any,
    labels: Sequence[Iterable[Hashable]],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    **options: Any,
) -> Prepared:
    """A training set of label sequences whose tokens meet in a kernel (thesis 4.22).

    Its N tokens are the anchors: [N, N] kernel values in memory, and all of them in a model file.

    Args:
      kernel: K of two tokens, as `jaxstruct.kernels` makes it.
      others: as in `prepare`.

    Raises:
      ValueError: an argument does not fit; there is one label only; the values are of no kernel.
    """
    sequences, labels = held(sequences), held(labels)
    rows, offsets = read_sequences("sequences", sequences)
    codec = codec_of_lists(labels, classes, "sequences", offsets, fit_open_codec)
    anchors = fit_anchors(kernel, None, min_count, rows)
    encoding = KernelChainEncoding(anchors, codec)
    places = np.arange(len(anchors), dtype=np.int32)
    tokens = KernelTokens(Ragged(np.asarray(anchors.gram()), offsets), Ragged(places, offsets))
    made = Prepared(encoding, chain_inputs(tokens), encoding.outputs(labels), options)
    return _within_rules(made)


def _within_rules(data: Prepared) -> Prepared:
    """The training set; ValueError names labels that its constraints forbid."""
    rules, labels = data.options.get("constraints"), data.outputs
    if rules is not None and not isinstance(labels, Incomplete):
        check_allowed(rules, labels.rows, labels.offsets, "labels", data.encoding.codec.texts)
    return data
