"""Shapes of secrets in text, and how they are masked wherever text is shown."""

from __future__ import annotations

import re

_SHAPES: tuple[tuple[str, str], ...] = (
    ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("AWS key", r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[0-9A-Z]{12,}\b"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,})\b"),
    ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{16,}\b"),
    ("API key", r"\bsk-(?:ant-|proj-|live-|test-)?[A-Za-z0-9_-]{16,}\b"),
    ("Stripe key", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{10,}\b"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}\b"),
    ("Google key", r"\bAIza[0-9A-Za-z_-]{30,}\b"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{30,}\b"),
    ("JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("authorization", r"(?i)\bauthorization\b[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?[^\s\"',;]{6,}"),
    ("bearer", r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{12,}=*"),
    (
        "assignment",
        r"(?i)\b[A-Z0-9_.-]*(?:api[_-]?key|secret|passwd|password|access[_-]?token|auth[_-]?token|private[_-]?key)"
        r"[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{6,}",
    ),
    ("URL password", r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]{3,}@"),
)
_PATTERN = re.compile("|".join(f"(?i:{s[4:]})" if s.startswith("(?i)") else f"(?:{s})" for _, s in _SHAPES))
MASK = "[secret]"


def mask_secrets(text: str) -> str:
    """``text`` with everything that has the shape of a secret replaced by ``[secret]``."""
    return _PATTERN.sub(MASK, text)


def has_secret(text: str) -> bool:
    """Whether anything in ``text`` has the shape of a secret."""
    return _PATTERN.search(text) is not None
