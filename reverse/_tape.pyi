"""Types of the tape. What it hands out is `Any`: arrays or numbers one level down."""

from collections.abc import Callable, Iterable
from typing import Any, Self

from typing_extensions import disjoint_base

from ndual._core._dual import Level, NDualArray, Recorder, Run

__test__: dict[str, str]

@disjoint_base
class Tape(Recorder):
    """The record of one run of a function in reverse mode."""

    copy_constants: bool
    def __new__(cls, rules: dict[Any, Any], transposes: tuple[Any, Any]) -> Self: ...
    @property
    def level(self) -> Level | None: ...
    @property
    def rules(self) -> dict[Any, Any]: ...
    @property
    def nbytes(self) -> int: ...
    def record(
        self,
        label: str,
        function: Callable[..., Any],
        outputs: list[NDualArray | None],
        targets: list[Any],
        saved: list[Any],
    ) -> None: ...
    def backward(self, outputs: Iterable[Any], cotangents: Iterable[Any]) -> None: ...
    def gradient(self, x: Any) -> Any: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

@disjoint_base
class TapeRun(Run):
    """The state of a reverse run."""

    tape: Tape | None
    @property
    def memory(self) -> int: ...
    def gradients(self, primals: Any, call: Callable[..., Any] | None = None) -> tuple[Any, Any, bool, bool]: ...
    def put_back(self, tape: Tape) -> None: ...
