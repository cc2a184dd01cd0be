"""Sequences and their segments as people hold them, as inputs and outputs of `segmenter`, and back.

The segments of a sequence are IOB2 labels, one a token (B-type begins one, I-type carries it on, O
is in none), or a list of triples (start, end, label), tokens start .. end - 1.

Of training a part may not be known: None in place of a label, of a token or of a segment, or a set
of those that it may be; a pair (start, end) beside triples for tokens of which nothing is known;
None in place of a sequence's list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxstruct.chains.encoding import names_in_window, weights_by_name
from jaxstruct.chains.iob2 import as_iob2, iob2_spans
from jaxstruct.core.checks import (
    as_list,
    check_record,
    checked_size,
    kind_and_text_of,
    text_of,
    warn,
)
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    encoded_sequences,
    fit_features,
    frequent,
)
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.core.labels import LabelCodec, fit_codec, is_open, named, possible
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.tables import Table, ranking
from jaxstruct.segments.structure import SegmentInput, segment_inputs, segmenter

OUTSIDE = "O"
"""The label of tokens in no segment, each a segment of its own; class 0 where there is one."""
Span: TypeAlias = tuple[int, int, Hashable]
"""(start, end, label)."""
STRETCH = ...
"""In place of a label: of the tokens start .. end - 1 nothing is known."""


class SegmentEncoding(NamedTuple):
    """What the columns of tokens and the numbers of labels and phrases mean. Made by `prepare`.

    Fields:
      features: of tokens. codec: which label is which number.
      longest: L. outside: whether class 0 is `OUTSIDE`. spans: whether outputs are triples.
      phrases: the features of tokens whose texts, joined, are features of segments.
      phrase_names: [f] those of training. phrase_length: M, the most tokens of one of them.
    """

    features: FeatureEncoding
    codec: LabelCodec
    longest: int
    outside: bool
    spans: bool
    phrases: tuple[str, ...]
    phrase_names: tuple[str, ...]
    phrase_length: int
    structure = "segments"

    def problem(self, **options: Any) -> Problem:
        """`segmenter` of these features and labels; options are those of `segmenter`."""
        return segmenter(
            self.features.number_of_features, len(self.codec.classes), self.longest,
            number_of_phrases=len(self.phrase_names), outside=0 if self.outside else None,
            **options,
        )  # fmt: skip

    def inputs(self, sequences: Any) -> SegmentInput:
        """The inputs of n sequences, ragged.

        Raises:
          ValueError: they are none, or have other columns than those of training.
        """
        sequences = held(sequences)
        x = segment_inputs(encoded_sequences(self.features, "sequences", sequences))
        if not self.phrase_names:
            return x
        offsets = np.concatenate([[0], np.cumsum(x.length)])
        number = {name: j for j, name in enumerate(self.phrase_names)}
        shape = offsets[-1], self.phrase_length, len(self.phrases)
        found = np.full(shape, len(number), np.int32)
        for sequence, first in zip(sequences, offsets[:-1].tolist(), strict=True):
            for q, key in enumerate(self.phrases):
                texts = texts_of(sequence, key)
                for start in range(len(texts)):
                    for length in range(min(self.phrase_length, len(texts) - start)):
                        name = phrase_name(key, texts[start : start + length + 1])
                        found[first + start, length, q] = number.get(name, len(number))
        return x._replace(phrases=Ragged(found, offsets, len(number)))

    def outputs(self, segments: Any, lengths: Sequence[int]) -> Ragged | Incomplete:
        """The codes of n sequences of these lengths, ragged.

        Raises:
          ValueError: segments do not fit, are longer than `longest`, or have a label that training
            had not.
        """
        spans = read_spans(segments, lengths, incomplete=True)
        triples, tables = is_of_spans(segments), []
        rows = dict(
            zip(self.codec.classes, np.eye(len(self.codec.classes), dtype=bool), strict=True)
        )
        iob2 = LabelCodec(tuple(map(self._label, range(2 * len(self.codec.classes)))))
        for i, (own, length, one) in enumerate(zip(spans, lengths, segments, strict=True)):
            if triples or one is None or not is_incomplete(one):
                tables.append(self._codes(f"segments[{i}]", rows, own, length))
            else:
                tables.append(possible(iob2, one, f"segments[{i}]"))
        known = Ragged(np.concatenate(tables), np.cumsum([0, *lengths]), -1)
        found = Ragged(known.rows.argmax(axis=1).astype(np.int32), known.offsets, -1)
        return Incomplete(found, known) if any(map(is_incomplete, segments)) else found

    def _codes(
        self, name: str, rows: Mapping[Hashable, np.ndarray], spans: list[Span], length: int
    ) -> np.ndarray:
        """[l, 2 S] bool, which codes the tokens of one sequence may have; rows: [S] of labels."""
        begins = np.arange(2 * len(self.codec.classes)) % 2 == 1
        table = np.zeros((length, len(begins)), bool)
        table[:, 1] = self.outside
        for start, end, label in spans:
            if label is STRETCH:
                table[start:end] = True
                continue
            if end - start > self.longest:
                raise ValueError(
                    f"{name} has a segment of {end - start} tokens at {start}, but longest is "
                    f"{self.longest}: raise it, or split the segment"
                )
            alone = not is_open([label]) and label in rows
            own = rows[label] if alone else possible(self.codec, [label], f"{name}: label")[0]
            own = np.repeat(own, 2)
            own[:2] &= not self.outside
            table[start:end] = own & ~begins
            table[start] = own & begins
        after = [end for _, end, label in spans if label is not STRETCH and end < length]
        table[after] &= begins
        none = np.flatnonzero(~table.any(axis=1))
        if none.size and not self.outside:
            raise ValueError(
                f"{name} leaves token {none[0]} in no segment, which no sequence of training "
                f'does: name "{OUTSIDE}" in classes'
            )
        return table

    def _label(self, code: int) -> str:
        """The label of IOB2 that a code stands for."""
        s, begins = divmod(code, 2)
        front, name = "B" if begins else "I", self.codec.classes[s]
        return OUTSIDE if s == 0 and self.outside else f"{front}-{name}" if name else front

    def decode(self, outputs: Ragged, sequences: Any = None) -> list[list]:
        """The segments of n sequences, such as `predict` returns them, in the kind of training."""
        del sequences
        check_record("outputs", outputs, Ragged, "predict")
        return [self._decoded(codes.tolist()) for codes in outputs]

    def _decoded(self, codes: list[int]) -> list:
        if not self.spans:
            return [self._label(code) for code in codes]
        starts = [t for t, code in enumerate(codes) if code % 2]
        return [
            (start, end, self.codec.classes[codes[start] // 2])
            for start, end in pairwise([*starts, len(codes)])
            if not (self.outside and codes[start] == 1)
        ]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of each label by where they stand, transitions, phrases and lengths."""
        labels, names = self.codec.texts, names_in_window(self.features, options)
        everywhere = tuple(f"{part}{name}" for name in names for part in ("", "first: ", "last: "))
        tokens = weights["tokens"].reshape(3 * len(names), len(labels))
        found = weights_by_name(everywhere, labels, {**weights, "emissions": tokens}, largest)
        if "phrases" in weights:
            for s, label in enumerate(labels):
                title = f"whole segments of {label}"
                found.append(ranking(title, self.phrase_names, weights["phrases"][:, s], largest))
        tall = tuple(map(str, range(1, self.longest + 1)))
        for s, label in enumerate(labels[self.outside :], int(self.outside)):
            found.append(ranking(f"lengths of {label}", tall, weights["lengths"][:, s], largest))
        return found


def phrase_name(key: str, texts: Sequence[str]) -> str:
    """The feature of a segment whose tokens have these texts."""
    return f"{key}={' '.join(texts)}"


def texts_of(sequence: Any, key: str) -> list[str]:
    """The text of a feature of every token.

    Raises:
      ValueError: tokens are no mappings, or one has no text of that name.
    """
    texts: list[str] = []
    for t, token in enumerate(sequence):
        text = token.get(key) if isinstance(token, Mapping) else None
        if not isinstance(text, str):
            raise ValueError(
                f"phrases names {key!r}, but token {t} of a sequence has no text of that name, got "
                f"{kind_and_text_of(token)}: tokens must be mappings with it"
            )
        texts.append(text)
    return texts


def is_incomplete(segments: Any) -> bool:
    """Whether something of the segments of one sequence is not known; see the module."""
    if segments is None:
        return True
    several = [one for one in segments if isinstance(one, (tuple, list))]
    alone = (one for one in segments if not isinstance(one, (tuple, list)))
    return is_open(alone) or any(len(one) == 2 or is_open(one[2:]) for one in several)


def read_spans(
    segments: Any, lengths: Sequence[int], name: str = "segments", *, incomplete: bool = False
) -> list[list[Span]]:
    """The segments of n sequences as sorted triples, of either kind.

    Args:
      lengths: [n] tokens of each sequence. name: of the argument, for messages.
      incomplete: whether a part may not be known, see the module. Tokens of which no code is known
        are then of the label `STRETCH`.

    Labels of IOBES and BILOU are read as `as_iob2` converts them. A warning counts the I-types (E,
    L) that carry nothing on.

    Raises:
      ValueError: they are of another number of sequences, neither labels of IOB2 nor triples,
        of another number of tokens, reach beyond the sequence, or overlap.
    """
    expected = "a list of n lists, of IOB2 labels or of triples (start, end, label)"
    listed = as_list(name, segments, expected)
    if len(listed) != len(lengths):
        raise ValueError(f"{name} must be of n = {len(lengths)} sequences, got {len(listed)}")
    found, kind, loose = [], is_of_spans(listed), []
    for i, (one, length) in enumerate(zip(listed, lengths, strict=True)):
        partly = incomplete and is_incomplete(one)
        if partly and one is None:
            found.append([(0, length, STRETCH)] if length else [])
            continue
        one = as_list(f"{name}[{i}]", one, expected)
        if not kind:
            if len(one) != length:
                raise ValueError(
                    f"{name}[{i}] has {len(one)} labels, but its sequence has {length} tokens"
                )
            blank = [t for t, label in enumerate(one) if partly and is_open([label])]
            one = [OUTSIDE if t in blank else label for t, label in enumerate(one)]
            try:
                iob2 = as_iob2(one)
            except ValueError as error:
                raise ValueError(f"{name}[{i}] is of {expected}: {error}") from None
            loose += [(i, t, label) for t, (label, read) in enumerate(zip(one, iob2, strict=True))
                      if label[0] in "IEL" and read[0] == "B" and not blank]  # fmt: skip
            spans = [(start, end, label) for label, start, end in iob2_spans(iob2)]
            spans += [(t, t + 1, STRETCH) for t in blank]
        else:
            spans = [_checked_span(f"{name}[{i}]", span, length, partly) for span in one]
        spans.sort(key=lambda span: span[:2])
        for before, after in zip(spans, spans[1:], strict=False):
            if after[0] < before[1]:
                raise ValueError(f"{name}[{i}] has segments that overlap: {before} and {after}")
        found.append(spans)
    if loose:
        i, t, label = loose[0]
        warn(
            f"{name}[{i}] has the label {label!r} at token {t}, where no segment of this label can "
            f"go on: it begins one ({len(loose)} such labels). In IOB2 that is written B; "
            "jaxstruct.chains.as_iob2 converts files of IOB1, where it is usual"
        )
    return found


def is_of_spans(segments: Sequence[Any]) -> bool:
    """Whether segments are triples: no list of them begins with a label, known or not."""
    labels = (str, set, type(None))
    return not any(one is not None and len(one) and isinstance(one[0], labels) for one in segments)


def _checked_span(place: str, span: Any, length: int, partly: bool) -> Span:
    sizes = (2, 3) if partly else (3,)
    if not isinstance(span, (tuple, list)) or len(span) not in sizes:
        raise ValueError(f"{place} has {text_of(span)}, expected triples (start, end, label)")
    start, end, label = (*span, STRETCH)[:3]
    start, end = checked_size(f"{place}: start", start, 0), checked_size(f"{place}: end", end)
    if not start < end <= length:
        raise ValueError(
            f"{place} has the segment {text_of(span)} of a sequence of {length} tokens: expected 0 "
            "<= start < end <= tokens"
        )
    if label == OUTSIDE:
        raise ValueError(f'{place}: "{OUTSIDE}" is the label of tokens in no segment: leave it out')
    return start, end, label


def prepare(
    sequences: Any,
    segments: Any,
    *,
    classes: Iterable[Hashable] | None = None,
    longest: int | None = None,
    phrases: Iterable[str] = (),
    phrase_count: int = 2,
    min_count: int = 1,
    constant: float = 0.0,
    **options: Any,
) -> Prepared:
    """A training set of segmentations: `js.fit(*prepare(sequences, segments), C=10.0)`.

    Args:
      sequences: n sequences of tokens, as in `jaxstruct.chains.prepare`.
      segments: n lists of IOB2 labels, one a token, or of triples (start, end, label), tokens start
        .. end - 1. An I-type that carries nothing on begins a segment, and a warning counts these;
        labels of IOBES and BILOU are read, too. Predictions are of the same kind, labels in IOB2.
        Where a part is not known, as the module says, the outputs are `Incomplete`, for
        `jaxstruct.fit_latent` and `baselines.fit_random_field`; labels beside None are of IOB2.
      classes: all labels in the wanted order, "O" among them where tokens may be in no segment;
        None for those of `segments`.
      longest: tokens of a segment at most; None for the longest of `segments`.
      phrases: names of features of tokens, whose tokens are then mappings with texts of these
        names. A segment has the texts of its tokens, joined, as a feature of its own.
      phrase_count: how many segments of training must have a phrase for it to count.
      min_count, constant: of features of tokens, as in `jaxstruct.chains.prepare`.
      options: those of `segmenter` but `outside` and `number_of_phrases`.

    Raises:
      ValueError: sequences, segments or an option do not fit; a segment is longer than `longest`.
    """
    sequences, segments = held(sequences), held(segments)
    rows, offsets = read_sequences("sequences", sequences)
    lengths = np.diff(offsets).tolist()
    read = read_spans(segments, lengths, incomplete=True)
    spans = [[span for span in own if span[2] is not STRETCH] for own in read]
    features = fit_features(rows, min_count=min_count, constant=constant)
    most = max((end - start for own in spans for start, end, _ in own), default=1)
    longest = most if longest is None else checked_size("longest", longest)
    codec, outside = _codec_of(segments, read, lengths, classes)
    keys = tuple(as_list("phrases", phrases, "a list of names of features of tokens"))
    names = _phrases(sequences, spans, keys, checked_size("phrase_count", phrase_count))
    encoding = SegmentEncoding(
        features, codec, longest, outside, is_of_spans(segments), keys, tuple(names),
        max(names.values(), default=0),
    )  # fmt: skip
    return prepared(encoding, sequences, encoding.outputs(segments, lengths), options)


def _codec_of(
    segments: Any, spans: list[list[Span]], lengths: list[int], classes: Iterable[Hashable] | None
) -> tuple[LabelCodec, bool]:
    """(the codec, whether its class 0 is `OUTSIDE`)."""
    every = (one for own in segments if own is not None for one in own if isinstance(one, set))
    maybe = {label for one in every for label in one if isinstance(label, str)}
    labels = named(label for own in spans for _, _, label in own if label is not STRETCH)
    labels += [label.partition("-")[2] for label in sorted(maybe - {OUTSIDE})]
    if classes is None:
        covered = [sum(end - start for start, end, _ in own) for own in spans]
        if not labels:
            raise ValueError("segments has no segment: there is nothing to learn")
        outside, kept = covered != lengths or OUTSIDE in maybe, fit_codec(labels).classes
    else:
        classes = as_list("classes", classes, "a list of labels")
        outside = OUTSIDE in classes
        kept = fit_codec(labels, [one for one in classes if one != OUTSIDE]).classes
    return LabelCodec((OUTSIDE, *kept) if outside else kept), outside


def _phrases(
    sequences: Any, spans: list[list[Span]], keys: tuple[str, ...], count: int
) -> dict[str, int]:
    """The phrases of segments that occur so often, with their tokens; the most frequent first."""
    counts, sizes = Counter(), {}
    for key in keys:
        for sequence, own in zip(sequences, spans, strict=True):
            texts = texts_of(sequence, key)
            for start, end, _ in own:
                name = phrase_name(key, texts[start:end])
                counts[name] += 1
                sizes[name] = max(end - start, sizes.get(name, 0))
    return {name: sizes[name] for name in frequent(counts, count)}
