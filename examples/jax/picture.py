"""Runs report.ipynb and takes a picture of what it shows: ../../docs/notebook.png. Needs nbconvert, ipykernel and Chromium.

    python picture.py
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PICTURE = HERE.parents[1] / "docs" / "notebook.png"


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("picture.py needs chromium")
    with tempfile.TemporaryDirectory() as folder:
        convert = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", folder, "--output", "page"]
        subprocess.run([*convert, str(HERE / "report.ipynb")], check=True)
        page = pathlib.Path(folder, "page.html")
        # The first answer is the picture: what follows it is text.
        cells = re.split(r'(?=<div class="jp-Cell jp-Notebook-cell|<div[^>]*class="jp-Cell )', page.read_text())
        page.write_text("".join(cells[:3]) + "</main></body></html>")
        take = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,1190"]
        subprocess.run([*take, f"--screenshot={PICTURE}", page.as_uri()], check=True, timeout=120)
    print(PICTURE)


main()
