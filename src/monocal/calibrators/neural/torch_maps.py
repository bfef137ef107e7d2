"""Every map and what surrounds it as torch modules, for training loops of one's own. Importing this loads torch."""

from monocal.calibrators.neural.desc.torch_map import DescMap
from monocal.calibrators.neural.fac.torch_map import FacMap
from monocal.calibrators.neural.modules.broken_line import PiecewiseMap
from monocal.calibrators.neural.modules.context_encoder import ContextEncoder
from monocal.calibrators.neural.modules.mlp import Mlp
from monocal.calibrators.neural.modules.monotone_map import MonotoneMap
from monocal.calibrators.neural.modules.monotonicity import assert_monotone
from monocal.calibrators.neural.modules.wide_shift import WideShift
from monocal.calibrators.neural.sbcr.torch_map import SbcrMap
from monocal.calibrators.neural.umc.torch_map import UmcMap

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
