"""experiments.taxonomy and its parts: documents, columns, choice of C, scores, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.reproduce.command import SMALL
from experiments.tasks import documents
from experiments.taxonomy import command as taxonomy
from experiments.taxonomy.command import PAPER, PAPER_GAINS, Options
from experiments.taxonomy.options import COLUMNS, Cell
from jaxstruct import Status
from jaxstruct.multiclass.losses import tree_loss
from tests.experiments.scripts import QUIET
from tests.lib.refusals import refused

DOMAINS = {"money": ["pay", "save", "lend"], "food": ["cook", "eat"], "travel": ["fly"]}
CHEAP = SMALL | QUIET | {"per_class": ("2", "0")}


def queries(random, per_intent):
    """Texts of an intent's own word, a word of its domain, and words of no meaning."""
    words = np.array([f"word{i}" for i in range(12)])
    return [
        [" ".join([*random.choice([intent, domain], 2), *random.choice(words, 3)]), intent]
        for domain, intents in DOMAINS.items()
        for intent in intents
        for _ in range(1 if intent == "fly" else per_intent)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder in the form of CLINC150; the intent "fly" has one query in each part."""
    folder, random = tmp_path_factory.mktemp("corpus"), np.random.default_rng(0)
    parts = {"train": queries(random, 12), "val": queries(random, 2), "test": queries(random, 20)}
    (folder / "data_full.json").write_text(json.dumps(parts), encoding="utf-8")
    (folder / "domains.json").write_text(json.dumps(DOMAINS), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def options(corpus, tmp_path_factory):
    """Ten queries a class and all of them are of one size class, and share their programs."""
    folder = str(tmp_path_factory.mktemp("results"))
    return Options(path=str(corpus), output=folder, **CHEAP).replace(per_class=("10", "0"))


def test_columns_are_better_than_chance(outcome):
    for size in (10, 0):
        for column in COLUMNS:
            assert outcome.numbers["sizes"][size]["accuracy"][column].mean > 100 / 3
    small, whole = outcome.numbers["runs"][0], outcome.numbers["runs"][2]
    assert (small["train"], small["test"], small["unseen"]) == (51, 101, 0)
    assert (whole["train"], whole["test"]) == (61, 101)
    for run in outcome.numbers["runs"]:
        for cell in run["cells"].values():
            assert cell["c_over_n"] in (1.0, 10.0) and cell["status"].solved
            assert cell["relative_gap"] <= 1e-2 and cell["unsolved"] == 0
            assert cell["scores"][cell["c_over_n"]] == min(cell["scores"].values())


def test_the_paper_stands_beside_its_own_documents(corpus):
    data = documents.clinc150(corpus)._replace(of_paper=True)
    options = Options(path=str(corpus), **CHEAP)
    cell = Cell(data.labels[data.test], 1.0, {}, Status.CONVERGED, 1, 0.0, 0, 1.0, 0)
    cells = dict.fromkeys(COLUMNS, cell)
    sizes = [(size, 0, data.train[:6], data.test, cells) for size in (2, 0)]
    results = [taxonomy.summarise(data, *each) for each in sizes]
    table, numbers = taxonomy.make_table(options, data, results)
    sources = [row[:3] for row in table.rows]
    assert ["2 a class", "accuracy %", "paper"] in sources
    assert ["all", "accuracy %", "paper"] not in sources
    assert any("13.67" in note for note in table.notes)
    for plot in taxonomy.make_plots("x", data, numbers).values():
        assert any("paper" in column for column in plot.data.columns)


def test_the_draw_is_disjoint_and_of_the_size_asked_for():
    data = documents.synthetic(per_leaf=5)
    chosen, test = taxonomy.draw(data, 2, seed=1)
    assert np.array_equal(np.sort(np.concatenate([chosen, test])), np.arange(27 * 5))
    assert (np.bincount(data.labels[chosen]) == 2).all()
    refused("nothing to test on", taxonomy.draw, data, 0, seed=1)


def test_clinc150_keeps_the_two_parts_apart(corpus):
    data = documents.clinc150(corpus)
    assert (len(data.train), len(data.test), len(data.labels)) == (61, 101, 162)
    assert not set(data.train) & set(data.test)
    assert [*map(np.linalg.norm, data.inputs.values)] == pytest.approx([1] * 162, abs=1e-6)
    heights = tree_loss(data.taxonomy)
    classes = [data.taxonomy.names[node] for node in data.taxonomy.classes]
    assert heights[classes.index("pay"), classes.index("save")] == 1
    assert heights[classes.index("pay"), classes.index("fly")] == 2


def record_xml(number, symbol, text):
    return f'<record pn="{number}"><ipcs mc="{symbol}"/><ti>{text}</ti><cl>{text}</cl></record>'


def test_wipo_xml_keeps_one_section(tmp_path):
    records = [
        record_xml(1, "D01D001", "spinning frame"), record_xml(2, "D01D004", "spinning thread"),
        record_xml(3, "D21H011", "paper pulp"), record_xml(4, "A01B001", "spade"),
    ]  # fmt: skip
    (tmp_path / "a.xml").write_text(f"<records>{''.join(records)}</records>", encoding="utf-8")
    data = documents.wipo_xml(tmp_path)
    assert len(data.labels) == 3 and len(data.taxonomy.classes) == 3
    assert tree_loss(data.taxonomy)[0].tolist() == [0, 1, 3]
    refused("section 'B'", documents.wipo_xml, tmp_path, "B")


def test_the_gains_of_the_paper_follow_from_its_means_but_for_one():
    for size, measures in PAPER.items():
        for measure, means in measures.items():
            gain = taxonomy._gain(measure, means[0], means[3])
            expected = 15.79 if (size, measure) == (2, "tree_loss") else PAPER_GAINS[size][measure]
            assert gain == pytest.approx(expected, abs=0.01)


def test_folds_are_tested_in_turn_and_trained_on_the_others(corpus):
    data = documents.clinc150(corpus)
    seen = []
    for number in range(3):
        chosen, test = taxonomy.draw_beside_fold(data, 2, 3, number, seed=0)
        assert not np.intersect1d(chosen, test).size
        assert np.isin(test, data.train).all() and np.isin(chosen, data.train).all()
        assert np.bincount(data.labels[chosen]).max() == 2
        whole, same = taxonomy.draw_beside_fold(data, 0, 3, number, seed=0)
        np.testing.assert_array_equal(same, test)
        np.testing.assert_array_equal(np.sort(np.concatenate([whole, test])), np.sort(data.train))
        seen.append(test)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.sort(data.train))
