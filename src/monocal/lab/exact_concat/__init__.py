"""The published form of UMC: one network of score and features, integrated exactly or by a quadrature rule."""
