"""Put PaddleOCR-VL on Huawei Ascend NPUs with vLLM-Ascend, and prove that it works there."""

__version__ = "0.1.0"
