#!/usr/bin/env python3
"""Uses the dashboard in a real terminal (tmux): keys, resizing, live runs, faults, signals; the terminal must be given back.

    python tests/terminal.py SYSTOLE PROFILE.sysp MODULE.hlo [FOLDER for captured screens]

Without tmux it says so and is passed over.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SESSION = f"systole-dashboard-{int(time.time())}"
PROMPT = "ready$"


def tmux(*args):
    return subprocess.run(["tmux", "-L", SESSION, *args], check=True, capture_output=True, text=True).stdout


def screen():
    return tmux("capture-pane", "-p", "-t", "main")


def wait(what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        text = screen()
        if what(text) if callable(what) else what in text:
            return text
        time.sleep(0.1)
    raise SystemExit(f"not seen: {what!r} in\n{screen()}")


def keys(*names):
    tmux("send-keys", "-t", "main", *names)


def shell(command):
    keys("-l", command)
    keys("Enter")


def go_on():
    """Lets a paused run go on to its end. A key that comes while a step is under way pauses the run behind the step: then again."""
    for _ in range(4):
        keys("p")
        wait(lambda text: "done" in text or " paused " in text, 5)
        time.sleep(1)
        if "done" in screen():
            return
    wait("done")


def given_back():
    """The shell answers, echoes, and the other screen is gone."""
    shell("stty -a | grep -o ' echo ' | wc -l; echo back")
    text = wait(lambda t: "\nback" in t)
    assert "\n1\nback" in text, f"the terminal does not echo:\n{text}"
    assert tmux("display-message", "-p", "-t", "main", "#{alternate_on} #{mouse_any_flag}").strip() == "0 0"
    shell("clear")


def main(systole, profile, module, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tmux("-f", "/dev/null", "new-session", "-d", "-s", "main", "-x", "120", "-y", "40", f"env PS1='{PROMPT} ' bash --norc --noprofile")
    try:
        wait(PROMPT)
        shell(f"{systole} top {profile}")
        (folder / "overview.txt").write_text(wait("bound by"))
        for key, word in [("2", "cycle"), ("3", "operations 1/"), ("4", "roofline"), ("5", "arrays at cycle"),
                          ("6", "units wait, by cause"), ("7", "links"), ("8", "instructions"), ("9", "parameters")]:
            keys(key)
            (folder / f"view{key}.txt").write_text(wait(word))
        keys("3", "?")
        wait("keys: operations")
        keys("Escape", "2", "n", "+", "+")
        wait("shown")
        tmux("resize-window", "-t", "main", "-x", "80", "-y", "24")
        (folder / "small.txt").write_text(wait(lambda t: all(len(line) <= 80 for line in t.split("\n")) and "cycle" in t))
        tmux("resize-window", "-t", "main", "-x", "20", "-y", "4")
        wait("too small")
        for width, height in [(1, 1), (5, 3), (20, 5), (24, 6), (30, 8), (300, 100), (2, 60), (200, 2)]:
            tmux("resize-window", "-t", "main", "-x", str(width), "-y", str(height))
            time.sleep(0.1)
        # A storm: many sizes, with keys, faster than frames are drawn.
        for i in range(60):
            tmux("resize-window", "-t", "main", "-x", str(20 + 97 * i % 180), "-y", str(4 + 31 * i % 60))
            keys("123456789n+-"[i % 12])
        tmux("resize-window", "-t", "main", "-x", "160", "-y", "50")
        keys("1")
        wait("bound by")
        keys("9", ":")
        keys("-l", "set hbm.bandwidth=200GB/s")
        keys("Enter")
        wait("runs again with it")
        keys("r")
        (folder / "what-if.txt").write_text(wait("before "))
        keys("q")
        wait(PROMPT)
        given_back()

        # The process is in the foreground before it asks for the terminal and is sent the signal once it has drawn: a job
        # that is started in the background and fetched is stopped by the terminal if it asks in between.
        process = folder / "process"
        for sent in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            shell(f"sh -c 'echo $$ > {process}; exec {systole} top {profile}'; echo code $?")
            wait("bound by")
            os.kill(int(process.read_text()), sent)
            wait("ended by a signal")
            wait("code 1")
            given_back()

        shell(f"{systole} top {module} --timing-only --paused")
        wait("paused")
        keys(".")
        keys(".")
        keys(";")
        (folder / "live.txt").write_text(wait("paused"))
        go_on()
        keys("q")
        wait(PROMPT)
        given_back()

        # The same on four devices: steps go by the device that is shown, and what-ifs run on all of them.
        shell(f"{systole} top {module} --replicas 4 --topology 2x2 --timing-only --all-devices --paused")
        wait("paused")
        keys(".", ".")
        (folder / "live-devices.txt").write_text(wait("of 4 (chip"))
        keys("d", ";")
        wait("device 1 of 4")
        go_on()
        keys("9", ":")
        keys("-l", "set hbm.bandwidth=200GB/s")
        keys("Enter", "r")
        (folder / "what-if-devices.txt").write_text(wait("before "))
        keys("1")
        wait("4 devices")
        keys("q")
        wait(PROMPT)
        given_back()

        shell(f"{systole} top {module} --max-cycles 1000")
        (folder / "fault.txt").write_text(wait("the run failed"))
        keys("q")
        wait(PROMPT)
        shell("echo code $?")
        wait("code ")
        given_back()

        cut = folder / "cut.sysp"
        cut.write_bytes(pathlib.Path(profile).read_bytes()[:1000])
        shell(f"{systole} top {cut}; echo code $?")
        assert "cut short" in wait("code 2")
        given_back()

        # A terminal that goes away takes the dashboard with it.
        shell("echo pid $$")
        pid = re.search(r"pid (\d+)", wait(lambda t: re.search(r"pid \d+\n", t)))[1]
        shell(f"exec {systole} top {profile}")
        wait("bound by")
        tmux("kill-server")
        end = time.time() + 10
        while pathlib.Path(f"/proc/{pid}").exists() and time.time() < end:
            time.sleep(0.1)
        assert not pathlib.Path(f"/proc/{pid}").exists(), "it goes on without a terminal"
    finally:
        subprocess.run(["tmux", "-L", SESSION, "kill-server"], check=False, capture_output=True)
    print("the dashboard works in a terminal: 1 passed, 0 failed")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    if not shutil.which("tmux"):
        raise SystemExit(print("no tmux: skipped"))
    main(*sys.argv[1:4], pathlib.Path(sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp()))
