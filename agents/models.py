"""Chat models by name: ``offline``, ``openai:<name>``, ``anthropic:<name>``, or a server's URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import SecretStr

from coda.agents.offline import OFFLINE_LABEL, OfflineChatModel
from coda.sim.errors import CodaError, UnknownName

Provider = Literal["offline", "openai", "anthropic", "other"]

KEY_NAMES: Mapping[str, str] = MappingProxyType(
    {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
)
"""Environment variable of each provider's key."""
URL_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openai": ("OPENAI_API_BASE", "OPENAI_BASE_URL"),
        "anthropic": ("ANTHROPIC_API_URL", "ANTHROPIC_BASE_URL"),
    }
)
HOSTS = frozenset({"api.openai.com", "api.anthropic.com"})
"""The vendors' own servers, whose list prices apply."""
NO_KEY = "not-needed"
"""Sent to a server that asks for no key."""
MAX_OUTPUT_TOKENS = 8192
"""Longest answer of an Anthropic model, whose protocol requires a number."""


class ModelSetupError(CodaError):
    """A chat model cannot be made as asked."""


@dataclass(frozen=True)
class ModelInfo:
    """What may be shown of a model; never a key."""

    label: str
    """``offline (rules)``, ``openai:gpt-5.5``, ``openai:llama@localhost:8080``."""
    provider: Provider
    name: str
    endpoint: str | None
    """Host and port of a server that is not the vendor's own."""
    images: bool
    """False where the model is known to take no images."""


def make_model(
    spec: str,
    *,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    timeout_s: float = 60.0,
    max_output_tokens: int | None = None,
) -> BaseChatModel:
    """Make a chat model; no request is sent.

    Args:
        spec: ``offline``, ``openai:<name>``, ``anthropic:<name>``, or with `base_url` a bare name.
        base_url: An OpenAI-compatible server such as ``http://localhost:8080/v1`` (for
            ``anthropic:`` names one that speaks Anthropic's protocol). A key is optional then.
        temperature: Left out where the model is known not to take one.
        timeout_s: Of one request [s]. Retries are the caller's (`coda.agents.transport`).
        max_output_tokens: Longest answer; None for the provider's default.

    Raises:
        ModelSetupError: Bad spec or URL, or no key in the environment.
        UnknownName: No such provider.
    """
    provider, name = split_spec(spec, base_url)
    if provider == "offline":
        return OfflineChatModel()
    url = checked_url(base_url) if base_url else None
    key = api_key(spec, provider, url)
    if provider == "openai":
        return _openai(name, url, key, temperature, timeout_s, max_output_tokens)
    return _anthropic(name, url, key, temperature, timeout_s, max_output_tokens)


def split_spec(spec: str, base_url: str | None = None) -> tuple[str, str]:
    """(provider, model name) of a spec.

    Raises:
        ModelSetupError: The name is empty.
        UnknownName: No such provider.
    """
    text = spec.strip()
    if text == "offline":
        return "offline", OFFLINE_LABEL
    provider, colon, name = text.partition(":")
    if colon and provider in KEY_NAMES:
        if not name.strip():
            raise ModelSetupError(
                f"model {spec!r} names no model; write {provider}:<name>, or offline."
            )
        return provider, name.strip()
    if base_url and text:  # a local server's own name, which may hold a colon
        return "openai", text
    raise UnknownName(
        "model", spec, ["offline", "openai:<name>", "anthropic:<name>", "<name> with a base URL"]
    )


def checked_url(url: str) -> str:
    """`url` without a trailing slash.

    Raises:
        ModelSetupError: Not an http(s) URL with a host, or it holds a user name or password.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    del port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ModelSetupError(
            f"base URL {_without_user(url)!r} is not an http(s) address; "
            "write for example http://localhost:8080/v1."
        )
    if parts.username or parts.password:
        raise ModelSetupError(
            f"base URL for {parts.hostname!r} holds a user name or password; "
            "put the key into the environment instead (OPENAI_API_KEY)."
        )
    return url.strip().rstrip("/")


def api_key(spec: str, provider: str, base_url: str | None) -> SecretStr:
    """The provider's key from the environment; a placeholder for a server named by URL.

    Raises:
        ModelSetupError: There is none and one is needed.
    """
    variable = KEY_NAMES[provider]
    key = os.environ.get(variable, "").strip()
    if key:
        return SecretStr(key)
    if base_url or any(os.environ.get(name) for name in URL_NAMES[provider]):
        return SecretStr(NO_KEY)
    raise ModelSetupError(
        f"no key for model {spec!r}: the environment variable {variable} is not set. Set it, give "
        "a base URL for a local server, or use `--model offline` (rules, no key needed)."
    )


def model_info(model: BaseChatModel) -> ModelInfo:
    """What may be shown of `model`, whoever made it."""
    if isinstance(model, OfflineChatModel):
        return ModelInfo(OFFLINE_LABEL, "offline", OFFLINE_LABEL, None, images=False)
    kind = model._llm_type
    profile = model.profile or {}
    images = profile.get("image_inputs") is not False
    if kind.startswith("openai"):
        from langchain_openai.chat_models.base import BaseChatOpenAI

        assert isinstance(model, BaseChatOpenAI)
        url = str(model.root_client.base_url) if model.root_client else model.openai_api_base
        return _info("openai", model.model_name, url, images=images)
    if kind.startswith("anthropic"):
        from langchain_anthropic import ChatAnthropic

        assert isinstance(model, ChatAnthropic)
        return _info("anthropic", model.model, model.anthropic_api_url, images=images)
    name = getattr(model, "model_name", None) or getattr(model, "model", None) or kind
    return ModelInfo(str(name), "other", str(name), None, images)


def _info(provider: Provider, name: str, url: str | None, *, images: bool) -> ModelInfo:
    parts = urlsplit(url or "")
    endpoint = None
    if parts.hostname and parts.hostname not in HOSTS:
        endpoint = parts.hostname + (f":{parts.port}" if parts.port else "")
    label = f"{provider}:{name}" + (f"@{endpoint}" if endpoint else "")
    return ModelInfo(label, provider, name, endpoint, images)


def _openai(
    name: str,
    url: str | None,
    key: SecretStr,
    temperature: float | None,
    timeout_s: float,
    max_output_tokens: int | None,
) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model=name,
        base_url=url,
        api_key=key,
        timeout=timeout_s,
        max_retries=0,
        temperature=temperature,
        max_completion_tokens=max_output_tokens,
        stream_usage=True,
    )
    if _refuses_temperature(model):
        model.temperature = None
    return model


def _anthropic(
    name: str,
    url: str | None,
    key: SecretStr,
    temperature: float | None,
    timeout_s: float,
    max_output_tokens: int | None,
) -> BaseChatModel:
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(
        model_name=name,
        base_url=url,
        api_key=key,
        timeout=timeout_s,
        max_retries=0,
        temperature=temperature,
        max_tokens_to_sample=max_output_tokens or MAX_OUTPUT_TOKENS,
        stop=None,
    )
    if _refuses_temperature(model):
        model.temperature = None
    return model


def _refuses_temperature(model: BaseChatModel) -> bool:
    return (model.profile or {}).get("temperature") is False


def _without_user(url: str) -> str:
    return url.rpartition("@")[2]
