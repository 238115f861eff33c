// The checksum of an artifact's sections: 64 bits, the same on every machine and with any number of threads, at the
// speed of memory.
//
// Bytes are cut into blocks of kChecksumBlock; each is hashed alone, and the hashes are combined in order with the
// total size. A block, padded with zeros, is rows of 32 words of 64 bits (little endian), one for each of 32 states.
// Modulo 2^64:
//
//     state i at first        = (i + 1) * 0xc2b2ae3d27d4eb4f
//     state after a word      = swap_halves((state xor word) * 0x9e3779b1)
//     combine(hash, next)     = h xor (h >> 32), where h = (hash xor next) * 0x9fb21c651e98df25
//     a block's hash          = 0, combined with each state in order
//     the checksum            = 0, combined with each block's hash in order, then with the size
//
// Every step is a bijection of each of its two arguments while the other stays. So bytes that differ within one aligned
// word of 8 have another checksum, always; other damage by chance goes unnoticed about once in 2^64. It is no defence
// against somebody who wants two files to have the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::runtime {

inline constexpr size_t kChecksumBlock = size_t{1} << 20;

// Runs on the calling thread's threads (runtime/thread_pool.h).
uint64_t checksum(std::span<const std::byte> bytes);

// The parts, for who has the bytes in pieces: hashes of blocks, of which only the last may be short, go into one number
// from 0 on, then the size of them all.
uint64_t hash_block(std::span<const std::byte> block);
uint64_t combine(uint64_t hash, uint64_t next);

// The ways to hash a block that this CPU has, the fastest first. They all give the same.
using HashBlockFn = uint64_t (*)(const std::byte* block, size_t size);
std::vector<HashBlockFn> block_hashes();

}  // namespace tenon::runtime
