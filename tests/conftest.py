"""What all Python tests share."""

import os

os.environ.setdefault("TENON_CACHE", "off")  # tests leave the user's cache alone
