"""Structures together with tangents, as values: to be seeded, kept, and read lane by lane.

An operator makes and reads the lanes of its arguments itself; these are for those who build one of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndual._core.run import as_lane
from ndual.errors import ArgumentTypeError, ArgumentValueError
from ndual.structure import ARRAY, Flat, rebuild, rebuild_gradient
from ndual.tangents import match

__all__ = ["Lifted", "lift_value", "primal", "tangent", "zero_lifted"]


class Lifted:
    """A structure of numbers and arrays with N tangents; made by :func:`lift_value` and :func:`zero_lifted`.

    Attributes
    ----------
    width : int
        N, the number of lanes.

    Examples
    --------
    >>> import ndual
    >>> lifted = ndual.zero_lifted(2, {"a": 1.0, "n": 3})
    >>> lifted.scatter(1, {"a": 5.0, "n": None})
    >>> ndual.primal(lifted), [float(ndual.tangent(lifted, k)["a"]) for k in range(2)]
    ({'a': 1.0, 'n': 3}, [0.0, 5.0])
    """

    __slots__ = ("_flat", "_lanes", "width")

    def __init__(self, value: Any, width: int) -> None:
        if isinstance(width, bool) or not hasattr(width, "__index__") or width < 1:
            raise ArgumentValueError(f"expected a number of lanes from 1 on; got {width!r}")
        self.width = int(width)
        self._flat = Flat(value, "value")
        self._flat.values = [v.copy() if leaf.kind == ARRAY else v for leaf, v in self._leaves]
        self._lanes = [np.zeros((self.width, *leaf.shape), leaf.dtype) for leaf in self._flat.leaves]

    @property
    def _leaves(self) -> list[tuple[Any, Any]]:
        return list(zip(self._flat.leaves, self._flat.values, strict=True))

    def _lane(self, lane: int) -> int:
        if isinstance(lane, bool) or not hasattr(lane, "__index__") or not -self.width <= lane < self.width:
            raise ArgumentValueError(f"expected one of the {self.width} lanes; got {lane!r}")
        return int(lane) % self.width

    def scatter(self, lane: int, tangent: Any) -> None:
        """Have a tangent in a lane: of the structure of the value, with anything where that has no float.

        Raises
        ------
        ArgumentValueError
            There is no such lane, or the tangent has another structure or shape.
        ArgumentTypeError
            A part of it is no number or array of such numbers.
        """
        lane = self._lane(lane)
        found: dict[int, Any] = {}
        match(self._flat.tree, tangent, "tangent", found, "as the value is")
        rows = [as_lane(leaf, found[k])[0] for k, leaf in enumerate(self._flat.leaves)]
        for lanes, row in zip(self._lanes, rows, strict=True):
            lanes[lane] = row

    def __repr__(self) -> str:
        return f"<a {type(primal(self)).__name__} lifted, {self.width} lanes of {len(self._lanes)} leaves>"


def zero_lifted(width: int, value: Any) -> Lifted:
    """A structure with `width` tangents of zeros.

    Parameters
    ----------
    width : int
        The number of lanes.
    value : structure
        Floats and float arrays in any nesting of tuples, lists, dicts and objects. It is copied.

    Returns
    -------
    Lifted

    Raises
    ------
    ArgumentValueError
        `width` is no positive number.
    ArgumentTypeError
        The value holds no float, or something that is no structure.

    Examples
    --------
    >>> import numpy as np, ndual
    >>> ndual.tangent(ndual.zero_lifted(3, [np.ones(2)]), 2)
    [array([0., 0.])]
    """
    return Lifted(value, width)


def lift_value(value: Any, tangents: Sequence[Any] | None = None) -> Lifted:
    """A structure with tangents: those that are given, or the unit tangents of all its numbers.

    Parameters
    ----------
    value : structure
        As for :func:`zero_lifted`.
    tangents : sequence, optional
        One structure for each lane. Without, lane k has a one at the k-th number of the value; a complex number has two
        lanes, the second with the imaginary unit.

    Returns
    -------
    Lifted

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        As :func:`zero_lifted`, and as :meth:`Lifted.scatter` for each tangent.

    Examples
    --------
    >>> import ndual
    >>> lifted = ndual.lift_value((2.0, [3.0]))
    >>> lifted.width, ndual.tangent(lifted, 1) == (0.0, [1.0])
    (2, True)
    """
    if tangents is not None:
        made = Lifted(value, len(tangents))
        for lane, given in enumerate(tangents):
            made.scatter(lane, given)
        return made
    leaves = Flat(value, "value").leaves
    made = Lifted(value, sum(leaf.dof(False) for leaf in leaves))
    lane = 0
    for leaf, lanes in zip(leaves, made._lanes, strict=True):
        for cell in range(leaf.size):
            for unit in (1.0, 1.0j) if leaf.complex else (1.0,):
                lanes.reshape(len(lanes), -1)[lane, cell] = unit
                lane += 1
    return made


def _checked(lifted: Any, operator: str) -> Lifted:
    if type(lifted) is not Lifted:
        raise ArgumentTypeError(
            f"{operator} expects a Lifted; got {type(lifted).__name__}. Make one with lift_value(x)"
        )
    return lifted


def primal(lifted: Lifted) -> Any:
    """The value of a lifted structure, as a structure of its own.

    Raises
    ------
    ArgumentTypeError
        It is no :class:`Lifted`.

    Examples
    --------
    >>> import ndual
    >>> ndual.primal(ndual.lift_value({"a": 1.0}))
    {'a': 1.0}
    """
    flat = _checked(lifted, "primal")._flat
    return rebuild(flat.tree, [v.copy() if leaf.kind == ARRAY else v for leaf, v in lifted._leaves])


def tangent(lifted: Lifted, lane: int) -> Any:
    """One tangent of a lifted structure, in the structure of the value, with None where that has no float.

    Raises
    ------
    ArgumentTypeError
        It is no :class:`Lifted`.
    ArgumentValueError
        There is no such lane.

    Examples
    --------
    >>> import ndual
    >>> float(ndual.tangent(ndual.lift_value((2.0, "name")), 0)[0])
    1.0
    """
    lane = _checked(lifted, "tangent")._lane(lane)
    return rebuild_gradient(lifted._flat.tree, [np.array(lanes[lane])[()] for lanes in lifted._lanes])
