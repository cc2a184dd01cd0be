"""experiments.dependencies on a made-up treebank."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from experiments import dependencies as command
from experiments.corpora.gum_dependencies import GumDependencies
from tests.dependencies.test_encoding import english
from tests.estimators.cases import ARCS
from tests.experiments.scripts import QUIET


def annotated():
    for tokens, tree in zip(*english(), strict=True):
        (heads, relations), words = zip(*tree, strict=True), [token["word"] for token in tokens]
        yield SimpleNamespace(words=words, tokens=tokens, heads=heads, relations=relations)


@pytest.mark.thorough
def test_every_parser_is_measured(tmp_path, monkeypatch):
    """With the features of the tests of estimators, whose programs serve here."""
    gum, prepare = GumDependencies(*[tuple(annotated())] * 3), command.dependencies.prepare
    monkeypatch.setattr(command, "load_gum_dependencies", lambda _: gum)
    monkeypatch.setattr(command.dependencies, "prepare", partial(prepare, **ARCS))
    options = command.Options(
        output=str(tmp_path), methods=("svm",), trees=("projective",), labels=True, c_over_n=10.0,
        **QUIET,
    )  # fmt: skip
    outcome = command.run(options)
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == ["svm"]
    assert all(row["uas"] == 100 and row["las"] == 100 for row in rows)
    assert (tmp_path / "dependencies.csv").is_file()
    assert any(path.name == "dependencies_tree.png" for path in outcome.files)
