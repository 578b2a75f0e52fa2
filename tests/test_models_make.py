"""Models by name, prices, budget, and secrets that never show."""

from __future__ import annotations

import pytest
from langchain_core.language_models.chat_models import BaseChatModel

from coda.agents.budget import Budget, BudgetExhausted
from coda.agents.models import ModelSetupError, make_model, model_info
from coda.agents.offline import OfflineChatModel
from coda.agents.prices import PRICES, Price, PriceError, cost_usd, price_of, read_prices
from coda.agents.redact import MASK, Redactor, environment_secrets
from coda.sim.errors import CodaError, UnknownName

KEY = "sk-proj-abcDEF1234567890abcDEF"


def test_offline_needs_nothing() -> None:
    model = make_model("offline")
    assert isinstance(model, OfflineChatModel)
    info = model_info(model)
    assert (info.label, info.provider, info.images) == ("offline (rules)", "offline", False)


@pytest.mark.parametrize(
    ("spec", "variable"),
    [("openai:gpt-5.5", "OPENAI_API_KEY"), ("anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_is_one_line_with_the_way_out(spec: str, variable: str) -> None:
    with pytest.raises(ModelSetupError) as caught:
        make_model(spec)
    text = str(caught.value)
    assert "\n" not in text
    assert variable in text
    assert "--model offline" in text


@pytest.mark.parametrize(
    ("spec", "url", "label"),
    [
        ("openai:llama", "http://localhost:8080/v1/", "openai:llama@localhost:8080"),
        ("qwen3:4b", "http://127.0.0.1:11434/v1", "openai:qwen3:4b@127.0.0.1:11434"),
        ("anthropic:mine", "https://gateway.example", "anthropic:mine@gateway.example"),
    ],
)
def test_a_server_of_ones_own_needs_no_key(spec: str, url: str, label: str) -> None:
    assert model_info(make_model(spec, base_url=url)).label == label


@pytest.mark.parametrize("spec", ["", "openia:gpt", "gpt-5", "offline2"])
def test_an_unknown_name_says_what_there_is(spec: str) -> None:
    with pytest.raises(UnknownName, match=r"Known: <name> with a base URL, anthropic:<name>"):
        make_model(spec)


def test_bad_specs_and_urls() -> None:
    with pytest.raises(ModelSetupError, match="names no model"):
        make_model("openai:")
    for url in ("localhost:8080", "ftp://x/v1", "http://", "http://x:port/"):
        with pytest.raises(ModelSetupError, match=r"is not an http\(s\) address"):
            make_model("openai:m", base_url=url)
    with pytest.raises(ModelSetupError) as caught:
        make_model("openai:m", base_url=f"https://me:{KEY}@host/v1")
    assert KEY not in str(caught.value)


def test_keys_do_not_show_in_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    models: list[BaseChatModel] = [make_model("openai:gpt-5.5"), make_model("anthropic:c")]
    for model in models:
        info = model_info(model)
        assert info.endpoint is None
        for shown in (repr(model), str(model), repr(info), str(model.model_dump())):
            assert KEY not in shown


def test_temperature_is_left_out_where_a_model_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    takes = make_model("anthropic:claude-sonnet-4-5", temperature=0.2)
    refuses = make_model("anthropic:claude-fable-5", temperature=0.2)
    assert getattr(takes, "temperature", "?") == 0.2
    assert getattr(refuses, "temperature", "?") is None


def test_prices_by_exact_and_dated_names() -> None:
    assert price_of("gpt-4o-2024-08-06") == PRICES["gpt-4o"]
    assert price_of("claude-sonnet-4-5-20250929") == PRICES["claude-sonnet-4-5"]
    assert price_of("gpt-4o-audio") is None
    assert price_of("mine", {"mine": Price(1.0, 2.0)}) == Price(1.0, 2.0)
    assert cost_usd(Price(1.0, 2.0), 1_000_000, 500_000) == 2.0
    assert cost_usd(None, 1, 1) is None
    assert read_prices({"m": (0.0, 1.5)}) == {"m": Price(0.0, 1.5)}
    with pytest.raises(PriceError, match=r"price of 'm' = \(-1"):
        read_prices({"m": (-1.0, 0.0)})


def test_budget() -> None:
    budget = Budget(max_tokens=100, max_usd=1.0, tokens=40)
    budget.check()
    budget.spend(50, None)
    budget.check()
    budget.spend(10, 0.5)
    with pytest.raises(BudgetExhausted, match="100 of 100; raise models"):
        budget.check()
    assert (budget.spent.tokens, budget.spent.usd, budget.spent.unpriced_tokens) == (100, 0.5, 50)
    nothing = Budget(max_usd=0.0)
    with pytest.raises(BudgetExhausted):
        nothing.check()
    nothing.check(priced=False)
    with pytest.raises(CodaError, match="max_usd = -1"):
        Budget(max_usd=-1.0)


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        "Incorrect API key provided: sk-proj-****************wxyz.",
        "{'authorization': 'Bearer abcdefgh12345'}",
        'x-api-key: "abcdefgh12345"',
        "https://user:hunter22@host/v1",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
        "gsk_abcdefghijklmnop",
    ],
)
def test_key_like_strings_are_masked(text: str) -> None:
    shown = Redactor(()).text(text)
    assert MASK in shown
    for secret in (KEY, "wxyz", "abcdefgh12345", "hunter22", "eyJzdWIi", "ijklmnop"):
        assert secret not in shown


def test_secrets_of_the_environment_are_masked_in_every_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "p/w+1")
    monkeypatch.setenv("MY_SERVICE_TOKEN", 'a"quoted secret')
    redactor = Redactor()
    value = {"p/w+1": ["p%2Fw%2B1", ('a\\"quoted secret', 3, None)]}
    assert redactor.value(value) == {MASK: [MASK, [MASK, 3, None]]}


def test_ordinary_words_are_not_masked() -> None:
    environ = {
        "OPENAI_API_KEY": "EMPTY",
        "A_TOKEN": "short",
        "KEYBOARD": "us",
        "SECRET_DIR": "/run/x",
    }
    assert environment_secrets(environ) == frozenset()
    text = "ep12:grasped@34 sigma.target.yaw task-oriented risk-averse api key of the mask 0.15"
    assert Redactor(()).text(text) == text
