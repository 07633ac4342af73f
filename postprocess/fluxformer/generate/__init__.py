"""Texts that models have continued."""
