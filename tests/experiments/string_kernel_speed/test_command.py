"""experiments.string_kernel_speed on a few short strings."""

from __future__ import annotations

from experiments.string_kernel_speed import command as string_kernel_speed
from experiments.string_kernel_speed.command import Options
from tests.experiments.scripts import kept_settings, parsed_options, strict_json


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


def test_flags_match_the_options() -> None:
    assert parsed_options(Options, "--strings=9", "--decay=1") == Options(strings=9, decay=1.0)
