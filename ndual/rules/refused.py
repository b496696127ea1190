"""Functions on numbers without a rule, each with the reason, so that a call says what to do instead.

What is neither here, nor in the table, nor under a rule has no numbers to differentiate, or is Python code over
functions that have rules.
"""

from __future__ import annotations

_FILES = "it writes values to a file; pass ndual.stop_gradient(x)"
_BITS = "it is defined on integers and bits only"
_MATRIX = "numpy.matrix objects carry no derivative; use np.block and two-dimensional arrays"
_MEMORY = "it reads memory that belongs to no array; use np.lib.stride_tricks.sliding_window_view or indices"
_GRID = "only numpy.histogram has a derivative by weights; use np.digitize, np.ravel_multi_index and np.bincount"
_INVERSE = (
    "it inverts a distribution by a parameter; solve for that with scipy.optimize and apply the implicit function "
    "theorem to the distribution function, which has derivatives"
)
_NONCENTRAL = "noncentral distribution functions have no rule; sum their Poisson mixture of central ones, which have"
_WAVES = "wave and spheroidal functions have no rule; differentiate through the equation that they solve"
_RARE = "it has no derivative formula here; write it with functions that have one"
_SEVERAL = "it returns a table of orders; call the function of one order for each, which has a derivative"
_GAUGE = "its result is fixed up to a rotation only; use the projector or the singular values that you need"
_SCHUR = "triangular forms depend on an order of eigenvalues; use numpy.linalg.eig, eigh or expm of the matrix"
_UPDATE = "updates of factors have no rule; factor the changed matrix, or solve with it"
_SECOND = "it is a derivative itself; differentiate scipy.linalg.expm"
_INTEGER = "it is exact on integers; use scipy.special.binom, gamma or poch, which are smooth"

_REASONS: dict[str, str] = {
    "numpy.save numpy.savetxt numpy.savez numpy.savez_compressed": _FILES,
    "numpy.unpackbits": _BITS,
    "numpy.bmat numpy.asmatrix": _MATRIX,
    "numpy.lib.stride_tricks.as_strided": _MEMORY,
    "numpy.histogram2d numpy.histogramdd": _GRID,
    "scipy.special.bdtrik scipy.special.bdtrin scipy.special.btdtria scipy.special.btdtrib scipy.special.chdtriv "
    "scipy.special.chndtridf scipy.special.chndtrinc scipy.special.fdtridfd "
    "scipy.special.gdtria scipy.special.gdtrib scipy.special.gdtrix scipy.special.nbdtrik scipy.special.nbdtrin "
    "scipy.special.ncfdtri scipy.special.ncfdtridfd scipy.special.ncfdtridfn scipy.special.ncfdtrinc "
    "scipy.special.nctdtridf scipy.special.nctdtrinc scipy.special.nctdtrit scipy.special.nrdtrimn "
    "scipy.special.nrdtrisd scipy.special.pdtrik scipy.special.stdtridf": _INVERSE,
    "scipy.special.chndtr scipy.special.chndtrix scipy.special.ncfdtr scipy.special.nctdtr": _NONCENTRAL,
    "scipy.special.mathieu_a scipy.special.mathieu_b scipy.special.mathieu_cem scipy.special.mathieu_sem "
    "scipy.special.mathieu_modcem1 scipy.special.mathieu_modcem2 scipy.special.mathieu_modsem1 "
    "scipy.special.mathieu_modsem2 scipy.special.obl_ang1 scipy.special.obl_ang1_cv scipy.special.obl_cv "
    "scipy.special.obl_rad1 scipy.special.obl_rad1_cv scipy.special.obl_rad2 scipy.special.obl_rad2_cv "
    "scipy.special.pro_ang1 scipy.special.pro_ang1_cv scipy.special.pro_cv scipy.special.pro_rad1 "
    "scipy.special.pro_rad1_cv scipy.special.pro_rad2 scipy.special.pro_rad2_cv scipy.special.pbdv "
    "scipy.special.pbvv scipy.special.pbwa scipy.special.ellip_harm scipy.special.ellip_harm_2": _WAVES,
    "scipy.special.airye scipy.special.elliprd scipy.special.elliprg scipy.special.elliprj scipy.special.zetac "
    "scipy.special.tklmbda scipy.special.besselpoly scipy.special.eval_sh_jacobi scipy.special.log_wright_bessel "
    "scipy.special.kelvin scipy.special.modfresnelm scipy.special.modfresnelp": _RARE,
    "scipy.special.assoc_legendre_p_all scipy.special.legendre_p_all scipy.special.sph_legendre_p_all "
    "scipy.special.sph_harm_y_all scipy.special.pbdn_seq scipy.special.lqmn scipy.special.lqn scipy.special.lmbda "
    "scipy.special.pbdv_seq scipy.special.pbvv_seq scipy.special.riccati_jn scipy.special.riccati_yn": _SEVERAL,
    "scipy.special.comb scipy.special.perm scipy.special.factorial scipy.special.factorial2 "
    "scipy.special.factorialk scipy.special.stirling2": _INTEGER,
    "scipy.linalg.cossin": _GAUGE,
    "scipy.linalg.rsf2csf scipy.linalg.hessenberg scipy.linalg.qz scipy.linalg.ordqz "
    "scipy.linalg.cdf2rdf scipy.linalg.funm": _SCHUR,
    "scipy.linalg.qr_delete scipy.linalg.qr_insert scipy.linalg.qr_update"
    " scipy.linalg.matrix_balance scipy.linalg.clarkson_woodruff_transform": _UPDATE,
    "scipy.linalg.expm_cond": _SECOND,
}

REFUSED: dict[str, str] = {name: reason for names, reason in _REASONS.items() for name in names.split()}
