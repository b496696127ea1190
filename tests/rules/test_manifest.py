"""Every public function of NumPy is classified: nothing that takes numbers is without a rule, a reason or a class.

The classes are: differentiated (a row or a rule), passive (called on primals), refused (with a reason), creation
(arrays out of numbers and sizes, the front end's business) and not for numbers.
"""

from __future__ import annotations

import types

import numpy as np
import numpy.lib.stride_tricks
import pytest
import scipy.linalg
import scipy.special
import scipy.special as sc

import ndual
from ndual.rules import elementwise, refused, registry
from ndual.rules.registry import Passive

CREATION = """
arange array asarray asarray_chkfinite asfortranarray asanyarray ascontiguousarray bartlett blackman empty eye
frombuffer fromfile fromfunction fromiter fromregex fromstring from_dlpack frompyfunc full hamming hanning identity
indices ones require tri zeros
"""
NOT_NUMBERS = """
base_repr binary_repr busday_count busday_offset datetime_as_string datetime_data diag_indices einsum_path
format_float_positional format_float_scientific genfromtxt get_include get_printoptions getbufsize geterr geterrcall
info is_busday isdtype load loadtxt mask_indices mintypecode nested_iters printoptions set_printoptions setbufsize
seterr seterrcall show_config show_runtime test tril_indices triu_indices
"""
# Python code over ufuncs that have rows: a test calls each on duals.
SPECIAL_OPEN = """
assoc_laguerre diric h1vp h2vp ivp jvp kvp lambertw softplus spherical_in spherical_jn spherical_kn
spherical_yn yvp
"""
SPECIAL_NOT_NUMBERS = """
ai_zeros bei_zeros beip_zeros ber_zeros bernoulli berp_zeros bi_zeros c_roots cg_roots chebyc chebys chebyt chebyu
ellip_normal erf_zeros euler fresnel_zeros fresnelc_zeros fresnels_zeros gegenbauer genlaguerre geterr h_roots he_roots
hermite hermitenorm j_roots jacobi jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros js_roots kei_zeros keip_zeros kelvin_zeros
ker_zeros kerp_zeros l_roots la_roots laguerre legendre mathieu_even_coef mathieu_odd_coef obl_cv_seq p_roots
pro_cv_seq ps_roots roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_gegenbauer roots_genlaguerre
roots_hermite roots_hermitenorm roots_jacobi roots_laguerre roots_legendre roots_sh_chebyt roots_sh_chebyu
roots_sh_jacobi roots_sh_legendre s_roots seterr sh_chebyt sh_chebyu sh_jacobi sh_legendre t_roots test ts_roots u_roots
us_roots y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros
"""
LINALG_NOT_NUMBERS = """
dft find_best_blas_type get_blas_funcs get_lapack_funcs hadamard helmert hilbert invhilbert invpascal
pascal test
"""
# Attributes of memory, and methods that write elsewhere: they raise and say so.
METHODS_REFUSED = """
base byteswap ctypes data dump dumps getfield resize setfield setflags to_device tobytes tofile view
"""


def public(module):
    for name in dir(module):
        value = getattr(module, name, None)
        if not name.startswith("_") and callable(value) and not isinstance(value, type | types.ModuleType):
            yield name, value


def classes():
    """Each class by the identity of its functions."""
    rows = {dotted for row in elementwise.TABLE.values() for dotted in row.serves}
    ruled = {dotted for dotted, rule in registry.RULES.items() if not isinstance(rule, Passive)}
    quiet = {dotted for dotted, rule in registry.RULES.items() if isinstance(rule, Passive)}
    found = {
        "differentiated": rows | ruled,
        "passive": quiet | elementwise.PASSIVE,
        "refused": elementwise.REFUSED.keys() | refused.REFUSED.keys(),
        "creation": {f"numpy.{name}" for name in CREATION.split()},
        "not for numbers": {f"numpy.{name}" for name in NOT_NUMBERS.split()}
        | {"numpy.linalg.test", "numpy.fft.test"}
        | {f"scipy.special.{name}" for name in SPECIAL_NOT_NUMBERS.split()}
        | {f"scipy.linalg.{name}" for name in LINALG_NOT_NUMBERS.split()},
        "open": {f"scipy.special.{name}" for name in SPECIAL_OPEN.split()},
    }
    return {kind: {id(registry.lookup(dotted)) for dotted in names} - {id(None)} for kind, names in found.items()}


CLASSES = classes()


@pytest.mark.parametrize(
    "module", [np, np.linalg, np.fft, np.lib.stride_tricks, scipy.special, scipy.linalg], ids=lambda m: m.__name__
)
def test_every_function_is_classified(module):
    unknown, twice = [], []
    for name, function in public(module):
        kinds = [kind for kind, ids in CLASSES.items() if id(function) in ids]
        if not kinds:
            unknown.append(name)
        elif len(kinds) > 1 and not {*kinds} <= {"creation", "differentiated"}:
            twice.append((name, kinds))
    assert not unknown
    assert not twice


def test_no_name_of_the_manifest_is_stale():
    for name in (CREATION + NOT_NUMBERS).split():
        assert hasattr(np, name), name
    for name in (SPECIAL_OPEN + SPECIAL_NOT_NUMBERS).split():
        assert hasattr(scipy.special, name), name
    for dotted, reason in refused.REFUSED.items():
        assert registry.lookup(dotted) is not None, dotted
        assert dotted not in registry.RULES
        assert len(reason) > 20


def test_every_rule_serves_a_function_that_is_there():
    newer = {"math.sumprod", "math.fma", "numpy.trapz", "numpy.row_stack"}
    missing = [d for d in registry.RULES if d.startswith("numpy.") and registry.lookup(d) is None]
    assert set(missing) <= newer


@pytest.mark.parametrize("name", [name for name in dir(np.ndarray) if not name.startswith("_")])
def test_every_attribute_of_arrays_is_there_or_refused(name):
    def f(x):
        y = x * 1.0
        getattr(y, name)
        return y.sum()

    refuses = name in METHODS_REFUSED.split() and name not in ("tobytes", "view")  # these two refuse when called
    if refuses:
        with pytest.raises(ndual.NdualError, match=name):
            ndual.grad(f)(np.ones((2, 2)))
    else:
        assert ndual.grad(f)(np.ones((2, 2))).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: np.histogram2d(x, x), "np.digitize"),
        (lambda x: np.bmat([[x]]), "np.block"),
        (lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)), "sliding_window_view"),
        (lambda x: np.savetxt("never", x), "stop_gradient"),
    ],
)
def test_a_refusal_says_what_to_do(function, match):
    with pytest.raises(ndual.NdualError, match=match):
        ndual.grad(lambda x: np.sum(function(x)))(np.arange(3.0))


def central(f, x):
    """Differences of fourth order."""
    h = 1e-3
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


OPEN_CALLS = {
    "assoc_laguerre": lambda x: sc.assoc_laguerre(x, 3, 1.5),
    "diric": lambda x: sc.diric(x, 4),
    "h1vp": lambda x: sc.h1vp(1, x),
    "h2vp": lambda x: sc.h2vp(1, x),
    "ivp": lambda x: sc.ivp(1.5, x, 2),
    "jvp": lambda x: sc.jvp(2, x),
    "kvp": lambda x: sc.kvp(1.5, x),
    "lambertw": lambda x: sc.lambertw(x),
    "softplus": lambda x: sc.softplus(x),
    "spherical_in": lambda x: sc.spherical_in(2, x),
    "spherical_jn": lambda x: sc.spherical_jn(2, x),
    "spherical_kn": lambda x: sc.spherical_kn(2, x),
    "spherical_yn": lambda x: sc.spherical_yn(2, x),
    "yvp": lambda x: sc.yvp(2, x),
}


@pytest.mark.parametrize("name", SPECIAL_OPEN.split())
def test_python_code_over_ufuncs_is_differentiated(name):
    f = OPEN_CALLS[name]
    x = np.array([0.7, 1.6])
    value, got = ndual.jvp(f, (x,), (np.ones(2),))
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_allclose(got, central(f, x), rtol=1e-8, atol=1e-9)
    value, got = ndual.jvp(f, (1.6,), (1.0,))
    np.testing.assert_allclose(got, central(f, 1.6), rtol=1e-8, atol=1e-9)


def test_helpers_that_build_arrays_by_indexing():
    x = np.array([1.0, 2.0])
    got = ndual.jacobian(lambda x: np.r_[x, 3.0, x[0] ** 2])(x)
    np.testing.assert_array_equal(got, [[1, 0], [0, 1], [0, 0], [2, 0]])
    got = ndual.jacobian(lambda x: np.c_[x, x * x])(x)
    np.testing.assert_array_equal(got, [[[1, 0], [2, 0]], [[0, 1], [0, 4]]])


def test_partition_works_in_place():
    def f(x):
        y = x * x
        y.partition(1)
        return y[1]

    assert ndual.grad(f)(np.array([3.0, 1.0, 2.0])).tolist() == [0, 0, 4]
