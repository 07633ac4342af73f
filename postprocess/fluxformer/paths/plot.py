"""Attention paths: the figures of the section of the report."""

from fluxformer.report.plot import OPTIONS, plot

__all__ = ["OPTIONS", "plot"]
