"""The command as a whole: which methods it runs."""

from __future__ import annotations

import pytest

from experiments.named_entities import command as named_entities
from experiments.named_entities.command import Options
from tests.experiments.named_entities.cases import CHEAP


@pytest.mark.thorough
def test_only_the_methods_asked_for(archive, tmp_path):
    options = Options(path=archive, output=str(tmp_path), **CHEAP).replace(methods=("hmm",))
    found = named_entities.run(options)
    assert [row.method for row in found.numbers["rows"]] == ["HMM", "HMM"]
    assert not any("table_3" in path.name for path in found.files)
    with pytest.raises(ValueError, match="methods: got 'memm'"):
        named_entities.run(options.replace(methods=("memm",)))
