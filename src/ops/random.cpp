// Random numbers: pure functions of a key, by the counter-based generator Philox 4x32-10.
//
// A key is i64[2]: a seed and an offset. The offset counts blocks of four 32-bit words, so that a caller who advances
// it by the blocks that an op uses (a quarter of its words, rounded up) never sees a word twice.
#include <cmath>
#include <numbers>

#include "loops/lower.h"
#include "ops/common.h"
#include "runtime/philox.h"

namespace tenon::ops {
namespace {

const OperandDef kKey = {"key", DType::kI64};
const AttrDef kShape = {"shape", AttrKind::kExprs, "the result's shape"};
const AttrDef kFloatDType = {"dtype", AttrKind::kDType, "the result's dtype, a floating one", Attr(DType::kF32)};
constexpr auto kNoPeer = "PyTorch draws from the state of a generator, by another algorithm on CPU";

Shape shape_of(const OpView& view) {
  const auto shape = view.exprs("shape");
  return {shape.begin(), shape.end()};
}

Types random_type(const OpView& view, size_t key, DType dtype, Shape shape) {
  if (view.type(key).shape != Shape{2})
    fail("a key is i64[2], a seed and an offset, got {}", to_string(view.type(key)));
  for (const Expr& size : shape) {
    if (size.is_constant() && size.constant() < 0) fail("{} has a negative size", to_string(shape));
  }
  return {{dtype, std::move(shape)}};
}

Types random_float_type(InferContext& c) {
  if (!is_float(c.dtype("dtype"))) fail("dtype must be a floating one, got {}", name_of(c.dtype("dtype")));
  return random_type(c, 0, c.dtype("dtype"), shape_of(c));
}

// Philox in i64, which holds the words as numbers of 32 bits; products wrap, and their halves are masked.
class PhiloxLoops {
 public:
  explicit PhiloxLoops(LoopContext& l) : l_(l), mask_(number(0xFFFFFFFF)) {}

  void run() {
    LoopDims dims;
    Expr position = 0;
    for (const Expr& size : l_.result().shape) {
      dims.push_back(l_.var(size));
      position = position * size + l_.at(dims.back());
    }
    const LoopValue block = l_.number(l_.simplified(floordiv(position, 4)), dims);
    const LoopValue counter = l_.compute("add", {part_of_key(1), block});
    const LoopValue seed = part_of_key(0);
    const Words words = rounds({low(counter), high(counter), number(0), number(0)}, low(seed), high(seed));
    l_.out(chosen(words, l_.number(l_.simplified(mod(position, 4)), dims)));
  }

 private:
  using Words = std::array<LoopValue, 4>;

  LoopValue number(int64_t value) { return l_.constant(DType::kI64, value); }
  LoopValue low(const LoopValue& x) { return l_.compute("bitwise_and", {x, mask_}); }
  LoopValue high(const LoopValue& x) { return low(l_.compute("shift_right", {x, number(32)})); }
  LoopValue part_of_key(int64_t part) { return l_.view({}, {l_.in(), l_.type(0).shape, {part}}); }

  LoopValue mixed(const LoopValue& a, const LoopValue& b, const LoopValue& c) {
    return l_.compute("bitwise_xor", {l_.compute("bitwise_xor", {a, b}), c});
  }

  Words rounds(Words counter, LoopValue key0, LoopValue key1) {
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const LoopValue a = l_.compute("mul", {counter[0], number(kPhiloxFactors[0])});
      const LoopValue b = l_.compute("mul", {counter[2], number(kPhiloxFactors[1])});
      counter = {mixed(high(b), counter[1], key0), low(b), mixed(high(a), counter[3], key1), low(a)};
      key0 = low(l_.compute("add", {key0, number(kPhiloxSteps[0])}));
      key1 = low(l_.compute("add", {key1, number(kPhiloxSteps[1])}));
    }
    return counter;
  }

  LoopValue chosen(const Words& words, const LoopValue& which) {
    LoopValue result = words[3];
    for (int64_t i = 2; i >= 0; --i) {
      result = l_.compute("where", {l_.compute("eq", {which, number(i)}), words[static_cast<size_t>(i)], result});
    }
    return result;
  }

  LoopContext& l_;
  LoopValue mask_;
};

const OpDef kPhilox{
    .name = "philox",
    .family = "random",
    .doc =
        "Random words of 32 bits, in i64. Element i is word i % 4 of Philox 4x32-10 at the counter offset + i // 4 (64 "
        "bits, wrapping; the upper half of the counter is zero), with the seed as its key.",
    .operands = std::vector<OperandDef>{kKey},
    .attrs = {kShape},
    .infer = [](InferContext& c) { return random_type(c, 0, DType::kI64, shape_of(c)); },
    .semantics = reference([](ReferenceContext& c) {
      const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
      const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
      const auto seed = static_cast<uint64_t>(c.in().integer(c.in().offset(0)));
      const auto offset = static_cast<uint64_t>(c.in().integer(c.in().offset(1)));
      for (int64_t i = 0; i < c.out().numel(); ++i) {
        const uint64_t counter = offset + static_cast<uint64_t>(i / 4);
        const auto words = philox({low(counter), high(counter), 0, 0}, {low(seed), high(seed)});
        c.out().set_integer(i, words[static_cast<size_t>(i % 4)]);
      }
    }),
    .gradient = NotDifferentiable{},
    .loops = [](LoopContext& l) { PhiloxLoops(l).run(); },
    .role = Role::kAlone,
    .cost = Cost::kRandom,
    .peer = no_peer(kNoPeer),
    .samples = Samples{"i64[2] in 0..1000; shape=[3, 4]", "i64[2] in 0..1000; shape=[]",
                       "i64[2] in 0..1000; shape=[0, 2]", "i64[2] in -5..5; shape=[9]"},
};

// ---- from words to numbers ------------------------------------------------------------------------------------------

Value low_bits(Builder& b, Value words, int bits) {
  return b.op("bitwise_and", {words, b.integer((int64_t{1} << bits) - 1)});
}

Value philox_words(Builder& b, Value key, Shape shape) { return b.op("philox", {key}, {{"shape", std::move(shape)}}); }

Shape in_pairs(Shape shape) {
  shape.push_back(2);
  return shape;
}

// One of the two elements of each pair.
Value of_pair(Builder& b, Value pairs, int64_t which) {
  const Shape shape(pairs.shape().begin(), pairs.shape().end() - 1);
  return b.reshape(b.slice(pairs, -1, which, which + 1), shape);
}

// Random integers of more bits than a word has, up to 59.
Value wide_words(Builder& b, Value key, Shape shape, int bits) {
  constexpr int kLow = 27;
  const Value pairs = philox_words(b, key, in_pairs(std::move(shape)));
  const Value high = low_bits(b, of_pair(b, pairs, 0), bits - kLow);
  return high * std::exp2(kLow) + low_bits(b, of_pair(b, pairs, 1), kLow);
}

// The bits that a number in [0, 1) has, such that each multiple of the step is representable.
int uniform_bits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 53;
    case DType::kF32:
      return 24;
    case DType::kF16:
      return 11;
    default:
      return 8;
  }
}

OpDef float_draw(std::string_view name, std::string_view doc, Semantics semantics, const Samples& more = {}) {
  return {.name = name,
          .family = "random",
          .doc = doc,
          .operands = std::vector<OperandDef>{kKey},
          .attrs = {kShape, kFloatDType},
          .infer = random_float_type,
          .semantics = std::move(semantics),
          .gradient = NotDifferentiable{},
          .peer = no_peer(kNoPeer),
          .samples = Samples{"i64[2] in 0..1000; shape=[3, 4]", "i64[2] in 0..1000; shape=[], dtype=f64",
                             "i64[2] in 0..1000; shape=[0, 2]", "i64[2] in 0..1000; shape=[5], dtype=f16",
                             "i64[2] in 0..1000; shape=[2, 2], dtype=bf16"} +
                     more};
}

const OpDef kUniform = float_draw("uniform",
                                  "Random numbers, uniform in [0, 1): multiples of 2^-24 in f32, 2^-11 in f16, 2^-8 in "
                                  "bf16, 2^-53 in f64 (from two words).",
                                  composite([](ExpandContext& e) {
                                    const DType dtype = e.dtype("dtype");
                                    const int bits = uniform_bits(dtype);
                                    const Value integers =
                                        dtype == DType::kF64 ? wide_words(e, e.in(), shape_of(e), bits)
                                                             : low_bits(e, philox_words(e, e.in(), shape_of(e)), bits);
                                    return e.cast(integers, dtype) * std::exp2(-bits);
                                  }),
                                  {"i64[2] in 0..1000; shape=[5], dtype=f64"});

Value uniform(Builder& b, Value key, Shape shape, DType dtype) {
  return b.op("uniform", {key}, {{"shape", std::move(shape)}, {"dtype", dtype}});
}

const OpDef kNormal = float_draw(
    "normal",
    "Random numbers of the standard normal distribution, each by the Box-Muller transform of two uniform ones.",
    composite([](ExpandContext& e) {
      const Value pairs = uniform(e, e.in(), in_pairs(shape_of(e)), wide(e.dtype("dtype")));
      const Value positive = 1.0 - of_pair(e, pairs, 0);  // in (0, 1], so that the logarithm is finite
      const Value radius = e.sqrt(-2.0 * e.log(positive));
      const Value angle = of_pair(e, pairs, 1) * (2 * std::numbers::pi);
      return e.cast(radius * e.cos(angle), e.dtype("dtype"));
    }));

// ---- discrete -------------------------------------------------------------------------------------------------------

const OpDef kBernoulli{
    .name = "bernoulli",
    .family = "random",
    .doc = "1 with probability p, else 0, for each element of p. The gradient is zero.",
    .operands = std::vector<OperandDef>{{"p", kFloats}, kKey},
    .infer = [](InferContext& c) { return random_type(c, 1, c.type(0).dtype, c.type(0).shape); },
    .semantics = composite([](ExpandContext& e) {
      const Value p = e.in_wide();
      return e.cast(e.compare("lt", uniform(e, e.in(1), p.shape(), p.dtype()), p), e.in().dtype());
    }),
    .gradient = gradient([](GradContext&) -> std::vector<Value> { return {Value(), Value()}; }),
    .peer = no_peer(kNoPeer),
    .samples = Samples{"T[3, 4] in 0..1, i64[2] in 0..1000", "T[] in 0..1, i64[2] in 0..1000",
                       "T[0] in 0..1, i64[2] in 0..1000"},
};

// Keeps the expectation. With p = 1 nothing is left to scale: 0 avoids an infinity.
double dropout_scale(const OpView& view) { return view.real("p") == 1 ? 0 : 1 / (1 - view.real("p")); }

const OpDef kDropout{
    .name = "dropout",
    .family = "random",
    .doc =
        "Sets elements to zero with probability p and scales the others by 1/(1-p). The mask is true for what is kept.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, kKey},
    .attrs = {{"p", AttrKind::kReal, "the probability of zero", Attr(0.5)}},
    .results = {"out", "mask"},
    .infer = [](InferContext& c) -> Types {
      const double p = c.real("p");
      if (!(p >= 0 && p <= 1)) fail("p must be in [0, 1], got {}", p);
      return {c.type(0), random_type(c, 1, DType::kBool, c.type(0).shape)[0]};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value x = e.in_wide();
      const Value mask =
          e.compare("ge", uniform(e, e.in(1), x.shape(), DType::kF32), e.scalar(e.real("p"), DType::kF32));
      return {e.cast(x * mask * dropout_scale(e), e.in().dtype()), mask};
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      return {widen(g, g.dout()) * g.out(1) * dropout_scale(g), Value()};
    }),
    .peer = no_peer(kNoPeer),
    .samples =
        Samples{"T[3, 4], i64[2] in 0..1000; p=0.5", "T[20], i64[2] in 0..1000; p=0.2", "T[], i64[2] in 0..1000; p=0.0",
                "T[4], i64[2] in 0..1000; p=1.0", "T[0, 2], i64[2] in 0..1000; p=0.1"},
};

const OpDef kRandint{
    .name = "randint",
    .family = "random",
    .doc = "Random integers, uniform in [low, high).",
    .operands = std::vector<OperandDef>{kKey},
    .attrs = {{"low", AttrKind::kExpr, "the smallest", Attr(Expr(0))},
              {"high", AttrKind::kExpr, "one more than the largest"},
              kShape,
              {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kI64)}},
    .infer =
        [](InferContext& c) {
          if (!c.facts().less_equal(c.expr("low") + 1, c.expr("high"))) {
            fail("low {} is not known to be less than high {}", to_string(c.expr("low")), to_string(c.expr("high")));
          }
          return random_type(c, 0, c.dtype("dtype"), shape_of(c));
        },
    // 59 bits modulo the range: no integer is favoured by more than range / 2^59.
    .semantics = composite([](ExpandContext& e) {
      const auto number = [&](const Expr& value) { return e.full(value, {}, DType::kI64); };
      const Value offsets =
          e.op("remainder", {wide_words(e, e.in(), shape_of(e), 59), number(e.expr("high") - e.expr("low"))});
      return e.cast(offsets + number(e.expr("low")), e.dtype("dtype"));
    }),
    .gradient = NotDifferentiable{},
    .peer = no_peer(kNoPeer),
    .samples =
        Samples{"i64[2] in 0..1000; high=10, shape=[3, 4]", "i64[2] in 0..1000; low=-3, high=4, shape=[5], dtype=i8",
                "i64[2] in 0..1000; high=1, shape=[]", "i64[2] in 0..1000; high=2, shape=[0], dtype=bool",
                "i64[2] in 0..1000; high=5, shape=[4], dtype=f32"},
};

const OpDef kRandperm{
    .name = "randperm",
    .family = "random",
    .doc = "A random permutation of 0, 1, ... n-1.",
    .operands = std::vector<OperandDef>{kKey},
    .attrs = {{"n", AttrKind::kExpr, "how many"}, {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kI64)}},
    .infer = [](InferContext& c) { return random_type(c, 0, c.dtype("dtype"), {c.expr("n")}); },
    .semantics = composite([](ExpandContext& e) {
      const Value draws = wide_words(e, e.in(), {e.expr("n")}, 59);
      return e.cast(e.op("argsort", {draws}, {{"dim", int64_t{0}}}), e.dtype("dtype"));
    }),
    .gradient = NotDifferentiable{},
    .peer = no_peer(kNoPeer),
    .samples = Samples{"i64[2] in 0..1000; n=7", "i64[2] in 0..1000; n=0", "i64[2] in 0..1000; n=1",
                       "i64[2] in 0..1000; n=20, dtype=i32"},
};

}  // namespace

OpRefs random_ops() { return {&kPhilox, &kUniform, &kNormal, &kBernoulli, &kDropout, &kRandint, &kRandperm}; }

}  // namespace tenon::ops
