"""The shape of the source: imports go down only, files stay short, nothing is evaluated as code, all is documented."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

import cnf

ROOT = pathlib.Path(cnf.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
NAMES = {path: ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in FILES}
every_file = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))

# From the bottom up; a module imports from its own layer and from those below.
LAYERS = [
    ["errors"],
    ["domains"],
    ["operators"],
    ["constraints"],
    ["bases", "kernels", "encoders"],
    ["systems", "solvers"],  # the factor knows the condition number, the certificate knows the factor
    ["files"],
    ["certificate"],
    ["storage"],
    ["solution"],
    ["field"],
    ["loading"],
    ["training", "losses"],
    ["tuning"],
    ["problems"],
    ["data"],
    ["applications"],
    ["reports"],
    ["cli"],
]
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported(tree: ast.Module) -> set[str]:
    """The cnf modules a file imports when it runs; type checking apart."""
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where things come from"
            module = node.module or ""
            found |= {f"{module}.{alias.name}" for alias in node.names} if module == "cnf" else {module}
    return {name for name in found if name.split(".")[0] == "cnf"}


@every_file
def test_imports_go_down_only(path: pathlib.Path):
    """No module imports from a layer above its own. Applications, reports and the command may use the public `cnf`."""
    own = NAMES[path].split(".")
    if own[-1] == "__init__" and len(own) == 2:
        return  # the public face gathers everything
    assert own[1] in LAYER, f"{own[1]} has no place in the list of layers"
    level = LAYER[own[1]]
    for name in imported(TREES[path]):
        parts = name.split(".")
        if len(parts) == 1:
            assert level >= LAYER["applications"], f"{NAMES[path]} imports the whole of cnf"
            continue
        if parts[1] in LAYER:
            assert LAYER[parts[1]] <= level, f"{NAMES[path]} imports {name} from above"
        else:  # `from cnf import ConstrainedField` and the like
            assert level >= LAYER["training"], f"{NAMES[path]} imports {name} from the public face"


@every_file
def test_files_are_short(path: pathlib.Path):
    assert len(path.read_text().splitlines()) <= 400


@every_file
def test_nothing_is_evaluated_or_unpickled(path: pathlib.Path):
    """No eval, exec, compile of strings, no pickle; torch.load only with weights_only=True; no sympify of strings."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] + [getattr(node, "module", "") or ""]
            assert not {n.split(".")[0] for n in names} & {
                "pickle",
                "cPickle",
                "dill",
                "cloudpickle",
                "joblib",
                "marshal",
            }
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        assert called not in {
            "eval",
            "exec",
            "compile",
            "__import__",
            "parse_expr",
            "sp.parse_expr",
            "lambdify",
            "sp.lambdify",
        }
        if called == "torch.load":
            options = {k.arg: ast.unparse(k.value) for k in node.keywords}
            assert options.get("weights_only") == "True"
        if called in {"np.load", "numpy.load"}:
            options = {k.arg: ast.unparse(k.value) for k in node.keywords}
            assert options.get("allow_pickle", "False") == "False"


@every_file
def test_documented(path: pathlib.Path):
    """Every module and every public class and function at its top says what it is."""
    tree = TREES[path]
    assert ast.get_docstring(tree), "the module has no docstring"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"class {node.name} has no docstring"


@every_file
def test_names(path: pathlib.Path):
    """No utils, helpers or misc; functions are verbs, but not get_ or compute_."""
    forbidden = re.compile(r"(utils?|helpers?|misc)\Z")
    assert not forbidden.search(path.stem)
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not re.match(r"_*(get|compute)_", node.name), node.name


def test_nothing_names_a_device():
    """Devices follow tensors."""
    for path in FILES:
        assert not re.search(r"[\"']cuda", path.read_text()), path


def test_the_public_names():
    """What the design calls the contract of this issue is there."""
    for name in (
        "Space",
        "ConstrainedField",
        "Solution",
        "Constraint",
        "Box",
        "bases",
        "kernels",
        "encoders",
        "solvers",
    ):
        assert hasattr(cnf, name), name
    for name in (
        "Polynomial Kernel SkewedRBF RandomFourier Hermite ConstraintLayer Independent Concat Basis".split()  # noqa: SIM905
    ):
        assert hasattr(cnf.bases, name), name
    for name in ("Gaussian", "DotProduct", "Matern", "Wendland", "TruncatedGaussian"):
        assert hasattr(cnf.kernels, name), name
    for name in ("MLP", "SIREN", "FourierFeatures"):
        assert hasattr(cnf.encoders, name), name
    for name in ("Auto", "LU", "Cholesky", "MinimumNorm"):
        assert hasattr(cnf.solvers, name), name
    for name in cnf.__all__:
        assert hasattr(cnf, name), name


def test_every_error_is_ours():
    """Errors derive from CnfError, warnings from CnfWarning."""
    for name, value in vars(cnf.errors).items():
        if isinstance(value, type) and value.__module__ == "cnf.errors":
            assert issubclass(value, cnf.errors.CnfError | cnf.errors.CnfWarning), name
