// The checksum of an artifact's sections: 64 bits, the same on every machine and for any number of threads, computed at
// the speed of memory.
//
// The bytes are cut into blocks of kChecksumBlock. Each block is hashed alone; the hashes are combined in order with
// the total size. A block, padded with zeros, is rows of 32 words of 64 bits (little endian), one word for each of 32
// states. Modulo 2^64:
//
//     state i at first        = (i + 1) * 0xc2b2ae3d27d4eb4f
//     state after a word      = swap_halves((state xor word) * 0x9e3779b1)
//     combine(hash, next)     = h xor (h >> 32), where h = (hash xor next) * 0x9fb21c651e98df25
//     a block's hash          = 0, combined with each state in order
//     the checksum            = 0, combined with each block's hash in order, then with the size
//
// Every step is a bijection in each argument while the other is fixed. So a change within one aligned 8-byte word
// always changes the checksum; other damage goes unnoticed about once in 2^64 cases. The checksum does not protect
// against deliberate collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::runtime {

inline constexpr size_t kChecksumBlock = size_t{1} << 20;

// Runs on the threads of the calling thread (runtime/thread_pool.h).
uint64_t checksum(std::span<const std::byte> bytes);

// For callers that have the bytes in pieces: combine the hashes of the blocks in order, starting from 0, then the total
// size. Only the last block may be short.
uint64_t hash_block(std::span<const std::byte> block);
uint64_t combine(uint64_t hash, uint64_t next);

// The block hashes that this CPU can run, fastest first. All give the same result.
using HashBlockFn = uint64_t (*)(const std::byte* block, size_t size);
std::vector<HashBlockFn> block_hashes();

}  // namespace tenon::runtime
