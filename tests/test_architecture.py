"""The shape of the source: imports go down only, slices stand alone, files stay short, nothing is evaluated as code.

Every test looks at all files and lists every offence, so that one run shows all there is to mend.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterable, Iterator
from functools import cache

import cnf

SOURCE = pathlib.Path(cnf.__file__).parent
STUDIES = pathlib.Path(__file__).parent.parent / "studies"
FILES = sorted([*SOURCE.rglob("*.py"), *STUDIES.rglob("*.py")])

# From the bottom up; a module imports from its own layer and from those below.
CORE = [
    ["errors", "late", "memory", "telling", "threads", "version"],
    ["fetching", "files"],
    ["reading"],
    ["execution"],
    ["meshes"],
    ["operators"],
    ["constraints"],
    ["bases", "kernels", "encoders"],
    ["solvers"],
    ["systems"],  # hands its systems to the solvers
    ["certificate"],
    ["storage"],
    ["modules"],  # expansions as plain torch modules
    ["solution"],
    ["settling"],  # integrals follow the field that was found
    ["solving"],
    ["stopping"],
    ["implicit"],  # gradients of what iterations converge to
    ["newton"],  # a sequence of solves
    ["nonlinear"],
    ["field"],
    ["loading"],
    ["training", "losses"],
]
SLICES = ["pde", "shapes", "materials", "exporting"]
LAYERS = [*CORE, ["reports"], SLICES, ["demo"], ["cli"], ["studies"]]
FACES = {"domains": "pde", "tuning": "pde"}  # public names of what lies elsewhere
LAYER = {name: level for level, names in enumerate(LAYERS) for name in names}
FACE = {"__init__", "moved", *FACES}  # the public face gathers everything
INSIDE = {"cnf.operators.reader": "cnf.operators"}  # the inside of `cnf.operators.latex`, not a stage of its own
PUBLIC = {
    "Answer": "pde",
    "Box": "pde",
    "Problem": "pde",
    "reconstruct": "shapes",
    "sweep": "pde",
    **FACES,
}  # what `cnf.NAME` is of, if not of the core


@cache
def trees() -> dict[pathlib.Path, ast.Module]:
    """Every file, parsed when the first test asks."""
    return {path: ast.parse(path.read_text()) for path in FILES}


def module_of(path: pathlib.Path) -> tuple[str, ...]:
    """("cnf", "pde", "problems", "answer"), or ("studies", "advection", "report")."""
    root = SOURCE.parent if path.is_relative_to(SOURCE) else STUDIES.parent
    return path.relative_to(root).with_suffix("").parts


def part_of(name: str) -> str:
    """The part of the house a dotted name belongs to: "pde", "bases", "studies"; "cnf" for the public face itself."""
    words = name.split(".")
    if words[0] != "cnf" or len(words) == 1:
        return words[0]
    return PUBLIC.get(words[1], words[1] if words[1] in LAYER else "cnf")


def imports(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Lines and dotted names of all that a file takes from cnf and the studies, for type checking too.

    `import cnf` and `cnf.Box` count as `cnf` and `cnf.Box`.
    """
    for node in ast.walk(trees()[path]):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or '.'}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cnf":
            names = [f"cnf.{node.attr}"]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] in ("cnf", "studies"))


def report(offences: Iterable[object]) -> None:
    listed = sorted(map(str, offences))
    assert not listed, f"{len(listed)} offences:\n" + "\n".join(listed)


def place(path: pathlib.Path, line: int) -> str:
    return f"{'/'.join(module_of(path))}.py:{line}"


def test_imports_go_down_only():
    """No module imports from a layer above its own, not even for type checking; below reports nobody imports `cnf`."""
    offences = []
    for path in FILES:
        words = module_of(path)
        own = words[1] if words[0] == "cnf" else "studies"
        if words[0] == "cnf" and len(words) == 2 and own in FACE:
            continue
        if own not in LAYER:
            offences.append(f"{own} has no place in the list of layers")
            continue
        for line, name in imports(path):
            other = part_of(name)
            if other == "cnf" and LAYER[own] < LAYER["reports"]:
                offences.append(f"{place(path, line)} takes {name} from the public face")
            elif other != "cnf" and LAYER[other] > LAYER[own]:
                offences.append(f"{place(path, line)} takes {name} from above")
    report(offences)


def test_slices_do_not_import_each_other():
    """pde, shapes and materials take from the core and from reports, also where a public name of cnf hides it."""
    report(
        f"{place(path, line)} takes {name}, of {part_of(name)}"
        for path in FILES
        if len(module_of(path)) > 2 and module_of(path)[1] in SLICES
        for line, name in imports(path)
        if part_of(name) in SLICES and part_of(name) != module_of(path)[1]
    )


def folder_of(words: tuple[str, ...]) -> str:
    """The folder of a module, or the module itself if it stands directly in cnf."""
    folder = ".".join(words[:-1]) if len(words) > 2 else ".".join(words)
    return INSIDE.get(folder, folder)


def test_no_cycle_between_folders():
    """Folders, and files directly in cnf, import each other in one direction only, type checking included."""
    modules = {module_of(path): path for path in FILES}
    known = {".".join(words).removesuffix(".__init__"): folder_of(words) for words in modules}
    edges: dict[str, set[str]] = {}
    for words, path in modules.items():
        own = folder_of(words)
        if words[:1] == ("cnf",) and len(words) == 2 and words[1] in FACE:
            continue
        for _, name in imports(path):
            found = known.get(name) or known.get(name.rpartition(".")[0])
            if found is not None and found not in (own, "cnf.__init__"):
                edges.setdefault(own, set()).add(found)
    report(" -> ".join(cycle) for cycle in find_cycles(edges))


def find_cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """One cycle for every edge that closes one, found depth first."""
    cycles, done = [], set()

    def walk(node: str, trail: list[str]) -> None:
        if node in trail:
            cycles.append([*trail[trail.index(node) :], node])
            return
        if node in done:
            return
        for other in sorted(edges.get(node, ())):
            walk(other, [*trail, node])
        done.add(node)

    for start in sorted(edges):
        walk(start, [])
    return cycles


def test_a_cycle_is_found():
    """The search itself: a -> b -> c -> a is one cycle, a -> b -> c none."""
    assert find_cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == [["a", "b", "c", "a"]]
    assert find_cycles({"a": {"b", "c"}, "b": {"c"}}) == []


def test_files_are_short():
    lengths = {path: len(path.read_text().splitlines()) for path in FILES}
    report(f"{place(path, length)} is longer than 400 lines" for path, length in lengths.items() if length > 400)


def test_nothing_is_evaluated_or_unpickled():
    """No eval, exec, compile of strings, no pickle; torch.load only with weights_only=True."""
    modules = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal"}
    functions = {"eval", "exec", "compile", "__import__"}
    functions |= {f"{prefix}{name}" for prefix in ("", "sp.", "sympy.") for name in ("parse_expr", "lambdify")}
    needed = {"torch.load": ("weights_only", "True", ""), "np.load": ("allow_pickle", "False", "False")}
    needed["numpy.load"] = needed["np.load"]
    offences = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                offences += [f"{place(path, node.lineno)} {n}" for n in names if n.split(".")[0] in modules]
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                options = {k.arg: ast.unparse(k.value) for k in node.keywords}
                option, wanted, default = needed.get(called, ("", "", ""))
                if called in functions or options.get(option, default) != wanted:
                    offences.append(f"{place(path, node.lineno)} {called}")
    report(offences)


def test_documented():
    """Every module and every public class at its top says what it is."""
    offences = [f"{place(path, 1)} has no docstring" for path, tree in trees().items() if not ast.get_docstring(tree)]
    offences += [
        f"{place(path, node.lineno)} class {node.name} has no docstring"
        for path, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    report(offences)


def test_names():
    """No utils, helpers or misc; functions are verbs, but not get_ or compute_; imports say where things come from."""
    offences = [place(path, 1) for path in FILES if re.search(r"(utils?|helpers?|misc)\Z", path.stem)]
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_*(get|compute)_", node.name):
                offences.append(f"{place(path, node.lineno)} {node.name}")
            if isinstance(node, ast.ImportFrom) and node.level:
                offences.append(f"{place(path, node.lineno)} imports relatively")
    report(offences)


def test_nothing_names_a_device():
    """Devices follow tensors."""
    report(place(path, 1) for path in FILES if re.search(r"[\"']cuda", path.read_text()))


def test_typer_is_for_commands_only():
    """The command line is an extra: only commands, and what they share, import typer and rich at their top."""
    allowed = re.compile(
        r"cnf/(cli/.*|\w+/commands(/.*)?|reports/(terminal|progress)|demo/running|training/progress)\Z"
    )
    offences = []
    for path, tree in trees().items():
        if allowed.match("/".join(module_of(path))) or module_of(path)[0] == "studies":
            continue
        for node in tree.body:
            names = (
                [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
            )
            offences += [f"{place(path, node.lineno)} {n}" for n in names if n.split(".")[0] in ("typer", "rich")]
    report(offences)


def test_the_public_names():
    """What the design calls the contract is there."""
    wanted = {
        cnf: "Space ConstrainedField Solution Constraint Box Problem Answer fit load losses domains reconstruct sweep "
        "tuning",
        cnf.bases: "Polynomial Kernel SkewedRBF RandomFourier Hermite ConstraintLayer Independent Concat Basis",
        cnf.kernels: "Gaussian DotProduct Matern Wendland TruncatedGaussian",
        cnf.encoders: "MLP SIREN FourierFeatures",
        cnf.solvers: "Auto LU Cholesky MinimumNorm",
    }
    offences = [f"{m.__name__}.{n}" for m, names in wanted.items() for n in names.split() if not hasattr(m, n)]
    report([*offences, *(f"cnf.{name}" for name in cnf.__all__ if not hasattr(cnf, name))])


def test_every_error_is_ours():
    """Errors derive from CnfError, warnings from CnfWarning."""
    report(
        name
        for name, value in vars(cnf.errors).items()
        if isinstance(value, type)
        and value.__module__ == "cnf.errors"
        and not issubclass(value, cnf.errors.CnfError | cnf.errors.CnfWarning)
    )


def test_there_is_one_training_loop():
    """Only `cnf.training` takes gradients and updates parameters by them: everything else calls `cnf.fit`."""
    by_hand = re.compile(r"zero_grad\(|optimi[sz]er\.step\(|\.backward\(\)")
    report(
        place(path, number)
        for path in FILES
        if module_of(path)[:2] != ("cnf", "training")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if by_hand.search(line)
    )
