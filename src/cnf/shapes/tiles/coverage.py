"""How far a joined mesh goes from the points: `measure_coverage`, from what the pieces saw, and the caps."""

from __future__ import annotations

import numpy as np

from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.spacing import NEAREST
from cnf.shapes.reconstruction.doubts import ALLOWED, LEEWAY, Coverage, largest_gap, measure_bare, sum_sparse
from cnf.shapes.tiles.cloud import TiledCloud
from cnf.shapes.tiles.joining import Joint


def cover(joint: Joint, cloud: TiledCloud) -> tuple[Coverage, float]:
    """The coverage, and the area, both in scaled coordinates."""
    limit = largest_gap(cloud.count) + LEEWAY
    limits, off, corners, distances, numbers = [], [np.zeros((0, 3))], [np.zeros((0, 3, 3))], [np.zeros(0)], []
    count, best = 0, (ALLOWED, np.zeros(3))
    for index, piece in enumerate(joint.pieces):
        apart, found, bare = piece.take("apart", "off", "bare")
        limits.append(apart[joint.kept[index]])
        ids, new = joint.number(index)
        found = found[ids[found[:, 0].astype(np.int64)] >= 0]
        own = found[:, 0].astype(np.int64)
        count += int(np.sum(new[own]))
        off.append(found[:, 1:4])
        if len(found) and found[:, 2].max() > best[0]:
            row = int(np.argmax(found[:, 2]))
            best = float(found[row, 2]), piece.take("vertices")[0][own[row]]
        if len(bare):
            vertices, faces, distance = piece.take("vertices", "faces", "bare_distance")
            there = (ids[faces[bare]] >= 0).all(axis=1)
            numbers.append(ids[faces[bare]][there])
            corners.append(vertices[faces[bare]][there])
            distances.append(distance[there])
    reached = np.concatenate(limits)
    area, farthest, spacings = float(reached[:, 2].sum()), float(reached[:, 0].max()), float(reached[:, 1].max())
    if len(joint.caps):
        mesh, distance, apart = _look_at_caps(joint, cloud)
        area += mesh.area
        farthest, spacings = max(farthest, float(distance.max())), max(spacings, float(apart.max()))
        shares = np.bincount(mesh.faces.ravel(), np.repeat(mesh.areas / 3, 3), len(mesh.vertices))
        far, members = np.flatnonzero(apart > ALLOWED), len(joint.inner)
        off.append(np.stack([distance[far], apart[far], shares[far]], axis=1))
        count += int(np.sum(far >= members))  # those on the rim are vertices of pieces
        if apart.max() > best[0]:
            best = float(apart.max()), mesh.vertices[np.argmax(apart)]
        bare = np.flatnonzero((apart > limit)[mesh.faces].all(axis=1))
        numbers.append(joint.caps[bare])
        corners.append(mesh.vertices[mesh.faces[bare]])
        distances.append(distance[mesh.faces[bare]].max(axis=1, initial=0.0))
    beyond, places = np.concatenate(off), np.concatenate(corners)
    kept, faces = np.unique(np.concatenate([np.zeros((0, 3), np.int64), *numbers]), return_inverse=True)
    faces = faces.reshape(-1, 3)
    vertices = np.empty((len(kept), 3))
    vertices[faces.ravel()] = places.reshape(-1, 3)
    sparse = sum_sparse(
        *(count, beyond[:, 2], beyond[:, 0], beyond[:, 1], area),
        *(best[1] if count else None, cloud.count),
    )
    bare_ones = measure_bare(vertices, faces, np.concatenate(distances), area)
    return Coverage(farthest, spacings, limit, *bare_ones, sparse), area


def _look_at_caps(joint: Joint, cloud: TiledCloud) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """The caps as a mesh of their own, rims first, and how far its vertices are from the points."""
    members, middles = joint.inner[:, 0].astype(np.int64), joint.middles[:, :3]
    original = members.copy()
    copies = members >= joint.count
    original[copies] = joint.copied[members[copies] - joint.count]
    vertices = np.concatenate([joint.rows_of(original)[:, :3], middles])
    first = joint.count + len(joint.copied)
    faces = joint.caps.copy()
    faces[:, :2] = np.searchsorted(members, joint.caps[:, :2])
    faces[:, 2] = len(members) + joint.caps[:, 2] - first
    distance, apart = np.empty(len(middles)), np.empty(len(middles))
    for row, middle in enumerate(middles):
        away, _, (widths,) = cloud.nearest(middle[None], NEAREST, "widths")
        distance[row], apart[row] = away[0, 0], (away[0] / widths[0, :, 0]).min()
    return (
        Mesh(vertices, faces),
        np.concatenate([joint.inner[:, 1], distance]),
        np.concatenate([joint.inner[:, 2], apart]),
    )
