"""einsum: a sum over one lane map per operand, each of them an einsum with one more label.

Ellipses, implicit outputs and the interleaved calling form are first brought to plain labels.
"""

from __future__ import annotations

from typing import Any

from ndual.rules.registry import RULES, Structured
from ndual.rules.support import conj, function, strong, unbroadcast

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_KEYWORDS = {"out": None, "dtype": None, "order": "K", "casting": "safe", "optimize": False}


def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bring both calling forms to one string and the operands."""
    params = {**_KEYWORDS, **kwargs}
    if isinstance(args[0], str):
        return args[1:], {"subscripts": args[0], **params}
    count = len(args) // 2
    terms = ["".join("..." if s is Ellipsis else _LETTERS[s] for s in args[2 * i + 1]) for i in range(count)]
    text = ",".join(terms)
    if len(args) % 2:
        text += "->" + "".join("..." if s is Ellipsis else _LETTERS[s] for s in args[-1])
    return args[: 2 * count : 2], {"subscripts": text, **params}


def _labels(subscripts: str, ranks: list[int]) -> tuple[list[str], str, str]:
    """The labels of each operand, those of the output, and one letter that is free for the lanes."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    unused = [c for c in reversed(_LETTERS) if c not in text]
    widths = [rank - len(term) + 3 if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)]
    most = max(widths, default=0)
    extra = "".join(unused[:most])
    terms = [term.replace("...", extra[most - width :]) for term, width in zip(terms, widths, strict=True)]
    if not arrow:
        plain = inputs.replace("...", "").replace(",", "")
        output = "..." + "".join(sorted(c for c in set(plain) if plain.count(c) == 1))
    return terms, output.replace("...", extra), unused[most]


def _call(xp: Any, terms: list[str], output: str, operands: list[Any], optimize: Any) -> Any:
    """One einsum; large ones go through BLAS even where the user's own call did not ask for it."""
    if optimize is False:
        work, seen = 1, set()
        for term, a in zip(terms, operands, strict=True):
            for label, n in zip(term, a.shape, strict=True):
                if label not in seen:
                    seen.add(label)
                    work *= n
        optimize = work > 100_000
    return function(xp, "einsum")(",".join(terms) + "->" + output, *operands, optimize=optimize)


def _product(xp: Any, k: int, terms: list[str], output: str, operands: list[Any], t: Any, optimize: Any) -> Any:
    """The einsum with operand k replaced by `t`; zero times anything is zero (for two operands term by term)."""
    rest = operands[:k] + operands[k + 1 :]
    if len(rest) == 1:
        names = [terms[1 - k], terms[k]]
        return strong(xp, lambda c, u: _call(xp, names, output, [c, u], optimize), rest[0], t)
    return _call(xp, terms, output, [*operands[:k], t, *operands[k + 1 :]], optimize)


def jvp(xp: Any, y: Any, x: tuple[Any, ...], dx: tuple[Any, ...], subscripts: str, optimize: Any, **_: Any) -> Any:
    """The sum over the operands of the einsum with that operand's lanes, which carry one more label."""
    terms, output, lane = _labels(subscripts, [a.ndim for a in x])
    out = None
    for k, t in enumerate(dx):
        if t is not None:
            named = [*terms[:k], lane + terms[k], *terms[k + 1 :]]
            part = _product(xp, k, named, lane + output, list(x), t, optimize)
            out = part if out is None else out + part
    return out


def vjp(xp: Any, w: Any, y: Any, x: tuple[Any, ...], subscripts: str, optimize: Any, **_: Any) -> tuple[Any, ...]:
    """For each operand the einsum of the cotangent with the others; a repeated label goes to its diagonal."""
    terms, output, _lane = _labels(subscripts, [a.ndim for a in x])
    return tuple(_cotangent(xp, k, w, x, terms, output, optimize) for k in range(len(x)))


def _cotangent(xp: Any, k: int, w: Any, x: tuple[Any, ...], terms: list[str], output: str, optimize: Any) -> Any:
    others = [(terms[i], conj(xp, a)) for i, a in enumerate(x) if i != k]
    known = set(output).union(*(term for term, _ in others)) if others else set(output)
    sizes = {
        label: n for term, a in zip(terms, x, strict=True) for label, n in zip(term, a.shape, strict=True) if n != 1
    }
    unique = "".join(dict.fromkeys(terms[k]))
    reached = "".join(label for label in unique if label in known)
    named, operands = [output, *(t for t, _ in others)], [w, *(a for _, a in others)]
    if len(operands) == 2:
        g = strong(xp, lambda u, v: _call(xp, named, reached, [u, v], optimize), *operands)
    else:
        g = _call(xp, named, reached, operands, optimize)
    g = g.reshape(tuple(g.shape[reached.index(label)] if label in reached else 1 for label in unique))
    full = tuple(sizes.get(label, 1) for label in unique)
    g = xp.broadcast_to(g, full)
    if len(unique) != len(terms[k]):
        out = xp.zeros_like(g, shape=x[k].shape)
        grid = xp.meshgrid(*(xp.arange(n) for n in full), indexing="ij")
        out[tuple(grid[unique.index(label)] for label in terms[k])] = g
        return out
    return unbroadcast(g, x[k].shape)


RULES["numpy.einsum"] = Structured(
    "numpy.einsum", ("numpy.einsum",), ("(subscripts)", "operands..."), jvp, vjp, _KEYWORDS, bind
)
