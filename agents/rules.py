"""The offline rules by task: what `coda.agents.offline.OfflineChatModel` answers with.

Rules read the same facts that a language model gets in its prompt, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from coda.agents.rules_chat import chat
from coda.agents.rules_critic import diagnose
from coda.agents.rules_plan import plan_round
from coda.agents.rules_potential import compile_potential
from coda.agents.rules_refuter import design_controls
from coda.agents.rules_scene import write_program

RULES: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType(
    {
        "write-program": write_program,
        "diagnose": diagnose,
        "design-controls": design_controls,
        "plan-round": plan_round,
        "compile-potential": compile_potential,
        "chat": chat,
    }
)
"""Task → rule."""
