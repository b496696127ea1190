# What the core tells a tape while f runs, each operation as an entry.

cdef class Recording(Keeper):
    """The operations of a run, as they come."""

    cdef object operands(self, Row row, tuple operands):
        cdef MapEntry entry
        cdef NDualArray x
        cdef int i, needs = 0
        cdef bint moves = False, active[3]
        cdef list boxed = None
        for i in range(row.nin):
            obj = operands[i]
            if type(obj) is NDualArray:
                active[i] = (<NDualArray>obj).buf.traced
            elif type(obj) is CoDual:
                if boxed is None:
                    boxed = list(operands)
                boxed[i] = box(obj)
                active[i] = True
            else:
                active[i] = False
            if active[i]:
                if row.coef[i] == ND_COEF_NONE:
                    raise NoRuleError(
                        f"{row.name} has no derivative with respect to operand {i}{where()}. Make it a constant with "
                        "ndual.stop_gradient(x)"
                    )
                if row.coef[i] == ND_COEF_ZERO:
                    active[i] = False
                    state().compared = 1
                else:
                    moves = True
                    needs |= row.needs[i]
        if not moves:
            return None
        if self.level.debug:         # slopes() reads everything
            needs = 15
        if boxed is not None:
            operands = tuple(boxed)
        entry = MapEntry.__new__(MapEntry)
        entry.row = entry.called = row
        entry.nin = row.nin
        for i in range(row.nin):
            obj = operands[i]
            if active[i]:
                if i == 0:
                    entry.t0 = self.held(<NDualArray>obj)
                elif i == 1:
                    entry.t1 = self.held(<NDualArray>obj)
                else:
                    entry.t2 = self.held(<NDualArray>obj)
            if needs & (1 << i):
                obj = self.keep(obj, i)
                if i == 0:
                    entry.s0 = obj
                elif i == 1:
                    entry.s1 = obj
                else:
                    entry.s2 = obj
        self.entries.append(entry)
        if needs & 8:
            entry.s3 = True          # the value, once it is known
        return entry

    cdef int sloped(self, Row row, NDualArray x, NDualArray slope, char* at, NDualArray out) except -1:
        cdef MapEntry entry = MapEntry.__new__(MapEntry)
        entry.slope = at
        entry.called = row
        entry.row = product_row()
        entry.nin = 2
        entry.t0 = self.held(x)
        entry.s1 = slope
        return self.add(entry, out)

    cdef int mapped(self, object entry, NDualArray out) except -1:
        cdef MapEntry e
        if entry is None:
            if out.buf.traced:
                self.assigned(out, None)
            return 0
        e = <MapEntry>entry
        e.out = self.held(out)
        e.fresh = not out.buf.traced
        out.buf.made = out.buf.made or e.fresh
        out.buf.traced = True
        if e.s3 is not None:
            e.s3 = out
            self.watch(out, len(self.entries) - 1, 3)
        if e.fresh:
            e.name_multiple()
        return self.note_entry()

    cdef int formed(self, Row row, object storage, list operands, object dtype, NDualArray out) except -1:
        cdef FormEntry entry
        cdef list targets = []
        cdef list kept = []
        cdef bint moves = False, real = row.index >= 0 and dtype is None and type(out.device_v) is NDualArray
        cdef int needs = 0, coef
        cdef Py_ssize_t i
        for i in range(len(operands)):
            obj = operands[i]
            active = type(obj) is NDualArray and (<NDualArray>obj).buf.level is self.level and traced(<NDualArray>obj)
            targets.append(self.held(<NDualArray>obj) if active else None)
            moves = moves or active
            if type(obj) is NDualArray:
                real = real and (<NDualArray>obj).typenum == out.typenum
            elif type(obj) is np_ndarray:
                real = real and cnp.PyArray_TYPE(<cnp.ndarray>obj) == out.typenum
            else:
                real = real and type(obj) is float
            if active:
                coef = row.coef[i]
                needs |= 2 if coef == ND_COEF_X1 else 1 if coef == ND_COEF_X0 else \
                    0 if coef == ND_COEF_ONE or coef == ND_COEF_NEG else 15
        if not moves:
            return 0
        real = real and (out.typenum == cnp.NPY_DOUBLE or out.typenum == cnp.NPY_FLOAT)
        entry = FormEntry.__new__(FormEntry)
        for i in range(len(operands)):
            kept.append(self.keep_foreign(operands[i], i) if not real or needs & (1 << i) else None)
        entry.row = row
        entry.storage = storage
        entry.real = real
        if not real or needs & 8:
            self.watch(out, len(self.entries), len(kept))
            kept.append(out)
        else:
            kept.append(None)
        entry.operands = kept
        entry.targets = targets
        return self.add(entry, out)

    cdef int assigned(self, NDualArray to, NDualArray source) except -1:
        cdef CopyEntry entry
        cdef bint active = source is not None and traced(source)
        if not active and not traced(to):
            return 0
        entry = CopyEntry.__new__(CopyEntry)
        if active:
            entry.t0 = self.held(source)
            if source.device_v is None and source.buf is to.buf and source.size_ and to.size_:
                entry.s0 = copied_cells(to, source)
        return self.add(entry, to)

    cdef int gathered(self, NDualArray x, tuple index, NDualArray out) except -1:
        cdef GatherEntry entry = GatherEntry.__new__(GatherEntry)
        entry.t0 = self.held(x)
        entry.s0 = copied_index(index)
        return self.add(entry, out)

    cdef int scattered(self, NDualArray x, tuple index, NDualArray source) except -1:
        cdef ScatterEntry entry
        cdef bint active = source is not None and traced(source)
        if not active and not traced(x):
            return 0
        entry = ScatterEntry.__new__(ScatterEntry)
        entry.s0 = copied_index(index)
        if active:
            entry.t0 = self.held(source)
            if source.device_v is None and source.buf is x.buf and source.size_:
                numbers = cell_numbers(source)
                beside = numbers_beside(numbers, x)
                beside[index] = numbers
                entry.s1 = beside[index].copy()
        return self.add(entry, x)

    cdef int summed_below(self, NDualArray x, NDualArray out) except -1:
        cdef LowerSumEntry entry = LowerSumEntry.__new__(LowerSumEntry)
        entry.t0 = self.held(x)
        return self.add(entry, out)

    cdef Py_ssize_t summed(self, NDualArray x) except -1:
        cdef SumEntry entry = SumEntry.__new__(SumEntry)
        entry.t0 = self.held(x)
        entry.node = self.tape.count
        self.entries.append(entry)
        self.note_entry()
        return entry.node

    cdef int multiplied(self, object a, object b, NDualArray out) except -1:
        cdef ProductEntry entry = ProductEntry.__new__(ProductEntry)
        cdef bint left = type(a) is NDualArray and (<NDualArray>a).buf.traced
        cdef bint right = type(b) is NDualArray and (<NDualArray>b).buf.traced
        if not left and not right:
            return 0
        if left:
            entry.t0 = self.held(<NDualArray>a)
            entry.s1 = self.keep(b, 1)
        if right:
            entry.t1 = self.held(<NDualArray>b)
            entry.s0 = self.keep(a, 0)
        return self.add(entry, out)

    def record(self, str label, function, list outputs, list targets, list saved, forward=None, bint always=False,
               bint lends=False):
        """Append a structured rule: ``function(ws, *saved)`` returns a cotangent, or None, for every target.

        Saved arrays of this level are watched, and given to the function one level down. With `always` it is called
        also where no result has a cotangent. With `lends` nobody writes to the arrays that it returns.
        """
        cdef RuleEntry entry = RuleEntry.__new__(RuleEntry)
        entry.label = label
        entry.always = always
        entry.lends = lends
        entry.function = function
        entry.forward = forward
        entry.targets = [self.held(<NDualArray>target) for target in targets]
        entry.outputs = [None if out is None else self.held(<NDualArray>out) for out in outputs]
        entry.saved = [self.keep_foreign(obj, i) for i, obj in enumerate(saved)]
        for out in outputs:
            if out is not None:
                if (<NDualArray>out).device_v is None:
                    (<NDualArray>out).buf.made = True
                trace(<NDualArray>out)
        self.entries.append(entry)
        self.note_entry()
