"""The program from Python: start runs and sweeps, see keys. `fluxformer.run`, `.sweep`, `.keys`, `.experiments` and `.build_info` are from here."""
