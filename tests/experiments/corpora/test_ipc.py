"""Paths of patent symbols."""

from __future__ import annotations

import pytest

from experiments.corpora.wipo import ipc_ancestors
from tests.lib.refusals import refused


@pytest.mark.parametrize(
    "symbol",
    ["D01D001", "D01D 001", "D01D 001/00", "D01D 1/00", "D01D001/04", "D01D00104", "D01D0010432"],
)
def test_spellings_of_one_main_group(symbol) -> None:
    """Padded or not, with or without a subgroup."""
    assert ipc_ancestors(symbol) == ("D", "D01", "D01D", "D01D001")


@pytest.mark.parametrize(
    ("symbol", "path"),
    [
        ("D01D00", ("D", "D01", "D01D", "D01D00")),
        ("D05B19", ("D", "D05", "D05B", "D05B19")),
        ("D06F 039/02", ("D", "D06", "D06F", "D06F039")),
        ("H04L 12/56", ("H", "H04", "H04L", "H04L012")),
        ("D06F", ("D", "D06", "D06F")),
        ("D06", ("D", "D06")),
        ("D", ("D",)),
    ],
)
def test_path(symbol, path) -> None:
    """A cut group stays as it is; inner nodes have shorter paths."""
    assert ipc_ancestors(symbol) == path


@pytest.mark.parametrize(
    "symbol",
    ["", "d01d001", "I01D001", "D1D001", "D01D0", "D01D0001", "D01D001/", "D01D/00", "D01D00x"]
    + ["D01D001/0", "D01D12345/00", "D01D00100000", "D01D٠٠١", "D01D001 D02D002"],
)
def test_refused(symbol) -> None:
    """Four digits could be cut in two ways, so they are refused like any other odd form."""
    refused("symbol: got .* expected an IPC symbol such as", ipc_ancestors, symbol)
