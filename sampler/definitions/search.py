"""Definitions of the entries of `search`: the search over topologies of dcc-tree."""

from __future__ import annotations

from sampler.definitions.setting import FormField, Setting

SEARCH: dict[str, Setting] = {
    "iterations": Setting(
        "whole",
        "search",
        "Each draws from the most promising topology.",
        limits=(1, 100_000),
        form=FormField("Iterations", "Search over topologies", "100"),
    ),
    "first": Setting(
        "whole",
        "search",
        "Topologies considered before the first iteration.",
        limits=(1, 100_000),
        form=FormField("First proposals", "Search over topologies", "100"),
    ),
    "proposals": Setting(
        "whole",
        "search",
        "A topology proposed this often gets chains.",
        limits=(1, 10_000),
        form=FormField("Proposals needed", "Search over topologies", "2"),
    ),
    "most": Setting(
        "whole",
        "search",
        "Beyond, the least promising are dropped.",
        limits=(1, 10_000),
        form=FormField("Most topologies", "Search over topologies", "100"),
    ),
    "chains": Setting(
        "whole",
        "search",
        "Each from its own starting point.",
        limits=(1, 256),
        form=FormField("Chains per topology", "Search over topologies", "8"),
    ),
    "draws": Setting(
        "whole",
        "search",
        "Each time its topology is chosen; at least 20.",
        limits=(20, 10_000),
        form=FormField("Draws of a chain", "Search over topologies", "100"),
    ),
    "samples": Setting(
        "whole",
        "search",
        "For the evidence of the topology.",
        limits=(1, 1_000),
        form=FormField("Samples around a draw", "Search over topologies", "10"),
    ),
    "delta": Setting(
        "number",
        "search",
        "Weight of exploration in choosing a topology.",
        limits=(0, 1),
        form=FormField("delta", "Search over topologies", "0"),
    ),
    "kappa": Setting(
        "number",
        "search",
        "Larger: the spread of the evidence counts more.",
        limits=(0, 1e6),
        form=FormField("kappa", "Search over topologies", "0"),
    ),
    "optimism": Setting(
        "number",
        "search",
        "Larger: rarely chosen topologies come sooner.",
        limits=(0, 1e6),
        form=FormField("Optimism", "Search over topologies", "1"),
    ),
    "spatial": Setting(
        "whole",
        "search",
        "1: relative to all chains; 0: relative to their draw.",
        limits=(0, 1),
        form=FormField("Samples weigh", "Search over topologies", "1"),
    ),
}
