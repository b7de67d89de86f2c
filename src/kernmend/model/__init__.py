"""The paper, label by label: kernels, error models, penalties, the objective, and the terms of the convex models."""
