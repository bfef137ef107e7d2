"""What the fitted maps share on numpy arrays; nothing here imports torch."""
