"""Every map and what surrounds it as torch modules, for training loops of one's own. Importing this loads torch."""

from monocal.neural.desc.torch_map import DescMap
from monocal.neural.fac.torch_map import FacMap
from monocal.neural.modules.broken_line import PiecewiseMap
from monocal.neural.modules.context_encoder import ContextEncoder
from monocal.neural.modules.mlp import Mlp
from monocal.neural.modules.monotone_map import MonotoneMap
from monocal.neural.modules.monotonicity import assert_monotone
from monocal.neural.modules.wide_shift import WideShift
from monocal.neural.sbcr.torch_map import SbcrMap
from monocal.neural.umc.torch_map import UmcMap

__all__ = [
    "MonotoneMap",
    "UmcMap",
    "FacMap",
    "SbcrMap",
    "DescMap",
    "PiecewiseMap",
    "ContextEncoder",
    "WideShift",
    "Mlp",
    "assert_monotone",
]
