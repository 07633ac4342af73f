"""Published checkpoints (BERT, GPT-2, Llama, ViT and their relatives) as model files: `fluxformer import CHECKPOINT config.json --output MODEL.h5`."""
