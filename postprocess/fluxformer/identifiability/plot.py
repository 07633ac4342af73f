"""What attention weights and hidden tokens can tell: the figures of the sections of the report."""

from fluxformer.report.plot import OPTIONS, plot

__all__ = ["OPTIONS", "plot"]
