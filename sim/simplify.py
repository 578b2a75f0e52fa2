"""Fewer triangles in the robot's visual meshes: what is smaller than a pixel is not drawn.

Software rendering costs what its triangles cost: the Panda's meshes have 150,000, of which a small
picture shows a tenth. Vertices that share a cell of a grid become one (vertex clustering); the
faces that collapse are left out.
"""

from __future__ import annotations

import functools

import mujoco
import numpy as np
import numpy.typing as npt

ARM, HAND = "robot0_", "gripper0_"
HAND_FRACTION = 0.25
"""Cell of the hand's meshes over that of the arm's: the wrist camera is close to it."""

Ints = npt.NDArray[np.int32]


def simplify_robot(model: mujoco.MjModel, cell_m: float) -> None:
    """Cluster the vertices of the robot's meshes in cells of `cell_m` [m], in place.

    For models that are only drawn: only the drawn faces change, not collision hulls or inertias.
    """
    cells: dict[int, float] = {}
    for g in range(model.ngeom):
        mesh = int(model.geom_dataid[g])
        if model.geom_type[g] != mujoco.mjtGeom.mjGEOM_MESH or mesh < 0:
            continue
        body = model.body(int(model.geom_bodyid[g])).name
        if body.startswith(ARM):
            cells[mesh] = min(cell_m, cells.get(mesh, np.inf))
        elif body.startswith(HAND):
            cells[mesh] = min(cell_m * HAND_FRACTION, cells.get(mesh, np.inf))
    for mesh, cell in cells.items():
        _simplify(model, mesh, cell)


def _simplify(model: mujoco.MjModel, mesh: int, cell_m: float) -> None:
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    start, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    rows = slice(start, start + faces)
    vertices = model.mesh_vert[first : first + count]
    kept, corners = _clustered(vertices.tobytes(), model.mesh_face[rows].tobytes(), cell_m)
    end = start + len(kept)
    for table in (model.mesh_facenormal, model.mesh_facetexcoord):
        table[start:end] = table[rows][kept]
    model.mesh_face[start:end] = corners
    model.mesh_facenum[mesh] = len(kept)


@functools.lru_cache(maxsize=512)
def _clustered(vertices: bytes, faces: bytes, cell_m: float) -> tuple[Ints, Ints]:
    """Indices of the faces that remain (K,), and their new corners (K, 3)."""
    points = np.frombuffer(vertices, dtype=np.float32).reshape(-1, 3)
    corners = np.frombuffer(faces, dtype=np.int32).reshape(-1, 3)
    cells = np.floor(points / cell_m).astype(np.int64)
    _, cluster = np.unique(cells, axis=0, return_inverse=True)
    cluster = cluster.ravel()
    sizes = np.bincount(cluster)
    mean = np.stack([np.bincount(cluster, points[:, k]) / sizes for k in range(3)], axis=1)
    off = ((points - mean[cluster]) ** 2).sum(axis=1)
    order = np.lexsort((off, cluster))
    heads = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    stands_for = order[heads]  # of each cluster, the vertex nearest to its mean
    moved = stands_for[cluster[corners]].astype(np.int32)
    a, b, c = moved.T
    flat = (a == b) | (b == c) | (a == c)
    kept = np.flatnonzero(~flat)
    turn = moved[kept].argmin(axis=1)[:, None] + np.arange(3)
    same = np.take_along_axis(moved[kept], turn % 3, axis=1)  # opposite sides stay apart
    _, unique = np.unique(same, axis=0, return_index=True)
    kept = kept[np.sort(unique)]
    return np.asarray(kept, dtype=np.int32), np.asarray(moved[kept], dtype=np.int32)
