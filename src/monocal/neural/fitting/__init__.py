"""What neural fits share around the training itself."""
