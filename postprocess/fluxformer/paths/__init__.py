"""Attention paths: the theory of deep attention at finite width."""
