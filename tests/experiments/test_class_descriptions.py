"""experiments.class_descriptions on a made-up corpus: similarities, ties, tables, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.class_descriptions import command as class_descriptions
from experiments.class_descriptions import trials
from experiments.class_descriptions.command import NONE, Options
from experiments.class_descriptions.trials import ALONE, METHODS, Grid
from tests.experiments.scripts import QUIET
from tests.lib.refusals import refused

DOMAINS = {
    "money": ["pay_bill", "pay_card", "lend_card"],
    "food": ["cook_rice", "cook_soup", "eat_soup"],
    "travel": ["book_flight", "book_hotel", "find_hotel"],
}


def queries(random, per_intent):
    """Texts of a word of the intent's name, its own, one of its domain and two of no meaning."""
    words = np.array([f"word{i}" for i in range(8)])
    own = [(domain, intent) for domain, intents in DOMAINS.items() for intent in intents]
    return [
        [" ".join([random.choice(intent.split("_")), f"own{intent}", domain, *more]), intent]
        for domain, intent in own * per_intent
        for more in [random.choice(words, 2)]
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("corpus"), np.random.default_rng(0)
    parts = {"train": queries(random, 8), "val": queries(random, 3), "test": queries(random, 10)}
    (folder / "data_full.json").write_text(json.dumps(parts), encoding="utf-8")
    (folder / "domains.json").write_text(json.dumps(DOMAINS), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def options(corpus, tmp_path_factory):
    return Options(
        path=str(corpus), output=str(tmp_path_factory.mktemp("out")), per_class=("2",),
        unseen=1, unseen_per_class=2, repeats=2, methods=("flat", "words"),
        grid=("1",), identity=("0.5",), held_out=2, **QUIET,
    )  # fmt: skip


def test_similarities_are_kernels_of_unit_diagonal(corpus):
    found = trials.load_queries(corpus)
    assert found.names[3] == "eat soup" or "pay bill" in found.names
    task = trials.few_examples(found, 2, 0, Grid((1.0,), (1.0,), 1e-2, "float32", 2))
    similarities = trials.similarities_of(found, task.train)
    for parts in METHODS.values():
        assert set(parts) <= set(similarities)
    for name, table in similarities.items():
        np.testing.assert_allclose(np.diag(table), 1, err_msg=name)
        assert np.linalg.eigvalsh(table).min() > -1e-8
    at = {name: i for i, name in enumerate(found.names)}
    bill, card, soup = at["pay bill"], at["pay card"], at["cook soup"]
    for name in ("tree", "words", "characters"):
        assert similarities[name][bill, card] > similarities[name][bill, soup]


def test_output_features_make_the_similarity_and_flat_is_the_identity():
    table = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(trials.output_features((), {"words": table}, 1.0), np.eye(3))
    features = trials.output_features(("words",), {"words": table}, 0.5)
    np.testing.assert_allclose(features @ features.T, (table + 0.25 * np.eye(3)) / 1.25)
    low = trials.output_features(("words",), {"words": np.ones((3, 3))}, 1e-9)
    assert low.shape == (3, 3)


def test_ties_are_shared():
    scores = np.array([[1.0, 1.0, 0.0, 9.0], [0.0, 0.0, 0.0, 9.0], [0.0, 2.0, 1.0, 9.0]])
    classes = np.array([0, 1, 2])
    got = trials.accuracy(scores, np.array([1, 2, 2]), classes)
    assert got == pytest.approx(100 * (1 / 2 + 1 / 3 + 0) / 3)


def test_unseen_classes_have_no_examples_and_are_not_trained_against(corpus):
    found = trials.load_queries(corpus)
    choosing, testing = trials.no_examples(found, 2, 1, 3, Grid((1.0,), (1.0,), 1e-2, "float32", 2))
    assert len(testing.testing) == len(choosing.choosing) == 3
    assert not np.isin(testing.train.y, testing.testing).any()
    assert not np.isin(testing.learned, testing.testing).any()
    assert not np.isin(choosing.train.y, np.union1d(choosing.choosing, testing.testing)).any()
    assert np.isin(choosing.held_out.y, choosing.choosing).all()
    assert not np.intersect1d(choosing.choosing, testing.testing).size


def test_the_table_has_every_setting_and_descriptions_know_the_unseen(outcome):
    means = {(row["setting"], row["method"]): row for row in outcome.numbers["means"]}
    methods = (ALONE, "flat", "words")
    assert set(means) == {(setting, method) for setting in (2, NONE) for method in methods}
    assert means[NONE, "flat"]["plain"].mean == pytest.approx(100 / 3)  # nothing but guessing
    assert means[NONE, "words"]["plain"].mean > 40
    assert means[2, "flat"]["plain"].mean > 100 / 9 and means[2, "flat"]["plain_gain"].mean == 0
    assert {"among_all", "others"} <= set(means[NONE, "words"])
    assert len(outcome.table.rows) == len(means)


def test_more_unseen_classes_than_a_domain_has_are_refused(corpus, tmp_path):
    options = Options(path=str(corpus), output=str(tmp_path), unseen=2, compilation_cache=False)
    refused("unseen: got 2, but a domain has 3", class_descriptions.run, options)
