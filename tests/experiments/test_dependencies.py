"""experiments.dependencies on a made-up treebank."""

from __future__ import annotations

from functools import partial

import pytest

from experiments import dependencies as command
from experiments.corpora.gum_dependencies import GumDependencies
from jaxstruct.data.conllu import Annotated
from tests.dependencies.test_encoding import english
from tests.estimators.cases import ARCS
from tests.experiments.scripts import QUIET


class Sentence(Annotated):
    @property
    def tokens(self):
        return [{"word": w, "tag": t} for w, t in zip(self.words, self.tags, strict=True)]


def annotated():
    for tokens, tree in zip(*english(), strict=True):
        words, tags = ([token[name] for token in tokens] for name in ("word", "tag"))
        heads, relations = zip(*tree, strict=True)
        yield Sentence(tuple(words), tuple(tags), tuple(tags), heads, relations)


@pytest.mark.thorough
def test_every_parser_is_measured(tmp_path):
    """With the features of the tests of estimators, whose programs serve here."""
    with pytest.MonkeyPatch.context() as patch:
        gum = GumDependencies(*[tuple(annotated())] * 3)
        patch.setattr(command, "load_gum_dependencies", lambda _: gum)
        prepare = partial(command.dependencies.prepare, **ARCS)
        patch.setattr(command.dependencies, "prepare", prepare)
        outcome = command.run(
            command.Options(
                output=str(tmp_path), methods=("svm",), trees=("projective",),
                labels=True, epochs=5, c_over_n=10.0, **QUIET,
            )
        )  # fmt: skip
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == ["svm"]
    assert all(row["uas"] == 100 and row["las"] == 100 for row in rows)
    assert (tmp_path / "dependencies.csv").is_file()
    assert any(path.name == "dependencies_tree.png" for path in outcome.files)
