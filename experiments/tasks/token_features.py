"""Binary features of tokens for named entities, in the manner of Altun et al. (2003).

Of the token itself (offset 0), as strings `kind[0]=value`:
  word, lower (lower-cased word), prefixN and suffixN of the lower-cased word for N = 1 .. affixes
  (only those shorter than the word), shape, and the flags below; tag if asked for.
Of each neighbour within the window (offsets -1 and +1 by default):
  word, lower, prefix and suffix of `affixes` letters, shape and the flags; tag if asked for.
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

from experiments.tasks.feature_index import TokenRows
from jaxstruct.core.feature_encoding import FeatureIndex, fit_index
from jaxstruct.data.conll import Sentence

_NUMBER = re.compile(r"(?=.*\d)[\d.,:/-]+")
_CHUNK = 1 << 17  # tokens at a time, so that the padded tables stay small


class FeatureOptions(NamedTuple):
    """Which features to make; JSON-able as `options._asdict()`.

    Fields:
      affixes: the longest prefix and suffix, 0 for none.
      window: how many neighbours on each side, 0 for none.
      tags: whether to use the part-of-speech tags, `Sentence.tags`. Off, because the tables
        are to rest on the words alone.
    """

    affixes: int = 4
    window: int = 1
    tags: bool = False


DEFAULT = FeatureOptions()
"""The features of the tables."""


class _Interned(NamedTuple):
    """Tokens by number: distinct (word, tag) `keys`, `ids` [tokens], `sentence_offsets` [n + 1]."""

    keys: list[tuple[str, str]]
    ids: np.ndarray
    sentence_offsets: np.ndarray


def token_features(
    sentences: Sequence[Sentence], options: FeatureOptions = DEFAULT
) -> list[list[list[str]]]:
    """Returns the features of every token of every sentence, as strings without repeats.

    For other programs and for reading; `token_rows` is what training needs.

    Raises:
      ValueError: an option is negative, or tags are asked for and a sentence has none.
    """
    interned = _intern(sentences, options)
    columns = []
    for offset in _offsets(options):
        table = _strings(interned.keys, offset, options)
        columns.append([table[key] for key in _shift(interned, offset)])
    tokens = [[*itertools.chain(*parts)] for parts in zip(*columns, strict=True)]
    bounds = interned.sentence_offsets
    return [tokens[i:j] for i, j in zip(bounds[:-1], bounds[1:], strict=True)]


def fit_token_index(
    sentences: Sequence[Sentence], options: FeatureOptions = DEFAULT, *, min_count: int = 1
) -> FeatureIndex:
    """Returns the columns of the features of a training set; see `feature_index.fit_index`.

    Raises:
      ValueError: as `token_features` and `fit_index`.
    """
    interned = _intern(sentences, options)
    counts: Counter[str] = Counter()
    for offset in _offsets(options):
        table = _strings(interned.keys, offset, options)
        times = np.bincount(_shift(interned, offset), minlength=len(table)).tolist()
        for features, count in zip(table, times, strict=True):
            if count:
                for name in features:
                    counts[name] += count
    return fit_index(counts, min_count=min_count)


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
        table, lost = _columns(_strings(interned.keys, offset, options), index)
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
    numbers: dict[tuple[str, str], int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    for position, (words, columns, _) in enumerate(sentences):
        if options.tags and not columns:
            raise ValueError(
                f"sentences[{position}]: has no column of tags, but options.tags asks for it"
            )
        tags = columns[0] if options.tags else ("",) * len(words)
        lengths.append(len(words))
        ids += [numbers.setdefault(key, len(numbers)) for key in zip(words, tags, strict=True)]
    offsets = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
    return _Interned(list(numbers), np.array(ids, dtype=np.int64), offsets)


def _shift(interned: _Interned, offset: int) -> np.ndarray:
    """[tokens] int64: each token's neighbour; keys + 0 before the sentence, keys + 1 after it."""
    ids, bounds = interned.ids, interned.sentence_offsets
    lengths = np.diff(bounds)
    neighbour = np.arange(len(ids)) + offset
    before = neighbour < np.repeat(bounds[:-1], lengths)
    after = neighbour >= np.repeat(bounds[1:], lengths)
    outside = len(interned.keys) + after
    return np.where(before | after, outside, ids.take(neighbour, mode="clip"))


def _strings(
    keys: Sequence[tuple[str, str]], offset: int, options: FeatureOptions
) -> list[list[str]]:
    """The features of a token whose neighbour at `offset` is each key; then of begin, of end."""
    kinds = _own_kinds if offset == 0 else _neighbour_kinds
    tables = [_named(kinds(word, options), tag, offset) for word, tag in keys]
    if offset == 0:
        tables = [[*features, "bias"] for features in tables]
    return [*tables, [f"begin[{offset:+d}]"], [f"end[{offset:+d}]"]]


def _named(kinds: list[tuple[str, str]], tag: str, offset: int) -> list[str]:
    place = f"[{offset:+d}]" if offset else "[0]"
    named = [f"{kind}{place}={value}" if value else kind + place for kind, value in kinds]
    return [*named, f"tag{place}={tag}"] if tag else named


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
