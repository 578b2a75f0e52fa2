"""Objects of the LIBERO-PRO package, for scenes that ask for them: ``libero:ketchup``.

The package is optional. No default range, split or evaluation file draws its objects; an edit may
name them where the package is installed. Sizes are literals, measured on the shapes that collide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from coda.sim.asset import Asset, Vec3
from coda.sim.errors import UnknownName
from coda.sim.libero_files import MissingPackage, Up, asset_root

PREFIX = "libero:"
_RED = (0.8, 0.1, 0.1, 1.0)
_ORANGE = (0.95, 0.50, 0.10, 1.0)
_BLUE = (0.15, 0.30, 0.85, 1.0)
_BROWN = (0.40, 0.25, 0.12, 1.0)
_BLACK = (0.06, 0.06, 0.06, 1.0)
_WHITE = (0.95, 0.95, 0.95, 1.0)
_GREY = (0.50, 0.50, 0.50, 1.0)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One object of the package; see `Asset` for the fields of the same name."""

    folder: str
    """Folder of the object's files under the package's assets."""
    up: Up = "y"
    """Axis of the file's frame that points up."""
    noun: str
    rgba: tuple[float, float, float, float]
    """What its texture's colour is called by."""
    half: Vec3
    center: Vec3
    """Centre of the bounding box in the file's frame, stood upright [m]."""
    mass: float
    """What MuJoCo makes of the file's densities [kg]."""
    grip: tuple[float, float] | None = None
    """Half extents where the fingers close, where narrower than the whole [m]."""
    round: bool = False
    receptacle: bool = False
    seat: float | None = None
    seat_half: tuple[float, float] | None = None
    mouth: float | None = None


_HOPE, _SCAN, _TURBO = "stable_hope_objects", "stable_scanned_objects", "turbosquid_objects"

_TABLE: Mapping[str, _Entry] = MappingProxyType(
    {
        "alphabet_soup": _Entry(
            folder=_HOPE, noun="alphabet soup", rgba=_BLUE, round=True, mass=0.054,
            half=(0.03121, 0.03120, 0.03810), center=(-0.00013, 0.00368, -0.00049),
        ),
        "tomato_sauce": _Entry(
            folder=_HOPE, noun="tomato sauce", rgba=_RED, round=True, mass=0.054,
            half=(0.03110, 0.03082, 0.03810), center=(-0.00012, 0.00330, -0.00049),
        ),
        "ketchup": _Entry(
            folder=_HOPE, noun="ketchup", rgba=_RED, mass=0.049, grip=(0.0165, 0.0182),
            half=(0.02811, 0.01838, 0.07281), center=(0.00045, -0.00075, 0.00039),
        ),
        "salad_dressing": _Entry(
            folder=_HOPE, noun="salad dressing", rgba=_BLACK, mass=0.045, grip=(0.0183, 0.0177),
            half=(0.02637, 0.01776, 0.07279), center=(-0.00096, 0.00020, 0.00007),
        ),
        "bbq_sauce": _Entry(
            folder=_HOPE, up="z", noun="bbq sauce", rgba=_BROWN, mass=0.024, grip=(0.0181, 0.0146),
            half=(0.02349, 0.01455, 0.05355), center=(0.0, 0.0, -0.00109),
        ),
        "milk": _Entry(
            folder=_HOPE, noun="milk carton", rgba=_RED, mass=0.069,
            half=(0.02654, 0.02625, 0.06560), center=(0.00009, 0.0, -0.00416),
        ),
        "orange_juice": _Entry(
            folder=_HOPE, noun="juice carton", rgba=_ORANGE, mass=0.068,
            half=(0.02654, 0.02625, 0.06560), center=(-0.00009, 0.0, -0.00416),
        ),
        "macaroni_and_cheese": _Entry(
            folder=_HOPE, noun="macaroni and cheese", rgba=_ORANGE, mass=0.051,
            half=(0.04217, 0.01272, 0.05817), center=(0.0, 0.0, 0.0),
        ),
        "butter": _Entry(
            folder=_HOPE, up="z", noun="butter", rgba=_RED, mass=0.010,
            half=(0.03809, 0.01977, 0.00871), center=(0.0, 0.0, 0.0),
        ),
        "cream_cheese": _Entry(
            folder=_HOPE, up="z", noun="cream cheese", rgba=_BLUE, mass=0.012,
            half=(0.04061, 0.02134, 0.00894), center=(0.0, 0.0, 0.0),
        ),
        "chocolate_pudding": _Entry(
            folder=_HOPE, up="z", noun="chocolate pudding", rgba=_BROWN, mass=0.022,
            half=(0.04010, 0.02316, 0.01371), center=(-0.00050, 0.0, 0.00063),
        ),
        "popcorn": _Entry(
            folder=_HOPE, up="z", noun="popcorn", rgba=_BLUE, mass=0.010,
            half=(0.03100, 0.02100, 0.01000), center=(0.0, 0.0, 0.0),
        ),
        "cookies": _Entry(
            folder=_HOPE, up="z", noun="cookies", rgba=_RED, mass=0.019,
            half=(0.03104, 0.04131, 0.00940), center=(0.0, 0.0, 0.0),
        ),
        "wine_bottle": _Entry(
            folder=_TURBO, up="z", noun="wine bottle", rgba=_BLACK, round=True, mass=0.051,
            half=(0.02130, 0.02212, 0.07847), center=(0.00063, 0.00007, 0.07958),
            grip=(0.0068, 0.0071),
        ),
        "plate": _Entry(
            folder=_SCAN, up="z", noun="plate", rgba=_WHITE, round=True, mass=0.030,
            half=(0.06881, 0.06873, 0.00947), center=(0.00082, 0.00035, 0.00696),
            receptacle=True, seat=-0.0016, seat_half=(0.045, 0.045),
        ),
        "basket": _Entry(
            folder=_SCAN, up="z", noun="basket", rgba=_WHITE, mass=0.553,
            half=(0.08476, 0.07867, 0.07074), center=(0.00065, 0.00014, 0.07495),
            receptacle=True, seat=-0.0534, seat_half=(0.060, 0.056),
        ),
        "akita_black_bowl": _Entry(
            folder=_SCAN, up="z", noun="bowl", rgba=_GREY, round=True, mass=0.046,
            half=(0.05360, 0.05350, 0.02527), center=(-0.00018, -0.00039, 0.02686),
            receptacle=True, seat=-0.0201, seat_half=(0.038, 0.038), mouth=0.024,
        ),
        "wooden_tray": _Entry(
            folder=_TURBO, up="z", noun="wooden tray", rgba=_BROWN, mass=0.515,
            half=(0.14856, 0.08325, 0.04093), center=(0.00700, -0.00436, 0.03995),
            receptacle=True, seat=-0.0328, seat_half=(0.130, 0.072), mouth=0.0225,
        ),
    }
)  # fmt: skip

LIBERO_OBJECTS = tuple(PREFIX + name for name, e in _TABLE.items() if not e.receptacle)
"""Objects that the gripper takes."""
LIBERO_NAMES = tuple(PREFIX + name for name in _TABLE)
"""Every name, whether the package is installed or not."""


def installed() -> bool:
    """Whether the package's assets are there."""
    return asset_root() is not None


@cache
def libero_asset(name: str) -> Asset:
    """The asset of a name that starts with `PREFIX`.

    Raises:
        UnknownName: No such object in the table.
        MissingPackage: The package is not installed.
    """
    short = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or short not in _TABLE:
        raise UnknownName("LIBERO-PRO asset", name, LIBERO_NAMES)
    root = asset_root()
    if root is None:
        raise MissingPackage(name)
    entry = _TABLE[short]
    grip = None if entry.grip is None else (*entry.grip, entry.half[2])
    return Asset(
        name=name,
        noun=entry.noun,
        shape="mjcf",
        half_size_m=entry.half,
        mass_kg=entry.mass,
        graspable=not entry.receptacle,
        fixed=entry.receptacle,
        mjcf_file=str(root / entry.folder / short / f"{short}.xml"),
        mjcf_up=entry.up,
        own_rgba=entry.rgba,
        center_m=entry.center,
        grip_half_m=grip,
        seat_m=entry.seat,
        seat_half_m=entry.seat_half,
        mouth_m=entry.mouth,
        round=entry.round,
    )
