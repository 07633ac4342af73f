"""Samples of your own as tokens: `fluxformer tokens`, and for a tokeniser of your own

    from fluxformer.tokens import patches, write_token_file
"""

from fluxformer.tokens.token_file import patches, write_token_file

__all__ = ["patches", "write_token_file"]
