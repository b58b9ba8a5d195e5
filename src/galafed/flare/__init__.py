"""NVIDIA FLARE underneath: what runs beside `engines/nvflare.py` in its server and at its sites."""
