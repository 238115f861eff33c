// Short lines are sorted by comparison, long ones by radix: from the last byte of the key to the first, each pass keeps
// the order of the one before. A byte that is the same in all keys has no pass.
#include <algorithm>
#include <array>
#include <utility>

#include "runtime/kernels/order.h"
#include "runtime/kernels/parallel.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

constexpr int64_t kShortLine = 192;       // where both ways take the same time
constexpr int64_t kSharedLine = 1 << 16;  // worth several threads
constexpr size_t kBins = 256;

using Counts = std::array<int64_t, kBins>;

template <class Entry>
size_t byte_of(const Entry& entry, size_t byte) {
  return entry.key() >> (8 * byte) & (kBins - 1);
}

template <class Entry, size_t kBytes>
std::array<Counts, kBytes> count_all(const Entry* entries, int64_t count) {
  std::array<Counts, kBytes> counts = {};
  for (int64_t i = 0; i < count; ++i) {
    for (size_t byte = 0; byte < kBytes; ++byte) ++counts[byte][byte_of(entries[i], byte)];
  }
  return counts;
}

// Moves entries to their bins; `next` says where each bin goes on.
template <class Entry>
void scatter(const Entry* from, int64_t count, size_t byte, Counts& next, Entry* to) {
  for (int64_t i = 0; i < count; ++i) to[next[byte_of(from[i], byte)]++] = from[i];
}

bool is_in_one_bin(const Counts& counts, int64_t count) {
  return std::ranges::any_of(counts, [&](int64_t in_bin) { return in_bin == count; });
}

// Sorts with the help of as much memory again, and says in which of the two the result is.
template <size_t kBytes, class Entry>
Entry* radix_sort(Entry* entries, Entry* other, int64_t count) {
  std::array<Counts, kBytes> counts = count_all<Entry, kBytes>(entries, count);
  for (size_t byte = 0; byte < kBytes; ++byte) {
    if (is_in_one_bin(counts[byte], count)) continue;
    int64_t start = 0;
    for (int64_t& bin : counts[byte]) start += std::exchange(bin, start);
    scatter(entries, count, byte, counts[byte], other);
    std::swap(entries, other);
  }
  return entries;
}

template <class Element, class Entry>
class Sorter {
 public:
  Sorter(const tenon_host* host, const tenon_lines& lines, bool descending, const void* x, void* values,
         int64_t* indices)
      : host_(host), lines_(lines), descending_(descending), x_(x), values_(values), indices_(indices) {}

  int64_t run() const {
    const int64_t count = lines_.outer * lines_.inner;
    if (count == 0 || lines_.length == 0) return 0;
    const bool shared = count < thread_count() && lines_.length >= kSharedLine;
    if (!shared) {
      return in_parallel(host_, 0, count, count * lines_.length,
                         [&](int64_t begin, int64_t end) { return sort_lines(begin, end); });
    }
    for (int64_t number = 0; number < count; ++number) {
      if (const int64_t error = sort_together(number)) return error;
    }
    return 0;
  }

 private:
  using InputLine = Line<Element>;
  static constexpr size_t kBytes = sizeof(typename Element::Key);

  InputLine input(int64_t number) const { return InputLine(x_, lines_, number, descending_); }
  OutputLine<typename Element::Storage> output(int64_t number) const { return {values_, indices_, lines_, number}; }

  int64_t sort_lines(int64_t begin, int64_t end) const {
    const int64_t length = lines_.length;
    const ScratchArray<Entry> scratch(host_, 2 * length);
    if (!scratch.get()) return kTenonOutOfMemory;
    for (int64_t number = begin; number < end; ++number) {
      const InputLine line = input(number);
      line.load(0, length, scratch.get());
      output(number).store(line, sorted(scratch.get(), scratch.get() + length), 0, length);
    }
    return 0;
  }

  const Entry* sorted(Entry* entries, Entry* other) const {
    if (lines_.length > kShortLine) return radix_sort<kBytes>(entries, other, lines_.length);
    std::sort(entries, entries + lines_.length);
    return entries;
  }

  // ---- a long line, on several threads: each has a part of the entries in each pass ----

  struct Part {
    int64_t begin, end;
    Counts counts;
  };

  template <class Body>
  void for_each_part(Part* parts, int64_t part_count, Body body) const {
    in_parallel(host_, 0, part_count, lines_.length, [&](int64_t begin, int64_t end) -> int64_t {
      for (int64_t i = begin; i < end; ++i) body(parts[i]);
      return 0;
    });
  }

  // Where each part's share of each bin begins. False when all entries are in one bin.
  bool place(Part* parts, int64_t part_count) const {
    int64_t start = 0;
    for (size_t bin = 0; bin < kBins; ++bin) {
      const int64_t before = start;
      for (int64_t i = 0; i < part_count; ++i) start += std::exchange(parts[i].counts[bin], start);
      if (start - before == lines_.length) return false;
    }
    return true;
  }

  int64_t sort_together(int64_t number) const {
    const int64_t length = lines_.length, part_count = thread_count();
    const ScratchArray<Entry> scratch(host_, 2 * length);
    const ScratchArray<Part> parts(host_, part_count);
    if (!scratch.get() || !parts.get()) return kTenonOutOfMemory;
    const InputLine line = input(number);
    for (int64_t i = 0; i < part_count; ++i) {
      parts.get()[i].begin = length / part_count * i + std::min(i, length % part_count);
      parts.get()[i].end = length / part_count * (i + 1) + std::min(i + 1, length % part_count);
    }
    Entry *entries = scratch.get(), *other = entries + length;
    for_each_part(parts.get(), part_count, [&](Part& p) { line.load(p.begin, p.end, entries + p.begin); });
    for (size_t byte = 0; byte < kBytes; ++byte) {
      for_each_part(parts.get(), part_count, [&](Part& p) {
        p.counts = {};
        for (int64_t i = p.begin; i < p.end; ++i) ++p.counts[byte_of(entries[i], byte)];
      });
      if (!place(parts.get(), part_count)) continue;
      for_each_part(parts.get(), part_count,
                    [&](Part& p) { scatter(entries + p.begin, p.end - p.begin, byte, p.counts, other); });
      std::swap(entries, other);
    }
    const auto out = output(number);
    for_each_part(parts.get(), part_count, [&](Part& p) { out.store(line, entries, p.begin, p.end); });
    return 0;
  }

  const tenon_host* host_;
  tenon_lines lines_;
  bool descending_;
  const void* x_;
  void* values_;
  int64_t* indices_;
};

}  // namespace
}  // namespace tenon

int64_t tenon_sort(const tenon_host* host, tenon_dtype dtype, tenon_lines lines, int descending, const void* x,
                   void* values, int64_t* indices) {
  return tenon::with_entry(dtype, lines.length, [&](auto element, auto entry) {
    return tenon::Sorter<decltype(element), decltype(entry)>(host, lines, descending != 0, x, values, indices).run();
  });
}
