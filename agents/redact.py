"""Keeps secrets out of all that is recorded: keys of the environment and anything key-like."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

MASK = "[redacted]"

SECRET_NAME = re.compile(
    r"(API_?KEY|ACCESS_?KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL|_TOKEN$|^TOKEN$|AUTH_TOKEN)",
    re.IGNORECASE,
)
"""Environment variables whose values are secrets."""
MODEL_KEY_NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CODA_API_KEY")
"""Variables that hold a model's key: masked from 4 characters on, other secrets from 8."""
PLACEHOLDERS = frozenset({"empty", "none", "null", "dummy", "not-needed", "lm-studio", "ollama"})
"""Values that stand for 'no key' with local servers; masking them would only blank out words."""

KEY_LIKE = re.compile(
    r"""
    \b(?:sk|pk|rk|gsk|hf|xai|lsv2|ghp|gho|glpat|tgp|csk)[-_][A-Za-z0-9_*.\-]{8,}   # vendor prefixes
    | \bAIza[A-Za-z0-9_\-]{20,}
    | \bAKIA[A-Z0-9]{12,}
    | \beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]+  # JSON web token
    """,
    re.VERBOSE,
)
HEADER = re.compile(
    r"(?i)(\bbearer\s+|\b(?:x-)?api[-_ ]?key[\"']?\s*[:=]\s*[\"']?|\bauthorization[\"']?\s*[:=]\s*"
    r"[\"']?(?:basic\s+)?)([A-Za-z0-9_\-+/=.~]{8,})"
)
USER_INFO = re.compile(r"(?i)(\b[a-z][a-z0-9+.\-]*://)[^\s/@:]+(?::[^\s/@]*)?@")


def environment_secrets(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Values of the environment that must never be recorded."""
    found: set[str] = set()
    for name, value in (os.environ if environ is None else environ).items():
        secret = value.strip()
        least = 4 if name in MODEL_KEY_NAMES else 8
        if (
            SECRET_NAME.search(name)
            and len(secret) >= least
            and secret.lower() not in PLACEHOLDERS
            and not secret.isspace()
            and not os.path.isabs(secret)
        ):
            found.add(secret)
    return frozenset(found)


class Redactor:
    """Masks known secrets, their URL- and JSON-escaped forms, and strings that look like keys."""

    def __init__(self, secrets: Iterable[str] | None = None) -> None:
        """`secrets`: exact values; None reads the environment anew at every call."""
        self._fixed = None if secrets is None else frozenset(secrets)

    def text(self, text: str) -> str:
        """`text` without secrets."""
        for secret in self._forms():
            text = text.replace(secret, MASK)
        text = HEADER.sub(lambda found: found.group(1) + MASK, text)
        text = USER_INFO.sub(lambda found: f"{found.group(1)}{MASK}@", text)
        return KEY_LIKE.sub(MASK, text)

    def value(self, value: Any) -> Any:
        """A copy of JSON-like data without secrets, in dictionary keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def _forms(self) -> list[str]:
        secrets = environment_secrets() if self._fixed is None else self._fixed
        forms = {
            form
            for secret in secrets
            if secret
            for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1])
        }
        return sorted(forms, key=lambda form: (-len(form), form))
