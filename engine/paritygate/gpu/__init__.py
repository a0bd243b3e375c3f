"""Kernels of the GPU: the rules of `kernels` over arrays that lie there."""
