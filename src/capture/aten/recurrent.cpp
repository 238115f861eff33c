// Recurrent networks: cells, and layers of them with the steps written out.
#include <fmt/format.h>

#include <functional>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// Written out, more steps than this make a graph that is too large to be of use.
constexpr int64_t kMostSteps = 1024;

struct Weights {
  Value input, hidden;            // w_ih, w_hh
  Value input_bias, hidden_bias;  // may be empty
  Value projection;               // of an LSTM; may be empty
};

// The state of a cell between steps: h; for an LSTM, h and c.
using State = std::vector<Value>;
// A step: `gates` is the input times its weights, which all steps share one product for.
using Step = State (*)(Builder&, const Weights&, Value gates, const State&);

Value linear(Builder& b, Value x, Value weight, Value bias) { return b.op("linear", {x, weight, bias}); }

std::vector<Value> parts(Builder& b, Value gates, int64_t count) {
  const Expr size = floordiv(gates.shape().back(), count);
  return b.results("split", {gates}, {{"sizes", Shape(static_cast<size_t>(count), size)}, {"dim", int64_t{-1}}});
}

State lstm_step(Builder& b, const Weights& w, Value gates, const State& state) {
  const std::vector<Value> gate = parts(b, gates + linear(b, state[0], w.hidden, w.hidden_bias), 4);
  const Value cell = b.sigmoid(gate[1]) * state[1] + b.sigmoid(gate[0]) * b.tanh(gate[2]);
  const Value hidden = b.sigmoid(gate[3]) * b.tanh(cell);
  return {w.projection ? linear(b, hidden, w.projection, {}) : hidden, cell};
}

State gru_step(Builder& b, const Weights& w, Value gates, const State& state) {
  const std::vector<Value> from_input = parts(b, gates, 3);
  const std::vector<Value> from_hidden = parts(b, linear(b, state[0], w.hidden, w.hidden_bias), 3);
  const Value reset = b.sigmoid(from_input[0] + from_hidden[0]);
  const Value update = b.sigmoid(from_input[1] + from_hidden[1]);
  const Value fresh = b.tanh(from_input[2] + reset * from_hidden[2]);
  return {(state[0] - fresh) * update + fresh};
}

State tanh_step(Builder& b, const Weights& w, Value gates, const State& state) {
  return {b.tanh(gates + linear(b, state[0], w.hidden, w.hidden_bias))};
}

State relu_step(Builder& b, const Weights& w, Value gates, const State& state) {
  return {b.relu(gates + linear(b, state[0], w.hidden, w.hidden_bias))};
}

// ---- one step -------------------------------------------------------------------------------------------------------

AtenFn cell(Step step) {
  return [step](AtenCall& c) {
    const Weights w{c.tensor("w_ih"), c.tensor("w_hh"), c.tensor_or_none("b_ih"), c.tensor_or_none("b_hh"), {}};
    const State next = step(c, w, linear(c, c.tensor("input"), w.input, w.input_bias), c.tensors("hx"));
    return next.size() == 1 ? AtenArg(next[0]) : AtenArg(next);
  };
}

// ---- all steps ------------------------------------------------------------------------------------------------------

struct Network {
  Step step;
  size_t states;  // 2 for an LSTM
  bool has_biases, bidirectional;
  int64_t layers;
  double dropout;
  std::vector<Value> parameters;

  size_t directions() const { return bidirectional ? 2 : 1; }
  size_t weights_each() const { return parameters.size() / (static_cast<size_t>(layers) * directions()); }
};

Network network_of(AtenCall& c, Step step, size_t states) {
  return {step,
          states,
          c.flag("has_biases"),
          c.flag("bidirectional"),
          c.integer("num_layers"),
          c.flag("train") ? c.real("dropout") : 0,
          c.tensors("params")};
}

// `place` counts layers and their directions.
Weights weights_of(const Network& network, size_t place) {
  const auto at = [&](size_t i) { return network.parameters.at(place * network.weights_each() + i); };
  const size_t plain = network.has_biases ? 4 : 2;
  Weights weights{at(0), at(1), {}, {}, {}};
  if (network.has_biases) {
    weights.input_bias = at(2);
    weights.hidden_bias = at(3);
  }
  if (network.weights_each() > plain) weights.projection = at(plain);
  return weights;
}

struct Passed {
  Value outputs;  // [steps, batch, features]
  State last;
};

// Over the steps of x, [steps, batch, features], in one direction.
Passed run_direction(AtenCall& c, const Network& network, const Weights& w, Value x, State state, bool backwards) {
  const std::vector<Value> gates = c.results("unbind", {linear(c, x, w.input, w.input_bias)}, {{"dim", int64_t{0}}});
  std::vector<Value> outputs(gates.size());
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t at = backwards ? gates.size() - 1 - i : i;
    state = network.step(c, w, gates[at], state);
    outputs[at] = state[0];
  }
  return {c.op("stack", outputs), state};
}

// The states that a layer starts from: row `place` of each.
State initial_state(AtenCall& c, const std::vector<Value>& hx, size_t place) {
  State state;
  for (Value x : hx) state.push_back(c.op("select", {x}, {{"dim", int64_t{0}}, {"index", Expr(place)}}));
  return state;
}

Value dropped_out(AtenCall& c, Value x, double p) {
  return p == 0 ? x : c.results("dropout", {x, c.key(element_count(x.shape()))}, {{"p", p}})[0];
}

void check_steps(const AtenCall& c, const Expr& steps) {
  if (!steps.is_constant()) c.decline("the number of steps is the symbolic {}", steps);
  if (steps.is_constant(0)) fail("a sequence must have steps");
  if (steps.constant() > kMostSteps) c.decline("{} steps are too many to write out", steps);
}

std::vector<Value> run_layers(AtenCall& c, const Network& network, Value x, const std::vector<Value>& hx) {
  std::vector<State> last(network.states);
  for (int64_t layer = 0; layer < network.layers; ++layer) {
    if (layer > 0) x = dropped_out(c, x, network.dropout);
    std::vector<Value> outputs;
    for (size_t direction = 0; direction < network.directions(); ++direction) {
      const size_t place = static_cast<size_t>(layer) * network.directions() + direction;
      const Passed passed =
          run_direction(c, network, weights_of(network, place), x, initial_state(c, hx, place), direction == 1);
      outputs.push_back(passed.outputs);
      for (size_t i = 0; i < network.states; ++i) last[i].push_back(passed.last[i]);
    }
    x = outputs.size() == 1 ? outputs[0] : c.concat(outputs, -1);
  }
  std::vector<Value> results = {x};
  for (const State& states : last) results.push_back(c.op("stack", states));
  return results;
}

AtenFn layers_of(Step step, size_t states) {
  return [=](AtenCall& c) {
    const bool batch_first = c.flag("batch_first");
    const Value x = batch_first ? c.transpose(c.tensor("input"), 0, 1) : c.tensor("input");
    check_steps(c, x.size(0));
    std::vector<Value> results = run_layers(c, network_of(c, step, states), x, c.tensors("hx"));
    if (batch_first) results[0] = c.transpose(results[0], 0, 1);
    return results;
  };
}

}  // namespace

void add_recurrent_entries(AtenTable& table) {
  constexpr std::string_view kCell = "(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)";
  constexpr std::string_view kLayers =
      "(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)";
  const std::tuple<std::string_view, Step, size_t> networks[] = {
      {"lstm", lstm_step, 2}, {"gru", gru_step, 1}, {"rnn_tanh", tanh_step, 1}, {"rnn_relu", relu_step, 1}};
  for (const auto& [name, step, states] : networks) {
    table.add(fmt::format("aten.{}_cell.default{}", name, kCell), cell(step));
    table.add(fmt::format("aten.{}.input{}", name, kLayers), layers_of(step, states));
  }
}

}  // namespace tenon::aten
