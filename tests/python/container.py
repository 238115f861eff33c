"""The container of artifacts (format/container.h), as tests take it apart and put it together."""

import struct

import numpy as np

HEADER, SECTION = struct.Struct("<8sIIQIIQ24x"), struct.Struct("<II32sQQQ")
BLOCK = 1 << 20


def _combine(total, value):
    total = (total ^ value) * 0x9FB21C651E98DF25 % (1 << 64)
    return total ^ (total >> 32)


def _block_hash(block):
    rows = np.frombuffer(block + bytes(-len(block) % 256), "<u8").reshape(-1, 32)
    states = np.arange(1, 33, dtype=np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    for row in rows:
        product = (states ^ row) * np.uint64(0x9E3779B1)
        states = (product << np.uint64(32)) | (product >> np.uint64(32))
    total = 0
    for state in states:
        total = _combine(total, int(state))
    return total


def checksum(data):
    """As runtime/checksum.h defines it."""
    total = 0
    for at in range(0, len(data), BLOCK):
        total = _combine(total, _block_hash(data[at : at + BLOCK]))
    return _combine(total, len(data))


def sections(data):
    """(kind, flags, name, offset, size, checksum) of each section."""
    count = HEADER.unpack_from(data)[4]
    return [SECTION.unpack_from(data, HEADER.size + i * SECTION.size) for i in range(count)]


def sealed(data):
    """The file with the checksums that its bytes have now, so that a reader looks at what is inside."""
    data, table = bytearray(data), HEADER.size
    for kind, flags, name, offset, size, _ in sections(data):
        SECTION.pack_into(data, table, kind, flags, name, offset, size, checksum(bytes(data[offset : offset + size])))
        table += SECTION.size
    head = list(HEADER.unpack_from(data))
    HEADER.pack_into(data, 0, *head[:6], 0)
    HEADER.pack_into(data, 0, *head[:6], checksum(bytes(data[:table])))
    return bytes(data)
