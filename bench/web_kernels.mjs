// How fast a matmul of 512^3 runs that is written in JavaScript: ms to load the compiler, of the first run, which compiles
// the kernel, and of the fastest; GFLOP/s.
import { Symbol, Tensor, load } from "../build/web/kernels.mjs";

const SIZE = 512;
const SECONDS = 2; // of runs

const start = performance.now();
await load();
const loaded = performance.now();
const [m, k, n] = ["m", "k", "n"].map((name) => new Symbol(name));
const ones = () => new Tensor(new Float32Array(SIZE * SIZE).fill(1), [SIZE, SIZE]);
const product = ones().to(m, k).mul(ones().to(k, n)).sum(k);
product.compute();
const first = performance.now();
const { seconds } = product.benchmark(SECONDS);
const row = [loaded - start, first - loaded, seconds * 1000].map((ms) => ms.toFixed(2));
console.log([...row, ((2 * SIZE ** 3) / seconds / 1e9).toFixed(1)].join(" "));
