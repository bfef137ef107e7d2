"""Pure torch modules: encoders of field ids and monotone maps of logits. No files, no training, no devices."""

from monocal.nn.adacalib import AdaCalibMap
from monocal.nn.context import ContextEncoder
from monocal.nn.desc import DescMap
from monocal.nn.fac import FacMap
from monocal.nn.folding import fold_umc
from monocal.nn.mlp import Mlp
from monocal.nn.monotone_map import MonotoneMap
from monocal.nn.monotonicity import assert_monotone
from monocal.nn.piecewise import PiecewiseMap
from monocal.nn.sbcr import SbcrMap
from monocal.nn.umc import UmcMap
from monocal.nn.wide import WideShift

__all__ = [
    "MonotoneMap",
    "UmcMap",
    "FacMap",
    "SbcrMap",
    "DescMap",
    "AdaCalibMap",
    "PiecewiseMap",
    "ContextEncoder",
    "WideShift",
    "Mlp",
    "assert_monotone",
    "fold_umc",
]
