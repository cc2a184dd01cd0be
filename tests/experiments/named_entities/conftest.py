"""The sentences and the archive that the tests of named entities share."""

from __future__ import annotations

import zipfile

import pytest

from tests.experiments.named_entities.cases import news


@pytest.fixture(scope="module")
def sentences():
    return news(16, seed=16)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A file in the form of CoNLL-2002's: 16 sentences to train on, 8 in each test part."""
    path = tmp_path_factory.mktemp("corpus") / "conll2002.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for part, count in (("train", 16), ("testa", 8), ("testb", 8)):
            blocks = (
                "".join(
                    " ".join(row) + "\n"
                    for row in zip(one.words, *one.columns, one.labels, strict=True)
                )
                for one in news(count, seed=count)
            )
            zipped.writestr(f"conll2002/esp.{part}", "\n".join(blocks))
    return str(path)
