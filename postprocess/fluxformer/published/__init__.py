"""Published checkpoints (BERT, DistilBERT, GPT-2, ViT) as model files: `fluxformer import CHECKPOINT config.json --output MODEL.h5`."""
