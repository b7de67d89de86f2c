"""Linear algebra that knows nothing of the model: eigenvalues, singular values, distances, coordinates."""
