"""What the catalog knows, as values. Every entry carries its source and its standing.

The YAML files beside this module are validated against these classes when they are loaded, and by
``scripts/check-catalog``. Adding a release, a chip, a board or a model changes data only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Standing = Literal["documented", "reported", "measured here", "derived"]
FORBID: dict[str, Any] = {"extra": "forbid"}  # a misspelt key in the catalog is an error, not a silence


@dataclass(frozen=True)
class ChipKind:
    """A kind of chip: how PCI and npu-smi name it, and the product family it belongs to."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str  # 310p, 910b, 910c, 910a, 310, 310b, 950
    title: str
    product: str | None  # product id that serves it; None: no vllm-ascend image exists
    source: str
    standing: Standing
    pci_devices: tuple[str, ...] = ()  # four lower-case hexadecimal digits
    names: tuple[
        str, ...
    ] = ()  # full-match regular expressions, on the name without blanks and leading "Ascend"
    npu_names: tuple[str, ...] = ()  # NPU Name of `-t board -c`, e.g. 93\d\d
    soc_versions: tuple[str, ...] = ()  # as torch_npu and CANN write them, lower case
    soc_numbers: tuple[tuple[int, int], ...] = ()  # ranges of torch_npu.npu.get_soc_version()
    functions_per_card: int = 1
    memory_mb: tuple[tuple[int, int], ...] = ()  # bands of the total as npu-smi prints it
    idle_mb: tuple[int, int] | None = None  # what an idle chip shows as used
    unsupported: str = ""  # why, when product is None


@dataclass(frozen=True)
class Board:
    """A board, told by PCI device and subsystem ids."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    device: str
    subsystem_vendor: str
    subsystem_devices: tuple[str, ...]
    title: str
    source: str
    standing: Standing
    chips_per_function: int = 1  # davinci nodes that one PCI function gives
    id: str = ""  # e.g. duo


@dataclass(frozen=True)
class MountRule:
    """A bind mount that a product's container needs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    path: str  # on the host; {driver} is the driver's folder, {npu_smi} where npu-smi is
    reason: str
    source: str
    standing: Standing
    target: str | None = None  # in the container; None: the documented default of `path`
    required: bool = True
    os_family: str | None = None  # ubuntu or openeuler only
    read_only: bool = False


@dataclass(frozen=True)
class ArgumentRule:
    """An argument of `vllm serve`, for a span of releases."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    flag: str
    value: str | None  # None: a switch
    reason: str
    source: str
    standing: Standing
    since: str | None = None  # first release that gets it
    before: str | None = None  # first release that no longer gets it
    profile: str | None = None  # throughput or latency only
    mode: Literal["graph", "eager"] | None = None  # only when the service runs so
    deviates: bool = False  # the documented command does not have it so


@dataclass(frozen=True)
class ConfigRule:
    """A key of `--additional-config`; dots descend into objects."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    key: str
    value: bool | int | float | str
    reason: str
    source: str
    standing: Standing
    since: str | None = None
    before: str | None = None
    deviates: bool = False


@dataclass(frozen=True)
class EnvRule:
    """An environment variable of the serving container."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    name: str
    value: str
    reason: str
    source: str
    standing: Standing
    since: str | None = None
    before: str | None = None
    hub: str | None = None  # only when the weights come from this hub: modelscope, huggingface
    deviates: bool = False


@dataclass(frozen=True)
class EnvLimit:
    """What an environment variable of the server must not say."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    name: str
    reason: str
    source: str
    standing: Standing
    forbidden: bool = False  # must not be set at all
    values: tuple[str, ...] = ()  # the only ones that there are
    excludes: tuple[tuple[str, str], ...] = ()  # parts of a comma list that cannot stand together, by prefix
    excludes_flags: tuple[tuple[str, str], ...] = ()  # part of the list, option of `vllm serve`


@dataclass(frozen=True)
class Omission:
    """Something the documented command has and ours leaves out, for a span of releases."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    field: str  # as in Decision.field: env.NAME, args.--flag, mount./path
    value: str  # what the documented command says
    reason: str
    source: str
    standing: Standing
    since: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class Hardware:
    """Devices, mounts and container settings of a product, or of a variant of one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    manager_nodes: tuple[str, ...]
    mounts: tuple[MountRule, ...]
    shm_size: str
    privileged: bool
    network: str
    nodes_per_service: int
    source: str
    standing: Standing


@dataclass(frozen=True)
class Variant:
    """A board of a product that wants other devices and mounts, e.g. the Atlas 200I Pro in RC mode."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    title: str
    hardware: Hardware


@dataclass(frozen=True)
class Product:
    """A family that the user names with --product."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    title: str
    kind: Literal["npu", "cpu", "cuda"]
    source: str
    standing: Standing
    models_standing: str  # what is known of PaddleOCR-VL on it, in a sentence
    image_suffix: str | None = None
    default_release: str | None = None
    device_type: str | None = None  # __device_type__ in vllm_ascend._build_info of a fitting image
    dtypes: tuple[str, ...] = ()  # the first is used
    max_tensor_parallel: int = 1
    graph_min_cann: str | None = None  # graph mode needs this CANN in the image; None: no bound
    graph_source: str = ""
    always_max_model_len: int | None = None
    min_driver_graph: str | None = None  # HDK from which graph capture is safe
    hardware: Hardware | None = None
    variants: tuple[Variant, ...] = ()
    args: tuple[ArgumentRule, ...] = ()
    additional_config: tuple[ConfigRule, ...] = ()
    env: tuple[EnvRule, ...] = ()
    triton: Literal["required", "forbidden", "none"] = "none"
    triton_removed_since: str | None = None  # first release whose image has triton removed already
    dtype_explicit: bool = False  # the documented command names --dtype
    dtype_reason: str = ""
    dtype_source: str = ""
    max_model_len_reason: str = ""
    max_model_len_source: str = ""
    fixed_mask_torch_npu: str | None = None  # with an older torch_npu the fp16 mask is max-model-len squared
    library_path: tuple[str, ...] = ()  # what its image adds to LD_LIBRARY_PATH for interactive shells only
    omitted: tuple[Omission, ...] = ()
    served_name: str | None = None  # of an engine that is not a catalog model: product cpu
    boards: tuple[str, ...] = ()  # product names for people, e.g. Atlas 300I Duo
    documented_boards: tuple[str, ...] = ()  # those that the model's documents name; empty: none by name


@dataclass(frozen=True)
class KnownBad:
    """A release that is known to fail on a product."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    product: str
    issue: str  # public issue, e.g. "vllm-ascend #11450"
    reason: str
    standing: Standing
    instead: str  # the release to take


@dataclass(frozen=True)
class Release:
    """A vLLM-Ascend release: one compatibility set, never to be mixed with another."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    version: str  # with the leading v, as in image tags
    vllm: str
    python: str  # specifier
    image_python: str
    torch: str
    torch_npu: str
    cann: dict[str, str]  # product id → CANN inside its image; a product that is absent has no image
    source: str
    standing: Standing
    date: str | None = None
    triton_ascend: str | None = None
    transformers: str | None = None
    stable: bool = False
    cann_uncertain: tuple[str, ...] = ()  # products whose image was rebuilt with another CANN: ask the image
    known_bad: tuple[KnownBad, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfigKey:
    """A key that some release's --additional-config accepts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    key: str  # dots descend
    first: str
    source: str
    standing: Standing
    removed: str | None = None  # first release without it
    meaning: str = ""


@dataclass(frozen=True)
class Capability:
    """Something that works from some release on."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    title: str
    first: str
    products: tuple[str, ...]
    source: str
    standing: Standing


@dataclass(frozen=True)
class Mirror:
    """A registry that carries the images under another prefix."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    prefix: str
    source: str
    standing: Standing


@dataclass(frozen=True)
class EnvScript:
    """A set_env.sh inside an image, for a span of CANN versions."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    path: str
    reason: str
    source: str
    standing: Standing
    since_cann: str | None = None
    before_cann: str | None = None


@dataclass(frozen=True)
class Images:
    """Where the images are, and how their tags are made."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    registry: str
    repository: str
    os_suffixes: dict[str, str]  # ubuntu: "", openeuler: "-openeuler"
    mirrors: tuple[Mirror, ...]
    set_env: tuple[str, ...]  # scripts that a non-interactive start sources itself, at every CANN
    library_path: tuple[str, ...]  # below {driver}
    source: str
    standing: Standing
    env_scripts: tuple[EnvScript, ...] = ()  # the same, CANN by CANN
    preload: tuple[str, ...] = ()  # LD_PRELOAD of the image's interactive shells; the first that exists


@dataclass(frozen=True)
class Task:
    """A task of the model and its exact prompt."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    prompt: str
    max_pixels: int | None = None


@dataclass(frozen=True)
class Model:
    """Weights + served name + pipeline version + layout model: one tuple."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    title: str
    served_name: str
    modelscope: str
    huggingface: str
    pipeline_version: str
    layout_model: str
    tasks: tuple[Task, ...]
    min_pixels: int
    max_pixels: int
    pixels_per_token: int
    source: str
    standing: Standing
    validated: dict[str, str]  # product id → sentence on whose word it runs there
    trust_remote_code: bool = True
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Client:
    """What a span of paddlex versions sends, which decides the context that a server needs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    first: str  # paddlex version
    last: str
    image_tokens: int
    output_tokens: int
    source: str
    standing: Standing
    prompt_tokens: int = 20
    task: str = "ocr"
    default_pipeline: str | None = None
    min_pixels: int | None = (
        None  # sent with every request; None: nothing is sent, the model's own limits hold
    )
    max_pixels: int | None = None
    discovers_name: bool = False  # takes the first model of /v1/models instead of a name of its own
    notes: str = ""


@dataclass(frozen=True)
class DriverPair:
    """HDK versions that a vendor document names for a CANN."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    cann: str
    drivers: tuple[str, ...]
    source: str
    standing: Standing


@dataclass(frozen=True)
class DriverReport:
    """A span of HDK versions about which trouble is reported."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    since: str
    before: str
    issue: str
    reason: str
    standing: Standing
    instead: str
    products: tuple[str, ...] = ()  # empty: every NPU product


@dataclass(frozen=True)
class Constant:
    """A number or a text of the world that code elsewhere needs: a default, a log line, a package name."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID
    id: str
    value: bool | int | float | str | tuple[str, ...]
    meaning: str  # with the unit
    source: str
    standing: Standing


@dataclass(frozen=True)
class Catalog:
    """Everything that is known of the world."""

    chips: tuple[ChipKind, ...]
    boards: tuple[Board, ...]
    pci_vendors: tuple[str, ...]
    products: tuple[Product, ...]
    images: Images
    releases: tuple[Release, ...]  # oldest first
    config_keys: tuple[ConfigKey, ...]
    config_fatal_since: str  # release from which an unknown additional_config key ends the server
    capabilities: tuple[Capability, ...]
    models: tuple[Model, ...]
    clients: tuple[Client, ...]
    driver_pairs: tuple[DriverPair, ...] = ()
    driver_reports: tuple[DriverReport, ...] = ()
    constants: tuple[Constant, ...] = ()
    preflight: tuple[Constant, ...] = ()  # thresholds and texts of the checks
    env_limits: tuple[EnvLimit, ...] = ()
