#!/usr/bin/env python3
"""Uses the dashboard in a real terminal (tmux): keys, resizing, live runs, faults; the terminal must be given back.

    python tests/terminal.py SYSTOLE PROFILE.sysp MODULE.hlo [FOLDER for captured screens]
"""
import pathlib
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


def given_back():
    """The shell answers, echoes, and the other screen is gone."""
    shell("stty -a | grep -o ' echo ' | wc -l; echo back")
    text = wait(lambda t: "\nback" in t)
    assert "\n1\nback" in text, f"the terminal does not echo:\n{text}"
    assert tmux("display-message", "-p", "-t", "main", "#{alternate_on} #{mouse_any_flag}").strip() == "0 0"
    shell("clear")


def main(systole, profile, module, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tmux("-f", "/dev/null", "new-session", "-d", "-s", "main", "-x", "120", "-y", "40", f"env PS1='{PROMPT} ' sh")
    try:
        wait(PROMPT)
        shell(f"{systole} top {profile}")
        (folder / "overview.txt").write_text(wait("bound by"))
        for key, word in [("2", "cycle"), ("3", "operations 1/"), ("4", "roofline"), ("5", "arrays at cycle"),
                          ("6", "share of the time"), ("7", "links"), ("8", "instructions"), ("9", "parameters")]:
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
        tmux("resize-window", "-t", "main", "-x", "160", "-y", "50")
        wait("recorded")
        keys("9", ":")
        keys("-l", "set hbm.bandwidth=200GB/s")
        keys("Enter")
        wait("runs again with it")
        keys("r")
        (folder / "what-if.txt").write_text(wait("before "))
        keys("q")
        wait(PROMPT)
        given_back()

        shell(f"{systole} top {module} --timing-only --paused")
        wait("paused")
        keys(".")
        keys(".")
        keys(";")
        (folder / "live.txt").write_text(wait("paused"))
        keys("p")
        wait("done")
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
    finally:
        subprocess.run(["tmux", "-L", SESSION, "kill-server"], check=False)
    print("the dashboard works in a terminal")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:4], pathlib.Path(sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp()))
