"""Difficulty modes: versions, lifecycle, merging, staleness, inheritance from an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coda.memory.lifecycle import NEXT, after_probe, stalled
from coda.memory.modes import ModeError, ModeStore
from coda.memory.progress import Band, BandDecision, Count, membership
from coda.memory.records import ArmResult, ControlTest, Diagnosis, Mode, ModeStatus
from coda.memory.rows import ControlTestRow, DiagnosisRow
from coda.memory.rundb import RunDb, RunDbError
from coda.memory.vectors import VectorStore
from coda.sim.errors import UnknownName
from coda.sim.program import Edit, Fixed, GenerationProgram

KEY = "r01:consolidate"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ModeStore]:
    with open_db(tmp_path / "second") as db, VectorStore(tmp_path / "second" / "chroma") as vectors:
        yield ModeStore(db, vectors)


def open_db(folder: Path) -> RunDb:
    db = RunDb(folder / "run.db")
    db.begin_node(KEY)
    return db


def mode(mode_id: str = "m001", **fields: object) -> Mode:
    base = {
        "mode_id": mode_id,
        "title": "misaligned-grasp at grasp (yaw)",
        "family": "pick-place",
        "status": "validated",
        "axis": "yaw",
        "factor_path": "sigma.target.yaw",
        "stage": "grasp",
        "mechanism": "misaligned-grasp",
        "explanation": "The target is turned and the fingers close across its long side.",
        "omega": GenerationProgram(name="turned", family="pick-place"),
        "diagnosis_ids": ("r01:d0",),
        "created_round": 1,
    }
    return Mode.model_validate({**base, **fields})


def decision(successes: int, trials: int) -> BandDecision:
    return membership(Count(successes=successes, trials=trials), Band())


def test_versions_are_kept_and_an_unchanged_mode_makes_none(store: ModeStore) -> None:
    assert store.next_id() == "m001"
    assert store.put(KEY, mode(status="candidate")) == 1
    assert store.put(KEY, mode(status="candidate")) == 1
    validated = store.set_status(KEY, "m001", "validated", "confirmed by its control test")
    assert validated.reason == "confirmed by its control test"
    assert [(v.version, v.mode.status) for v in store.history("m001")] == [
        (1, "candidate"),
        (2, "validated"),
    ]
    assert store.get("m001") == validated == store.all("validated")[0]
    assert store.all("parked") == []
    assert store.next_id() == "m002"
    assert store.get("m009") is None
    with pytest.raises(UnknownName, match=r"no mode named 'm009'\. .*Known: m001"):
        store.require("m009")
    with pytest.raises(ModeError, match="mode id 'first' is not like 'm001'"):
        store.put(KEY, mode("first"))
    assert len(store.all()) == 1


def test_the_lifecycle_refuses_a_step_back_to_candidate(store: ModeStore) -> None:
    store.put(KEY, mode())
    with pytest.raises(
        ModeError, match=r"m001 is validated; it cannot become candidate, only training, retained"
    ):
        store.set_status(KEY, "m001", "candidate", "")
    assert set(NEXT) == {status for after in NEXT.values() for status in after}


@pytest.mark.parametrize(
    ("status", "history", "outcome", "expected"),
    [
        ("training", (), (32, 32), "mastered"),
        ("training", (), (8, 16), "retained"),
        ("validated", (), (8, 16), "retained"),
        ("training", ((1, 0, 16),), (0, 16), "training"),
        ("training", ((1, 0, 16), (2, 0, 16)), (0, 32), "parked"),
        ("training", ((1, 0, 16), (2, 0, 16)), (1, 8), "training"),  # undecided
        ("mastered", (), (8, 16), "training"),
        ("mastered", (), (0, 16), "training"),
        ("parked", (), (8, 16), "retained"),
        ("parked", (), (0, 16), "parked"),
        ("parked", (), (16, 16), "mastered"),
        ("candidate", (), (16, 16), "candidate"),
    ],
)
def test_a_probe_moves_a_mode(
    store: ModeStore,
    status: ModeStatus,
    history: tuple[tuple[int, int, int], ...],
    outcome: tuple[int, int],
    expected: str,
) -> None:
    store.put(KEY, mode(status=status, probe_history=history))
    moved = store.advance(KEY, "m001", 3, decision(*outcome))
    assert moved.status == expected
    assert moved.probe_history == (*history, (3, *outcome))
    assert moved.last_probed_round == 3
    if expected != status:
        assert f"probe {outcome[0]}/{outcome[1]}" in moved.reason


def test_every_move_after_a_probe_is_a_step_of_the_lifecycle() -> None:
    for status, following in NEXT.items():
        for outcome in ((0, 32), (16, 32), (32, 32), (1, 8)):
            probed = mode(status=status, probe_history=((1, 0, 8), (2, 0, 8), (3, 0, 8)))
            moved, _ = after_probe(probed, decision(*outcome))
            assert moved == status or moved in following


def test_a_rise_is_no_stall() -> None:
    assert not stalled(mode(probe_history=((1, 0, 16), (2, 0, 16), (3, 1, 16))))
    assert not stalled(mode(probe_history=((1, 0, 16), (2, 0, 16))))
    assert stalled(mode(probe_history=((1, 1, 16), (2, 0, 16), (3, 1, 16))))


def test_what_a_person_fixed_is_left_alone_until_undone(store: ModeStore) -> None:
    store.put(KEY, mode(status="training"))
    pinned = store.pin(KEY, "m001", "parked", "d001")
    assert (pinned.status, pinned.pinned_by) == ("parked", "d001")
    probed = store.advance(KEY, "m001", 2, decision(16, 16))
    assert (probed.status, probed.probe_history) == ("parked", ((2, 16, 16),))
    with pytest.raises(ModeError, match=r"set to parked by directive d001; undo that directive"):
        store.set_status(KEY, "m001", "training", "")
    free = store.unpin(KEY, "m001")
    assert (free.status, free.pinned_by) == ("training", None)
    assert store.unpin(KEY, "m001") == free


def test_merging_goes_by_structure_first_then_by_meaning_on_one_axis(store: ModeStore) -> None:
    store.put(KEY, mode())
    store.put(
        KEY,
        mode(
            "m002", axis="distractors", factor_path="sigma.distractor-1.xy", stage="reach",
            mechanism="collision", title="collision at reach (distractors)",
            explanation="The hand knocks over a can that stands near the target.",
        ),
    )  # fmt: skip
    twin = mode("m003", title="other words", explanation="Nothing alike in its text at all.")
    found = store.match(twin)
    assert found is not None
    assert (found.mode.mode_id, found.by) == ("m001", "structure")
    other_distractor = mode(
        "m003", axis="distractors", factor_path="sigma.distractor-2.xy", stage="reach",
        mechanism="collision",
    )  # fmt: skip
    merged = store.merge_candidate(other_distractor)
    assert merged is not None
    assert merged.mode_id == "m002"
    reworded = mode(
        "m003", mechanism="no-closure", title="no closure at grasp (yaw)",
        explanation="The target is rotated, so the fingers close on its long side and do not hold.",
    )  # fmt: skip
    found = store.match(reworded)
    assert found is not None
    assert (found.mode.mode_id, found.by) == ("m001", "embedding")
    assert found.similarity >= 0.8
    assert store.match(reworded, threshold=0.99) is None
    other_axis = reworded.model_copy(update={"axis": "size", "factor_path": "alpha.target.scale"})
    assert store.match(other_axis) is None


def test_nearest_finds_modes_by_text(store: ModeStore) -> None:
    store.put(KEY, mode())
    store.put(KEY, mode("m002", axis="mass-friction", mechanism="slip", explanation="It slips."))
    found = store.nearest("turned target, fingers across the long side", k=1)
    assert [m.mode_id for m, _ in found] == ["m001"]


def test_resting_modes_are_probed_again_by_staleness(store: ModeStore) -> None:
    for number, (status, last) in enumerate(
        (("mastered", 4), ("parked", 1), ("training", 0), ("mastered", 1)), start=1
    ):
        store.put(KEY, mode(f"m{number:03d}", status=status, last_probed_round=last))
    assert [m.mode_id for m in store.due_for_probe(5)] == ["m002", "m004"]
    assert [m.mode_id for m in store.due_for_probe(6, limit=1)] == ["m002"]
    assert [m.mode_id for m in store.due_for_probe(6)] == ["m002", "m004", "m001"]


def test_a_second_run_starts_from_the_first_ones_memory(store: ModeStore, tmp_path: Path) -> None:
    first = tmp_path / "first"
    with open_db(first) as db, VectorStore(first / "chroma") as vectors:
        earlier = ModeStore(db, vectors)
        statuses: tuple[ModeStatus, ...] = ("mastered", "candidate", "parked", "retained")
        for number, status in enumerate(statuses, start=1):
            earlier.put(KEY, mode(f"m{number:03d}", status=status, probe_history=((1, 8, 8),)))
        diagnosis = Diagnosis(
            diagnosis_id="r01:d0", round=1, failed_stage="grasp", mechanism="misaligned-grasp",
            axis="yaw", factor_path="sigma.target.yaw", expected_effect=0.6, confidence="high",
            cure=(Edit(path="sigma.target.yaw", sampler=Fixed(value=0.0)),),
            explanation="turned", evidence=("ep7",),
        )  # fmt: skip
        test = ControlTest(
            test_id="r01:t0", diagnosis_id="r01:d0", outcome="success", effect=0.7,
            arms=(ArmResult(name="target", successes=0, trials=8, progress_mean=0.1),),
            interval=(0.2, 1.0), e_value=33.0, e_value_refute=0.1, p_value=0.03,
            verdict="confirmed", reason="",
        )  # fmt: skip
        db.add(
            DiagnosisRow(diagnosis_id="r01:d0", node_key=KEY, diagnosis=diagnosis),
            ControlTestRow(
                test_id="r01:t0",
                node_key=KEY,
                diagnosis_id="r01:d0",
                verdict="confirmed",
                test=test,
            ),
        )
    store.put(KEY, mode(diagnosis_ids=()))
    taken = store.import_from(KEY, first)
    assert [(m.mode_id, m.status, m.lineage) for m in taken] == [
        ("m002", "retained", ("first:m001",)),
        ("m003", "validated", ("first:m003",)),
        ("m004", "retained", ("first:m004",)),
    ]
    assert taken[0].probe_history == ()
    assert taken[0].diagnosis_ids == ("first/r01:d0",)
    assert "from run first, where m001 was mastered" in taken[0].reason
    assert [m.mode_id for m in store.all()] == ["m001", "m002", "m003", "m004"]
    assert store.import_from(KEY, first) == []
    with RunDb(tmp_path / "second" / "run.db", read_only=True) as db:
        copied = db.rows(DiagnosisRow)
        assert [row.diagnosis.evidence for row in copied] == [("first/ep7",)]
        assert [row.test.test_id for row in db.rows(ControlTestRow)] == ["first/r01:t0"]
    with pytest.raises(RunDbError, match=r"no run database at .*nowhere"):
        store.import_from(KEY, tmp_path / "nowhere")
