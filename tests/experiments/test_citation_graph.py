"""experiments.citation_graph on small graphs: the table, the picture, and what is refused."""

from __future__ import annotations

import numpy as np

from experiments.citation_graph import Options, equal_links, part_of
from experiments.lib import common
from experiments.tasks.papers import Drawing, drawn_papers
from tests.experiments.scripts import options_of

DRAWING = Drawing(10, 16, 3, 12, 4, 0.4, 2, 0.9)
options = options_of(
    Options, graphs=8, fewest=12, most=12, topics=3, vocabulary=12, words=4, focus=0.3, citations=2,
    homophily=0.95, training=("independent", "svm"), prediction=("reweighted",),
)  # fmt: skip


def test_links_help(outcome: common.Outcome) -> None:
    alone, joined = outcome.numbers["rows"]
    assert (alone["training"], joined["training"]) == ("independent", "svm")
    assert joined["test_errors"]["reweighted"] < alone["test_errors"]["reweighted"]
    assert joined["equal_links"]["reweighted"] > alone["equal_links"]["reweighted"]


def test_papers_cite_earlier_ones_of_their_topic() -> None:
    rng = np.random.default_rng(0)
    graphs = [drawn_papers(rng, DRAWING) for _ in range(40)]
    part = part_of(graphs, DRAWING, "float32")
    assert equal_links(graphs, part.y) > 70
    for own in graphs:
        V = len(own.y)
        assert 10 <= V <= 16 and (own.links[:, 0] < own.links[:, 1]).all()
        assert len(np.unique(own.links, axis=0)) == len(own.links) <= 2 * V
        assert np.unique(own.links[:, 1]).tolist() == list(range(1, V))  # all but the first cite
    words = np.concatenate([own.words // 4 == own.y[:, None] for own in graphs])
    assert abs(words.mean() - (0.4 + 0.6 / 3)) < 0.05


def test_every_word_counts_once() -> None:
    rng = np.random.default_rng(1)
    papers = drawn_papers(rng, DRAWING)
    part = part_of([papers], DRAWING, "float32")
    indices, values = part.x.nodes.indices[0], part.x.nodes.values[0]
    for row, own, value in zip(papers.words, indices, values, strict=True):
        assert sorted(own[value > 0]) == [*np.unique(row), 12] and value.max() == 1
        assert (own[value == 0] == DRAWING.features).all()
