"""What changed in PyTorch: one package per release, one module per change."""
