"""Tables on MERL's grid: interpolation against SciPy, unknown nodes, and `.binary` files whole, damaged and missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

from cnf.errors import ConstraintError, FileError
from cnf.materials.fitting.fitted import FittedMaterial
from cnf.materials.fitting.methods import find_method
from cnf.materials.fitting.sampling import draw_valid, highlight_angles, look_up
from cnf.materials.reflectance import (
    GGX,
    Lambert,
    Table,
    above_horizon,
    encode,
    grid_angles,
    node_numbers,
    read_merl,
    snap_to_nodes,
    tabulate,
    write_merl,
)

SHAPE = (90, 90, 180)
NODES = math.prod(SHAPE)
SIZE = 12 + 8 * 3 * NODES
CONVENTIONS = {"nodes": 0.0, "centers": 0.5}


@pytest.fixture(scope="module")
def gold() -> Table:
    """A generated metal, tabulated in double precision."""
    return tabulate(GGX("gold", 0.2), dtype=torch.float64)


@pytest.fixture(scope="module")
def gold_file(gold, tmp_path_factory):
    """The same as a file."""
    return write_merl(tmp_path_factory.mktemp("merl") / "gold.binary", gold)


def random_table(convention: str, dtype: torch.dtype = torch.float64) -> Table:
    """Independent random numbers in all nodes: wrong neighbours or weights cannot go unnoticed."""
    values = torch.rand(*SHAPE, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    return Table("noise", "noise", values, convention)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_nodes_lie_where_the_convention_says(convention):
    """Angles of some nodes by the formula, in the order of the table."""
    angles = grid_angles(convention).reshape(*SHAPE, 3)
    shift = CONVENTIONS[convention]
    for i, j, k in [(0, 0, 0), (1, 2, 3), (89, 0, 179), (45, 89, 90)]:
        expected = [((i + shift) / 90) ** 2 * np.pi / 2, (j + shift) / 90 * np.pi / 2, (k + shift) / 180 * np.pi]
        assert np.allclose(angles[i, j, k].numpy(), expected, rtol=1e-15)
    assert torch.equal(grid_angles(convention, slice(1000, 1010)), angles.reshape(-1, 3)[1000:1010])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_interpolates_as_scipy(convention, dtype, pairs):
    """SciPy's linear interpolation over indices, with theta clamped to the outermost nodes and phi wrapped by hand."""
    table = random_table(convention, dtype)
    shift = CONVENTIONS[convention]
    angles = pairs.repeat(20, 1) * torch.rand(40_000, 1, dtype=torch.float64)  # more than one chunk
    wrapped = np.concatenate([table.values.numpy(), table.values[:, :, :1].numpy()], axis=2)  # node 180 is node 0
    oracle = RegularGridInterpolator((np.arange(90), np.arange(90), np.arange(181)), wrapped.astype(np.float64))
    th, td, pd = angles.numpy().T
    places = np.stack(
        [
            np.clip(90 * np.sqrt(th / (np.pi / 2)) - shift, 0, 89),
            np.clip(90 * td / (np.pi / 2) - shift, 0, 89),
            np.mod(180 * pd / np.pi - shift, 180),
        ],
        -1,
    )
    expected = np.where(above_horizon(angles).numpy()[:, None], oracle(places), 0)
    found = table(angles)
    assert found.dtype == torch.float64
    assert np.allclose(found.numpy(), expected, atol=1e-11 if dtype == torch.float64 else 1e-6)
    assert torch.equal(table.valid(angles), above_horizon(angles))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_tabulated_values_come_back_at_their_nodes(convention):
    """A metal at its own nodes: the table's value there is the metal's, and NaN exactly below the horizon."""
    metal = GGX("copper", 0.3)
    table = tabulate(metal, convention, dtype=torch.float64)
    assert (table.name, table.label, table.convention) == ("ggx-copper-0.3", "GGX copper 0.3", convention)
    angles = grid_angles(convention)[::7]
    up = above_horizon(angles, 1e-9)
    assert torch.allclose(table(angles[up]), metal(angles[up]), rtol=1e-9)
    assert torch.equal(table.values.reshape(-1, 3).isnan().all(-1), ~above_horizon(grid_angles(convention)))


def test_conventions_differ_by_half_a_cell(gold):
    """The same numbers read in the other convention are the same function half a cell further, away from the rim."""
    other = Table(gold.name, gold.label, gold.values, "centers")
    places = torch.rand(500, 3, dtype=torch.float64) * torch.tensor([40, 40, 170], dtype=torch.float64) + 2

    def angles_at(indices: torch.Tensor) -> torch.Tensor:
        i, j, k = indices.T
        return torch.stack([(i / 90) ** 2 * math.pi / 2, j / 90 * math.pi / 2, k / 180 * math.pi], -1)

    assert torch.allclose(gold(angles_at(places)), other(angles_at(places + 0.5)), rtol=1e-9)
    assert not torch.allclose(gold(angles_at(places)), other(angles_at(places)), rtol=1e-3)


def test_unknown_nodes_are_left_out(pairs):
    """A constant with half of its nodes unknown stays that constant wherever any node around is known, else 0."""
    values = torch.full((*SHAPE, 3), 2.5, dtype=torch.float64)
    unknown = torch.rand(SHAPE, generator=torch.Generator().manual_seed(5)) < 0.5
    unknown[:, 60:] = True
    values[..., 1][unknown] = math.nan  # one channel is enough
    table = Table("holes", "holes", values)
    f, known = table(pairs), table.valid(pairs)
    assert torch.allclose(f[known], torch.tensor(2.5, dtype=torch.float64), rtol=1e-12)
    assert (f[~known] == 0).all()
    far = above_horizon(pairs) & (pairs[:, 1] > 61 / 90 * math.pi / 2)
    near = above_horizon(pairs) & (pairs[:, 1] < 58 / 90 * math.pi / 2)
    assert far.any() and not known[far].any()
    assert known[near].double().mean() > 0.98  # all eight nodes unknown: once in 256


def test_two_known_nodes_of_eight():
    """Two known nodes, 1 and 4, with shares 3/4 and 1/4 along theta_d: (3/4 1 + 1/4 4) wherever between, 1.75."""
    values = torch.full((*SHAPE, 3), math.nan, dtype=torch.float64)
    values[10, 20, 30], values[10, 21, 30] = 1.0, 4.0
    at = torch.tensor([[(10.3 / 90) ** 2 * math.pi / 2, 20.25 / 90 * math.pi / 2, 30.8 / 180 * math.pi]])
    assert torch.allclose(Table("two", "two", values)(at.double()), torch.tensor(1.75, dtype=torch.float64), atol=1e-5)


def test_gradients_pass_through_a_table(gold):
    """Derivatives with respect to the angles agree with finite differences inside a cell."""
    angles = (grid_angles()[[500_000, 700_500]] + 1e-3).requires_grad_()
    assert above_horizon(angles).all()
    assert torch.autograd.gradcheck(gold, (angles,), eps=1e-7, rtol=1e-4)


def test_single_precision_and_no_pairs(gold):
    """float32 angles give float32 values; no angles, no values."""
    assert gold(grid_angles()[:5].float()).dtype == torch.float32
    assert gold(torch.empty(0, 3, dtype=torch.float64)).shape == (0, 3)


def test_angles_that_are_not_finite_are_not_valid(gold):
    """NaN and infinity have no node; they give 0 like all that is not valid, and leave their neighbours alone."""
    angles = torch.full((4, 3), 0.2, dtype=torch.float64)
    angles[0, 0], angles[1, 1], angles[2, 2] = math.nan, math.inf, -math.inf
    assert gold.valid(angles).tolist() == [False, False, False, True]
    assert (gold(angles)[:3] == 0).all() and torch.equal(gold(angles)[3:], gold(angles[3:]))


def test_a_function_is_tabulated_and_clipped():
    """A plain function needs a label; below zero counts as zero; what is not finite or misshapen is refused."""
    table = tabulate(lambda a: (a[:, :1] - 0.5).expand(-1, 3), label="my fit")
    assert table.name == "my-fit" and table.values.dtype == torch.float32
    assert torch.nan_to_num(table.values).min() == 0 and torch.nan_to_num(table.values).max() > 0.5
    with pytest.raises(ConstraintError, match="not finite"):
        tabulate(lambda a: a / 0)
    with pytest.raises(ConstraintError, match=r"expected \(P, 3\)"):
        tabulate(lambda a: a[:, :2])


def test_files_hold_what_the_format_says(gold, gold_file):
    """The bytes by hand: dimensions, then red, green, blue planes in units of (1, 1.15, 1.66) / 1500, -1 if unknown."""
    content = gold_file.read_bytes()
    assert len(content) == SIZE == 34_992_012
    assert np.frombuffer(content[:12], "<i4").tolist() == [90, 90, 180]
    stored = np.frombuffer(content, "<f8", offset=12).reshape(3, *SHAPE)
    for channel, unit in enumerate([1 / 1500, 1.15 / 1500, 1.66 / 1500]):
        values = gold.values[..., channel].numpy()
        assert np.allclose(stored[channel], np.where(np.isnan(values), -1, values / unit), rtol=1e-15)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_reads_what_was_written(gold, gold_file, convention):
    """Values come back to two roundings; a generated table is not labelled as MERL's."""
    back = read_merl(gold_file, convention)
    assert torch.allclose(back.values, gold.values, rtol=4.5e-16, atol=0, equal_nan=True)
    assert (back.name, back.label, back.convention) == ("gold", "table gold", convention)
    assert back.values.dtype == torch.float64


def test_negative_entries_are_unknown(gold_file, tmp_path):
    """Any negative number in a file means not measured."""
    content = bytearray(gold_file.read_bytes())
    content[12:20] = np.float64(-0.5).tobytes()
    path = tmp_path / "one.binary"
    path.write_bytes(content)
    table = read_merl(path)
    assert table.values[0, 0, 0, 0].isnan() and not table.values[0, 0, 0, 1].isnan()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:-8], "was cut short: it has 34992004 bytes, a MERL file has 34992012"),
        (lambda b: b[:7], "was cut short"),
        (lambda b: b + b"\0", "is too long"),
        (lambda b: b"", "is empty"),
        (lambda b: np.array([90, 90, 360], "<i4").tobytes() + b[12:], r"\(90, 90, 360\) instead"),
        (lambda b: b"a text, not a table", "not a MERL file"),
        (lambda b: b[:100] + np.float64(np.nan).tobytes() + b[108:], "not finite"),
        (lambda b: b[:12] + np.full(3 * NODES, -1.0).tobytes(), "no entry of it was measured"),
    ],
    ids=["short", "header only", "long", "empty", "dimensions", "text", "nan", "unknown"],
)
def test_damaged_files(gold_file, tmp_path, change, message):
    """Whatever is wrong is said in one line that names the file."""
    path = tmp_path / "bad.binary"
    content = bytearray(gold_file.read_bytes())
    start = 12 + (100 - 12) // 8 * 8  # so that the NaN falls on a number
    assert start == 100
    path.write_bytes(change(bytes(content)))
    with pytest.raises(FileError, match=message) as caught:
        read_merl(path)
    assert "bad.binary" in str(caught.value) and "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    """No file, a folder, and a folder as a target."""
    with pytest.raises(FileError, match="there is no file"):
        read_merl(tmp_path / "none.binary")
    with pytest.raises(FileError, match="is a folder"):
        read_merl(tmp_path)
    with pytest.raises(FileError, match="it is a folder"):
        write_merl(tmp_path, tabulate(Lambert(0.5)))


def test_refuses_what_is_no_table(tmp_path):
    """Other shapes, dtypes, negative or infinite numbers, another convention, and materials that are not tables."""
    good = torch.ones(*SHAPE, 3)
    for values in (good[:-1], good.half(), -good, good * math.inf):
        with pytest.raises(ConstraintError):
            Table("bad", "bad", values)
    with pytest.raises(ConstraintError, match="Did you mean 'centers'"):
        Table("bad", "bad", good, "centres")
    with pytest.raises(ConstraintError, match="tabulate it first"):
        write_merl(tmp_path / "x.binary", Lambert(0.5))
    with pytest.raises(ConstraintError, match="nothing"):
        write_merl(tmp_path / "x.binary", Table("n", "n", good * math.nan))
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_keeps_the_old_file(gold, gold_file, monkeypatch, tmp_path):
    """If writing fails halfway, the file that was there stays, and nothing else is left beside it."""
    path = tmp_path / "kept.binary"
    path.write_bytes(b"old")
    monkeypatch.setattr(np, "isnan", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FileError, match="No space left"):
        write_merl(path, gold)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


# Conditions on nodes


def test_directions_move_to_their_nearest_nodes(pairs):
    """Distinct nodes above the horizon, as near as any by brute force, light and eye swapped if that is nearer."""
    asked = pairs[above_horizon(pairs, 0.2)][:60]
    found = snap_to_nodes(asked)
    assert len(found) == 60 and bool(above_horizon(found).all()) and float(found[:, 2].max()) < math.pi
    assert torch.equal(grid_angles()[node_numbers(found)], found) and len(set(node_numbers(found).tolist())) == 60
    nodes, turn = grid_angles(), torch.tensor([0.0, 0.0, math.pi], dtype=torch.float64)
    nodes = encode(nodes[above_horizon(nodes)])
    for row, node in zip(asked[:4], found[:4], strict=True):
        ways = [(nodes - encode(way[None])).square().sum(1).min() for way in (row, row + turn)]
        own = [(encode(node[None]) - encode(way[None])).square().sum() for way in (row, row + turn)]
        assert float(min(own)) == pytest.approx(float(min(ways)), rel=1e-9)


def test_nodes_that_cannot_be_conditions():
    """Taken, unknown and below the horizon: the next node instead, or none; at a pole all azimuths are one node."""
    one = torch.tensor([[0.5, 0.6, 4.0]], dtype=torch.float64)
    assert len(snap_to_nodes(one.repeat(27, 1))) == 27 and len(snap_to_nodes(one.repeat(40, 1))) == 27
    first = node_numbers(snap_to_nodes(one))[0]
    values = torch.ones(NODES, 3, dtype=torch.float64)
    values[first] = math.nan
    table = Table("holed", "holed", values.reshape(*SHAPE, 3))
    beside = snap_to_nodes(one, material=table)
    assert len(beside) == 1 and node_numbers(beside)[0] != first
    assert len(snap_to_nodes(torch.tensor([[1.5, 1.5, 0.1]], dtype=torch.float64))) == 0  # the light is below
    pole = torch.tensor([[0.3, 0.0, 0.0], [0.3, 0.0, 1.0], [0.3, 0.0, 2.0]], dtype=torch.float64)
    assert len(snap_to_nodes(pole)) == 3 and float(torch.pdist(encode(snap_to_nodes(pole))).min()) > 1e-3
    assert snap_to_nodes(pole[2:])[0, 1:].tolist() == [0, 0]  # the azimuth that such a pair of directions has


def test_a_table_has_the_conditions_that_lie_on_its_nodes(tmp_path):
    """A field with 20 conditions on nodes, exported and read: these entries are the metal's own to 1e-10."""
    metal = GGX("gold", 0.1)
    generator = torch.Generator().manual_seed(3)
    angles = snap_to_nodes(draw_valid(metal, 20, highlight_angles, generator), material=metal)
    field = find_method("kernel-siren", 20).build(look_up(metal, angles), 500, 0)
    written = read_merl(
        write_merl(tmp_path / "a.binary", tabulate(FittedMaterial("a", "a", field), dtype=torch.float64))
    )
    entries = written.values.reshape(-1, 3)[node_numbers(angles)]
    assert len(angles) == 20 and (entries / metal(angles) - 1).abs().max() <= 1e-10
