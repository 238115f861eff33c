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

// The functions of entries alone stand outside of the classes for elements, and are not inlined: there are nine kinds
// of elements, and two of entries.
template <class Entry>
[[gnu::noinline]] Entry* compare_sort(Entry* entries, int64_t count) {
  std::sort(entries, entries + count);
  return entries;
}

// Sorts with the help of as much memory again, and says in which of the two the result is.
template <size_t kBytes, class Entry>
[[gnu::noinline]] Entry* radix_sort(Entry* entries, Entry* other, int64_t count) {
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

// Calls body(part) for each, on as many threads.
template <class Body>
void for_each_part(const tenon_host* host, std::span<Part> parts, int64_t length, Body body) {
  if (parts.size() == 1) return body(parts[0]);
  in_parallel(host, 0, std::ssize(parts), length, [&](int64_t begin, int64_t end) -> int64_t {
    for (int64_t i = begin; i < end; ++i) body(parts[static_cast<size_t>(i)]);
    return 0;
  });
}

template <class Entry>
[[gnu::noinline]] Entry* radix_sort_together(const tenon_host* host, std::span<Part> parts, int64_t length,
                                             size_t bytes, Entry* entries, Entry* other) {
  for (size_t byte = 0; byte < bytes; ++byte) {
    for_each_part(host, parts, length, [&](Part& part) {
      part.counts = {};
      for (int64_t i = part.begin; i < part.end; ++i) ++part.counts[byte_of(entries[i], byte)];
    });
    if (!place(parts, length)) continue;
    for_each_part(host, parts, length,
                  [&](Part& part) { scatter(entries + part.begin, part.end - part.begin, byte, part.counts, other); });
    std::swap(entries, other);
  }
  return entries;
}

// Sorts one line, on several threads where there are several parts.
template <class Element, class Entry>
class LineSorter {
 public:
  LineSorter(const tenon_host* host, const Line<Element>& line, int64_t length, std::span<Part> parts)
      : host_(host), line_(line), length_(length), parts_(parts), scratch_(host, 2 * length) {
    const int64_t count = std::ssize(parts);
    for (int64_t i = 0; i < count; ++i) parts[static_cast<size_t>(i)].begin = length / count * i;
    end_parts();
  }

  bool has_memory() const { return scratch_.get() != nullptr; }

  // Null when the entries' keys do not tell the order.
  const Entry* sorted() {
    if constexpr (!kHoldsKey<Entry, Element>) line_.shift = unneeded_bits();
    Entry *entries = scratch_.get(), *other = entries + length_;
    for_all([&](Part& part) { line_.load(part.begin, part.end, entries + part.begin); });
    entries = length_ <= kShortLine ? compare_sort(entries, length_)
              : parts_.size() == 1  ? radix_sort<kBytes>(entries, other, length_)
                                    : radix_sort_together(host_, parts_, length_, kBytes, entries, other);
    if constexpr (kHoldsKey<Entry, Element>) return entries;
    return line_.shift == 0 || settle(entries) ? entries : nullptr;
  }

  void store(const OutputLine<typename Element::Storage>& out, const Entry* entries) {
    for_all([&](Part& part) { out.store(line_, entries, part.begin, part.end); });
  }

 private:
  // A wide entry is for lines that few will see: any key is one of 8 bytes there.
  static constexpr size_t kBytes =
      Entry::kKeyBytes == 8 ? 8 : std::min(sizeof(typename Element::Key), Entry::kKeyBytes);

  template <class Body>
  void for_all(Body body) {
    for_each_part(host_, parts_, length_, body);
  }

  // Each part ends where the next begins.
  void end_parts() {
    for (size_t i = 0; i + 1 < parts_.size(); ++i) parts_[i].end = parts_[i + 1].begin;
    parts_.back().end = length_;
  }

  // Of the last bits of the keys: how many there are after the first 32 that differ.
  int unneeded_bits() const {
    uint64_t different = 0;
    for (int64_t i = 1; i < length_; ++i) different |= line_.key(i) ^ line_.key(0);
    return std::max(0, static_cast<int>(std::bit_width(different)) - 32);
  }

  // Orders neighbours with the same key by all bits of it. False when there are too many.
  bool settle(Entry* entries) {
    for (size_t i = 1; i < parts_.size(); ++i) {  // a run belongs to one part
      int64_t& begin = parts_[i].begin;
      while (begin < length_ && entries[begin].key() == entries[begin - 1].key()) ++begin;
    }
    end_parts();
    std::atomic<bool> settled = true;
    for_all([&](Part& part) {
      if (!settle(entries + part.begin, entries + part.end)) settled = false;
    });
    return settled;
  }

  bool settle(Entry* begin, Entry* end) const {
    const auto is_before = [&](const Entry& a, const Entry& b) {
      const auto key_a = line_.key(a.position()), key_b = line_.key(b.position());
      return key_a < key_b || (key_a == key_b && a.position() < b.position());
    };
    for (Entry* run = begin; run < end;) {
      Entry* const from = run++;
      while (run < end && run->key() == from->key()) ++run;
      if (run - from > kLongRun) return false;
      if (run - from > 1) std::sort(from, run, is_before);
    }
    return true;
  }

  const tenon_host* host_;
  Line<Element> line_;
  int64_t length_;
  std::span<Part> parts_;
  ScratchArray<Entry> scratch_;
};

template <class Element>
class Sorter {
 public:
  Sorter(const tenon_host* host, const tenon_lines& lines, bool descending, const void* x, void* values,
         int64_t* indices)
      : host_(host), lines_(lines), descending_(descending), x_(x), values_(values), indices_(indices) {}

  int64_t run() const {
    const int64_t count = lines_.outer * lines_.inner;
    if (count == 0 || lines_.length == 0) return 0;
    const bool shared = count < thread_count() && lines_.length >= kSharedLine;
    if (shared) return sort_lines(0, count, thread_count());
    return in_parallel(host_, 0, count, count * lines_.length,
                       [&](int64_t begin, int64_t end) { return sort_lines(begin, end, 1); });
  }

 private:
  // With so many threads for each line.
  int64_t sort_lines(int64_t begin, int64_t end, int64_t threads) const {
    const ScratchArray<Part> memory(host_, threads);
    if (!memory.get()) return kTenonOutOfMemory;
    const std::span parts(memory.get(), static_cast<size_t>(threads));
    int64_t error = 0;
    for (int64_t number = begin; number < end && error == 0; ++number) error = sort_line(number, parts);
    return error;
  }

  int64_t sort_line(int64_t number, std::span<Part> parts) const {
    const bool narrow =
        lines_.length <= NarrowEntry::kLongestLine && (kHoldsKey<NarrowEntry, Element> || lines_.length > kShortLine);
    bool done = false;
    const int64_t error = narrow ? sort_by<NarrowEntry>(number, parts, &done) : 0;
    return done || error != 0 ? error : sort_by<WideEntry>(number, parts, &done);
  }

  template <class Entry>
  int64_t sort_by(int64_t number, std::span<Part> parts, bool* done) const {
    const Line<Element> line(x_, lines_, number, descending_);
    LineSorter<Element, Entry> sorter(host_, line, lines_.length, parts);
    if (!sorter.has_memory()) return kTenonOutOfMemory;
    const Entry* const entries = sorter.sorted();
    *done = entries != nullptr;
    if (entries) sorter.store({values_, indices_, lines_, number}, entries);
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
  return tenon::with_element(dtype, [&](auto element) {
    return tenon::Sorter<decltype(element)>(host, lines, descending != 0, x, values, indices).run();
  });
}
