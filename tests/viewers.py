#!/usr/bin/env python3
"""Reads exported traces with the viewers' own decoders.

    pip install xprof perfetto
    python tests/viewers.py SYSTOLE PROFILE.sysp [...] [--pictures FOLDER]

Every profile is exported in all formats. XProf must fill its pages, Perfetto's messages must decode, the page must open in
headless Chromium at the widths of a phone and a desktop without an error and without a request, and every format must give
the totals of `systole profile --json`. What is not installed is passed over with a word. `--pictures` keeps the screenshots.
"""
import collections
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

XPROF_PAGES = [
    "overview_page", "op_profile", "hlo_stats", "roofline_model", "framework_op_stats", "memory_viewer", "memory_profile",
    "trace_viewer", "trace_viewer@", "graph_viewer",
]
# Widths of a phone and a desktop.
WIDTHS = [390, 1280]


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
        module = f"{data['setup']['module']}(1)"
        graph = {"type": "long_txt", "module_name": module, "node_name": next(iter(want)), "graph_width": 1,
                 "show_metadata": True, "merge_fusion": False, "format": "html"}
        options = {"host": "systole", "module_name": module, "memory_space": "0", "graph_viewer_options": graph}
        if page == "graph_viewer":
            options |= graph
        result, _ = convert.xspace_to_tool_data([str(path)], page, options)
        text = result.decode() if isinstance(result, bytes) else result
        assert text and len(text) > 100, f"{page} is empty: {text!r}"
        sizes[page] = len(text)
        check = globals().get(f"check_{page}")
        if check:
            check(text, data, want)
    return sizes


def check_overview_page(text, data, want):
    facts = {}
    for table in json.loads(text):
        facts |= table.get("p", {})
    steps = float(facts["steptime_ms_average"])
    close("xprof's time of a step (ms)", steps, 1e3 * data["time_s"], 0.01 + 0.05 * 1e3 * data["time_s"])
    for name in ["mxu_utilization_percent", "hbm_utilization_percent"]:
        share = float(facts[name].rstrip("%"))
        assert 0 <= share <= 100, (name, share)
    assert facts["device_type"] == data["chip"], facts["device_type"]


def check_graph_viewer(text, data, want):
    assert text.startswith("HloModule"), text[:200]
    missing = [name for name in want if f"%{name} = " not in text and f"%{name.split('-')[0]} = " not in text]
    assert not missing, f"XLA's text of the program lacks {missing[:5]}"


def check_memory_viewer(text, data, want):
    viewer = json.loads(text)
    assert viewer.get("maxHeap") or viewer.get("max_heap"), text[:300]


def check_memory_profile(text, data, want):
    per = json.loads(text)["memoryProfilePerAllocator"]
    for m in data["memories"]:
        peak = int(per[m["memory"]]["profileSummary"]["peakStats"]["peakBytesInUse"])
        close(f"xprof's peak of {m['memory']}", peak, m["peak_bytes"], 0)


def check_hlo_stats(text, data, want):
    table = json.loads(text)
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


def check_op_profile(text, data, want):
    profile = json.loads(text)
    node = profile.get("byProgram") or profile.get("byCategory")
    assert node and node["children"], "op_profile has no tree"


def browser():
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


def pixels(path):
    """Width and height of a PNG, and how many different bytes its rows have: few in an empty picture."""
    png = path.read_bytes()
    assert png.startswith(b"\x89PNG"), path
    at, body, size = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        chunk = png[at + 8 : at + 8 + length]
        size = struct.unpack(">II", chunk[:8]) if kind == b"IHDR" else size
        body += chunk if kind == b"IDAT" else b""
        at += 12 + length
    return size, len(set(zlib.decompress(body)))


def check_page(page, pictures):
    """The page in a browser that may not reach anything: no error on its console, nothing wider than the screen."""
    text = page.read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "the page names an address"
    chromium = browser()
    if not chromium:
        print("  html: not opened (no chromium)")
        return len(text)
    probe = page.with_suffix(".probe.html")
    # Errors and the widths that were laid out are written where the dumped page shows them.
    head = """<script>window.wrong=[];addEventListener('error',e=>wrong.push(String(e.message)));
    addEventListener('load',()=>{document.title='probe '+JSON.stringify({wrong,wide:document.documentElement.scrollWidth,
    view:innerWidth,cut:[...document.querySelectorAll('.whole svg')].map(s=>s.getBoundingClientRect().right>innerWidth+1),
    svg:document.querySelectorAll('svg').length,rows:document.querySelectorAll('tr').length})})</script>"""
    probe.write_text(text.replace("<head>", "<head>" + head, 1))
    flags = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={page.parent / 'browser'}"]
    for width in WIDTHS:
        size = f"--window-size={width},1600"
        done = subprocess.run([*flags, size, "--dump-dom", probe.as_uri()], capture_output=True, text=True, timeout=120)
        found = re.search(r"<title>probe (.*?)</title>", done.stdout)
        assert found, f"the page did not load: {done.stderr[-500:]}"
        seen = json.loads(found[1].replace("&quot;", '"').replace("&amp;", "&"))
        assert not seen["wrong"], f"errors in the page: {seen['wrong']}"
        assert seen["wide"] <= max(seen["view"], width) + 1, f"the page is {seen['wide']} wide on a screen of {width}"
        # Bars that stand for the whole run say something else where their end is out of sight.
        assert len(seen["cut"]) >= 3 and not any(seen["cut"]), f"pictures cut off on a screen of {width}: {seen['cut']}"
        assert seen["svg"] >= 5 and seen["rows"] >= 10, seen
        picture = pictures / f"{page.stem}-{width}.png"
        subprocess.run([*flags, size, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=120)
        shown, colours = pixels(picture)
        assert shown[0] == width and colours > 50, f"an empty picture: {shown}, {colours}"
    return len(text)


def main(binary, profiles, pictures):
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
            page = folder / f"{pathlib.Path(profile).stem}.html"
            systole(binary, "report", profile, "-o", page)
            print(f"  html: {check_page(page, pictures or folder)} bytes")
    print(f"{len(profiles)} passed, 0 failed")


if __name__ == "__main__":
    arguments, kept = sys.argv[1:], None
    if "--pictures" in arguments:
        at = arguments.index("--pictures")
        kept = pathlib.Path(arguments[at + 1])
        kept.mkdir(parents=True, exist_ok=True)
        del arguments[at : at + 2]
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    main(arguments[0], arguments[1:], kept)
