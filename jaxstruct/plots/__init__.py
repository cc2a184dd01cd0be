"""Pictures of what a training did; they need matplotlib (extra `plots`)."""

from jaxstruct.plots.traces import trace

__all__ = ["trace"]
