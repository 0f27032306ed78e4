// The kernel of benchmarks/by_hand_small_images.py, which puts the constants in capitals before this text.
//
// A block copies K whole planes of one image after another (L of them) into a ring of COPIES in shared memory, and each
// of its THREADS computes TY by TX results of a plane. LOAD: 0 ordinary loads, 1 cp.async, 2 bulk copies (Hopper).
// STORE: 0 each thread its own results, 1 collected in shared memory and stored in vectors of 16 bytes, 2 collected and
// stored by bulk copies, 3 collected and stored element by element.

#if HALF
typedef unsigned short Element;
__device__ __forceinline__ float value(Element bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
__device__ __forceinline__ Element rounded(float x) {
  Element bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
#else
typedef float Element;
__device__ __forceinline__ float value(Element x) { return x; }
__device__ __forceinline__ Element rounded(float x) { return x; }
#endif
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int SIZE = sizeof(Element), VECTOR = 16 / SIZE;
constexpr int IN = K * H * W, OUT = K * OH * OW;
constexpr int DOWN = (OH + TY - 1) / TY, ACROSS = (OW + TX - 1) / TX, TASKS = K * DOWN * ACROSS;
constexpr int IN_BYTES = (IN * SIZE + 127) / 128 * 128, OUT_BYTES = (OUT * SIZE + 127) / 128 * 128;
constexpr int RESULTS = STORE == 0 ? 0 : STORE == 2 ? 2 : 1;
template <int n> struct alignas(n * sizeof(Element)) Chunk { Element of[n]; };

__device__ __forceinline__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void wait(u64* barrier, u32 phase) {
  asm volatile("{ .reg .pred p; L_%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L_%=; }"
      : : "r"(shared(barrier)), "r"(phase) : "memory");
}

__device__ __forceinline__ void fetch(const Element* __restrict__ from, unsigned char* to, u64* barrier) {
#if LOAD == 2
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
        : : "r"(shared(barrier)), "r"(IN * SIZE) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        : : "r"(shared(to)), "l"(from), "r"(IN * SIZE), "r"(shared(barrier)) : "memory");
  }
#else
  #pragma unroll 8
  for (int i = threadIdx.x; i < IN / VECTOR; i += THREADS) {
#if LOAD == 1
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
        : : "r"((u32)__cvta_generic_to_shared(to + i * 16)), "l"((const char*)from + i * 16) : "memory");
#else
    ((uint4*)to)[i] = ((const uint4*)from)[i];
#endif
  }
#if LOAD == 1
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
#endif
}

__device__ __forceinline__ void load_weights(float* weights, const Element* __restrict__ w, int channel) {
  #pragma unroll
  for (int i = 0; i < R * R; ++i) weights[i] = value(w[channel * R * R + i]);
}

// The results of a thread, from `plane` in shared memory.
__device__ __forceinline__ void compute(float (&sums)[TY][TX], const Element* plane, int oy, int ox, const float* weights) {
  constexpr int WIDE = (TX - 1) * STRIDE + R, TALL = (TY - 1) * STRIDE + R;
  #pragma unroll
  for (int r = 0; r < TALL; ++r) {
    const int iy = oy * STRIDE - PAD + r;
    const bool inside = iy >= 0 && iy < H;
    float row[WIDE];
    #pragma unroll
    for (int j = 0; j < WIDE; ++j) row[j] = 0.0f;
    if (ACROSS == 1) {
      if (inside) {
        #pragma unroll
        for (int j = 0; j < W; j += CHUNK) {
          const Chunk<CHUNK> chunk = *(const Chunk<CHUNK>*)(plane + iy * W + j);
          #pragma unroll
          for (int k = 0; k < CHUNK; ++k) if (PAD + j + k < WIDE) row[PAD + j + k] = value(chunk.of[k]);
        }
      }
    } else {
      #pragma unroll
      for (int j = 0; j < WIDE; ++j) {
        const int ix = ox * STRIDE - PAD + j;
        if (inside && ix >= 0 && ix < W) row[j] = value(plane[iy * W + ix]);
      }
    }
    #pragma unroll
    for (int i = 0; i < TY; ++i) {
      const int ry = r - i * STRIDE;
      if (ry < 0 || ry >= R) continue;
      #pragma unroll
      for (int rx = 0; rx < R; ++rx)
        #pragma unroll
        for (int j = 0; j < TX; ++j) sums[i][j] += row[j * STRIDE + rx] * weights[ry * R + rx];
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) planes(
    const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char memory[];
  unsigned char* const ring = memory;
  unsigned char* const results = memory + COPIES * IN_BYTES;
  u64* const barriers = (u64*)(results + RESULTS * OUT_BYTES);
  const int group = blockIdx.x % (C / K), first = blockIdx.x / (C / K) * L;
  const Element* const from = x + (u64)first * C * H * W + (u64)group * IN;
  Element* const to = y + (u64)first * C * OH * OW + (u64)group * OUT;
#if LOAD == 2
  if (threadIdx.x == 0) {
    for (int i = 0; i < COPIES; ++i)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(shared(barriers + i)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;" : : : "memory");
  }
  __syncthreads();
  constexpr int AHEAD = COPIES;  // a copy is issued as soon as its place is free
#else
  constexpr int AHEAD = COPIES > 1 ? COPIES - 1 : 1;  // behind the barrier of the next image
#endif
  #pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    if (i < L) fetch(from + (u64)i * C * H * W, ring + i * IN_BYTES, barriers + i);
  float weights[R * R];  // those of a thread stay in its registers where it has one task
  if (THREADS >= TASKS) load_weights(weights, w, group * K + min((int)threadIdx.x, TASKS - 1) / (DOWN * ACROSS));
  for (int n = 0; n < L; ++n) {
    unsigned char* const place = ring + n % COPIES * IN_BYTES;
#if LOAD == 2
    wait(barriers + n % COPIES, n / COPIES & 1);
#else
#if LOAD == 1
    asm volatile("cp.async.wait_group %0;" : : "n"(COPIES > 1 ? COPIES - 2 : 0) : "memory");
#endif
    __syncthreads();
    if (COPIES > 1) {
      if (n + AHEAD < L)
        fetch(from + (u64)(n + AHEAD) * C * H * W, ring + (n + AHEAD) % COPIES * IN_BYTES, barriers);
#if LOAD == 1
      else
        asm volatile("cp.async.commit_group;" : : : "memory");
#endif
    }
#endif
    Element* const there = to + (u64)n * C * OH * OW;
    Element* const out = STORE ? (Element*)(results + n % max(RESULTS, 1) * OUT_BYTES) : there;
    for (int task = threadIdx.x; task < TASKS; task += THREADS) {
      const int plane = task / (DOWN * ACROSS), oy = task % (DOWN * ACROSS) / ACROSS * TY, ox = task % ACROSS * TX;
      if (THREADS < TASKS) load_weights(weights, w, group * K + plane);
      float sums[TY][TX] = {};
      compute(sums, (const Element*)place + plane * H * W, oy, ox, weights);
      #pragma unroll
      for (int i = 0; i < TY; ++i)
        #pragma unroll
        for (int j = 0; j < TX; ++j)
          if ((OH % TY == 0 || oy + i < OH) && (OW % TX == 0 || ox + j < OW))
            out[(plane * OH + oy + i) * OW + ox + j] = rounded(sums[i][j]);
    }
#if STORE == 2
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
    if (STORE || LOAD == 2 || COPIES == 1) __syncthreads();
#if STORE == 1
    for (int i = threadIdx.x; i < OUT / VECTOR; i += THREADS) ((uint4*)there)[i] = ((const uint4*)out)[i];
#elif STORE == 3
    for (int i = threadIdx.x; i < OUT; i += THREADS) there[i] = out[i];
#elif STORE == 2
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group;"
          : : "l"(there), "r"(shared(out)), "r"(OUT * SIZE) : "memory");
      asm volatile("cp.async.bulk.wait_group.read 1;" : : : "memory");
    }
#endif
    if (LOAD == 2 || COPIES == 1) {
      const int next = n + (LOAD == 2 ? COPIES : 1);
      if (next < L) fetch(from + (u64)next * C * H * W, place, barriers + n % COPIES);
      if (STORE) __syncthreads();
    }
  }
#if STORE == 2
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
#endif
}
