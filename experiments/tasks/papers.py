"""Drawn graphs of papers that cite one another, mostly within their topic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Drawing(NamedTuple):
    """How graphs are drawn.

    Fields:
      fewest, most: papers of a graph. topics: S. vocabulary: words in all, as many a topic.
      words: drawn for each paper. focus: the part of them that is of its topic.
      citations: of each paper, at most. homophily: the part of them that stays in the topic.
    """

    fewest: int
    most: int
    topics: int
    vocabulary: int
    words: int
    focus: float
    citations: int
    homophily: float

    @property
    def features(self) -> int:
        """d: the words and a 1."""
        return self.vocabulary + 1


class Papers(NamedTuple):
    """One graph: topics y [V], words [V, words] (repeats are possible), citations [E, 2]."""

    y: np.ndarray
    words: np.ndarray
    links: np.ndarray


def drawn_papers(rng: np.random.Generator, drawing: Drawing) -> Papers:
    """One graph; papers come one after the other and cite earlier ones.

    A paper draws its topic, each word from those of its topic (the block of the vocabulary) or from
    all, and each citation from earlier papers of its topic or from all of them, the more often
    cited the likelier: P(v) is proportional to 1 + citations of v. Repeats count once.
    """
    V, S = int(rng.integers(drawing.fewest, drawing.most + 1)), drawing.topics
    y = rng.integers(0, S, V)
    block = drawing.vocabulary // S
    shape = (V, drawing.words)
    own = y[:, None] * block + rng.integers(0, block, shape)
    any_word = rng.integers(0, drawing.vocabulary, shape)
    words = np.where(rng.random(shape) < drawing.focus, own, any_word)
    links, cited = set(), np.zeros(V)
    for v in range(1, V):
        for _ in range(int(rng.integers(1, drawing.citations + 1))):
            likely = 1 + cited[:v]
            alike = likely * (y[:v] == y[v])
            if alike.any() and rng.random() < drawing.homophily:
                likely = alike
            earlier = int(rng.choice(v, p=likely / likely.sum()))
            cited[earlier] += (earlier, v) not in links
            links.add((earlier, v))
    return Papers(y, words, np.array(sorted(links), np.int32).reshape(-1, 2))
