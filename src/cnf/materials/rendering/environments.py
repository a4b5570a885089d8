"""Environment maps: the light that falls on an object from every direction far away.

In: an image of linear RGB radiance over all directions, read from a file (`environment_files`) or generated (`studio`).
Out: the radiance along given directions, and maps blurred on the sphere for lookups that stand for a whole cone of
directions (`polar_levels`).

World axes: x to the right, y up, z towards the camera, which looks along -z. Row 0 of a map is up (+y); its middle
column is what the camera sees straight ahead (-z), and columns go on to the right (+x) as in a photograph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.files import as_path
from cnf.materials.rendering.environment_files import read_radiance

LARGEST_SIDE = 16384


@dataclass(frozen=True, eq=False)
class Environment:
    """Radiance from all directions, `radiance` (H, W, 3), linear RGB, not negative, rows from up to down.

    >>> grey = cnf.materials.Environment(torch.ones(8, 16, 3, dtype=torch.float64), name="grey")
    >>> [round(value, 6) for value in grey.mean.tolist()]
    [1.0, 1.0, 1.0]
    """

    radiance: Tensor
    name: str = "environment"

    def __post_init__(self) -> None:
        shape = tuple(self.radiance.shape)
        if len(shape) != 3 or shape[2] != 3 or not 2 <= shape[0] <= LARGEST_SIDE or not 4 <= shape[1] <= LARGEST_SIDE:
            raise ConstraintError(
                f"environment {self.name!r} has radiance of shape {shape}; expected (rows, columns, 3) with 2 to "
                f"{LARGEST_SIDE} rows and 4 to {LARGEST_SIDE} columns"
            )
        if not self.radiance.is_floating_point() or not bool(torch.isfinite(self.radiance).all()):
            raise ConstraintError(f"environment {self.name!r} must hold finite floating-point radiance")
        if bool((self.radiance < 0).any()):
            raise ConstraintError(f"environment {self.name!r} has negative radiance; light is at least zero")

    def turned(self, degrees: float) -> Environment:
        """The world turned about the vertical axis, counterclockwise seen from above, to the nearest column.

        What was ahead of the camera (-z) moves to its left (-x) for 90 degrees.
        """
        columns = round(degrees / 360 * self.radiance.shape[1])
        return replace(self, radiance=torch.roll(self.radiance, -columns, dims=1))

    def mirrored(self) -> Environment:
        """Left and right exchanged."""
        return replace(self, radiance=self.radiance.flip(1))

    def lookup(self, directions: Tensor) -> Tensor:
        """Radiance (P, 3) along unit vectors (P, 3): bilinear between the centres of the map's cells."""
        x, y, z = directions.unbind(-1)
        down = torch.atan2(torch.hypot(x, z), y) / math.pi
        return bilinear(self.radiance, down, torch.atan2(x, -z) / (2 * math.pi) + 0.5)  # 0.5 is straight ahead

    @property
    def directions(self) -> Tensor:
        """(H, W, 3): unit vectors to the centres of the map's cells."""
        rows, columns = self.radiance.shape[:2]
        return map_directions(rows, columns)

    @property
    def solid_angles(self) -> Tensor:
        """(H,): the solid angle of one cell of each row; they add up to 4 pi over the map."""
        rows, columns = self.radiance.shape[:2]
        edges = torch.cos(torch.linspace(0, math.pi, rows + 1, dtype=torch.float64))
        return (edges[:-1] - edges[1:]) * (2 * math.pi / columns)

    @property
    def mean(self) -> Tensor:
        """(3,): the radiance averaged over the sphere."""
        rows = self.radiance.double().mean(1)  # (H, 3)
        return (rows * self.solid_angles[:, None]).sum(0) / self.solid_angles.sum()


def map_directions(rows: int, columns: int) -> Tensor:
    """Unit vectors (rows, columns, 3) to the centres of the cells of an environment map."""
    down = (torch.arange(rows, dtype=torch.float64) + 0.5) / rows * math.pi
    azimuth = ((torch.arange(columns, dtype=torch.float64) + 0.5) / columns - 0.5) * (2 * math.pi)
    sine, y = torch.sin(down)[:, None], torch.cos(down)[:, None].expand(-1, columns)
    return torch.stack([sine * torch.sin(azimuth), y, -sine * torch.cos(azimuth)], -1)


def bilinear_cells(rows: int, columns: int, down: Tensor, around: Tensor) -> tuple[Tensor, Tensor]:
    """The four cells and weights, both (..., 4), of a bilinear lookup in a map of the sphere.

    `down` in [0, 1] runs from pole to pole, `around` is periodic with period 1. Beyond the first and the last row's
    centre the lookup goes over the pole: to the same row, half a turn further.
    """
    v, u = down * rows - 0.5, around * columns - 0.5
    top, left = torch.floor(v), torch.floor(u)
    fv, fu = v - top, u - left
    indices, weights = [], []
    for step in (0, 1):
        row = top.long() + step
        over = (row < 0) | (row >= rows)
        shift = torch.where(over, columns // 2, 0)
        row = row.clamp(0, rows - 1)
        for side in (0, 1):
            column = (left.long() + side + shift) % columns
            indices.append(row * columns + column)
            weights.append((fv if step else 1 - fv) * (fu if side else 1 - fu))
    return torch.stack(indices, -1), torch.stack(weights, -1)


def bilinear(image: Tensor, down: Tensor, around: Tensor) -> Tensor:
    """Values (P, 3) of a map of the sphere (rows, columns, 3) at places (P,), interpolated as `bilinear_cells` does."""
    rows, columns = image.shape[:2]
    over = torch.roll(image[[0, -1]], columns // 2, dims=1)  # what lies beyond the poles
    framed = torch.cat([over[:1], image, over[1:]])
    framed = torch.cat([framed[:, -1:], framed, framed[:, :1]], 1).permute(2, 0, 1)[None].double()
    # grid_sample counts from -1 at the first edge to 1 at the last; one cell of frame on each side.
    x = (around % 1.0 * columns + 1) / (columns + 2) * 2 - 1
    y = (down * rows + 1) / (rows + 2) * 2 - 1
    places = torch.stack([x, y], -1)[None, None].double()
    return torch.nn.functional.grid_sample(framed, places, mode="bilinear", align_corners=False)[0, :, 0].T


def polar_directions(rows: int, columns: int, parts: int = 1) -> Tensor:
    """Unit vectors (rows * parts, columns * parts, 3) of a map whose pole is the direction to the camera, +z.

    Rows go from +z to -z; columns start at +x and turn towards +y.
    """
    down = (torch.arange(rows * parts, dtype=torch.float64) + 0.5) / (rows * parts) * math.pi
    around = (torch.arange(columns * parts, dtype=torch.float64) + 0.5) / (columns * parts) * 2 * math.pi
    sine = torch.sin(down)[:, None]
    z = torch.cos(down)[:, None].expand(-1, columns * parts)
    return torch.stack([sine * torch.cos(around), sine * torch.sin(around), z], -1)


def polar_coordinates(directions: Tensor) -> tuple[Tensor, Tensor]:
    """Where unit vectors (P, 3) fall on a map with its pole at +z: down and around, both (P,) in [0, 1]."""
    x, y, z = directions.unbind(-1)
    return torch.atan2(torch.hypot(x, y), z) / math.pi, torch.atan2(y, x) / (2 * math.pi) % 1.0


def polar_lookup(image: Tensor, directions: Tensor) -> Tensor:
    """Values (P, 3) of a map with its pole at +z along unit vectors (P, 3)."""
    return bilinear(image, *polar_coordinates(directions))


def polar_levels(environment: Environment, rows: int = 256, levels: int = 6, parts: int = 3) -> list[Tensor]:
    """Maps with the pole at +z, each blurred twice as wide as the one before: level l is (rows / 2^l, 2 rows, 3).

    Level 0 holds averages over `parts` x `parts` points per cell. Level l has the light blurred on the sphere (equally
    in all directions, at the poles too) to a standard deviation of about half the height of its cells. All levels keep
    the same columns, so that a rotation about z is the same shift of columns in each.
    """
    columns, cell = 2 * rows, math.pi / rows
    fine = environment.lookup(polar_directions(rows, columns, parts).reshape(-1, 3))
    fine = fine.reshape(rows, parts, columns, parts, 3)
    down = torch.sin((torch.arange(rows * parts, dtype=torch.float64) + 0.5) / (rows * parts) * math.pi)
    share = down.reshape(rows, parts)
    share = share / share.sum(1, keepdim=True)
    maps = [torch.einsum("rpcqk,rp->rck", fine, share) / parts]
    for level in range(1, levels):
        width = 0.5 * cell * 2 ** (level - 1)  # standard deviation so far
        halfway = blurred(maps[-1], maps[-1].shape[0], math.sqrt(1.5) * width)
        maps.append(blurred(halfway, rows >> level, math.sqrt(1.5) * width))
    return maps


def blurred(image: Tensor, rows: int, width: float) -> Tensor:
    """A polar map (rows, columns, 3) of `image` with `width` radians more standard deviation on each axis.

    Each direction takes a quarter of itself and an eighth from each of six directions around: a small bell. The six
    have the same places relative to all directions of a row.
    """
    columns = image.shape[1]
    centre = polar_directions(rows, columns)[:, 0]  # (rows, 3)
    radius = math.sqrt(8 / 3) * width  # three quarters of the weight at radius r: variance 3/8 r^2 on each axis
    down, around = polar_coordinates(centre)
    east = torch.stack([-torch.sin(2 * math.pi * around), torch.cos(2 * math.pi * around), torch.zeros(rows)], -1)
    south = torch.linalg.cross(east, centre)
    shift = torch.arange(columns, dtype=torch.float64) / columns
    total = 0.25 * bilinear(image, down.repeat_interleave(columns), (around[:, None] + shift).reshape(-1))
    for step in range(6):
        angle = step * math.pi / 3
        offset = math.cos(angle) * east + math.sin(angle) * south
        down, around = polar_coordinates(math.cos(radius) * centre + math.sin(radius) * offset)
        total += 0.125 * bilinear(image, down.repeat_interleave(columns), (around[:, None] + shift).reshape(-1))
    return total.reshape(rows, columns, 3)


def read_environment(path: object) -> Environment:
    """An environment map from a Radiance picture (`.hdr`) or an `.npz` archive with the key `L`.

    >>> cnf.materials.read_environment("missing.hdr")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """
    values = read_radiance(path)
    return Environment(torch.from_numpy(values), as_path(path).stem)


@dataclass(frozen=True)
class Softbox:
    """A rectangular light with soft edges, as photographers use: where it is, how large, how bright."""

    towards: tuple[float, float, float]  # direction of its centre, of any length
    width: float  # half of it, as a tangent: 1 is 45 degrees to each side
    height: float
    colour: tuple[float, float, float]  # radiance at its centre
    edge: float = 0.12  # share of the half width over which it fades out

    def radiance(self, directions: Tensor) -> Tensor:
        """Light (..., 3) along unit vectors (..., 3)."""
        forward = torch.nn.functional.normalize(directions.new_tensor(self.towards), dim=0)
        right = torch.nn.functional.normalize(torch.linalg.cross(forward, forward.new_tensor([0.0, 1.0, 1e-3])), dim=0)
        up = torch.linalg.cross(right, forward)
        depth = directions @ forward
        ahead = depth > 1e-3
        depth = torch.where(ahead, depth, 1.0)
        inside = torch.where(ahead, 1.0, 0.0)
        for axis, half in ((right, self.width), (up, self.height)):
            distance = ((directions @ axis) / depth).abs() / half
            fade = ((1 + self.edge - distance) / (2 * self.edge)).clamp(0, 1)
            inside = inside * fade * fade * (3 - 2 * fade)
        bright = 1 - 0.25 * torch.linalg.cross(directions, forward.expand_as(directions)).square().sum(-1)
        return (inside * bright)[..., None] * directions.new_tensor(self.colour)


STUDIO = (
    Softbox((-0.75, 0.85, 0.75), 0.48, 0.36, (14.0, 13.4, 12.6)),  # key light, above left of the camera
    Softbox((1.0, 0.25, 0.35), 0.14, 0.75, (6.0, 7.0, 8.5)),  # cool strip, right
    Softbox((-1.0, 0.05, -0.55), 0.16, 0.70, (9.0, 4.6, 2.0)),  # warm accent, behind left
    Softbox((0.55, 0.9, -0.9), 0.55, 0.22, (5.0, 5.2, 5.6)),  # rim light, behind above
)


def studio(rows: int = 256) -> Environment:
    """A generated studio (rows, 2 rows, 3): softboxes, one of them warm, in a grey room with a lit floor.

    >>> cnf.materials.studio(rows=16).radiance.shape
    torch.Size([16, 32, 3])
    """
    if not 8 <= rows <= LARGEST_SIDE // 2:
        raise ConstraintError(f"a studio of {rows} rows was asked for; expected 8 to {LARGEST_SIDE // 2}")
    directions = map_directions(rows, 2 * rows)
    up = directions[..., 1:2]
    wall = directions.new_tensor([0.16, 0.17, 0.20]) * (1 + 0.6 * up)
    floor = directions.new_tensor([0.42, 0.40, 0.37]) * torch.exp(-(((up + 1) / 0.75) ** 2))
    blend = torch.sigmoid(-(up + 0.22) / 0.05)
    radiance = wall * (1 - blend) + (0.5 * wall + floor) * blend
    for light in STUDIO:
        radiance = radiance + light.radiance(directions)
    return Environment(radiance, "studio")


SUN = (0.35, 0.45, 1.3)  # towards the light of `facing_light`: 24 degrees beside the camera, above right
SUN_WIDTH = math.radians(2.5)  # standard deviation
SUN_SHARE = 2.0  # light from it over that of the room, on a surface that faces it


def facing_light(rows: int = 512) -> Environment:
    """A small sun beside the camera, in a dim grey room: the highlight of a sphere is near the middle of its picture.

    Lights beside and behind a sphere are mirrored near its outline, at grazing angles and on few pixels; this one shows
    the lobe itself, from straight above.
    """
    if not 64 <= rows <= LARGEST_SIDE // 2:
        raise ConstraintError(f"a light of {rows} rows was asked for; expected 64 to {LARGEST_SIDE // 2}")
    directions = map_directions(rows, 2 * rows)
    towards = torch.nn.functional.normalize(directions.new_tensor(SUN), dim=0)
    room = directions.new_tensor([0.9, 0.95, 1.0]) * (1 + 0.5 * directions[..., 1:2])
    apart = (directions - towards).square().sum(-1, keepdim=True)  # squared angle, for small ones
    bright = SUN_SHARE * math.pi / (2 * math.pi * SUN_WIDTH**2)  # a room of radiance 1 gives irradiance pi
    sun = bright * torch.exp(-apart / (2 * SUN_WIDTH**2)) * directions.new_tensor([1.0, 0.95, 0.85])
    return Environment(room + sun, "facing light")
