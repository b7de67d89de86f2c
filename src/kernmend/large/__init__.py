"""More rows than fit one Gram matrix: landmarks, batches, Dask."""
