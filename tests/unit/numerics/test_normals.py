"""Points that stand for a Gaussian."""

import numpy as np
import pytest

from pdml.numerics.sums.posterior import normals, root_of


@pytest.mark.parametrize("width", [1, 2, 5])
def test_points_have_mean_0_and_covariance_1(width):
    points = normals(width, 512)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(points.T @ points / 512, np.eye(width), atol=0.05)
    with pytest.raises(ValueError, match="read-only"):
        points[0, 0] = 1.0


def test_a_root_is_one_and_does_not_depend_on_the_eigenvectors(monkeypatch):
    """Libraries differ in signs, and where eigenvalues are equal in more: the root does not."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(3, 4, 2))
    covariance = half @ np.swapaxes(half, 1, 2)  # of rank 2
    root = root_of(covariance)
    np.testing.assert_allclose(root @ root, covariance, atol=1e-7)
    np.testing.assert_allclose(root, np.swapaxes(root, 1, 2), atol=1e-12)
    eigh = np.linalg.eigh

    def turned(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * np.array([1, -1, -1, 1])

    monkeypatch.setattr(np.linalg, "eigh", turned)
    np.testing.assert_allclose(root_of(covariance), root, atol=1e-12)


def test_what_lies_below_0_counts_as_0():
    np.testing.assert_allclose(root_of(np.diag([4.0, -1.0])), np.diag([2.0, 0.0]), atol=1e-12)
