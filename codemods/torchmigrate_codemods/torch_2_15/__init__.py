"""What changed from PyTorch 2.14 to 2.15."""

from __future__ import annotations

from torchmigrate.codemod import Codemod
from torchmigrate_codemods.torch_2_15.all_gather_future import AllGatherFuture
from torchmigrate_codemods.torch_2_15.backend_privates import BackendPrivates
from torchmigrate_codemods.torch_2_15.block_pointers import BlockPointers
from torchmigrate_codemods.torch_2_15.collective_aliases import CollectiveAliases
from torchmigrate_codemods.torch_2_15.compiler_precompile import CompilerPrecompile
from torchmigrate_codemods.torch_2_15.cpp_extension import CppExtension
from torchmigrate_codemods.torch_2_15.cuda_graph_positional import CudaGraphPositional
from torchmigrate_codemods.torch_2_15.dcp_one_way import DcpOneWay
from torchmigrate_codemods.torch_2_15.dist_error_class import DistErrorClass
from torchmigrate_codemods.torch_2_15.flight_recorder_env import FlightRecorderEnv
from torchmigrate_codemods.torch_2_15.flight_recorder_read import FlightRecorderRead
from torchmigrate_codemods.torch_2_15.fsdp_reduce_dtype import FsdpReduceDtype
from torchmigrate_codemods.torch_2_15.fsspec_module import FsspecModule
from torchmigrate_codemods.torch_2_15.graph_annotations import GraphAnnotations
from torchmigrate_codemods.torch_2_15.grouped_mm import GroupedMm
from torchmigrate_codemods.torch_2_15.inductor_config import InductorConfig
from torchmigrate_codemods.torch_2_15.init_device_id import InitDeviceId
from torchmigrate_codemods.torch_2_15.macos_14 import MacOs14
from torchmigrate_codemods.torch_2_15.multi_gpu_process import MultiGpuProcess
from torchmigrate_codemods.torch_2_15.nccl_backend_class import NcclBackendClass
from torchmigrate_codemods.torch_2_15.nccl_backend_name import NcclBackendName
from torchmigrate_codemods.torch_2_15.nccl_env_dead import NcclEnvDead
from torchmigrate_codemods.torch_2_15.nccl_lazy import NcclLazy
from torchmigrate_codemods.torch_2_15.nccl_legacy import NcclLegacy
from torchmigrate_codemods.torch_2_15.nccl_no_gpu_exception import NcclNoGpuException
from torchmigrate_codemods.torch_2_15.new_group_collective import NewGroupCollective
from torchmigrate_codemods.torch_2_15.optimizer_set import OptimizerSet
from torchmigrate_codemods.torch_2_15.pipeline_config import PipelineConfig
from torchmigrate_codemods.torch_2_15.profiler_cupti import ProfilerCupti
from torchmigrate_codemods.torch_2_15.profiler_metadata import ProfilerMetadata
from torchmigrate_codemods.torch_2_15.profiler_nvprof import ProfilerNvprof
from torchmigrate_codemods.torch_2_15.python_310 import Python310
from torchmigrate_codemods.torch_2_15.reduce_event import ReduceEvent
from torchmigrate_codemods.torch_2_15.reload_torch import ReloadTorch
from torchmigrate_codemods.torch_2_15.removed_members import RemovedMembers
from torchmigrate_codemods.torch_2_15.scaled_mm import ScaledMm
from torchmigrate_codemods.torch_2_15.set_timeout import SetTimeout
from torchmigrate_codemods.torch_2_15.torch_pins import TorchPins

CODEMODS: tuple[type[Codemod], ...] = (
    InitDeviceId,
    NcclLazy,
    NcclLegacy,
    NcclBackendClass,
    NcclBackendName,
    MultiGpuProcess,
    NcclNoGpuException,
    NewGroupCollective,
    DistErrorClass,
    FlightRecorderRead,
    AllGatherFuture,
    CollectiveAliases,
    ScaledMm,
    GroupedMm,
    FsdpReduceDtype,
    DcpOneWay,
    FsspecModule,
    FlightRecorderEnv,
    NcclEnvDead,
    Python310,
    MacOs14,
    TorchPins,
    CppExtension,
    OptimizerSet,
    ProfilerMetadata,
    ProfilerNvprof,
    ProfilerCupti,
    PipelineConfig,
    InductorConfig,
    CompilerPrecompile,
    SetTimeout,
    BackendPrivates,
    ReloadTorch,
    ReduceEvent,
    CudaGraphPositional,
    GraphAnnotations,
    RemovedMembers,
    BlockPointers,
)
