# What prepared objects are called by: no Python frame where the run needs none.

cdef class Pull:
    """A prepared gradient as a callable without a Python frame of its own, where its run records."""

    cdef object plan
    cdef Run run
    cdef bint quick, alone

    def __cinit__(self, plan, *unused):
        self.renew(plan)

    def renew(self, plan):
        """Go on with another plan."""
        self.plan = plan
        self.run = plan.run
        self.quick = plan.reverse and plan.flat
        self.alone = type(plan.argnums) is int

    def __call__(self, *args):
        cdef tuple done
        cdef list found
        if not self.quick:
            return self.swept(args)
        try:
            done = self.run.pulled(args, None)
        except (NoRuleError, MemoryError):
            if not self.plan.auto:
                raise
            self.quick = False       # the plan goes forward
            return self.swept(args)
        if type(done[1]) is not list or not done[2]:
            return self.plan.gradient_of(done)
        found = <list>done[1]
        return done[0], found[0] if self.alone else tuple(found)


cdef class Push:
    """A prepared directional derivative as a callable without a Python frame of its own."""

    cdef object plan
    cdef Run run
    cdef bint flat

    def __cinit__(self, plan, *unused):
        self.renew(plan)

    def renew(self, plan):
        """Go on with another plan."""
        self.plan = plan
        self.run = plan.run
        self.flat = plan.flat

    def __call__(self, primals, tangents):
        if self.flat:
            return self.run.push(primals, tangents, None)
        return self.run.push(self.plan.flatten(tuple(primals)), self.plan.tangents(tuple(tangents)), None)
