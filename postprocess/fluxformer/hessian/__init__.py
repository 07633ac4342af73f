"""The Hessian of trained models: spectra and blocks."""
