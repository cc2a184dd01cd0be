"""Size classes: what lengths are rounded up to, so that other data of one class share programs."""

from __future__ import annotations


def size_class(n: int, least: int = 8) -> int:
    """The smallest of 2^k and 3 * 2^k, k = 0, 1, .., that is at least `n` and at least `least`.

    8, 12, 16, 24, 32, 48, ..: a class is at most 1.5 times the one before.

    Args:
      n: a length or a count. least: the smallest class that is wanted, at least 1.
    """
    power = 1 << (max(n, least, 1) - 1).bit_length()
    between = 3 * power // 4
    return between if power >= 4 and max(n, least) <= between else power


def text_of_bytes(size: int) -> str:
    """In MB, or in GB from 1 on."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
