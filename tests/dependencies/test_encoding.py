"""Sentences and trees as people hold them, and back; model files; what a model has learned."""

from __future__ import annotations

import jax
import numpy as np

import jaxstruct as js
from jaxstruct.core.padding import padded
from jaxstruct.dependencies.features import RARE, over_slots, parsed, sentence_tables
from tests.dependencies.cases import prepared, treebank
from tests.lib.refusals import refused


def english(n=12):
    """Determiners hang on the noun behind them, nouns and adverbs on the verb."""
    sentences, trees = [], []
    for i in range(n):
        words = ["the dog runs", "a cat sees the dog", "dogs run", "the cat runs here"][
            i % 4
        ].split()
        tags = {"the": "D", "a": "D", "runs": "V", "sees": "V", "run": "V", "here": "A"}
        sentences.append([{"word": word, "tag": tags.get(word, "N")} for word in words])
        verb = 1 + next(at for at, word in enumerate(words) if tags.get(word) == "V")
        tree = []
        for at, token in enumerate(sentences[-1], 1):
            head = 0 if at == verb else at + 1 if token["tag"] == "D" else verb
            tree.append((head, {"D": "det", "N": "arg", "V": "root", "A": "mod"}[token["tag"]]))
        trees.append(tree)
    return sentences, trees


def test_there_and_back(tmp_path):
    sentences, trees = english()
    data = prepared(sentences, trees, loss="labelled_hamming")
    x, y = padded(data.problem.padding, *data[1:])
    features = jax.jit(jax.vmap(js.joint_feature, (None, 0, 0)))(data.problem, x, y)
    model = js.trained(data, jax.tree.map(lambda leaf: np.asarray(leaf).sum(axis=0), features))
    new = [[{"word": "the", "tag": "D"}, {"word": "fox", "tag": "N"}, {"word": "runs", "tag": "V"}]]
    found = model.predict(sentences + new)
    assert found == [*trees, [(2, "det"), (3, "arg"), (0, "root")]]
    js.save(model, tmp_path / "parser.npz")
    again = js.load(tmp_path / "parser.npz")
    assert again.predict(sentences + new) == found
    assert again.encoding == model.encoding
    text = str(js.explain(model, largest=2))
    assert "head.tag child.tag distance" in text and "det" in text


def test_values_by_frequency_and_rare_ones():
    sentences, trees = english(4)
    data = js.dependencies.prepare(sentences, trees, min_count=2)
    words = data.encoding.values[0]
    assert words[0] == "the" and "here" not in words
    tokens = data.encoding.inputs(sentences).tokens
    assert tokens[3][3, 0] == RARE and tokens[0][0, 0] == RARE + 1


def test_heads_alone():
    sentences, trees = treebank(0, 6, 4)
    data = prepared(sentences, trees)
    assert data.encoding.decode(data.outputs) == trees and data.outputs.labels is None


def test_templates():
    kinds = [
        part.kind for part in parsed("head+1.tag child.word distance between.tag", ("word", "tag"))
    ]
    assert kinds == ["head", "child", "distance", "between"]
    sentences, trees = treebank(0, 4, 3)
    with refused("template 'head.pos': tokens have no 'pos'"):
        prepared(sentences, trees, templates=["head.pos"])
    refused("is none of head.COLUMN", lambda: prepared(sentences, trees, templates=["mother.tag"]))
    with refused("one between at most"):
        prepared(sentences, trees, templates=["between.tag between.word"])


def test_the_hash_spreads():
    """Pairs of 3,000 words share a table of 2^12 evenly: no place is overfull."""
    features = js.dependencies.ArcFeatures(
        ("word",), (3000,), ("head.word child.word",), (), 2**12, 1, 1
    )
    random = np.random.default_rng(0)
    tokens = random.integers(3, 3000, (200, 1)).astype(np.int32)
    heads, children = (random.integers(*bounds, 20_000) for bounds in ((1, 201), (0, 200)))
    arcs = sentence_tables(features, tokens), heads, children
    _, places = over_slots(features, arcs, None, lambda none, places, _: (none, places), None)
    counts = np.bincount(np.asarray(places[0]), minlength=2**12)
    assert len(counts) == 2**12 and counts.max() < 25 and (counts > 0).mean() > 0.95


def test_a_token_may_be_a_word_or_a_word_with_its_tag():
    pairs, trees = [[("the", "DT"), ("dog", "NN")]], [[2, 0]]
    columns = [[dict(zip(("word", "tag"), token, strict=True)) for token in pairs[0]]]
    words = [[{"word": token[0]} for token in pairs[0]]]
    for given, same in ((pairs, columns), ([["the", "dog"]], words)):
        found, wanted = (js.dependencies.prepare(one, trees) for one in (given, same))
        assert found.encoding.features == wanted.encoding.features
        np.testing.assert_array_equal(found.inputs.tokens.rows, wanted.inputs.tokens.rows)


def test_refusals_name_the_place():
    sentences, trees = english(4)
    prepare = js.dependencies.prepare
    with refused(r"trees\[1\] has 2 entries, but sentences\[1\] has 5: one each"):
        prepare(sentences, [trees[0], trees[1][:2], *trees[2:]])
    refused("trees must be of n = 4 sentences, got 3", lambda: prepare(sentences, trees[:3]))
    with refused(r"sentences\[0\]\[0\] must be a mapping of columns to texts"):
        prepare([[3, 4]], [[2, 0]])
    with refused(r"sentences\[1\]\[0\] has the columns \['word'\]"):
        prepare([sentences[0], [{"word": "x"}]], [[2, 3, 0], [0]])
    with refused(r"trees must be lists of heads, or all of pairs"):
        prepare(sentences[:2], [trees[0], [2, 3, 0, 5, 3]])
    with refused(r"labels\[0\]\[0\]: 'new' is none of the 4 known classes"):
        data = prepare(sentences, trees)
        data.encoding.outputs([[(0, "new")]])
    refused("has no token", lambda: prepare([[]], [[]]))
