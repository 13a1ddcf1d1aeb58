"""A classifier of handwritten-like digits: an unmodified JAX program.

    JAX_PLATFORMS=systole python train_mlp.py        # on a simulated chip, with its cycles
    JAX_PLATFORMS=cpu python train_mlp.py            # the same losses on the CPU
"""

import jax
import jax.numpy as jnp
import numpy as np

PIXELS, HIDDEN, CLASSES, BATCH, STEPS = 64, 128, 10, 128, 60


def data(key):
    """Noisy copies of ten fixed pictures."""
    pictures = jax.random.bernoulli(jax.random.key(7), 0.5, (CLASSES, PIXELS)).astype(jnp.float32)
    labels = jax.random.randint(key, (BATCH,), 0, CLASSES)
    return pictures[labels] + 0.4 * jax.random.normal(key, (BATCH, PIXELS)), labels


def loss(params, x, y):
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    scores = jax.nn.log_softmax(hidden @ params["w2"] + params["b2"])
    return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()


@jax.jit
def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.2 * g, params, grads), value


def main():
    k1, k2, key = jax.random.split(jax.random.key(0), 3)
    params = {
        "w1": jax.random.normal(k1, (PIXELS, HIDDEN)) / np.sqrt(PIXELS),
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(k2, (HIDDEN, CLASSES)) / np.sqrt(HIDDEN),
        "b2": jnp.zeros(CLASSES),
    }
    for i in range(STEPS):
        key, sub = jax.random.split(key)
        params, value = step(params, *data(sub))
        if i % 20 == 0 or i == STEPS - 1:
            print(f"step {i:3d}  loss {float(value):.4f}")
    if jax.default_backend() == "systole":
        import systole

        with systole.collect(profile=True) as runs:
            step(params, *data(key))
        report = runs.of("step")[0]
        print(report)
        for row in sorted(report.table(), key=lambda r: -r["cycles"])[:5]:
            print(f"  {row['name']:24} {row['cycles']:8} cycles, bound by {row['bound']}")
        print("recorded:", report.profile.save("train_mlp.sysp"))


main()
