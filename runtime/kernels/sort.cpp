// Short lines are sorted by comparison, long ones by radix: from the last byte of the key to the first, each pass keeps
// the order of the one before. A byte that is the same in all keys has no pass.
//
// Of a key of 64 bits the first 32 that differ are mostly enough: lines are sorted by those, then the few neighbours
// that have them in common are compared whole. Where they are many, the line is sorted again by all bits.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <span>
#include <utility>

#include "runtime/kernels/order.h"
#include "runtime/kernels/parallel.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

constexpr int64_t kShortLine = 192;       // where both ways take the same time
constexpr int64_t kSharedLine = 1 << 16;  // worth several threads
constexpr int64_t kLongRun = 64;          // of neighbours that are worth no comparison
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
#pragma GCC unroll 8
    for (size_t byte = 0; byte < kBytes; ++byte) ++counts[byte][byte_of(entries[i], byte)];
  }
  return counts;
}

// Moves entries to their bins; `next` says where each bin goes on.
template <class Entry>
void scatter(const Entry* from, int64_t count, size_t byte, Counts& next, Entry* to) {
#pragma GCC unroll 4
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
#pragma GCC unroll 4
    for (int64_t& bin : counts[byte]) start += std::exchange(bin, start);
    scatter(entries, count, byte, counts[byte], other);
    std::swap(entries, other);
  }
  return entries;
}

// Keys have 1, 2, 4 or 8 bytes. Wide entries mostly have 8: shorter keys cost them a look at bytes that are zero.
template <class Entry>
Entry* radix_sort(size_t bytes, Entry* entries, Entry* other, int64_t count) {
  if constexpr (Entry::kKeyBytes == 8) {
    return radix_sort<8>(entries, other, count);
  } else {
    if (bytes == 1) return radix_sort<1>(entries, other, count);
    if (bytes == 2) return radix_sort<2>(entries, other, count);
    return radix_sort<4>(entries, other, count);
  }
}

// A part of a line's entries: the work of one thread.
struct Part {
  int64_t begin, end;
  Counts counts;
};

// Where each part's share of each bin begins. False when all entries are in one bin.
bool place(std::span<Part> parts, int64_t length) {
  int64_t start = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    const int64_t before = start;
    for (Part& part : parts) start += std::exchange(part.counts[bin], start);
    if (start - before == length) return false;
  }
  return true;
}

// ---- keys of which an entry holds some bits -------------------------------------------------------------------------

// The bits in which keys of a line differ.
template <class Element>
uint64_t different_bits(const LinePlace& place, int64_t length) {
  const Line<Element> line(place);
  uint64_t different = 0;
  for (int64_t i = 1; i < length; ++i) different |= line.key(i) ^ line.key(0);
  return different;
}

// For elements of 64 bits in narrow entries.
struct LongKeyFunctions {
  uint64_t (*different)(const LinePlace& line, int64_t length);
  const LineFunctions<WideEntry>& whole;  // entries with all bits of a key
};

template <class Element>
inline constexpr LongKeyFunctions kLongKeyFunctions = {different_bits<Element>, kLineFunctions<Element, WideEntry>};

// Orders neighbours with the same key by all bits of it. False when there are too many.
bool settle_runs(const LongKeyFunctions& keys, LinePlace line, NarrowEntry* begin, NarrowEntry* end) {
  line.shift = 0;
  WideEntry whole[kLongRun];
  for (NarrowEntry* run = begin; run < end;) {
    NarrowEntry* const from = run++;
    while (run < end && run->key() == from->key()) ++run;
    const int64_t count = run - from;
    if (count > kLongRun) return false;
    if (count == 1) continue;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = from[i].position();
      keys.whole.load(line, position, position + 1, whole + i);
    }
    sort_entries(whole, whole + count);
    for (int64_t i = 0; i < count; ++i) from[i] = NarrowEntry::make(from[i].key(), whole[i].position());
  }
  return true;
}

// ---- one line -------------------------------------------------------------------------------------------------------

// On several threads where there are several parts.
template <class Entry>
class LineSorter {
 public:
  LineSorter(const tenon_services* services, const LineFunctions<Entry>& functions, const LinePlace& line,
             int64_t length, std::span<Part> parts)
      : services_(services),
        functions_(functions),
        line_(line),
        length_(length),
        parts_(parts),
        scratch_(services, 2 * length) {
    const int64_t count = std::ssize(parts);
    for (int64_t i = 0; i < count; ++i) parts[static_cast<size_t>(i)].begin = length / count * i;
    end_parts();
  }

  bool has_memory() const { return scratch_.get() != nullptr; }

  Entry* sorted() {
    Entry *entries = scratch_.get(), *other = entries + length_;
    for_each_part([&](Part& part) { functions_.load(line_, part.begin, part.end, entries + part.begin); });
    if (length_ <= kShortLine) {
      sort_entries(entries, entries + length_);
      return entries;
    }
    if (parts_.size() == 1) return radix_sort(functions_.key_bytes, entries, other, length_);
    return radix_sort_together(entries, other);
  }

  // Likewise, by keys of more bits than an entry holds. Null when the entries' keys do not tell the order.
  Entry* sorted_by(const LongKeyFunctions& keys) {
    line_.shift = std::max(0, static_cast<int>(std::bit_width(keys.different(line_, length_))) - 32);
    Entry* const entries = sorted();
    return line_.shift == 0 || settle(keys, entries) ? entries : nullptr;
  }

  void store(const OutputPlace& out, const Entry* entries) {
    for_each_part([&](Part& part) { functions_.store(line_, out, entries, part.begin, part.end); });
  }

 private:
  template <class Body>
  void for_each_part(Body body) {
    if (parts_.size() == 1) return body(parts_[0]);
    in_parallel(services_, 0, std::ssize(parts_), length_, [&](int64_t begin, int64_t end) -> int64_t {
      for (int64_t i = begin; i < end; ++i) body(parts_[static_cast<size_t>(i)]);
      return 0;
    });
  }

  // Each part ends where the next begins.
  void end_parts() {
    for (size_t i = 0; i + 1 < parts_.size(); ++i) parts_[i].end = parts_[i + 1].begin;
    parts_.back().end = length_;
  }

  Entry* radix_sort_together(Entry* entries, Entry* other) {
    for (size_t byte = 0; byte < functions_.key_bytes; ++byte) {
      for_each_part([&](Part& part) {
        part.counts = {};
        for (int64_t i = part.begin; i < part.end; ++i) ++part.counts[byte_of(entries[i], byte)];
      });
      if (!place(parts_, length_)) continue;
      for_each_part(
          [&](Part& part) { scatter(entries + part.begin, part.end - part.begin, byte, part.counts, other); });
      std::swap(entries, other);
    }
    return entries;
  }

  bool settle(const LongKeyFunctions& keys, Entry* entries) {
    for (size_t i = 1; i < parts_.size(); ++i) {  // a run belongs to one part
      int64_t& begin = parts_[i].begin;
      while (begin < length_ && entries[begin].key() == entries[begin - 1].key()) ++begin;
    }
    end_parts();
    std::atomic<bool> settled = true;
    for_each_part([&](Part& part) {
      if (!settle_runs(keys, line_, entries + part.begin, entries + part.end)) settled = false;
    });
    return settled;
  }

  const tenon_services* services_;
  const LineFunctions<Entry>& functions_;
  LinePlace line_;
  int64_t length_;
  std::span<Part> parts_;
  ScratchArray<Entry> scratch_;
};

// ---- all lines ------------------------------------------------------------------------------------------------------

struct Functions {
  const LineFunctions<NarrowEntry>& narrow;
  const LineFunctions<WideEntry>& wide;
  const LongKeyFunctions* long_keys;  // null where a narrow entry holds the key
  uint64_t limit;
};

template <class Element>
Functions functions_of(uint64_t limit) {
  const LongKeyFunctions* long_keys = nullptr;
  if constexpr (!kHoldsKey<NarrowEntry, Element>) long_keys = &kLongKeyFunctions<Element>;
  return {kLineFunctions<Element, NarrowEntry>, kLineFunctions<Element, WideEntry>, long_keys, limit};
}

bool is_shared(const tenon_lines& lines, int64_t threads) {
  return lines.outer * lines.inner < threads && lines.length >= kSharedLine;
}

// Whether lines may be sorted as wide entries: where narrow ones do not tell the order, or the place.
bool may_be_wide(tenon_dtype dtype, int64_t length) {
  return tenon_dtype_size(dtype) > NarrowEntry::kKeyBytes || length > NarrowEntry::kLongestLine;
}

class Sorter {
 public:
  Sorter(const tenon_services* services, const Functions& functions, const tenon_lines& lines, bool descending,
         const void* x, void* values, int64_t* indices)
      : services_(services),
        functions_(functions),
        lines_(lines),
        descending_(descending),
        x_(x),
        values_(values),
        indices_(indices) {}

  int64_t run() const {
    const int64_t count = lines_.outer * lines_.inner;
    if (count == 0 || lines_.length == 0) return 0;
    if (is_shared(lines_, thread_count())) return sort_lines(0, count, thread_count());
    return in_parallel(services_, 0, count, count * lines_.length,
                       [&](int64_t begin, int64_t end) { return sort_lines(begin, end, 1); });
  }

 private:
  // With so many threads for each line.
  int64_t sort_lines(int64_t begin, int64_t end, int64_t threads) const {
    const ScratchArray<Part> memory(services_, threads);
    if (!memory.get()) return kTenonOutOfMemory;
    const std::span parts(memory.get(), static_cast<size_t>(threads));
    int64_t error = 0;
    for (int64_t number = begin; number < end && error == 0; ++number) error = sort_line(number, parts);
    return error;
  }

  int64_t sort_line(int64_t number, std::span<Part> parts) const {
    const bool narrow =
        lines_.length <= NarrowEntry::kLongestLine && (!functions_.long_keys || lines_.length > kShortLine);
    bool done = false;
    const int64_t error = narrow ? sort_narrow(number, parts, &done) : 0;
    return done || error != 0 ? error : sort_wide(number, parts);
  }

  int64_t sort_narrow(int64_t number, std::span<Part> parts, bool* done) const {
    const LinePlace line = functions_.narrow.input(x_, lines_, number, descending_, functions_.limit);
    LineSorter<NarrowEntry> sorter(services_, functions_.narrow, line, lines_.length, parts);
    if (!sorter.has_memory()) return kTenonOutOfMemory;
    const NarrowEntry* const entries = functions_.long_keys ? sorter.sorted_by(*functions_.long_keys) : sorter.sorted();
    *done = entries != nullptr;
    if (entries) sorter.store(functions_.narrow.output(values_, indices_, lines_, number), entries);
    return 0;
  }

  int64_t sort_wide(int64_t number, std::span<Part> parts) const {
    const LinePlace line = functions_.wide.input(x_, lines_, number, descending_, functions_.limit);
    LineSorter<WideEntry> sorter(services_, functions_.wide, line, lines_.length, parts);
    if (!sorter.has_memory()) return kTenonOutOfMemory;
    sorter.store(functions_.wide.output(values_, indices_, lines_, number), sorter.sorted());
    return 0;
  }

  const tenon_services* services_;
  Functions functions_;
  tenon_lines lines_;
  bool descending_;
  const void* x_;
  void* values_;
  int64_t* indices_;
};

}  // namespace

void sort_entries(WideEntry* begin, WideEntry* end) { std::sort(begin, end); }
void sort_entries(NarrowEntry* begin, NarrowEntry* end) { std::sort(begin, end); }

}  // namespace tenon

int64_t tenon_sort(const tenon_services* services, tenon_dtype dtype, tenon_lines lines, int descending, const void* x,
                   void* values, int64_t* indices) {
  const tenon::Functions functions = tenon::with_element(
      dtype, [](auto element, uint64_t limit) { return tenon::functions_of<decltype(element)>(limit); });
  return tenon::Sorter(services, functions, lines, descending != 0, x, values, indices).run();
}

int64_t tenon_sort_scratch(tenon_dtype dtype, tenon_lines lines, int64_t threads) {
  const int64_t count = lines.outer * lines.inner;
  if (count == 0 || lines.length == 0) return 0;
  const bool wide = tenon::may_be_wide(dtype, lines.length), shared = tenon::is_shared(lines, threads);
  const auto entry = static_cast<int64_t>(wide ? sizeof(tenon::WideEntry) : sizeof(tenon::NarrowEntry));
  const auto part = static_cast<int64_t>(sizeof(tenon::Part));
  const int64_t each = part + 2 * lines.length * entry;
  return shared ? each + (threads - 1) * part : tenon::workers(count, count * lines.length, threads) * each;
}
