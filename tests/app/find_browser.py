"""Finds a browser that runs without a window, and opens pages in it, for tests that look at them."""

import glob
import os
import shutil
import signal
import subprocess
import tempfile

NAMES = ["chromium", "google-chrome", "google-chrome-stable", "chromium-browser"]
# Where `playwright install chromium` puts its browsers.
PLAYWRIGHT = ["chromium-*/chrome-linux*/chrome",
              "chromium_headless_shell-*/chrome-*/headless_shell",
              "chromium_headless_shell-*/chrome-*/chrome-headless-shell"]
SKIPPED = 77  # the exit code by which CTest reports a test as skipped


def list_candidates():
    given = os.environ.get("TRIB_BROWSER")
    if given:
        return [given]
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH",
                            os.path.expanduser("~/.cache/ms-playwright"))
    fetched = [path for pattern in PLAYWRIGHT
               for path in sorted(glob.glob(os.path.join(folder, pattern)), reverse=True)]
    return [path for path in map(shutil.which, NAMES) if path] + fetched


def why_it_does_not_run(program):
    """Returns why it does not run, None when it does. Ubuntu's chromium-browser is a stub for a snap."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as failure:
        return str(failure)
    if done.returncode == 0:
        return None
    lines = (done.stderr + done.stdout).strip().splitlines()
    return lines[0] if lines else f"exit code {done.returncode}"


def find_browser():
    """Returns the first browser that runs.

    Ends the process with SKIPPED where TRIB_SKIP_BROWSER=1; else a machine without one fails, so
    that nobody takes a page for tested that was not.
    """
    if os.environ.get("TRIB_SKIP_BROWSER") == "1":
        print("SKIPPED: TRIB_SKIP_BROWSER=1, the page was not opened in a browser")
        raise SystemExit(SKIPPED)
    tried = []
    for program in list_candidates():
        reason = why_it_does_not_run(program)
        if reason is None:
            return program
        tried.append(f"{program} does not run: {reason}")
    raise SystemExit(
        "no browser runs here" + "".join(f"; {each}" for each in tried) +
        ". Install one: `apt-get install chromium` on Debian; on Ubuntu, where that is a snap, "
        "Google Chrome's .deb or `pip install playwright && playwright install --with-deps "
        "chromium`; or name one in TRIB_BROWSER; or set TRIB_SKIP_BROWSER=1 to leave the test out")


def run_browser(command):
    """Runs the browser in a process group of its own; None when it hangs."""
    browser = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        output, errors = browser.communicate(timeout=90)
        return browser.returncode, output, errors
    except subprocess.TimeoutExpired:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.communicate()
        return None


def open_in_browser(browser, page, *options):
    """Returns what the browser prints; its console must stay empty."""
    for attempt in range(3):  # on an overloaded machine Chromium hangs now and then while starting
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            done = run_browser(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                 "--v=0", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 f"--user-data-dir={profile}", *options, page.resolve().as_uri()])
        if done:
            break
        print(f"the browser did not answer, attempt {attempt + 1}")
    assert done, "the browser hung three times"
    code, output, errors = done
    console = [line for line in errors.splitlines() if ":CONSOLE" in line]
    assert not console, f"the console of the browser is not empty: {console}"
    assert code == 0, errors
    return output
