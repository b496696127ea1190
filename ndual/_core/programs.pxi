# Rows made at run time: their steps for the interpreter in C, and the short way to them.

cdef extern from "program.h":
    ctypedef struct nd_step:
        unsigned char op, need, count
        short to
        short from_ "from"[3]
        nd_loop loop
    ctypedef struct nd_program:
        int count
        nd_step* steps
        void* constants
    int nd_add_program(const char*, int, const unsigned char*, const unsigned char*, const nd_program*)

cdef list _made_names = []       # which the table of rows points to


def add_row(spec, program):
    """Bind a row made at run time; `program` is what :mod:`ndual._core.program` makes of it, None if it can not."""
    cdef Row row
    cdef nd_program made[2]
    cdef nd_loop loops[2]
    cdef unsigned char coef[3], needs[3]
    cdef bint usable[2]
    cdef nd_step* step
    cdef int dtype, i, k, index
    if program is None:
        return register_row(spec, None)
    coefs, reads, steps, constants = program
    for i in range(len(coefs)):
        coef[i] = coefs[i]
        needs[i] = reads[i]
    for dtype in range(2):
        usable[dtype] = True
        made[dtype].count = len(steps)
        made[dtype].steps = <nd_step*>PyMem_Malloc((len(steps) + 1) * sizeof(nd_step))
        made[dtype].constants = PyMem_Malloc((len(constants) + 1) * 8)
        if made[dtype].steps == NULL or made[dtype].constants == NULL:
            raise MemoryError()
        for k, number in enumerate(constants):
            if dtype == ND_F64:
                (<double*>made[dtype].constants)[k] = number
            else:
                (<float*>made[dtype].constants)[k] = <float><double>number
    for k, (op, need, to, sources, ufunc) in enumerate(steps):
        memset(loops, 0, sizeof(loops))
        if ufunc is not None:
            bind_loops(loops, ufunc)
        for dtype in range(2):
            step = &made[dtype].steps[k]
            step.op = op
            step.need = need
            step.to = to
            step.count = len(sources)
            for i, source in enumerate(sources):
                step.from_[i] = source
            step.loop = loops[dtype]
            usable[dtype] = usable[dtype] and (ufunc is None or loops[dtype].fn != NULL)
    _made_names.append(spec.name.encode())
    index = nd_add_program(<const char*><bytes>_made_names[len(_made_names) - 1], len(coefs), coef, needs, made)
    if index >= 0:
        _kernel_index[spec.name] = index
    row = register_row(spec, None)
    for dtype in range(2):
        row.usable[dtype] = row.usable[dtype] and usable[dtype]
    return row


def apply_made(Row row, tuple operands, out):
    """Such a row on operands; NotImplemented if no dual is among them."""
    cdef object a = operands[0], b
    if out is not None:
        return apply_row(row.name, *operands, out=out)
    if row.nin == 1:
        if type(a) is NDualArray:
            return unary(row, a)
        return scalar_unary(row, a) if is_scalar(a) else NotImplemented
    if row.nin == 2:
        b = operands[1]
        if ordinary(a) and ordinary(b):
            if type(a) is NDualArray or type(b) is NDualArray:
                return binary(row, a, b)
            return scalar_binary(row, a, b) if is_scalar(a) or is_scalar(b) else NotImplemented
    return general(row, operands, None, None, None) if activity(operands) == 2 else NotImplemented
