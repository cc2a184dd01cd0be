"""experiments.parse_sentences: what it reads, what it writes, what it refuses."""

from __future__ import annotations

import io

import numpy as np
import pytest

from experiments.parse_sentences import command as parse_sentences
from experiments.parse_sentences.command import Options, Tagged, read_tagged
from experiments.parsing.model import Model, load_model, save_model
from jaxstruct.trees.phrases.bracketing import read_tree, read_trees
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.tree import words
from jaxstruct.trees.phrases.unknown_words import UnknownWords
from jaxstruct.trees.probabilistic_grammar import fit_probabilistic_grammar, log_likelihood
from tests.experiments.parsing.cases import drawn_trees
from tests.experiments.scripts import kept_settings, parsed_options

SLASHED = "it/PRP saw/VBD (/DT dog/NN\n\n1/2/UH\nit/PRP saw/VBD\n"


def model_of(**options):
    grammar = read_grammar(drawn_trees(0, 60), **options)
    return Model(grammar, fit_probabilistic_grammar(grammar))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "pcfg"
    save_model(path, model_of())
    return path


def parsed(path, tmp_path, text, **changed):
    sentences, trees = tmp_path / "sentences.txt", tmp_path / "trees.mrg"
    sentences.write_text(text, encoding="utf-8")
    options = Options(str(path), str(sentences), str(trees), compilation_cache=False)
    with kept_settings():
        found = parse_sentences.run(options._replace(**changed))
    return found, trees.read_text(encoding="utf-8").splitlines()


def test_a_line_for_every_sentence(path, tmp_path, capsys):
    found, lines = parsed(path, tmp_path, SLASHED)
    assert len(found) == len(lines) == 3 and lines[1] == ""
    trees = read_trees("\n".join(lines))
    assert [words(tree) for tree in trees] == [
        ("it", "saw", "-LRB-", "dog"), ("it", "saw"),
    ]  # fmt: skip
    assert "sentence 2: no parse: the grammar has not seen the tags UH" in capsys.readouterr().err


def test_k_best_are_distinct_trees_with_their_scores(path, tmp_path):
    """F of a probabilistic grammar is the log-probability of the tree."""
    text = "it/PRP saw/VBD the/DT dog/NN in/IN it/PRP\nit/PRP saw/VBD\n"
    found, lines = parsed(path, tmp_path, text, k=3)
    cells = [line.split("\t") for line in lines]
    assert [cell[:2] for cell in cells] == [["1", "1"], ["1", "2"], ["2", "1"]]
    model = load_model(path)
    likelihood = log_likelihood(model.grammar, model.weights, [read_tree(c[3]) for c in cells])
    np.testing.assert_allclose([float(cell[2]) for cell in cells], likelihood, rtol=1e-4)
    assert likelihood[0] > likelihood[1] and cells[0][3] != cells[1][3]
    assert found[0][0].tree == parsed(path, tmp_path, text)[0][0][0].tree


def test_columns_are_read_as_slashes_are(path, tmp_path):
    columns = "it\tx\tPRP\nsaw\tx\tVBD\n\n\nit x PRP\nbit x VBD"
    lines = parsed(path, tmp_path, columns)[1]
    assert lines == parsed(path, tmp_path, "it/PRP saw/VBD\nit/PRP bit/VBD\n")[1]


def test_a_model_of_words_needs_no_tags(tmp_path):
    path = tmp_path / "words"
    save_model(path, model_of(unknown_words=UnknownWords(1)))
    lines = parsed(path, tmp_path, "it saw the dog\n", format="slashed")[1]
    assert words(read_tree(lines[0])) == ("it", "saw", "the", "dog")


def test_reading_tokens():
    assert read_tagged("a/b/C /D\n", format="slashed") == [Tagged(("a/b", "/D"), ("C", None))]
    assert read_tagged("a B\n\nc D\n") == [Tagged(("a",), ("B",)), Tagged(("c",), ("D",))]


@pytest.mark.parametrize("text, message", [
    (" \n", "holds no sentence"), ("a/B c/\n", r"text:1: got 'c/', expected word/tag"),
    ("a B\n\nc\n", "text:3: got 1 columns, expected 2"),
])  # fmt: skip
def test_text_that_does_not_fit(text, message):
    with pytest.raises(ValueError, match=message):
        read_tagged(text)


def test_a_token_without_tag(path, tmp_path):
    with pytest.raises(ValueError, match="sentence 1: 'saw' has no tag"):
        parsed(path, tmp_path, "it/PRP saw\n", format="slashed")


def test_models_that_do_not_fit(path, tmp_path):
    with pytest.raises(ValueError, match="model: name one"):
        parse_sentences.run(Options())
    with pytest.raises(FileNotFoundError, match=r"model: .*other.grammar.json is missing"):
        load_model(tmp_path / "other")
    other = read_grammar([read_tree("(S (A a) (B b))")])
    files = save_model(tmp_path / "mixed", Model(other, load_model(path).weights))
    with pytest.raises(ValueError, match="does not fit"):
        load_model(files[1])


def test_standard_input_and_output(path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("it/PRP saw/VBD"))
    with kept_settings():
        parse_sentences.run(Options(str(path), compilation_cache=False))
    assert read_tree(capsys.readouterr().out) == read_tree("(S (NP (PRP it)) (VP (VBD saw)))")


def test_flags_are_the_options():
    assert parsed_options(Options, "--k=2") == Options(k=2)
