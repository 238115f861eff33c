#include "timing.h"

#include <algorithm>
#include <utility>

namespace atalla {

namespace {

size_t index(Unit unit) { return static_cast<size_t>(unit); }

}  // namespace

bool Timing::Walk::advance(uint32_t outer, uint32_t inner, uint32_t lines) {
  if (++k < lines) return true;
  k = 0;
  if (++j < inner) return true;
  j = 0;
  return ++i < outer;
}

Timing::Timing(const Machine& machine, std::span<const Command> commands)
    : machine_(machine),
      commands_(commands),
      read_channel_(machine.dma_bytes),
      write_channel_(machine.dma_bytes),
      pipeline_(machine.size + 2) {
  for (size_t i = 0; i < commands.size(); ++i)
    queues_[index(*unit_of(commands[i]))].commands.push_back(static_cast<uint32_t>(i));
}

Counters Timing::run(std::vector<Event>* events) {
  events_ = events;
  if (events) events->resize(commands_.size());
  while (sent_ < commands_.size() || !idle()) {
    step();
    ++counters_.cycles;
  }
  return counters_;
}

// Every decision depends on the state at the beginning of the cycle: stages run from the last to the first, and what an
// earlier one reads of a later one is read first.
void Timing::step() {
  const auto& compute = queues_[index(Unit::kCompute)];
  std::array<bool, kUnits> ready{};
  for (size_t u = 0; u < kUnits; ++u) {
    const size_t freed = queues_[u].at[u == index(Unit::kLoad) ? 1 : u == index(Unit::kCompute) ? 2 : 0];
    ready[u] = queues_[u].tail - freed < machine_.queue_depth;
  }
  const bool preloaded = compute.at[1] != compute.at[0];
  const bool weights_free = !loading_ && !preloaded && compute.at[0] != compute.tail;
  Banks banks;
  if (feeding_ && rows_in_window()) banks.rows = line_bank(rows_line());
  if (loading_) banks.weights = line_bank(weights_.weights + int64_t{weight_row_} * weights_.weight_lines);
  if (banks.weights >= 0 && banks.weights == banks.rows) {
    ++counters_.bank_stalls;
    banks.weights = -1;
  }
  const bool weights_read = banks.weights >= 0;
  if (!feeding_ && !preloaded) {
    const bool takes = weights_free && has_tokens(Unit::kCompute, commands_[at(Unit::kCompute, 0)]) &&
                       !(guard_ != 0 && commands_[at(Unit::kCompute, 0)].flags & Matmul::kTranspose);
    counters_.weight_stalls += loading_ || takes;
  }
  const bool sums_read = row_leaves() && commands_[at(Unit::kCompute, 2)].flags & Matmul::kAccumulate;
  step_epilogue(banks);
  step_store(banks, sums_read);
  step_load_answers(banks);
  step_load_requests();
  step_sums();
  const bool guarded = guard_ != 0;
  step_rows(preloaded);
  if (loading_) {
    if (weights_read && ++weight_row_ == machine_.size) {
      loading_ = false;
      ++queues_[index(Unit::kCompute)].at[0];
    }
  } else if (weights_free) {
    step_weights(preloaded, guarded);
  }
  dispatch(ready);
  for (size_t from = 0; from < kUnits; ++from)
    for (size_t to = 0; to < kUnits; ++to) tokens_[from][to] += std::exchange(given_[from][to], 0);
}

void Timing::dispatch(const std::array<bool, kUnits>& ready) {
  if (sent_ == commands_.size()) return;
  const size_t unit = index(*unit_of(commands_[sent_]));
  if (!ready[unit]) return;
  ++queues_[unit].tail;
  ++sent_;
}

bool Timing::idle() const {
  return queues_[0].at[1] == queues_[0].tail && queues_[1].at[2] == queues_[1].tail && !summing_ &&
         queues_[2].at[0] == queues_[2].tail && !setting_ && !storing_;
}

uint32_t Timing::at(Unit unit, size_t stage) const {
  return queues_[index(unit)].commands[queues_[index(unit)].at[stage]];
}

bool Timing::has_tokens(Unit unit, const Command& command) const {
  for (size_t from = 0; from < kUnits; ++from)
    if (command.tokens & wait(static_cast<Unit>(from)) && tokens_[from][index(unit)] == 0) return false;
  return true;
}

void Timing::begin(Unit unit, uint32_t command) {
  for (size_t from = 0; from < kUnits; ++from)
    if (commands_[command].tokens & wait(static_cast<Unit>(from))) --given_[from][index(unit)];
  if (events_) (*events_)[command] = {.command = command, .unit = unit, .begin = counters_.cycles};
}

void Timing::end(Unit unit, uint32_t command) {
  for (size_t to = 0; to < kUnits; ++to)
    if (commands_[command].tokens & signal(static_cast<Unit>(to))) ++given_[index(unit)][to];
  if (events_) (*events_)[command].end = counters_.cycles + 1;
}

// ---- load ----

void Timing::step_load_requests() {
  auto& queue = queues_[index(Unit::kLoad)];
  if (!asking_) {
    if (queue.at[0] == queue.tail) return;
    const uint32_t command = at(Unit::kLoad, 0);
    if (!has_tokens(Unit::kLoad, commands_[command])) {
      ++counters_.load_waits;
      return;
    }
    begin(Unit::kLoad, command);
    ask_ = decode<Load>(commands_[command]);
    ask_walk_ = {};
    asking_ = true;
    ++queue.at[0];
    return;
  }
  const uint32_t size = machine_.size;
  const uint32_t lines = (ask_.run + size - 1) / size;
  const int64_t offset =
      int64_t{ask_walk_.i} * ask_.outer_stride + int64_t{ask_walk_.j} * ask_.inner_stride + int64_t{ask_walk_.k} * size;
  const uint32_t bytes = std::min<uint32_t>(size, ask_.run - ask_walk_.k * size);
  if (!read_channel_.takes(address_of(ask_) + static_cast<uint64_t>(offset), bytes)) {
    ++counters_.read_stalls;
    return;
  }
  answers_.push_back(counters_.cycles + machine_.dma_latency);
  asking_ = ask_walk_.advance(ask_.outer, ask_.inner, lines);
}

void Timing::step_load_answers(const Banks& banks) {
  if (answers_.empty() || answers_.front() > counters_.cycles) return;
  const uint32_t command = at(Unit::kLoad, 1);
  if (std::exchange(answer_fresh_, false)) {
    answer_ = decode<Load>(commands_[command]);
    answer_walk_ = {};
  }
  const Walk& walk = answer_walk_;
  const int64_t line =
      answer_.line + int64_t{walk.i} * answer_.outer_lines + int64_t{walk.j} * answer_.inner_lines + walk.k;
  if (!grants(banks, line_bank(line))) return;
  answers_.pop_front();
  if (answer_walk_.advance(answer_.outer, answer_.inner, (answer_.run + machine_.size - 1) / machine_.size)) return;
  end(Unit::kLoad, command);
  ++queues_[index(Unit::kLoad)].at[1];
  answer_fresh_ = true;
}

bool Timing::grants(const Banks& banks, int64_t bank) {
  const bool granted = bank != banks.rows && bank != banks.weights && bank != banks.store;
  counters_.bank_stalls += !granted;
  return granted;
}

// ---- compute ----

void Timing::step_weights(bool preloaded, bool guarded) {
  const uint32_t command = at(Unit::kCompute, 0);
  const auto matmul = decode<Matmul>(commands_[command]);
  if (preloaded || (guarded && matmul.flags & Matmul::kTranspose)) return;
  if (!has_tokens(Unit::kCompute, commands_[command])) {
    ++counters_.compute_waits;
    return;
  }
  begin(Unit::kCompute, command);
  if (matmul.flags & Matmul::kKeepWeights) {
    ++queues_[index(Unit::kCompute)].at[0];
    return;
  }
  weights_ = matmul;
  weight_row_ = 0;
  loading_ = true;
}

bool Timing::rows_in_window() const {
  return rows_walk_.i >= rows_.outer_first && rows_walk_.i < rows_.outer_last && rows_walk_.j >= rows_.inner_first &&
         rows_walk_.j < rows_.inner_last;
}

int64_t Timing::rows_line() const {
  return rows_.line + (int64_t{rows_walk_.i} - rows_.outer_first) * rows_.outer_lines +
         (int64_t{rows_walk_.j} - rows_.inner_first) * rows_.inner_lines;
}

void Timing::step_rows(bool preloaded) {
  if (guard_ != 0) --guard_;
  pipeline_[counters_.cycles % pipeline_.size()] = feeding_;
  if (feeding_) {
    ++counters_.rows;
    feeding_ = rows_walk_.advance(rows_.outer, rows_.inner, 1);
  }
  if (feeding_ || !preloaded) return;
  rows_ = decode<Matmul>(commands_[at(Unit::kCompute, 1)]);
  rows_walk_ = {};
  feeding_ = true;
  guard_ = machine_.size;
  ++queues_[index(Unit::kCompute)].at[1];
}

bool Timing::row_leaves() const {
  return counters_.cycles >= machine_.size && pipeline_[(counters_.cycles - machine_.size) % pipeline_.size()];
}

int64_t Timing::leaving_row() const {
  return decode<Matmul>(commands_[at(Unit::kCompute, 2)]).accumulator + int64_t{summed_};
}

void Timing::step_sums() {
  if (last_sum_) end(Unit::kCompute, *std::exchange(last_sum_, std::nullopt));
  summing_ = row_leaves();
  if (!summing_) return;
  const uint32_t command = at(Unit::kCompute, 2);
  const auto matmul = decode<Matmul>(commands_[command]);
  if (++summed_ < uint32_t{matmul.inner} * matmul.outer) return;
  summed_ = 0;
  last_sum_ = command;
  ++queues_[index(Unit::kCompute)].at[2];
}

// ---- store ----

void Timing::step_epilogue(Banks& banks) {
  auto& queue = queues_[index(Unit::kStore)];
  if (setting_) {
    const bool comes = std::exchange(vector_comes_, false);
    if (vector_ < 8) {
      const int64_t bank = line_bank(epilogue_.line + vector_);
      if (!grants(banks, bank)) return;
      banks.store = bank;
      vector_comes_ = true;
      ++vector_;
    } else if (!comes) {
      end(Unit::kStore, store_command_);
      setting_ = false;
    }
    return;
  }
  if (storing_ || queue.at[0] == queue.tail) return;
  store_command_ = at(Unit::kStore, 0);
  if (!has_tokens(Unit::kStore, commands_[store_command_])) {
    ++counters_.store_waits;
    return;
  }
  begin(Unit::kStore, store_command_);
  ++queue.at[0];
  if (commands_[store_command_].opcode == static_cast<uint8_t>(Opcode::kEpilogue)) {
    epilogue_ = decode<Epilogue>(commands_[store_command_]);
    vector_ = epilogue_.flags & Epilogue::kVectors ? 0 : 8;
    setting_ = true;
  } else {
    store_ = decode<Store>(commands_[store_command_]);
    rows_read_ = rows_written_ = 0;
    storing_ = true;
    just_began_ = true;
  }
}

void Timing::step_store(Banks& banks, bool sums_read) {
  if (!storing_ || std::exchange(just_began_, false)) return;
  const uint32_t rows = uint32_t{store_.inner} * store_.outer;
  bool frees = !full_;
  if (full_) {
    const uint32_t bytes = std::min(machine_.size, out_left_);
    if (write_channel_.takes(out_address_, bytes)) {
      out_address_ += bytes;
      out_left_ -= bytes;
      frees = out_left_ == 0;
    } else {
      ++counters_.write_stalls;
    }
  }
  const bool ends = full_ && frees && !came_ && rows_read_ == rows;
  if (frees) full_ = false;
  const bool moves = came_ && frees;
  bool reads = rows_read_ < rows && (!came_ || moves);
  if (reads && sums_read && row_bank(store_.accumulator + rows_read_) == row_bank(leaving_row())) {
    ++counters_.bank_stalls;
    reads = false;
  }
  if (reads && store_.flags & Store::kResidual) {
    const int64_t line = store_.residual + int64_t{rows_read_} * (store_.flags & Store::kResidualBf16 ? 2 : 1);
    reads = grants(banks, line_bank(line));
    if (reads) banks.store = line_bank(line);
  }
  if (moves) {
    const int64_t offset = int64_t{rows_written_ / store_.inner} * store_.outer_stride +
                           int64_t{rows_written_ % store_.inner} * store_.inner_stride;
    out_address_ = address_of(store_) + static_cast<uint64_t>(offset);
    out_left_ = store_.columns * bytes_of(store_.type());
    full_ = true;
    ++rows_written_;
  }
  came_ = reads || (came_ && !moves);
  rows_read_ += reads;
  if (!ends) return;
  end(Unit::kStore, store_command_);
  storing_ = false;
}

}  // namespace atalla
