"""Sentence embeddings by a small encoder of MiniLM's kind, and where its cycles go.

    JAX_PLATFORMS=systole python encoder.py       # the embeddings are computed on a simulated chip
    python encoder.py                             # on JAX's platform; systole.run counts cycles on any

The weights are drawn, as there is nothing to download; sentences that share words are close to each other all the same.
"""

import jax
import jax.numpy as jnp
import numpy as np

import systole

TOKENS, WIDTH, HEADS, LAYERS, WORDS = 32, 128, 4, 2, 512
SENTENCES = ["the cat sat on the mat", "a cat sat on a mat", "stock prices fell sharply today"]


def numbers(sentence):
    """The words' numbers, and which of them are there."""
    ids = [sum(ord(c) * 31**i for i, c in enumerate(word)) % WORDS for word in sentence.split()]
    return np.array(ids + [0] * (TOKENS - len(ids)), np.int32), np.arange(TOKENS) < len(ids)


def parameters(key):
    def matrix(key, *dims):
        return jax.random.normal(key, dims, jnp.bfloat16) * dims[0] ** -0.5

    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    keys = jax.random.split(key, LAYERS + 1)
    layers = [{n: matrix(k, *shapes[n]) for n, k in zip(shapes, jax.random.split(key, len(shapes)))} for key in keys[1:]]
    return {"words": jax.random.normal(keys[0], (WORDS, WIDTH), jnp.bfloat16), "layers": layers}


def layer(x, there, p):
    def heads(w):
        return (x @ w).reshape(TOKENS, HEADS, WIDTH // HEADS).transpose(1, 0, 2)

    q, k, v = heads(p["q"]), heads(p["k"]), heads(p["v"])
    scores = q @ k.transpose(0, 2, 1) / (WIDTH // HEADS) ** 0.5
    weights = jax.nn.softmax(jnp.where(there, scores, -1e9))
    attended = (weights @ v).transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ p["o"]
    x = jax.nn.standardize(x + attended)
    return jax.nn.standardize(x + jax.nn.gelu(x @ p["up"]) @ p["down"])


@jax.jit
@jax.named_scope("encoder")
def encode(params, ids, there):
    """The embedding of one sentence: the mean of its words, of length 1."""
    x = params["words"][ids]
    for i, p in enumerate(params["layers"]):
        with jax.named_scope(f"layer{i}"):
            x = layer(x, there, p)
    pooled = jnp.where(there[:, None], x, 0).astype(jnp.float32).sum(0) / there.sum()
    return pooled / jnp.linalg.norm(pooled)


def main():
    params = parameters(jax.random.key(0))
    inputs = [numbers(s) for s in SENTENCES]
    embeddings = np.stack([encode(params, *i) for i in inputs])
    close = embeddings @ embeddings.T
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        print(f"{close[a, b]:.2f}  {SENTENCES[a]} | {SENTENCES[b]}")
    for chip in ["tpu-v5e", "tpu-v6e"]:
        report = systole.run(encode, params, *inputs[0], chip=chip, timing_only=True)
        print(report)
        print("  matrix units useful for", f"{report.utilisation('mxu'):.1%}", "of the cycles")


main()
