"""Classes of words that are too rare to be terminals of their own.

The class of a word is the first of these that fits:

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
from collections.abc import Container, Iterable
from typing import NamedTuple

from jaxstruct.core.checks import check_record, checked_size

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
