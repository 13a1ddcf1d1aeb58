"""Decompositions that TPUs' lowering leaves out: complex Hermitian matrices, their tridiagonal form and QR with pivots as operations of JAX;
eigenvalues of any matrix, Hessenberg and Schur forms as the CPU's calls, which the compiler knows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _reflections(a):
    """Householder's reflections (LAPACK's, from the lower triangle) that make a Hermitian matrix tridiagonal.

    The tridiagonal matrix, its subdiagonal, the vectors of the reflections as columns, their factors, their product.
    """
    n = a.shape[-1]
    low = jnp.tril(a, -1)
    m = low + low.conj().T + jnp.diag(jnp.diag(a).real).astype(a.dtype)
    rows = jnp.arange(n)

    def outer(x, y):
        return x[:, None] * y.conj()[None, :]

    def step(i, state):
        m, e, vectors, factors, product = state
        column = jnp.sum(jnp.where(rows[None, :] == i, m, 0), axis=1)
        alpha = jnp.sum(jnp.where(rows == i + 1, column, 0))
        rest = jnp.where(rows > i + 1, column, 0)
        norm = jnp.sum(jnp.abs(rest) ** 2)
        done = (norm == 0) & (alpha.imag == 0)
        length = jnp.sqrt(jnp.abs(alpha) ** 2 + norm)
        beta = jnp.where(done, alpha.real, jnp.where(alpha.real < 0, length, -length))
        factor = jnp.where(done, 0, (beta - alpha) / jnp.where(done, 1, beta))
        v = jnp.where(rows == i + 1, 1, rest / jnp.where(done, 1, alpha - beta))
        # From both sides: I - conj(factor) v v^H on the left, I - factor v v^H on the right.
        m = m - factor.conj() * outer(v, jnp.sum(v.conj()[:, None] * m, axis=0).conj())
        m = m - factor * outer(jnp.sum(m * v[None, :], axis=1), v)
        product = product - factor * outer(jnp.sum(product * v[None, :], axis=1), v)
        e = jnp.where(rows == i, beta, e)
        vectors = jnp.where(rows[None, :] == i, v[:, None], vectors)
        factors = jnp.where(rows == i, factor, factors)
        return m, e, vectors, factors, product

    zeros = jnp.zeros_like(a)
    first = (m, jnp.zeros(n, a.real.dtype), zeros, zeros[0], jnp.eye(n, dtype=a.dtype))
    m, e, vectors, factors, product = lax.fori_loop(0, n - 1, step, first)
    return jnp.diag(m).real, e[: n - 1], vectors, factors[: n - 1], product


def _tridiagonal(a, *, lower):
    n = a.shape[-1]
    given = a if lower else a[::-1, ::-1]
    d, e, vectors, factors, _ = _reflections(given)
    below = jnp.arange(n)[:, None] - jnp.arange(n)[None, :]
    form = jnp.diag(d) + (jnp.diag(e, -1) if n > 1 else 0)
    form = jnp.where(below > 1, vectors, jnp.where(below < 0, given, form.astype(a.dtype)))
    return (form, d, e, factors) if lower else (form[::-1, ::-1], d[::-1], e[::-1], factors[::-1])


def _eigh(a, *, lower, sort_eigenvalues):
    """Hermitian: the eigenvectors of the tridiagonal form, which is real, turned back."""
    d, e, _, _, product = _reflections(a if lower else a.conj().T)
    n = d.shape[0]
    form = jnp.diag(d) + (jnp.diag(e, -1) + jnp.diag(e, 1) if n > 1 else 0)
    v, w = lax.linalg.eigh(form, sort_eigenvalues=sort_eigenvalues, symmetrize_input=False,
                           implementation=lax.linalg.EighImplementation.JACOBI)
    highest = lax.Precision.HIGHEST
    parts = [jnp.matmul(part, v, precision=highest) for part in (product.real, product.imag)]
    return lax.complex(*parts), w


def _geqp3(a):
    """LAPACK's QR with pivots: R with the vectors of Householder's reflections below it, columns by number from 1 on, the reflections' factors."""
    m, n = a.shape
    rows, columns = jnp.arange(m), jnp.arange(n)

    def step(i, state):
        a, order, factors = state
        # The column of which most is left comes next.
        left = jnp.where(rows[:, None] >= i, jnp.abs(a) ** 2, 0).sum(0)
        most = jnp.argmax(jnp.where(columns >= i, left, -1))
        swap = jnp.where(columns == i, most, jnp.where(columns == most, i, columns))
        a, order = a[:, swap], order[swap]
        column = a[:, i]
        alpha = column[i]
        rest = jnp.where(rows > i, column, 0)
        norm = jnp.sum(jnp.abs(rest) ** 2)
        done = (norm == 0) & (alpha.imag == 0)
        length = jnp.sqrt(jnp.abs(alpha) ** 2 + norm)
        beta = jnp.where(done, alpha.real, jnp.where(alpha.real < 0, length, -length))
        factor = jnp.where(done, 0, (beta - alpha) / jnp.where(done, 1, beta)).astype(a.dtype)
        below = rest / jnp.where(done, 1, alpha - beta)
        v = jnp.where(rows == i, 1, below)
        turned = a - factor.conj() * v[:, None] * jnp.sum(v.conj()[:, None] * a, axis=0)[None, :]
        a = jnp.where(columns[None, :] > i, turned, a)
        kept = jnp.where(rows < i, column, jnp.where(rows == i, beta.astype(a.dtype), below))
        return a.at[:, i].set(kept), order, factors.at[i].set(factor)

    first = (a, jnp.arange(1, n + 1, dtype=jnp.int32), jnp.zeros(min(m, n), a.dtype))
    return lax.fori_loop(0, min(m, n), step, first)


def _batched(f, a):
    for _ in a.shape[:-2]:
        f = jax.vmap(f)
    # Whatever the program that asks has set.
    with jax.numpy_dtype_promotion("standard"):
        return f(a)


def install(rules) -> None:
    """Adds the rules of lowering to a platform's, which has those of TPUs."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    def tridiagonal(a, *, lower):
        return _batched(lambda x: _tridiagonal(x, lower=lower), a)

    def geqp3(a, free, *, use_magma):
        # All columns are free to move: JAX asks for nothing else.
        del free, use_magma
        return _batched(_geqp3, a)

    of_tpu = rules[linalg.eigh_p]

    def eigh(ctx, a, **how):
        given = ctx.avals_in[0]
        jacobi = how["algorithm"] == linalg.EighImplementation.JACOBI
        if not (jacobi and np.issubdtype(given.dtype, np.complexfloating) and given.shape[-1] > 0):
            return of_tpu.rule(ctx, a, **how)
        own = {key: how[key] for key in ("lower", "sort_eigenvalues")}
        return mlir.lower_fun(lambda x: _batched(lambda y: _eigh(y, **own), x), multiple_results=True)(ctx, a)

    of_cpu = mlir._platform_specific_lowerings["cpu"]
    for primitive in (linalg.eig_p, linalg.hessenberg_p, linalg.schur_p):
        rules[primitive] = of_cpu[primitive]
    rules[linalg.geqp3_p] = mlir.LoweringRuleEntry(mlir.lower_fun(geqp3, multiple_results=True), False)
    rules[linalg.tridiagonal_p] = mlir.LoweringRuleEntry(mlir.lower_fun(tridiagonal, multiple_results=True), False)
    rules[linalg.eigh_p] = mlir.LoweringRuleEntry(eigh, of_tpu.inline)
