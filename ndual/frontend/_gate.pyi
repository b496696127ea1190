"""Types of the gates. A gate has every attribute of the function that it stands for."""

from collections.abc import Callable
from typing import Any

from typing_extensions import disjoint_base

LIBRARIES: frozenset[str]
OPEN: frozenset[str]
__test__: dict[str, str]

def is_library(module: str) -> bool: ...
def resolve(module: str, name: str) -> Any: ...
def set_stand_in(function: Callable[[Any], Any]) -> None: ...
def callee(function: Any) -> Any: ...

@disjoint_base
class Gate:
    """A stand-in for a function: on duals, from user code, the rule; otherwise the function itself."""

    def __init__(
        self,
        original: Any,
        dispatch: Callable[..., Any],
        makes: bool = False,
        iterates: bool = False,
        everywhere: bool = False,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str, /) -> Any: ...
    def __copy__(self) -> Any: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Any: ...
    @property
    def original(self) -> Any: ...
    @property
    def __wrapped__(self) -> Any: ...

class TypeGate(type):
    """The metaclass of the stand-ins for NumPy's number types."""

    original: Any
    def __call__(cls, *args: Any, **kwargs: Any) -> Any: ...

def type_gate(original: type, dispatch: Callable[..., Any]) -> TypeGate: ...

@disjoint_base
class Default:
    """What lifted code does to an argument whose default is an array, which is older than the derivative."""

    def __init__(self, array: Any) -> None: ...
    def __call__(self, value: Any) -> Any: ...
