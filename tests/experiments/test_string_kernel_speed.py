"""experiments.string_kernel_speed on a few short strings."""

from __future__ import annotations

import pytest

from experiments import string_kernel_speed
from experiments.string_kernel_speed import Options, plain_subsequences
from tests.experiments.scripts import kept_settings, strict_json
from tests.kernels.string_examples import product_of, random_texts, subsequences_of

TEXTS = random_texts(0, 5)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_it_is_the_sum_over_index_tuples(length: int) -> None:
    features = [subsequences_of(text, length, 0.6) for text in TEXTS]
    assert product_of(features[-1], features[-1]) > 0
    for x, a in zip(TEXTS, features, strict=True):
        for z, b in zip(TEXTS, features, strict=True):
            found = plain_subsequences(x, z, length, 0.6)
            assert found == pytest.approx(product_of(a, b), rel=1e-12)


@pytest.mark.thorough
def test_every_program_is_timed_and_agrees_with_plain_python(tmp_path) -> None:
    options = Options(
        strings=6, letters=8, plain_pairs=4, repeats=1, progress=False, output=str(tmp_path)
    )
    with kept_settings():
        outcome = string_kernel_speed.run(options)
    rows = {row["kernel"]: row for row in outcome.numbers["rows"]}
    assert len(rows) == 8 and all(row["microseconds"] > 0 for row in rows.values())
    gapped = [row for name, row in rows.items() if name.startswith("gapped") and row["wall"]]
    assert len(gapped) == 2 and all(row["error"] < 1e-5 and row["ratio"] > 0 for row in gapped)
    (path,) = (path for path in outcome.files if path.suffix == ".json")
    assert len(strict_json(path)["rows"]) == 8
