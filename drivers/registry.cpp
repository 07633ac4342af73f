namespace fluxformer {}
