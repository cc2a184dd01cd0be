"""Tokens of news as mappings, in which phrases find words and shapes by name."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.tasks.token_features import token_features
from jaxstruct.data.conll import Sentence

PHRASES = ("word[0]", "shape[0]")
"""The features of tokens whose texts, joined, are features of segments."""


def token_mappings(sentences: Sequence[Sentence]) -> list[list[dict[str, str | bool]]]:
    """`token_features` as mappings: name -> text of "name=text", and True of a name alone."""
    return [
        [{name: text if equals else True for name, equals, text in
          (one.partition("=") for one in token)} for token in sentence]
        for sentence in token_features(sentences)
    ]  # fmt: skip
