"""Logs of services that are well, of any length: what `diagnose` must find nothing in.

The lines have the shapes of vLLM and vLLM-Ascend (start on a 310P, serving, an orderly end), of uvicorn, of the Paddle
pipeline service and of docker compose; numbers, times and addresses vary.
"""

# ruff: noqa: E501 - lines of logs are as long as they are

from __future__ import annotations

import random
from collections.abc import Iterator

START = """\
INFO {t} [__init__.py:44] Available plugins for group vllm.platform_plugins:
INFO {t} [__init__.py:46] - ascend -> vllm_ascend:register
INFO {t} [__init__.py:49] All plugins in this group will be loaded. Set `VLLM_PLUGINS` to control which plugins to load.
INFO {t} [__init__.py:239] Platform plugin ascend is activated
WARNING {t} [_custom_ops.py:20] Failed to import from vllm._C with ModuleNotFoundError("No module named 'vllm._C'")
INFO {t} [importing.py:43] Triton is installed but 0 active driver(s) found (expected 1). Disabling Triton to prevent runtime errors.
INFO {t} [importing.py:63] Triton not installed or not compatible; certain GPU-related functions will not be available.
(APIServer pid=1) INFO {t} [api_server.py:1346] vLLM API server version 0.23.0
(APIServer pid=1) INFO {t} [utils.py:253] non-default args: {{'model_tag': '/models/PaddleOCR-VL', 'host': '0.0.0.0', 'model': '/models/PaddleOCR-VL', 'trust_remote_code': True, 'dtype': 'float16', 'max_model_len': 16384, 'served_model_name': ['PaddleOCR-VL-0.9B'], 'enable_prefix_caching': False, 'mm_processor_cache_gb': 0.0, 'compilation_config': {{'cudagraph_mode': 'FULL_DECODE_ONLY'}}, 'additional_config': {{'enable_cpu_binding': True}}}}
(APIServer pid=1) INFO {t} [model.py:631] Resolved architecture: PaddleOCRVLForConditionalGeneration
(APIServer pid=1) WARNING {t} [model.py:1984] Casting torch.bfloat16 to torch.float16.
(APIServer pid=1) INFO {t} [model.py:1745] Using max model len 16384
(APIServer pid=1) INFO {t} [scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=2048.
(APIServer pid=1) INFO {t} [platform.py:300] FULL_DECODE_ONLY compilation enabled on NPU. use_inductor not supported - using only ACL Graph mode
(EngineCore pid=213) INFO {t} [core.py:93] Initializing a V1 LLM engine (v0.23.0) with config: model='/models/PaddleOCR-VL', speculative_config=None, tokenizer='/models/PaddleOCR-VL', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, trust_remote_code=True, dtype=torch.float16, max_seq_len=16384, download_dir=None, load_format=auto, tensor_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=npu, observability_config=ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None, collect_detailed_traces=None), seed=0, served_model_name=PaddleOCR-VL-0.9B, enable_prefix_caching=False, enable_chunked_prefill=True, pooler_config=None
(EngineCore pid=213) INFO {t} [parallel_state.py:1395] rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, TP rank 0, EP rank 0
(EngineCore pid=213) INFO {t} [model_runner_v1.py:2610] Starting to load model /models/PaddleOCR-VL...
(EngineCore pid=213)
(EngineCore pid=213) Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]
(EngineCore pid=213) Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:01<00:00,  1.21s/it]
(EngineCore pid=213) INFO {t} [default_loader.py:314] Loading weights took 1.35 seconds
(EngineCore pid=213) INFO {t} [model_runner_v1.py:2637] Loading model weights took 1.9123 GB
(EngineCore pid=213) INFO {t} [worker_310p.py:98] Available KV cache memory: 12.31 GiB (halved for workspace)
(EngineCore pid=213) INFO {t} [kv_cache_utils.py:1229] GPU KV cache size: 358,400 tokens
(EngineCore pid=213) INFO {t} [kv_cache_utils.py:1234] Maximum concurrency for 16,384 tokens per request: 21.88x
(EngineCore pid=213) INFO {t} [cpu_binding.py:300] The CPU usage plan is: {{0: [0, 1, 2, 3, 4, 5]}}
(EngineCore pid=213) INFO {t} [acl_graph.py:140] Replaying aclgraph
(EngineCore pid=213) INFO {t} [model_runner_v1.py:3201] Graph capturing finished in 11 secs, took 0.21 GiB
(EngineCore pid=213) INFO {t} [core.py:254] init engine (profile, create kv cache, warmup model) took 31.42 seconds
(APIServer pid=1) INFO {t} [api_server.py:1099] Supported tasks: ['generate']
(APIServer pid=1) WARNING {t} [model.py:1581] Default sampling parameters have been overridden by the model's Hugging Face generation config recommended from the model creator.
(APIServer pid=1) INFO {t} [api_server.py:1425] Starting vLLM API server 0 on http://0.0.0.0:8000
(APIServer pid=1) INFO {t} [launcher.py:38] Available routes are:
(APIServer pid=1) INFO {t} [launcher.py:46] Route: /health, Methods: GET
(APIServer pid=1) INFO {t} [launcher.py:46] Route: /v1/models, Methods: GET
(APIServer pid=1) INFO {t} [launcher.py:46] Route: /v1/chat/completions, Methods: POST
(APIServer pid=1) INFO:     Started server process [1]
(APIServer pid=1) INFO:     Waiting for application startup.
(APIServer pid=1) INFO:     Application startup complete.
"""

END = """\
(APIServer pid=1) INFO {t} [launcher.py:110] Shutting down FastAPI HTTP server.
(APIServer pid=1) INFO:     Shutting down
(APIServer pid=1) INFO:     Waiting for application shutdown.
(APIServer pid=1) INFO:     Application shutdown complete.
(EngineCore pid=213) INFO {t} [core.py:1010] Shutdown complete
(APIServer pid=1) ERROR {t} [core_client.py:605] Engine core proc EngineCore died unexpectedly, shutting down client.
/usr/local/python3.12.13/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown
"""

SPARSE = (
    '(APIServer pid=1) INFO:     {ip}:{port} - "GET /favicon.ico HTTP/1.1" 404 Not Found',
    '(APIServer pid=1) INFO:     {ip}:{port} - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
    "(APIServer pid=1) WARNING {t} [chat_utils.py:60] Unable to detect current VLLM config. Defaulting to NHD kv cache layout.",
    "(EngineCore pid=213) WARNING {t} [cudagraph_dispatcher.py:106] cudagraph dispatching keys are not initialized. No cudagraph will be used.",
    "(APIServer pid=1) INFO {t} [preprocess.py:70] Your model uses the legacy input pipeline; errors=0 timeouts=0",
    "api-1  | INFO:     {ip}:{port} - \"POST /layout-parsing HTTP/1.1\" 200 OK",
    "api-1  | Creating model: ('PP-DocLayoutV2', None)",
    "(APIServer pid=1) INFO {t} [logger.py:49] Received request chatcmpl-{id}: prompt: 'User: the invoice says Error: out of memory, libatb.so: cannot open shared object file', params: SamplingParams(n=1, temperature=0.0).",
)  # fmt: skip


def lines(seed: int = 1, colour: bool = True) -> Iterator[str]:
    """Lines without end: a start, then serving."""
    rng = random.Random(seed)
    clock = 0
    api, core = ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m", "\x1b[1;36m(EngineCore pid=213)\x1b[0;0m")
    if not colour:
        api, core = "(APIServer pid=1)", "(EngineCore pid=213)"

    def dress(line: str) -> str:
        return line.replace("(APIServer pid=1)", api).replace("(EngineCore pid=213)", core)

    for line in START.format(t="11-30 10:00:00").splitlines():
        yield dress(line)
    while True:
        clock += 1
        t = f"11-{clock // 86400 % 28 + 1:02d} {clock // 3600 % 24:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"
        kind = rng.random()
        if kind < 0.55:
            yield f'{api} INFO:     10.0.{rng.randrange(256)}.{rng.randrange(256)}:{rng.randrange(1 << 16)} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        elif kind < 0.63:
            yield f'{api} INFO:     127.0.0.1:{rng.randrange(1 << 16)} - "GET /health HTTP/1.1" 200 OK'
        elif kind < 0.80:
            yield (
                f"{api} INFO {t} [loggers.py:248] Engine 000: Avg prompt throughput: {rng.uniform(0, 9999):.1f} tokens/s, "
                f"Avg generation throughput: {rng.uniform(0, 999):.1f} tokens/s, Running: {rng.randrange(64)} reqs, "
                f"Waiting: {rng.randrange(9)} reqs, GPU KV cache usage: {rng.uniform(0, 99):.1f}%, "
                "Prefix cache hit rate: 0.0%"
            )
        elif kind < 0.998:
            yield (
                f"{api} INFO {t} [logger.py:49] Received request chatcmpl-{rng.getrandbits(128):032x}: prompt: None, "
                "params: SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, "
                "temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, seed=None, stop=[], stop_token_ids=[], bad_words=[], "
                "include_stop_str_in_output=False, ignore_eos=False, max_tokens=4096, min_tokens=0, logprobs=None, "
                "prompt_logprobs=None, skip_special_tokens=True, spaces_between_special_tokens=True, "
                "truncate_prompt_tokens=None, structured_outputs=None, extra_args=None), lora_request: None."
            )
        else:
            yield dress(
                rng.choice(SPARSE).format(
                    t=t,
                    ip=f"10.1.2.{rng.randrange(256)}",
                    port=rng.randrange(1 << 16),
                    id=f"{rng.getrandbits(64):x}",
                )
            )


def healthy(size: int, seed: int = 1, colour: bool = True) -> Iterator[bytes]:
    """About ``size`` bytes of log in pieces: a start, serving, an orderly end. Serving repeats after 8 MiB."""
    source = lines(seed, colour)
    piece: list[str] = []
    length = written = 0
    while length < min(size, 8 << 20):
        piece.append(next(source))
        length += len(piece[-1]) + 1
    body = ("\n".join(piece) + "\n").encode()
    served = body.split(b"Application startup complete.\n", 1)[1]
    yield body
    written = len(body)
    while written < size and served:
        yield served
        written += len(served)
    yield END.format(t="12-01 10:00:00").encode()
