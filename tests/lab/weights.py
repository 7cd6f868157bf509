"""Write a folder that looks like the weights of a model: weights.py DIR. Runs on a host, with its own
python3.
"""

import json
import struct
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.json").write_text('{"model_type": "paddleocr_vl"}')
(folder / "tokenizer.json").write_text("{}")
tensors = {"a": {"dtype": "F16", "shape": [1024, 1024], "data_offsets": [0, 2 * 1024 * 1024]}}
header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(2 * 1024 * 1024))
