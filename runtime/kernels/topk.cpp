// Selection: reads each line once, and keeps what may still be among the first k. What is not below the k-th of those
// seen so far is passed over, a block at a time.
#include <algorithm>

#include "runtime/kernels/order.h"
#include "runtime/kernels/parallel.h"
#include "runtime/thread_pool.h"

namespace tenon {
namespace {

constexpr int64_t kBlock = 64;

// How much memory it takes to select k of a line: room for twice as many, so that choosing among them is rare.
int64_t room_for(int64_t k, int64_t length) { return std::min(length, 2 * k + kBlock) + kBlock; }

// Leaves the k smallest of [0, count) first, in any order but with the largest of them last, and returns how many.
template <class Entry>
[[gnu::noinline]] int64_t keep_first(Entry* entries, int64_t count, int64_t k) {
  if (count < k) return count;
  std::nth_element(entries, entries + k - 1, entries + count);
  return k;
}

// Appends the elements of a block to the `count` entries that are kept, and returns how many there are then. With a
// `last` entry, appends only what comes before it: of elements with the same key, those that are kept come first.
template <class Element, class Entry>
int64_t read_block(const LinePlace& place, int64_t at, int64_t end, const Entry* last, Entry* kept, int64_t count) {
  using Key = typename Element::Key;
  const Line<Element> line(place);
  const Key limit = last ? static_cast<Key>(last->key()) : Key{0};
  bool any = last == nullptr;
  for (int64_t i = at; i < end; ++i) any |= line.key(i) < limit;
  for (int64_t i = at; any && i < end; ++i) {
    const Key key = line.key(i);
    if (!last || key < limit) kept[count++] = Entry::make(key, i);
  }
  return count;
}

// For lines that are too long for narrow entries although their keys are not: rare, so it is the same code for all.
int64_t read_block_of_long_line(const LineFunctions<WideEntry>& functions, const LinePlace& line, int64_t at,
                                int64_t end, const WideEntry* last, WideEntry* kept, int64_t count) {
  WideEntry* const loaded = kept + count;
  WideEntry* const loaded_end = loaded + (end - at);
  functions.load(line, at, end, loaded);
  if (!last) return count + (end - at);
  const auto is_late = [limit = last->key()](const WideEntry& entry) { return entry.key() >= limit; };
  return count + (std::remove_if(loaded, loaded_end, is_late) - loaded);
}

template <class Entry>
struct Functions {
  const LineFunctions<Entry>& line;
  uint64_t limit;
  int64_t (*read_block_of)(const LinePlace& line, int64_t at, int64_t end, const Entry* last, Entry* kept,
                           int64_t count);  // null: of a long line

  int64_t read_block(const LinePlace& place, int64_t at, int64_t end, const Entry* last, Entry* kept,
                     int64_t count) const {
    if constexpr (std::is_same_v<Entry, WideEntry>) {
      if (!read_block_of) return read_block_of_long_line(line, place, at, end, last, kept, count);
    }
    return read_block_of(place, at, end, last, kept, count);
  }

  // The first k > 0 of a part of a line, or all of it, into memory of room_for(k, end - begin). Returns how many.
  int64_t select(const LinePlace& place, int64_t begin, int64_t end, int64_t k, Entry* kept) const {
    const int64_t room = room_for(k, end - begin);
    int64_t count = 0;
    const Entry* last = nullptr;
    for (int64_t at = begin; at < end; at += kBlock) {
      count = read_block(place, at, std::min(at + kBlock, end), last, kept, count);
      if (count + kBlock <= room) continue;
      count = keep_first(kept, count, k);
      last = kept + k - 1;
    }
    return keep_first(kept, count, k);
  }
};

template <class Element, class Entry>
Functions<Entry> functions_of(uint64_t limit) {
  constexpr bool kIsLongLine = std::is_same_v<Entry, WideEntry> && kHoldsKey<NarrowEntry, Element>;
  if constexpr (kIsLongLine)
    return {kLineFunctions<Element, Entry>, limit, nullptr};
  else
    return {kLineFunctions<Element, Entry>, limit, read_block<Element, Entry>};
}

// What is asked: the entries [first, k) of each sorted line.
struct Selection {
  const tenon_services* services;
  tenon_lines lines;
  int64_t first;
  int64_t k;
  bool largest;
  const void* x;
  void* values;
  int64_t* indices;
};

// Whether all threads select from each line.
bool is_shared(const tenon_lines& lines, int64_t k, int64_t threads) {
  return lines.outer * lines.inner < threads && lines.length / threads >= std::max(kWorthThreads, 4 * k);
}

int64_t room_for_part(int64_t k, int64_t length, int64_t parts) { return room_for(k, length / parts + 1); }

template <class Entry>
class Selector : Selection {
 public:
  Selector(const Selection& selection, const Functions<Entry>& functions)
      : Selection(selection), functions_(functions) {}

  [[gnu::noinline]] int64_t run() const {
    const int64_t count = lines.outer * lines.inner;
    if (count == 0 || k == 0) return 0;
    if (is_shared(lines, k, thread_count())) return select_together(count, thread_count());
    return in_parallel(services, 0, count, count * lines.length, [&](int64_t begin, int64_t end) -> int64_t {
      const ScratchArray<Entry> kept(services, room_for(k, lines.length));
      if (!kept.get()) return kTenonOutOfMemory;
      for (int64_t number = begin; number < end; ++number) {
        const LinePlace line = input(number);
        write(number, line, kept.get(), functions_.select(line, 0, lines.length, k, kept.get()));
      }
      return 0;
    });
  }

 private:
  LinePlace input(int64_t number) const { return functions_.line.input(x, lines, number, largest, functions_.limit); }

  void write(int64_t number, const LinePlace& line, Entry* kept, int64_t count) const {
    if (first == 0) sort_entries(kept, kept + count);  // else one is wanted, and it is the last
    const tenon_lines of_output = {lines.outer, k - first, lines.inner};
    functions_.line.store(line, functions_.line.output(values, indices, of_output, number), kept + first, 0, k - first);
  }

  // Each thread selects from a part of the line; the first k of all are among those.
  int64_t select_together(int64_t count, int64_t parts) const {
    const int64_t length = lines.length, room = room_for_part(k, length, parts);
    const ScratchArray<Entry> kept(services, room * parts);
    const ScratchArray<int64_t> counts(services, parts);
    if (!kept.get() || !counts.get()) return kTenonOutOfMemory;
    for (int64_t number = 0; number < count; ++number) {
      const LinePlace line = input(number);
      in_parallel(services, 0, parts, length, [&](int64_t begin, int64_t end) -> int64_t {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t from = length / parts * i + std::min(i, length % parts);
          const int64_t to = length / parts * (i + 1) + std::min(i + 1, length % parts);
          counts.get()[i] = functions_.select(line, from, to, k, kept.get() + i * room);
        }
        return 0;
      });
      Entry* end = kept.get();
      for (int64_t i = 0; i < parts; ++i) {
        end = std::copy_n(kept.get() + i * room, counts.get()[i], end);
      }
      write(number, line, kept.get(), keep_first(kept.get(), end - kept.get(), k));
    }
    return 0;
  }

  Functions<Entry> functions_;
};

int64_t select_lines(tenon_dtype dtype, const Selection& selection) {
  return with_element(dtype, [&](auto element, uint64_t limit) {
    using Element = decltype(element);
    if constexpr (kHoldsKey<NarrowEntry, Element>) {
      if (selection.lines.length <= NarrowEntry::kLongestLine) {
        return Selector(selection, functions_of<Element, NarrowEntry>(limit)).run();
      }
    }
    return Selector(selection, functions_of<Element, WideEntry>(limit)).run();
  });
}

}  // namespace
}  // namespace tenon

int64_t tenon_topk(const tenon_services* services, tenon_dtype dtype, tenon_lines lines, int64_t k, int largest,
                   const void* x, void* values, int64_t* indices) {
  return tenon::select_lines(dtype, {services, lines, 0, k, largest != 0, x, values, indices});
}

int64_t tenon_kthvalue(const tenon_services* services, tenon_dtype dtype, tenon_lines lines, int64_t k, const void* x,
                       void* values, int64_t* indices) {
  return tenon::select_lines(dtype, {services, lines, k - 1, k, false, x, values, indices});
}

int64_t tenon_select_scratch(tenon_dtype dtype, tenon_lines lines, int64_t k, int64_t threads) {
  using tenon::NarrowEntry, tenon::WideEntry;
  const int64_t count = lines.outer * lines.inner;
  if (count == 0 || k == 0) return 0;
  const bool narrow = tenon_dtype_size(dtype) <= NarrowEntry::kKeyBytes && lines.length <= NarrowEntry::kLongestLine;
  const auto entry = static_cast<int64_t>(narrow ? sizeof(NarrowEntry) : sizeof(WideEntry));
  if (tenon::is_shared(lines, k, threads)) {
    const auto of_part = static_cast<int64_t>(sizeof(int64_t));
    return threads * (tenon::room_for_part(k, lines.length, threads) * entry + of_part);
  }
  return tenon::workers(count, count * lines.length, threads) * tenon::room_for(k, lines.length) * entry;
}
