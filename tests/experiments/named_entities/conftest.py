"""The sentences and the archive that the tests of named entities share."""

from __future__ import annotations

import zipfile

import pytest

from jaxstruct.data.conll import write_conll
from tests.experiments.named_entities.cases import news


@pytest.fixture(scope="module")
def sentences():
    return news(16, seed=16)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A file in the form of CoNLL-2002's: 16 sentences to train on, 8 in each test part."""
    folder = tmp_path_factory.mktemp("corpus")
    path = folder / "conll2002.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for part, count in (("train", 16), ("testa", 8), ("testb", 8)):
            file = write_conll(folder / part, news(count, seed=count))
            zipped.write(file, f"conll2002/esp.{part}")
    return str(path)
