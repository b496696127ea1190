"""What the SciPy adapters add to the derivative itself: the memo, casts, fresh results."""

import numpy as np

import ndual
import ndual.scipy


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def squares(x):
    return x * x


class Gradient:
    """A problem beside the prepared gradient that it cannot beat."""

    params = (2, 10, 100)
    param_names = ("n",)

    def setup(self, n):
        self.points = [np.linspace(-1.0, 1.0, n) + k for k in range(2)]
        self.problem = ndual.scipy.problem(rosen)
        self.prepared = ndual.prepare_gradient(rosen, self.points[0])

    def time_prepared(self, n):
        for x in self.points:
            self.prepared(x)

    def time_jac(self, n):
        for x in self.points:
            self.problem.jac(x)

    def time_fun_then_jac(self, n):
        for x in self.points:
            self.problem.fun(x)
            self.problem.jac(x)

    def time_fun(self, n):
        for x in self.points:
            self.problem.fun(x)

    def time_plain_value(self, n):
        for x in self.points:
            rosen(x)


class Jacobian:
    """Residuals: the Jacobian is copied into C order."""

    params = (2, 10, 100)
    param_names = ("n",)

    def setup(self, n):
        self.x = np.linspace(-1.0, 1.0, n)
        self.problem = ndual.scipy.problem(squares)
        self.prepared = ndual.prepare_jacobian(squares, self.x)

    def time_prepared(self, n):
        self.prepared(self.x)

    def time_jac(self, n):
        self.problem.jac(self.x)


class Hessian:
    """Second derivatives, and the product that needs no matrix."""

    params = (2, 10, 100)
    param_names = ("n",)

    def setup(self, n):
        self.x = np.linspace(-1.0, 1.0, n)
        self.problem = ndual.scipy.problem(rosen)
        self.constraint = ndual.scipy.problem(squares)
        self.weights = np.ones(n)

    def time_hess(self, n):
        self.problem.hess(self.x)

    def time_hessp(self, n):
        self.problem.hessp(self.x, self.weights)

    def time_weighted_hess(self, n):
        self.constraint.weighted_hess(self.x, self.weights)


class Nested:
    """Parameters in a dict beside the same ones in a vector."""

    def setup(self):
        self.vector = ndual.scipy.problem(lambda x: x[0] * np.sum(x[1:] ** 2))
        self.nested = ndual.scipy.problem(
            lambda p: p["scale"] * np.sum(p["w"] ** 2), x0={"scale": 1.0, "w": np.ones(9)}
        )
        self.x = self.nested.x0

    def time_vector(self):
        self.vector.jac(self.x)

    def time_nested(self):
        self.nested.jac(self.x)


class Equations:
    """Jacobians for stiff solvers and boundary values."""

    def setup(self):
        self.ode = ndual.scipy.ode(lambda t, y: np.stack([-0.04 * y[0] + 1e4 * y[1] * y[2], y[1], y[0] * y[2]]))
        self.y = np.ones(3)
        self.bvp = ndual.scipy.bvp(lambda x, y: np.stack([y[1], -np.exp(y[0])]), lambda ya, yb: ya)
        self.mesh = np.linspace(0.0, 1.0, 200)
        self.curve = np.ones((2, 200))

    def time_ode(self):
        self.ode.jac(0.0, self.y)

    def time_bvp(self):
        self.bvp.fun_jac(self.mesh, self.curve)
