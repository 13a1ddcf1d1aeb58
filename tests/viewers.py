#!/usr/bin/env python3
"""Reads exported traces with the viewers' own decoders.

    pip install xprof perfetto
    python tests/viewers.py SYSTOLE PROFILE.sysp [...]

Every profile is exported in all formats. XProf must fill its pages, Perfetto's messages must decode, and every format must
give the totals of `systole profile --json`. A decoder that is not installed is passed over with a word.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

XPROF_PAGES = ["overview_page", "op_profile", "hlo_stats", "roofline_model", "memory_viewer", "trace_viewer"]


def systole(binary, *args):
    subprocess.run([binary, *map(str, args)], check=True)


def close(what, found, want, within):
    if abs(found - want) > within:
        raise SystemExit(f"{what}: {found}, not {want}")


def cycles_by_op(data):
    ops = collections.Counter()
    for device in data["devices"]:
        for op in device["ops"]:
            if op["name"] != "(none)":
                ops[op["name"]] += op["cycles"]
        for unit in device["units"]:
            spent = unit["busy"] + unit["idle"] + sum(unit["stall"].values())
            close(f"cycles of {unit['unit']}", spent, device["cycles"], 0)
            assert unit["useful"] <= unit["busy"] <= device["cycles"], unit
        close("sum of operations", sum(o["cycles"] for o in device["ops"]), device["cycles"], 0)
    return ops


def check_chrome(path, want):
    trace = json.loads(path.read_text())
    found, names = collections.Counter(), {}
    for e in trace["traceEvents"]:
        if e["ph"] == "M" and e["name"] == "thread_name":
            names[e["pid"], e["tid"]] = e["args"]["name"]
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and names[e["pid"], e["tid"]].split()[-1] == "op":
            found[e["name"]] += e["args"]["cycles"]
    for name, cycles in want.items():
        close(f"chrome {name}", found[name], cycles, 0)
    kinds = collections.Counter(e["ph"] for e in trace["traceEvents"])
    assert kinds["s"] == kinds["f"] and kinds["C"] > 0, kinds
    return dict(kinds)


def check_perfetto(path, want):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    tracks, names, found = {}, {}, collections.Counter()
    kinds, flows, open_slices = collections.Counter(), [set(), set()], collections.Counter()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for n in packet.interned_data.event_names:
            names[n.iid] = n.name
        if packet.HasField("track_event"):
            e = packet.track_event
            kinds[e.type] += 1
            assert e.track_uuid in tracks, "an event on an unknown track"
            flows[0].update(e.flow_ids)
            flows[1].update(e.terminating_flow_ids)
            open_slices[e.track_uuid] += {1: 1, 2: -1}.get(e.type, 0)
            if e.type == 1 and tracks[e.track_uuid].name.split()[-1] == "op":
                found[names[e.name_iid]] += next(a.uint_value for a in e.debug_annotations if a.name == "cycles")
    assert kinds[1] == kinds[2] and not any(open_slices.values()), kinds
    assert flows[1] <= flows[0], "a flow ends that never began"
    for name, cycles in want.items():
        close(f"perfetto {name}", found[name], cycles, 0)
    return {"tracks": len(tracks), "slices": kinds[1], "counters": kinds[4], "flows": len(flows[1])}


def check_xprof(path, data, want):
    from xprof.convert import raw_to_tool_data as convert

    sizes = {}
    # Lists the pages, and unpacks the program's message beside the trace.
    convert.xspace_to_tool_names([str(path)])
    for page in XPROF_PAGES:
        options = {"host": "systole", "module_name": f"{data['module']}(1)", "memory_space": "0"}
        result, _ = convert.xspace_to_tool_data([str(path)], page, options)
        text = result.decode() if isinstance(result, bytes) else result
        assert text and len(text) > 100, f"{page} is empty: {text!r}"
        sizes[page] = len(text)
        if page == "hlo_stats":
            check_hlo_stats(json.loads(text), data, want)
        if page == "op_profile":
            check_op_profile(json.loads(text))
        if page == "memory_viewer":
            viewer = json.loads(text)
            assert viewer.get("maxHeap") or viewer.get("max_heap"), text[:300]
    return sizes


def check_hlo_stats(table, data, want):
    columns = [c["id"] for c in table["cols"]]
    name, self_time = columns.index("hlo_op_name"), columns.index("total_self_time")
    rows = [[c.get("v") if c else None for c in r["c"]] for r in table["rows"]]
    assert rows, "hlo_stats has no rows"
    found = collections.Counter()
    for r in rows:
        found[r[name]] += float(r[self_time])
    per_cycle = 1e6 / data["clock_hz"]
    for op, cycles in want.items():
        close(f"xprof {op} (us)", found[op], cycles * per_cycle, 0.01 + 1e-3 * cycles * per_cycle)


def check_op_profile(profile):
    node = profile.get("byProgram") or profile.get("byCategory")
    assert node and node["children"], "op_profile has no tree"


def main(binary, profiles):
    for profile in profiles:
        data = json.loads(subprocess.run([binary, "profile", profile, "--json"], check=True, capture_output=True).stdout)
        want = cycles_by_op(data)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            print(profile)
            for kind, file in [("chrome", "t.json"), ("perfetto", "t.pftrace"), ("xplane", "systole.xplane.pb")]:
                systole(binary, "trace", profile, "--format", kind, "-o", folder / file)
                try:
                    found = {"chrome": lambda p: check_chrome(p, want), "perfetto": lambda p: check_perfetto(p, want),
                             "xplane": lambda p: check_xprof(p, data, want)}[kind](folder / file)
                except ImportError as e:
                    print(f"  {kind}: not checked ({e})")
                    continue
                print(f"  {kind}: {found}")
            systole(binary, "report", profile, "-o", folder / "r.html")
            page = (folder / "r.html").read_text()
            assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "the page names an address"
            print(f"  html: {len(page)} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2:])
