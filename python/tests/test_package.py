"""The package: reports, collection, callbacks, donation, modes, serialisation, errors."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import systole

pytestmark = pytest.mark.skipif(jax.default_backend() != "systole", reason="needs JAX_PLATFORMS=systole,cpu")
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("a", [X.T, X[::-1], X[:, ::2], np.asfortranarray(X), np.broadcast_to(X[0], (3, 4)), X[:0]])
def test_arrays_of_any_strides_arrive(a):
    np.testing.assert_array_equal(np.asarray(jax.device_put(a)), a)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "int16", "uint32", "float16", "bfloat16", "float8_e4m3fn", "complex64"])
def test_element_types_arrive(dtype):
    a = np.array([0, 1, 2, 3]).astype(jnp.dtype(dtype))
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v[::-1])(a)), a[::-1])


def test_a_donated_array_is_gone():
    a = jax.device_put(X)
    jax.jit(lambda v: v + 1, donate_argnums=0)(a).block_until_ready()
    assert a.is_deleted()
    with pytest.raises(Exception, match="deleted"):
        jax.jit(lambda v: v + 1)(a)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_arrays_live_in_memories_of_the_host(kind):
    device = jax.devices()[0]
    assert device.default_memory().kind == "device"
    assert [m.kind for m in device.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
    host, hbm = (jax.sharding.SingleDeviceSharding(device, memory_kind=k) for k in (kind, "device"))
    before = device.memory_stats()["bytes_in_use"]
    a = jax.device_put(X, host)
    assert a.sharding.memory_kind == kind and device.memory_stats()["bytes_in_use"] == before
    f = jax.jit(lambda v: jax.device_put(v, hbm) * 2, out_shardings=host)
    out = f(a)
    assert out.sharding.memory_kind == kind
    assert jax.device_put(out, hbm).sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(out), 2 * X)


def test_runs_are_collected_with_their_cycles():
    f = jax.jit(lambda a: jnp.tanh(a) @ a.T)
    f(X)
    with systole.collect(profile=True) as runs:
        f(X)
        f(X)
    assert len(runs) == 2 and runs[0].cycles == runs[1].cycles > 0
    report = runs[0]
    assert sum(o["cycles"] for o in report.ops) == report.cycles
    report.assert_cycles(at_most=report.cycles)
    with pytest.raises(AssertionError, match="longest"):
        report.assert_cycles(at_most=report.cycles - 1)
    assert b"<html" in report.profile.export("html").lower() and "<table>" in report._repr_html_()


def test_run_needs_no_device_of_jax():
    report = systole.run(lambda a, b: {"sum": a + b}, X, X, chip="tpu-v6e", set={"hbm.latency": "2us"})
    np.testing.assert_array_equal(report.outputs["sum"], 2 * X)
    faster = systole.run(lambda a, b: a + b, X, X, chip="tpu-v6e", timing_only=True)
    assert faster.outputs is None and faster.cycles < report.cycles
    with pytest.raises(systole.SystoleError, match="tpu-v99"):
        systole.run(jnp.sin, X, chip="tpu-v99")


def test_compiler_options_say_how_one_function_is_compiled():
    a = jnp.asarray(np.random.default_rng(0).normal(size=(64, 64)), jnp.float32)
    exact = np.asarray(a, np.float64) @ np.asarray(a, np.float64)
    error = {}
    for precision in ["default", "highest"]:
        # Whatever the process asks for: only the option counts here.
        plain = jax.lax.Precision.DEFAULT
        product = jax.jit(lambda x: jnp.matmul(x, x, precision=plain), compiler_options={"systole_precision": precision})
        error[precision] = np.abs(np.asarray(product(a)) - exact).max()
        report = systole.run(lambda x: jnp.matmul(x, x, precision=plain), a, compiler_options={"systole_precision": precision})
        assert np.array_equal(np.asarray(report.outputs), np.asarray(product(a)))
    assert error["highest"] < 1e-4 < error["default"], error
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option: 'precision'.*\n  systole_precision: .*highest"):
        jax.jit(lambda x: x + 1, compiler_options={"precision": "highest"})(a)
    with pytest.raises(jax.errors.JaxRuntimeError, match="systole_cores=9: a device of .* has 1 core"):
        jax.jit(lambda x: x + 1).lower(a).compile(compiler_options={"systole_cores": 9})


def test_callbacks_run_and_their_errors_arrive():
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    f = jax.jit(lambda v: jax.pure_callback(lambda a: np.sin(np.asarray(a)), shape, v))
    np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)

    def fails(_):
        raise ValueError("no luck")

    with pytest.raises(Exception, match="no luck"):
        jax.jit(lambda v: jax.pure_callback(fails, shape, v))(X).block_until_ready()


def test_debug_print(capfd):
    jax.jit(lambda v: jax.debug.print("sum {}", v.sum()))(X)
    jax.effects_barrier()
    assert "sum 66.0" in capfd.readouterr().out


def test_ordered_effects_come_in_order(capfd):
    @jax.jit
    def f(n):
        def body(i, s):
            jax.debug.print("turn {}", i, ordered=True)
            return s + i

        jax.debug.print("begin", ordered=True)
        return lax.fori_loop(0, n, body, 0)

    seen = []

    @jax.jit
    def g(v):
        first = io_callback(lambda a: seen.append(float(a)) or np.float32(len(seen)), jax.ShapeDtypeStruct((), v.dtype), v[0], ordered=True)
        io_callback(lambda a: seen.append(float(a)), None, first + v[1], ordered=True)
        return first

    assert int(f(3)) == 3 and int(f(2)) == 1
    assert float(g(X[1])) == 1.0
    jax.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:-1] == ["begin", "turn 0", "turn 1", "turn 2", "begin", "turn 0", "turn 1"]
    assert seen == [4.0, 6.0]


def test_the_text_of_a_program_has_plan_and_assembly():
    text = jax.jit(lambda a: jnp.tanh(a) @ a.T).lower(X).compile().as_text()
    for part in ["HloModule", "// plan", "// assembly", ".program", "kernel"]:
        assert part in text, part


LIVE = """
import jax, numpy as np
from jax._src import xla_bridge
from systole import _plugin
if "systole" not in xla_bridge._backend_factories:
    _plugin.initialize()
def first(a): return a + 1
def second(a): return a * 2
for _ in range(3):
    jax.jit(first)(np.zeros(3, np.float32)).block_until_ready()
    jax.jit(second)(np.zeros(3, np.float32)).block_until_ready()
"""


def test_runs_are_shown_in_the_live_folder(tmp_path):
    subprocess.run([sys.executable, "-c", LIVE], check=True, timeout=100, env={**os.environ, "SYSTOLE_LIVE": str(tmp_path)})
    names = sorted(p.name.rsplit("-", 1)[0] for p in tmp_path.glob("*.sysp"))
    assert names == ["jit_first", "jit_second"]


CACHED = """
import jax, numpy as np, sys
from jax._src import xla_bridge
from jax.experimental.serialize_executable import deserialize_and_load, serialize
import pickle
from systole import _plugin
if "systole" not in xla_bridge._backend_factories:
    _plugin.initialize()
path, x = sys.argv[1], np.arange(6, dtype=np.float32)
if sys.argv[2] == "write":
    pickle.dump(serialize(jax.jit(lambda a: a * a).lower(x).compile()), open(path, "wb"))
else:
    f = deserialize_and_load(*pickle.load(open(path, "rb")))
    np.testing.assert_array_equal(np.asarray(f(x)), x * x)
    assert "// assembly" in f.as_text()
"""


def test_serialised_programs_run_in_another_process(tmp_path):
    for step in ["write", "read"]:
        subprocess.run([sys.executable, "-c", CACHED, str(tmp_path / "f"), step], check=True, timeout=100)


def test_costs_and_sizes():
    compiled = jax.jit(lambda a: a @ a.T).lower(X).compile()
    cost = compiled.cost_analysis()
    assert cost["flops"] == 2 * 3 * 3 * 4 and cost["cycles"] > 0 and cost["seconds"] > 0 and cost["joules"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes > 0 and "dot" in compiled.as_text()


def test_zeros_of_timing_only_runs_are_no_answers():
    with pytest.warns(UserWarning, match="timing only"):
        systole.configure(timing_only=True)
    try:
        y = jax.jit(lambda a: a + 1)(X)
        with pytest.raises(Exception, match="mean nothing"):
            np.asarray(y)
        systole.configure(allow_zeros=True)
        assert not np.asarray(jax.jit(lambda a: a + 1)(X)).any()
    finally:
        systole.configure(timing_only=False, allow_zeros=False)


def test_what_does_not_fit_is_an_error_with_its_line():
    with pytest.raises(Exception, match=r"(?s)RESOURCE_EXHAUSTED.*HBM.*-->.*reduce_window.*test_package.py:\d+"):
        jax.jit(lambda: jnp.ones((1 << 17, 1 << 17)).T.cumsum(0)[0])().block_until_ready()
    assert float(jax.jit(lambda a: a.sum())(X)) == 66.0


FULL = """
import jax, numpy as np
from jax._src import xla_bridge
from systole import _plugin
if "systole" not in xla_bridge._backend_factories:
    _plugin.initialize()
x = jax.device_put(np.zeros((4 << 20,), np.float32), jax.devices("systole")[0])
kept = []
for make in (lambda: jax.jit(lambda a: a + 1)(x), lambda: jax.device_put(np.zeros((4 << 20,), np.float32), x.device)):
    try:
        while True:
            kept.append(make().block_until_ready())
            assert len(kept) < 9
    except jax.errors.JaxRuntimeError as e:
        assert "RESOURCE_EXHAUSTED: HBM" in str(e), e
# Given away, or gone: there is room again.
again = jax.jit(lambda a: a * 2, donate_argnums=0)
y = kept.pop()
for _ in range(9):
    y = again(y)
y.block_until_ready()
del kept, y
assert float(jax.jit(lambda a: a + 1)(x)[5]) == 1
"""


def test_arrays_beyond_the_devices_memory_are_an_error():
    where = {**os.environ, "SYSTOLE_SET": "hbm.bytes=64MiB", "SYSTOLE_TOPOLOGY": ""}
    subprocess.run([sys.executable, "-c", FULL], check=True, timeout=100, env=where)


def test_threads_and_many_calls():
    f = jax.jit(lambda a: a + 1)
    ends = []

    def work():
        a = jnp.zeros(4)
        for _ in range(200):
            a = f(a)
        ends.append(float(a[0]))

    threads = [threading.Thread(target=work) for _ in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert ends == [200.0, 200.0]


def test_a_trace_for_xprof_is_written(tmp_path):
    f = jax.jit(lambda a: jnp.tanh(a @ a.T))
    with jax.profiler.trace(tmp_path):
        f(X).block_until_ready()
    traces = list(tmp_path.rglob("*.xplane.pb"))
    assert traces and any(b"/device:TPU:0" in t.read_bytes() for t in traces)


FORK = """
import os, jax, numpy as np
from jax._src import xla_bridge
from systole import _plugin
if "systole" not in xla_bridge._backend_factories:
    _plugin.initialize()
f = jax.jit(lambda a: a + 1)
f(np.zeros(3, np.float32)).block_until_ready()
child = os.fork()
if child == 0:
    # Nothing new is compiled here: the threads on which JAX itself does that are not in the child.
    os._exit(0 if np.asarray(f(np.zeros(3, np.float32))).sum() == 3.0 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_the_child_of_a_fork_runs_what_was_compiled():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=100)
