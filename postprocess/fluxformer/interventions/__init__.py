"""Interventions and influence: figures and report sections of their experiments."""
