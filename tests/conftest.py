"""What holds for every test: no real home folder, no cache, hypothesis without a clock."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "ccanalytics",
    deadline=None,
    max_examples=60,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
)
hypothesis.settings.load_profile("ccanalytics")

_ELSEWHERE = {
    "CLAUDE_CONFIG_DIR": ".claude",
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "CCANALYTICS_CACHE_DIR": ".cache/ccanalytics",
}


@pytest.fixture(scope="session", autouse=True)
def _strange_home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    """Fixtures wider than one test must not see the real home either."""
    real = Path.home()
    # Browsers and fonts are looked up below the real home; neither is a transcript.
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(real / ".cache" / "ms-playwright"))
    os.environ.setdefault("MPLCONFIGDIR", str(_shared_folder(request.config, "matplotlib")))
    os.environ.update(_environment(tmp_path_factory.mktemp("home")))
    os.environ.pop("CCANALYTICS_RULES", None)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder of the test's own; ``CLAUDE_CONFIG_DIR`` is the ``.claude`` in it (not made yet)."""
    own = tmp_path_factory.mktemp("home")
    for name, value in _environment(own).items():
        monkeypatch.setenv(name, value)
    return own


def _environment(home: Path) -> dict[str, str]:
    moved = {name: str(home / below) for name, below in _ELSEWHERE.items()}
    return {"HOME": str(home), "USERPROFILE": str(home), "CCANALYTICS_CACHE": "0", **moved}


def _shared_folder(config: pytest.Config, name: str) -> Path:
    return Path(config.rootpath, ".pytest_cache", "d", name)
