"""experiments.dependencies on a made-up treebank."""

from __future__ import annotations

import pytest

from experiments import dependencies as command
from experiments.corpora.gum_dependencies import GumDependencies
from jaxstruct.data.conllu import Annotated
from tests.dependencies.test_encoding import english
from tests.experiments.scripts import QUIET


def annotated(n):
    found = []
    for tokens, tree in zip(*english(n), strict=True):
        words, tags = ([token[name] for token in tokens] for name in ("word", "tag"))
        heads, relations = zip(*tree, strict=True)
        found.append(Annotated(tuple(words), tuple(tags), tuple(tags), heads, relations))
    return tuple(found)


@pytest.mark.thorough
def test_every_parser_is_measured(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        gum = GumDependencies(annotated(12), annotated(4), annotated(4))
        patch.setattr(command, "load_gum_dependencies", lambda _: gum)
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
