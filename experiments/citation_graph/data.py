"""Graphs of papers that cite one another, drawn: own generator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.lib.graph_training import Part
from jaxstruct import Ragged, ragged
from jaxstruct.core.types import SparseFeatures
from jaxstruct.graphs.inputs import graph_inputs


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


def _rows(papers: Papers, drawing: Drawing, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """([V, words + 1] indices, their values): each word once, then padding; the last is the 1."""
    words = np.sort(papers.words, axis=1)
    again = np.pad(words[:, 1:] == words[:, :-1], [(0, 0), (1, 0)])
    indices = np.where(again, drawing.features, words)
    indices = np.pad(indices, [(0, 0), (0, 1)], constant_values=drawing.vocabulary)
    return indices.astype(np.int32), (indices < drawing.features).astype(dtype)


def part_of(graphs: list[Papers], drawing: Drawing, dtype: str) -> Part:
    """As labelled graphs: a node a paper, its words (and a 1) as sparse features."""
    rows = [_rows(one, drawing, dtype) for one in graphs]
    nodes = SparseFeatures(
        ragged([own[0] for own in rows], drawing.features), ragged([own[1] for own in rows])
    )
    y = ragged([one.y.astype(np.int32) for one in graphs])
    return Part(
        graph_inputs(nodes, [one.links for one in graphs]),
        graph_inputs(nodes, [np.zeros((0, 2), np.int32)] * len(graphs)),
        Ragged(y.rows, y.offsets, -1),
    )


def equal_links(graphs: list[Papers], y: Ragged) -> float:
    """Citations that join equal labels, in %."""
    alike = [own[one.links[:, 0]] == own[one.links[:, 1]]
             for one, own in zip(graphs, y, strict=True)]  # fmt: skip
    return 100 * float(np.concatenate(alike).mean())
