"""Binary features of tokens for named entities, in the manner of Altun et al. (2003).

Of the token itself (offset 0), as strings `kind[0]=value`:
  word, lower (lower-cased word), prefixN and suffixN of the lower-cased word for N = 1 .. affixes
  (only those shorter than the word), shape, and the flags below.
Of each neighbour within the window (offsets -1 and +1 by default):
  word, lower, prefix and suffix of `affixes` letters, shape and the flags.
Flags, each present or absent: initial (first letter a capital), capitals (all letters capital, two
or more), mixed (a capital after a small letter), digit (holds one), number (nothing but digits and
.,:/-), hyphen (holds one), punctuation (no letter and no digit).
Where a neighbour would lie outside of the sentence: begin[offset] or end[offset].
Every token has the feature bias.

A shape writes X for a capital, x for another letter, 0 for a digit, and other characters as they
are, runs made single: "Xx" for Madrid, "X.X." for U.S., "0-0" for 1998-99.

The thesis (4.4.4) takes its features from Altun, Tsochantaridis, Hofmann, "Hidden Markov support
vector machines" (2003) and does not list them: this set of word and spelling features is ours.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.feature_encoding import FeatureIndex, fit_index
from jaxstruct.data.conll import Sentence


class TokenRows(NamedTuple):
    """Binary feature vectors of the tokens of n sentences, row after row.

    Phi(x^t) = sum_j e_{indices[j]}, j = token_offsets[t] .. token_offsets[t + 1] - 1.

    Fields:
      indices: [entries] int32, rising strictly within a token, in [0, number_of_features).
      token_offsets: [tokens + 1] int64.
      sentence_offsets: [n + 1] int64; sentence i is tokens sentence_offsets[i] ..
        sentence_offsets[i + 1] - 1.
      number_of_features: d.
      unknown: how many features of these tokens (repeats counted) the index does not have; they
        are dropped.
    """

    indices: np.ndarray
    token_offsets: np.ndarray
    sentence_offsets: np.ndarray
    number_of_features: int
    unknown: int


def token_table(rows: TokenRows) -> np.ndarray:
    """[tokens, m] int32 the features of every token, m the most of any, at least 1.

    Padding is rows.number_of_features, out of range on purpose
    (`jaxstruct.core.types.SparseFeatures`).
    """
    counts = np.diff(rows.token_offsets)
    shape = len(counts), int(counts.max(initial=1))
    table = np.full(shape, rows.number_of_features, dtype=np.int32)
    table[np.arange(shape[1]) < counts[:, None]] = rows.indices
    return table


_NUMBER = re.compile(r"(?=.*\d)[\d.,:/-]+")
_CHUNK = 1 << 17  # tokens at a time, so that the padded tables stay small


class FeatureOptions(NamedTuple):
    """Which features to make; JSON-able as `options._asdict()`.

    Fields:
      affixes: the longest prefix and suffix, 0 for none.
      window: how many neighbours on each side, 0 for none.
    """

    affixes: int = 4
    window: int = 1


DEFAULT = FeatureOptions()
"""The features of the tables."""


class _Interned(NamedTuple):
    """Tokens by number: distinct `words`, `ids` [tokens], `sentence_offsets` [n + 1]."""

    words: list[str]
    ids: np.ndarray
    sentence_offsets: np.ndarray


def token_features(
    sentences: Sequence[Sentence], options: FeatureOptions = DEFAULT
) -> list[list[list[str]]]:
    """Returns the features of every token of every sentence, as strings without repeats.

    For other programs and for reading; `token_rows` is what training needs.

    Raises:
      ValueError: an option is negative.
    """
    interned = _intern(sentences, options)
    columns = []
    for offset in _offsets(options):
        table = _strings(interned.words, offset, options)
        columns.append([table[key] for key in _shift(interned, offset)])
    tokens = [[*itertools.chain(*parts)] for parts in zip(*columns, strict=True)]
    bounds = interned.sentence_offsets
    return [tokens[i:j] for i, j in zip(bounds[:-1], bounds[1:], strict=True)]


def fit_token_index(
    sentences: Sequence[Sentence], options: FeatureOptions = DEFAULT
) -> FeatureIndex:
    """Returns the columns of the features of a training set; see `feature_index.fit_index`.

    Raises:
      ValueError: as `token_features` and `fit_index`.
    """
    interned = _intern(sentences, options)
    counts: Counter[str] = Counter()
    for offset in _offsets(options):
        table = _strings(interned.words, offset, options)
        times = np.bincount(_shift(interned, offset), minlength=len(table)).tolist()
        for features, count in zip(table, times, strict=True):
            if count:
                for name in features:
                    counts[name] += count
    return fit_index(counts)


def token_rows(
    sentences: Sequence[Sentence], index: FeatureIndex, options: FeatureOptions = DEFAULT
) -> TokenRows:
    """Returns the columns of every token's features, unknown ones dropped and counted.

    Strings are made once a distinct word, so 264,715 tokens take seconds and little memory.

    Args:
      sentences: n sentences.
      index: fitted on the training set with the same options.
      options: as for `fit_token_index`.

    Raises:
      ValueError: as `token_features`.
    """
    interned = _intern(sentences, options)
    d = index.number_of_features
    tables, unknown = [], 0
    for offset in _offsets(options):
        table, lost = _columns(_strings(interned.words, offset, options), index)
        ids = _shift(interned, offset)
        tables.append((table, ids))
        unknown += int(lost[ids].sum())
    pieces, lengths = [], []
    for start in range(0, len(interned.ids), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        padded = np.concatenate([table[ids[chunk]] for table, ids in tables], axis=1)
        padded.sort(axis=1)
        known = padded < d
        pieces.append(padded[known])
        lengths.append(known.sum(axis=1))
    offsets = np.concatenate([[0], *lengths]).cumsum(dtype=np.int64)
    indices = np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
    return TokenRows(indices, offsets, interned.sentence_offsets, d, unknown)


def _offsets(options: FeatureOptions) -> range:
    return range(-options.window, options.window + 1)


def _intern(sentences: Sequence[Sentence], options: FeatureOptions) -> _Interned:
    for name in ("affixes", "window"):
        if getattr(options, name) < 0:
            raise ValueError(f"options.{name}: got {getattr(options, name)}, expected at least 0")
    numbers: dict[str, int] = {}
    words = [word for sentence in sentences for word in sentence.words]
    ids = [numbers.setdefault(word, len(numbers)) for word in words]
    lengths = [len(sentence.words) for sentence in sentences]
    offsets = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
    return _Interned(list(numbers), np.array(ids, dtype=np.int64), offsets)


def _shift(interned: _Interned, offset: int) -> np.ndarray:
    """[tokens] int64: each token's neighbour; words + 0 before the sentence, words + 1 after it."""
    ids, bounds = interned.ids, interned.sentence_offsets
    lengths = np.diff(bounds)
    neighbour = np.arange(len(ids)) + offset
    before = neighbour < np.repeat(bounds[:-1], lengths)
    after = neighbour >= np.repeat(bounds[1:], lengths)
    outside = len(interned.words) + after
    return np.where(before | after, outside, ids.take(neighbour, mode="clip"))


def _strings(words: Sequence[str], offset: int, options: FeatureOptions) -> list[list[str]]:
    """The features of a token whose neighbour at `offset` is each word; then of begin, of end."""
    kinds = _own_kinds if offset == 0 else _neighbour_kinds
    tables = [_named(kinds(word, options), offset) for word in words]
    if offset == 0:
        tables = [[*features, "bias"] for features in tables]
    return [*tables, [f"begin[{offset:+d}]"], [f"end[{offset:+d}]"]]


def _named(kinds: list[tuple[str, str]], offset: int) -> list[str]:
    place = f"[{offset:+d}]" if offset else "[0]"
    return [f"{kind}{place}={value}" if value else kind + place for kind, value in kinds]


def _own_kinds(word: str, options: FeatureOptions) -> list[tuple[str, str]]:
    lower = word.lower()
    lengths = range(1, min(options.affixes, len(lower) - 1) + 1)
    return [
        ("word", word),
        ("lower", lower),
        *((f"prefix{length}", lower[:length]) for length in lengths),
        *((f"suffix{length}", lower[-length:]) for length in lengths),
        *_spelling(word),
    ]


def _neighbour_kinds(word: str, options: FeatureOptions) -> list[tuple[str, str]]:
    lower, length = word.lower(), options.affixes
    affixes = [(f"prefix{length}", lower[:length]), (f"suffix{length}", lower[-length:])]
    return [
        ("word", word),
        ("lower", lower),
        *(affixes if 0 < length < len(lower) else []),
        *_spelling(word),
    ]


_FLAGS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("initial", lambda word: word[:1].isupper()),
    ("capitals", lambda word: word.isupper() and sum(map(str.isupper, word)) > 1),
    ("mixed", lambda word: any(a.islower() and b.isupper() for a, b in zip(word, word[1:]))),  # noqa: B905
    ("digit", lambda word: any(map(str.isdigit, word))),
    ("number", _NUMBER.fullmatch),
    ("hyphen", lambda word: "-" in word),
    ("punctuation", lambda word: not any(map(str.isalnum, word))),
)


def _spelling(word: str) -> list[tuple[str, str]]:
    return [("shape", _shape(word)), *((name, "") for name, holds in _FLAGS if holds(word))]


def _shape(word: str) -> str:
    classes = [_class_of(letter) for letter in word]
    return "".join(a for a, b in zip(classes, [*classes[1:], ""], strict=True) if a != b)


def _class_of(letter: str) -> str:
    if letter.isalpha():
        return "X" if letter.isupper() else "x"
    return "0" if letter.isdigit() else letter


def _columns(strings: list[list[str]], index: FeatureIndex) -> tuple[np.ndarray, np.ndarray]:
    """[keys, m] int32 columns, padded with d, and [keys] how many features are unknown."""
    known = [[index.columns[name] for name in row if name in index.columns] for row in strings]
    table = np.full((len(known), max(map(len, known))), index.number_of_features, dtype=np.int32)
    for row, columns in zip(table, known, strict=True):
        row[: len(columns)] = columns
    lost = [len(row) - len(columns) for row, columns in zip(strings, known, strict=True)]
    return table, np.array(lost)


PHRASES = ("word[0]", "shape[0]")
"""The features of tokens whose texts, joined, are features of segments."""


def token_mappings(sentences: Sequence[Sentence]) -> list[list[dict[str, str | bool]]]:
    """`token_features` as mappings: name -> text of "name=text", and True of a name alone."""
    return [
        [{name: text if equals else True for name, equals, text in
          (one.partition("=") for one in token)} for token in sentence]
        for sentence in token_features(sentences)
    ]  # fmt: skip
