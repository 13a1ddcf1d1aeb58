"""A small encoder of the kind that makes sentence embeddings: where do its cycles go?

    python encoder.py              # any platform of JAX: systole.run compiles and simulates by itself
"""

import jax
import jax.numpy as jnp

import systole

TOKENS, WIDTH, HEADS, LAYERS = 128, 384, 12, 2


def layer(x, p):
    def heads(w):
        return (x @ w).reshape(TOKENS, HEADS, WIDTH // HEADS).transpose(1, 0, 2)

    q, k, v = heads(p["q"]), heads(p["k"]), heads(p["v"])
    weights = jax.nn.softmax(q @ k.transpose(0, 2, 1) / (WIDTH // HEADS) ** 0.5)
    attended = (weights @ v).transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ p["o"]
    x = jax.nn.standardize(x + attended)
    return jax.nn.standardize(x + jax.nn.gelu(x @ p["up"]) @ p["down"])


@jax.named_scope("encoder")
def encode(params, x):
    for i, p in enumerate(params):
        with jax.named_scope(f"layer{i}"):
            x = layer(x, p)
    pooled = x.mean(0)
    return pooled / jnp.linalg.norm(pooled)


def main():
    shapes = {"q": WIDTH, "k": WIDTH, "v": WIDTH, "o": WIDTH, "up": 4 * WIDTH}
    array = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.bfloat16)
    params = [{n: array(WIDTH, w) for n, w in shapes.items()} | {"down": array(4 * WIDTH, WIDTH)} for _ in range(LAYERS)]
    for chip in ["tpu-v5e", "tpu-v6e"]:
        report = systole.run(encode, params, array(TOKENS, WIDTH), chip=chip, timing_only=True)
        print(report)
        print("  matrix units useful for", f"{report.utilisation('mxu'):.1%}", "of the cycles")


main()
