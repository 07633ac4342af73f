"""A Transformer becomes a PDE model: gauges of its layers, weights linear between knots, and how continuous its weights are."""
