"""A JupyterLab of its own: temporary folders, no news, no updates, stopped at the end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_SECONDS = 60.0
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/apputils-extension/themes": {"theme": "JupyterLab Light"},
}


@contextmanager
def running_lab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab that serves ``folder / "notebooks"``."""
    port = _free_port()
    log = (folder / "lab.log").open("w")
    server = subprocess.Popen(_command(folder, port), env=environment(folder), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/api/status", server, folder)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(15)
        log.close()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _command(folder: Path, port: int) -> list[str]:
    options = {
        "ServerApp.ip": "127.0.0.1", "ServerApp.port": port, "ServerApp.port_retries": 0, "IdentityProvider.token": "",
        "ServerApp.open_browser": False, "ServerApp.root_dir": folder / "notebooks",
        "LabApp.expose_app_in_browser": True, "LabApp.extension_manager": "readonly",
        "LabApp.user_settings_dir": folder / "settings", "LabApp.workspaces_dir": folder / "workspaces",
    }  # fmt: skip
    return [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        *(f"--{k}={v}" for k, v in options.items()),
    ]


def environment(folder: Path) -> dict[str, str]:
    """Variables that keep Jupyter in temporary folders, and quiet."""
    for name, value in SETTINGS.items():
        path = folder / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    config = folder / "config" / "labconfig" / "page_config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"buildCheck": False, "buildAvailable": False}))
    (folder / "notebooks").mkdir(exist_ok=True)
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "run",
        "IPYTHONDIR": "ipython",
    }
    quiet = {"CCANALYTICS_CACHE": "0", "JUPYTER_PLATFORM_DIRS": "0"}
    return {**os.environ, **quiet, **{k: str(folder / v) for k, v in places.items()}}


def _wait_for(url: str, server: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{(folder / 'lab.log').read_text()[-3000:]}")


def write_notebook(path: Path, cells: list[str]) -> Path:
    """A notebook of code cells, none of them run."""
    made: list[dict[str, object]] = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for i, source in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}))
    return path
