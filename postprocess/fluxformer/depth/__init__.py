"""Models on finer and finer depth cells, in the report."""
