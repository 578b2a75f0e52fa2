"""Seeds: functions of their labels only, and streams of different purposes never meet."""

from __future__ import annotations

from coda.graphs.seeds import PURPOSES, rng, seed_int, sequence


def test_the_same_labels_give_the_same_draws() -> None:
    assert rng(0, "train", "r01:train", 3).random() == rng(0, "train", "r01:train", 3).random()


def test_purposes_rounds_labels_and_run_seeds_are_apart() -> None:
    seeds = {
        seed_int(run, purpose, f"r{round_:02d}", label)
        for run in range(3)
        for purpose in PURPOSES
        for round_ in range(3)
        for label in ("a", "b", 1)
    }
    assert len(seeds) == 3 * len(PURPOSES) * 3 * 3


def test_the_purpose_leads_the_spawn_key_so_that_spaces_are_disjoint() -> None:
    keys = {sequence(0, purpose, "same").spawn_key[0] for purpose in PURPOSES}
    assert len(keys) == len(PURPOSES)


def test_seeds_fit_every_library() -> None:
    assert all(0 <= seed_int(run, "check", run) < 2**63 for run in range(50))
