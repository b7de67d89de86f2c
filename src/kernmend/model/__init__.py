"""The paper, label by label: kernels, error models, penalties, the objective, and the terms of the convex models.

Labels in parentheses, such as eq. (relax), are those of the paper's source. Where a formula here differs from the
printed one, the reason stands beside it.
"""
