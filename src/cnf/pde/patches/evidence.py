"""Evidence: what geometry and formulas say of a solution before anything is solved: where it cannot be smooth."""

from __future__ import annotations

import numpy as np

from cnf.bases.cells import Cells
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.adapting import corner_functions
from cnf.pde.patches.asked import asked_formulas
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.degrees import degrees_on
from cnf.pde.patches.formulas import follow
from cnf.pde.patches.jumps import breaks, diffused_jumps
from cnf.pde.patches.question import Question

CLOSELY = 1e-3  # of its size: how closely a formula is followed
NARROW = 1 / 8  # of the domain: cells narrower than this
SHORT = 1 / 32  # of the domain: lengths of the equations shorter than this
LOOKED_AT = 200  # points at which coefficients are


def roughness(question: Question, corners: bool = True) -> str:
    """Why the solution is not smooth over the whole domain, in words; empty if nothing says so.

    At `corners` solutions may be smooth all the same, if the data happen to agree with that.
    """
    orders = orders_of(question)
    exponents = [c.exponents.real.min() for c in corner_functions(question, orders)]
    if min(exponents, default=1) <= 0 or any(breaks(question)) or diffused_jumps(question, orders) is not None:
        return "its data jump"
    domain = question.domain
    length = natural_length(question)
    if length < SHORT:
        return f"its equations have a length of {length:.2g} of the domain, of waves or layers"
    whole = Cells(domain.lower, domain.upper)
    degree = [max(degrees_on(domain)) - 2] * domain.dimension  # in time too, where patches have less: waves have not
    cells = follow(whole, degree, asked_formulas(question, orders), CLOSELY, question.seed, orders.time)
    extent = np.subtract(domain.upper, domain.lower)
    width = float(((cells.upper - cells.lower) / extent).min())
    if width < NARROW:
        return f"a formula in it varies within {width:.2g} of the domain"
    return f"at a corner the solution goes like r^{min(exponents):.2g}" if exponents and corners else ""


def natural_length(question: Question) -> float:
    """The shortest length over which equations balance their terms, over the extent of the domain.

    k^2 u beside u_xx is a wave of the length 1 / k, u_x beside a u_xx a layer of the width a; terms of the same channel
    are compared, time apart.
    """
    domain = question.domain
    extent = max(b - a for k, (a, b) in enumerate(zip(domain.lower, domain.upper, strict=True)) if k != question.time)
    points = domain.fill(LOOKED_AT, "halton", question.seed)
    found = np.inf
    for k in question.inside:
        for probe in question.at(k, Sample(points, None)).expanded():
            for request in probe.requests:
                sizes: dict[int, np.ndarray] = {}  # by the order of derivatives
                for index, weight in request.weights.items():
                    if question.time is None or not index[question.time]:
                        own = weight.detach().abs().expand(len(points)).numpy()
                        sizes[sum(index)] = np.maximum(sizes.get(sum(index), 0.0), own)
                highest = max(sizes, default=0)
                for order, size in sizes.items():
                    both = (size > 0) & (sizes[highest] > 0)
                    if order < highest and both.any():
                        ratio = (sizes[highest][both] / size[both]) ** (1 / (highest - order))
                        found = min(found, float(ratio.min()) / extent)
    return found
