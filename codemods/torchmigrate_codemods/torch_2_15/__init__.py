"""What changed from PyTorch 2.14 to 2.15."""

from __future__ import annotations

from torchmigrate.codemod import Codemod
from torchmigrate_codemods.torch_2_15.fsdp_reduce_dtype import FsdpReduceDtype
from torchmigrate_codemods.torch_2_15.init_device_id import InitDeviceId

CODEMODS: tuple[type[Codemod], ...] = (InitDeviceId, FsdpReduceDtype)
