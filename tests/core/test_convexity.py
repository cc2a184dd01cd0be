"""A mark on functions that are not convex."""

from jaxstruct.core.convexity import is_convex, not_convex


def test_only_what_is_marked_is_not_convex() -> None:
    def plain(x: float) -> float:
        return x

    @not_convex
    def marked(x: float) -> float:
        return -x

    assert is_convex(plain) and is_convex(None)
    assert not is_convex(marked) and marked(2.0) == -2.0
