"""Size classes against their definition."""

from __future__ import annotations

from jaxstruct.core.sizes import size_class

CLASSES = sorted({2**k for k in range(20)} | {3 * 2**k for k in range(20)})


def test_the_smallest_class_that_holds_it() -> None:
    for least in (1, 2, 5, 8, 100):
        for n in range(300):
            wanted = min(size for size in CLASSES if size >= n and size >= least)
            assert size_class(n, least) == wanted
    assert [size_class(n) for n in (0, 8, 9, 13, 17, 25)] == [8, 8, 12, 16, 24, 32]


def test_a_class_wastes_less_than_half() -> None:
    assert all(size_class(n) < 1.5 * n for n in range(9, 5000))
