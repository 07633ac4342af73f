"""Comparisons and ablations: the figures of their sections of the report."""

from fluxformer.report.plot import OPTIONS, plot

__all__ = ["OPTIONS", "plot"]
