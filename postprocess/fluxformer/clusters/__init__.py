"""How tokens on the sphere cluster, in the report."""
