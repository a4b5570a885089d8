"""Packed networks: against a plain forward pass in NumPy, against real measurements, damaged archives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cnf.errors import FileError
from cnf.materials.reflectance import above_horizon, half_difference, list_materials, read_material


def random_networks(count: int = 4, hidden: int = 21, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of a packed archive with random weights in single precision."""
    rng = np.random.default_rng(seed)
    shapes = {
        "W1": (6, hidden),
        "b1": (hidden,),
        "W2": (hidden, hidden),
        "b2": (hidden,),
        "W3": (hidden, 3),
        "b3": (3,),
    }
    arrays = {key: rng.normal(0, 0.5, (count, *shape)).astype(np.float32) for key, shape in shapes.items()}
    return {"names": np.array([f"stone-{i}_rgb" for i in range(count)]), **arrays}


def forward(arrays: dict[str, np.ndarray], number: int, angles: np.ndarray) -> np.ndarray:
    """The network as its authors describe it, in float64."""
    W1, b1, W2, b2, W3, b3 = (arrays[key][number].astype(float) for key in ("W1", "b1", "W2", "b2", "W3", "b3"))
    th, td, pd = angles.T
    x = np.stack([np.sin(th), 0 * th, np.cos(th), np.sin(td) * np.cos(pd), np.sin(td) * np.sin(pd), np.cos(td)], -1)
    a = np.maximum(x @ W1 + b1, 0)
    a = np.maximum(a @ W2 + b2, 0)
    return np.maximum(np.exp(a @ W3 + b3) - 1, 0)


def write(folder, arrays, stem: str = "nbrdf_rgl51"):
    """An archive in a folder."""
    path = folder / f"{stem}.npz"
    np.savez(path, **arrays)
    return path


def test_evaluates_as_a_plain_forward_pass(tmp_path, pairs):
    """All networks of a file, named without RGL's ending; 0 below the horizon; more pairs than one chunk."""
    arrays = random_networks()
    path = write(tmp_path, arrays)
    assert list_materials(path) == [f"stone-{i}" for i in range(4)]
    angles = pairs.repeat(20, 1)
    for number in range(4):
        material = read_material(path, f"stone-{number}")
        assert material.label == f"NBRDF of RGL stone-{number}"
        expected = forward(arrays, number, angles.numpy())
        expected[~above_horizon(angles).numpy()] = 0
        assert (expected > 0).any()
        assert np.allclose(material(angles).numpy(), expected, rtol=1e-11, atol=1e-14)
        assert torch.equal(material.valid(angles), above_horizon(angles))
        single = material(pairs.float())
        assert single.dtype == torch.float32
        assert np.allclose(single.numpy(), expected[: len(pairs)], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("stem", "label"),
    [
        ("nbrdf_merl100", "NBRDF of MERL stone-0"),
        ("nbrdf_nielsen8", "NBRDF of Nielsen stone-0"),
        ("my", "NBRDF stone-0"),
    ],
)
def test_labels_say_where_the_material_is_from(tmp_path, stem, label):
    """Never MERL alone: a network is not the measurement."""
    assert read_material(write(tmp_path, random_networks(), stem), "stone-0_rgb").label == label


def test_a_huge_exponent_stays_finite(tmp_path, pairs):
    """Weights of 1e4 give exponents in the thousands; the reflectance is large but finite, in both precisions."""
    arrays = random_networks(1)
    arrays["b3"] += 1e4
    material = read_material(write(tmp_path, arrays))
    for angles in (pairs, pairs.float()):
        assert torch.isfinite(material(angles)).all() and material(angles).max() > 1e30


def test_choosing_needs_a_name(tmp_path):
    """Without a name, and with a wrong one, the message lists names and says how to choose."""
    path = write(tmp_path, random_networks())
    with pytest.raises(FileError, match="--name stone-0"):
        read_material(path)
    with pytest.raises(FileError, match="Did you mean 'stone-3'"):
        read_material(path, "stone-33")


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("W2", lambda a: a[:, :-1], "do not fit together"),
        ("W1", lambda a: a[:, :5], "expected 6 numbers in"),
        ("b3", lambda a: a[:-1], "'b3' has shape"),
        ("b1", lambda a: a[0], "'b1' has shape"),
        ("W3", lambda a: a * np.nan, "not finite"),
        ("W3", lambda a: a.astype(int), "floating-point"),
        ("names", lambda a: np.array(["same"] * len(a)), "are the same"),
        ("names", lambda a: a[None], "'names' has shape"),
        ("names", lambda a: np.arange(len(a)), "expected .N,. strings"),
        ("names", lambda a: np.array([{}] * len(a), dtype=object), "Python objects"),
    ],
)
def test_damaged_archives(tmp_path, key, change, message):
    """Each change of one array is named in one line."""
    arrays = random_networks()
    arrays[key] = change(arrays[key])
    path = write(tmp_path, arrays)
    with pytest.raises(FileError, match=message) as caught:
        read_material(path, "stone-1")
    assert "\n" not in str(caught.value)


def slice_of_red_fabric(folder) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Real values (Q, 3) of MERL's red-fabric, their angles, and the cosine there (the same for light and eye)."""
    with np.load(folder / "merl_red-fabric_slice_stark2d.npz", allow_pickle=False) as archive:
        f = torch.from_numpy(archive["f"].astype(np.float64)).reshape(-1, 3)
    steps = (torch.arange(512, dtype=torch.float64) + 0.5) / 512
    p1, p0 = (p.flatten() for p in torch.meshgrid(steps, steps, indexing="ij"))
    z = (1 - p0.square() - p1.square()).clamp(min=0).sqrt()
    return f, half_difference(torch.stack([p0, -p1, z], -1), torch.stack([p0, p1, z], -1)), z


def test_red_fabric_is_near_its_measurement(brdf_folder):
    """The network of red-fabric against MERL's values: mean |d log(1 + f)| 0.0066 for cos > 0.5, 0.0133 for cos > 0.3,
    as known of these networks; and no other of the hundred is nearer.
    """
    f, angles, z = slice_of_red_fabric(brdf_folder)
    path = brdf_folder / "nbrdf_merl100.npz"

    def distance(name: str, least: float, step: int = 1) -> float:
        chosen = torch.nonzero(z > least)[::step, 0]
        found = read_material(path, name)(angles[chosen])
        return float((found.log1p() - f[chosen].log1p()).abs().mean())

    assert distance("red-fabric", 0.5) == pytest.approx(0.0066, abs=5e-5)
    assert distance("red-fabric", 0.3) == pytest.approx(0.0133, abs=5e-5)
    assert min(list_materials(path), key=lambda name: distance(name, 0.5, 101)) == "red-fabric"


def test_the_brightest_material(brdf_folder):
    """At 30 degrees the channel that reflects most of all hundred MERL networks is light-red-paint's red, 0.44, as is
    known of these networks. It is diffuse, so that a coarse midpoint rule resolves it.
    """
    count = 96
    steps = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    square, turn = (v.flatten() for v in torch.meshgrid(steps, 2 * torch.pi * steps, indexing="ij"))
    sine, cosine = square.sqrt(), (1 - square).sqrt()  # equal areas in the disk: the cosine is in the measure
    wo = torch.stack([sine * turn.cos(), sine * turn.sin(), cosine], -1)
    wi = torch.tensor([0.5, 0, 0.75**0.5], dtype=torch.float64).expand_as(wo)
    angles = half_difference(wi, wo)
    path = brdf_folder / "nbrdf_merl100.npz"
    albedos = {name: torch.pi * read_material(path, name)(angles).mean(0) for name in list_materials(path)}
    assert len(albedos) == 100
    brightest = max(albedos, key=lambda name: float(albedos[name].max()))
    assert brightest == "light-red-paint" and int(albedos[brightest].argmax()) == 0
    assert float(albedos[brightest][0]) == pytest.approx(0.44, abs=5e-3)
