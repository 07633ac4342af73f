"""What attention weights and hidden tokens can tell: figures and tables."""
