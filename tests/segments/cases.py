"""A small corpus of names of people and places in sentences."""

from __future__ import annotations

PLACES = ("New York", "Rio de Janeiro", "Paris")
PEOPLE = ("Ann Lee", "Bob")


def names(n: int = 12) -> tuple[list, list]:
    """n sentences of tokens as mappings, and their names as triples (start, end, kind)."""
    sentences, spans = [], []
    for i in range(n):
        who, where = PEOPLE[i % 2].split(), PLACES[i % 3].split()
        words = [*who, *("likes", "left")[i % 2 : i % 2 + 1], *where, *["again"] * (i % 4 == 0)]
        sentences.append([{"word": word, "upper": word[0].isupper()} for word in words])
        at = len(who) + 1
        spans.append([(0, len(who), "PER"), (at, at + len(where), "LOC")])
    return sentences, spans


def tagged(sentences: list, spans: list) -> list:
    """The same as labels of IOB2."""
    found = []
    for sentence, own in zip(sentences, spans, strict=True):
        labels = ["O"] * len(sentence)
        for start, end, kind in own:
            labels[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
        found.append(labels)
    return found
