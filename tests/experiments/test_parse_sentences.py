"""experiments.parse_sentences: what it reads, what it writes, what it refuses."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from experiments import parse_sentences
from experiments.machines.probabilistic_grammar import fit_probabilistic_grammar, log_likelihood
from experiments.parse_sentences import Options, Tagged, format_of, read_tagged
from experiments.tasks.parser_model import Model, load_model, save_model
from jaxstruct.trees.phrases.bracketing import read_tree, read_trees
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.tree import words
from jaxstruct.trees.phrases.unknown_words import UnknownWords
from tests.experiments.parsing_cases import drawn_trees
from tests.experiments.scripts import kept_settings

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
    options = Options(
        model=str(path), sentences=str(sentences), trees=str(trees), compilation_cache=False
    )
    with kept_settings():
        found = parse_sentences.run(options.replace(**changed))
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
    for format in ("auto", "slashed"):
        lines = parsed(path, tmp_path, "it saw the dog\n", format=format)[1]
        assert words(read_tree(lines[0])) == ("it", "saw", "the", "dog")


def test_a_model_of_tags_refuses_plain_text_and_says_what_to_do(path, tmp_path):
    message = "sentences.txt: plain text.*write word/tag, or .*words.*say --format=columns"
    with pytest.raises(ValueError, match=message):
        parsed(path, tmp_path, "it saw the dog\nit saw\n")
    assert not (tmp_path / "trees.mrg").exists()
    assert read_tree(parsed(path, tmp_path, "it PRP\nsaw VBD", format="columns")[1][0])


def test_reading_tokens():
    assert read_tagged("a/b/C /D\n", format="slashed") == [Tagged(("a/b", "/D"), ("C", None))]
    assert read_tagged("a B\n\nc D\n") == [Tagged(("a",), ("B",)), Tagged(("c",), ("D",))]


@pytest.mark.parametrize("format, text", [
    ("plain", "the dog barks .\n"), ("plain", "the dog barks\n\nit saw the dog\n"),
    ("plain", "the dog barks .\na cat sees Rex\n"), ("plain", "it met NATO\nit saw\n"),
    ("plain", "1/2 of it\n"), ("plain", "it met NATO\n"), ("plain", "it barks .\n( it )\n"),
    ("columns", "the\ndog\n\nbarks\n"), ("columns", "``\t``\nit\tPRP\n"), ("columns", "it\tpron"),
    ("columns", '" "\nit PRP\n\nsaw x VBD\n'), ("columns", "and/or CC\nit PRP\n"),
    ("columns", "it PRP\nsaw\n"), ("slashed", "\nit/PRP 1/2/CD\nsaw\n"),
])  # fmt: skip
def test_formats_are_told_apart(format, text):
    """A slashed text has slashes in all of its first line; tags have no lower-case letters."""
    assert format_of(text) == format


def test_plain_text_is_a_sentence_a_line():
    found = read_tagged("the dog barks .\n\n1/2 of it\n")
    assert found == [
        Tagged(("the", "dog", "barks", "."), (None,) * 4), Tagged(("1/2", "of", "it"), (None,) * 3),
    ]  # fmt: skip
    assert read_tagged("it PRP", format="plain") == [Tagged(("it", "PRP"), (None, None))]
    assert read_tagged("it PRP", format="columns") == [Tagged(("it",), ("PRP",))]


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


def test_the_best_trees_are_drawn(path, tmp_path, capsys):
    """Of the first sentences that are short enough; the third has no parse."""
    text = "it/PRP saw/VBD it/PRP\n" + "it/PRP " * 41 + "\nit/UH\n" + "it/PRP saw/VBD\n" * 5
    found, lines = parsed(path, tmp_path, text, picture=str(tmp_path / "new" / "a.b.png"), k=2)
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "a.b.pdf", "a.b.plot.json", "a.b.png", "a.b.svg",
    ]  # fmt: skip
    drawn = json.loads((tmp_path / "new" / "a.b.plot.json").read_text())["sentences"]
    score = f"{found[0][0].score:.6g}"
    assert [one["caption"] for one in drawn[:2]] == [f"sentence 1, F = {score}", "sentence 3"]
    assert len(drawn) == 6 and drawn[-1]["caption"].startswith("sentence 7, ")
    assert drawn[0]["tree"] == lines[0].split("\t")[3] and drawn[1]["tree"] is None
    assert "picture: 6 of 8 sentences are drawn" in capsys.readouterr().err


@pytest.mark.parametrize("name, text, message", [
    ("a.pdf", "it/PRP", "picture: got .*a.pdf', expected a name that ends in .png"),
    ("a", "it/PRP", "ends in .png"), ("a.png", "it/PRP " * 41, "every sentence .* more than 40"),
])  # fmt: skip
def test_pictures_that_cannot_be_are_refused_before_parsing(path, tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        parsed(path, tmp_path, text, picture=str(tmp_path / name))
    assert not (tmp_path / "trees.mrg").exists()


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
        parse_sentences.run(Options(model=str(path), compilation_cache=False))
    assert read_tree(capsys.readouterr().out) == read_tree("(S (NP (PRP it)) (VP (VBD saw)))")
