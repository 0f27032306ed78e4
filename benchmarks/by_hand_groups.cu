// A 3x3 convolution in groups of CG channels, stride 1, border 1, by matrix instructions; eight channels are a unit.
//
// Defined before this text: IMAGES CHANNELS HEIGHT WIDTH CG; TYPE is replaced (f16 or bf16). A block computes UNITS units
// of BLOCK_ROWS rows and whole rows, by warps: UNITS, ROW_WARPS and COLUMN_WARPS, the latter of 16 columns each.
//
// LAST         0: NCHW, 1: NHWC
// COPY         NCHW: 2 or 4 columns of eight channels a thread, turned by byte permutations; 8: 16 bytes of a plane per
//              lane, turned by stmatrix; 1: 8 bytes, likewise. NHWC: 0: vectors, 1: asynchronous copies
// ROWS_ARE     0: rows of the instruction are 16 places, its terms two taps; 1: two rows of eight filters, two rows of
//              the image (as the strategy topi/conv2d.grouped_rows)
// STORE        0: a lane's pairs, 1: four neighbours of a lane (NCHW, ROWS_ARE 1), 2: through shared memory
// LEFT_OUT     1: products, 2: loads, 3: stores: wrong results, to see what each part takes
typedef unsigned int u32;
typedef unsigned short u16;

#define PITCH (16 * COLUMN_WARPS + 2)
#define OWN (BLOCK_ROWS / ROW_WARPS)
#define WARPS (UNITS * COLUMN_WARPS * ROW_WARPS)
#define THREADS (32 * WARPS)
#define SEEN (BLOCK_ROWS + 2)
#if LAST
#define OUT_PITCH (UNITS * 8 + 8)
#else
#define OUT_PITCH (16 * COLUMN_WARPS)
#define OUT_PLANE (BLOCK_ROWS * OUT_PITCH + 8)
#endif
#define STORED if (LEFT_OUT != 3 || weights == nullptr)
#define LOADED if (LEFT_OUT != 2 || weights == nullptr)

static __device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }

static __device__ __forceinline__ void load4(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void load2(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void turn4(u32 at, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
    :: "r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

static __device__ __forceinline__ void turn2(u32 at, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" :: "r"(at), "r"(a), "r"(b) : "memory");
}

static __device__ __forceinline__ void put2(u32 at, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" :: "r"(at), "r"(a), "r"(b) : "memory");
}

static __device__ __forceinline__ void multiply(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ u32 pair(float low, float high) {
  u32 word;
  asm("cvt.rn.TYPEx2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

#if LEFT_OUT == 1
#define multiply(...)
#define load4(...)
#define load2(...)
#endif

#define FILTERS (8 * CG * 9)
// The weights of the units as they lie in memory, which nine loads of a lane then read without conflicts of banks.
static __device__ __forceinline__ void copy_weights(u16* kept, const u16* weights, int unit) {
  for (int i = threadIdx.x; i < UNITS * FILTERS / 8; i += THREADS)
    *(uint4*)(kept + i * 8) = *(const uint4*)(weights + unit * FILTERS + i * 8);
}

// A lane's part of nine matrices of 8 filters by 8 channels: two channels of a filter, which are neighbours in memory.
static __device__ __forceinline__ void load_weights(u32* w, const u16* kept, int lane) {
  const int f = lane >> 2, c = 2 * (lane & 3);
  const bool same = f / CG == c / CG;
  const u32* from = (const u32*)(kept + (f * CG + c % CG) * 9);
  u32 raw[9];
  #pragma unroll
  for (int i = 0; i < 9; ++i) raw[i] = same ? from[i] : 0u;
  #pragma unroll
  for (int i = 0; i < 9; ++i)
    w[i] = __byte_perm(raw[i / 2], raw[(9 + i) / 2], (i & 1 ? 0x32 : 0x10) | ((9 + i) & 1 ? 0x7600 : 0x5400));
}

#if LAST == 0
// Rows first to past - 1 of the image, channels last.
static __device__ __forceinline__ void copy_planes(
    u16* image, const u16* data, const u16* weights, int n, int unit, int y0, int first, int past, u16* spare) {
  const int tid = threadIdx.x;
#if COPY == 2 || COPY == 4
  LOADED for (int i = tid; i < UNITS * (past - first) * (WIDTH / COPY); i += THREADS) {
    const int q = i % (WIDTH / COPY), r = i / (WIDTH / COPY), y = first + r % (past - first), u = r / (past - first);
    const u16* from = data + ((n * CHANNELS + (unit + u) * 8) * HEIGHT + y) * WIDTH + q * COPY;
    u32 v[8][COPY / 2];
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
#if COPY == 2
      v[c][0] = *(const u32*)(from + c * HEIGHT * WIDTH);
#else
      const uint2 both = *(const uint2*)(from + c * HEIGHT * WIDTH);
      v[c][0] = both.x;
      v[c][1] = both.y;
#endif
    }
    u16* to = image + ((u * SEEN + y - y0 + 1) * PITCH + 1 + q * COPY) * 8;
    #pragma unroll
    for (int h = 0; h < COPY / 2; ++h) {
      *(uint4*)(to + 16 * h) = make_uint4(
          __byte_perm(v[0][h], v[1][h], 0x5410), __byte_perm(v[2][h], v[3][h], 0x5410),
          __byte_perm(v[4][h], v[5][h], 0x5410), __byte_perm(v[6][h], v[7][h], 0x5410));
      *(uint4*)(to + 16 * h + 8) = make_uint4(
          __byte_perm(v[0][h], v[1][h], 0x7632), __byte_perm(v[2][h], v[3][h], 0x7632),
          __byte_perm(v[4][h], v[5][h], 0x7632), __byte_perm(v[6][h], v[7][h], 0x7632));
    }
  }
#else
  // A plane's rows lie one after another: a warp takes 32 places of eight channels, of which a lane loads 8 of one.
  const int places = (past - first) * WIDTH, chunks = (places + 31) / 32, lane = tid & 31;
  const int m = lane >> 3, row = lane & 7, t = lane & 3;
  #pragma unroll 4
  for (int i = tid >> 5; i < UNITS * chunks; i += WARPS) {
    const int u = i / chunks, p = (i - u * chunks) * 32;
    const u16* from = data + ((n * CHANNELS + (unit + u) * 8 + (lane >> 2)) * HEIGHT + first) * WIDTH;
    uint2 low = make_uint2(0, 0), high = make_uint2(0, 0);
#if COPY == 8
    LOADED if (p + 8 * t < places) {
      const uint4 four = *(const uint4*)(from + p + 8 * t);
      low = make_uint2(four.x, four.y);
      high = make_uint2(four.z, four.w);
    }
    const int place = p + 8 * (row >> 1) + 2 * m + (row & 1);
#else
    LOADED if (p + 4 * t < places) low = *(const uint2*)(from + p + 4 * t);
    LOADED if (p + 16 + 4 * t < places) high = *(const uint2*)(from + p + 16 + 4 * t);
    const int place = p + 16 * (m >> 1) + 4 * (row >> 1) + 2 * (m & 1) + (row & 1);
#endif
    const int y = place / WIDTH, x = place - y * WIDTH;
    u16* to = place < places ? image + ((u * SEEN + first + y - y0 + 1) * PITCH + 1 + x) * 8 : spare + row * 8;
    turn4(shared_of(to), low.x, low.y, high.x, high.y);
  }
#endif
}
#else
static __device__ __forceinline__ void copy_places(
    u16* image, const u16* data, const u16* weights, int n, int unit, int y0, int first, int past) {
  LOADED for (int i = threadIdx.x; i < UNITS * (past - first) * WIDTH; i += THREADS) {
    const int u = i % UNITS, r = i / UNITS, x = r % WIDTH, y = first + r / WIDTH;
    const uint4* from = (const uint4*)(data + ((n * HEIGHT + y) * WIDTH + x) * CHANNELS + (unit + u) * 8);
    u16* to = image + ((u * SEEN + y - y0 + 1) * PITCH + 1 + x) * 8;
#if COPY
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_of(to)), "l"(from) : "memory");
#else
    *(uint4*)to = *from;
#endif
  }
#if COPY
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) grouped(
    const u16* __restrict__ data, const u16* __restrict__ weights, u16* __restrict__ out) {
  extern __shared__ __align__(128) unsigned char memory[];
  u16* image = (u16*)memory;  // [UNITS][SEEN][PITCH][8]
  u16* kept = image + UNITS * SEEN * PITCH * 8;
  u16* results = kept + UNITS * FILTERS;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;
  const int bands = HEIGHT / BLOCK_ROWS, packs = CHANNELS / 8 / UNITS;
  const int y0 = blockIdx.x % bands * BLOCK_ROWS, unit = blockIdx.x / bands % packs * UNITS, n = blockIdx.x / bands / packs;
  const int own = warp % UNITS, x0 = warp / UNITS % COLUMN_WARPS * 16, top = warp / UNITS / COLUMN_WARPS * OWN;
  copy_weights(kept, weights, unit);
  const uint4 zero = make_uint4(0, 0, 0, 0);
  for (int i = tid; i < UNITS * SEEN * (PITCH - WIDTH); i += THREADS) {
    const int e = i % (PITCH - WIDTH), row = i / (PITCH - WIDTH);
    *(uint4*)(image + (row * PITCH + (e ? WIDTH + e : 0)) * 8) = zero;
  }
  for (int i = tid; i < 2 * UNITS * WIDTH; i += THREADS) {
    const int row = i % 2 ? SEEN - 1 : 0, y = y0 + row - 1, u = i / 2 / WIDTH, x = i / 2 % WIDTH;
    if (y < 0 || y >= HEIGHT) *(uint4*)(image + ((u * SEEN + row) * PITCH + 1 + x) * 8) = zero;
  }
  const int first = y0 ? y0 - 1 : 0, past = y0 + BLOCK_ROWS + 1 > HEIGHT ? HEIGHT : y0 + BLOCK_ROWS + 1;
#if LAST
  copy_places(image, data, weights, n, unit, y0, first, past);
#else
  copy_planes(image, data, weights, n, unit, y0, first, past, results);
#endif
  __syncthreads();
  u32 w[9];
  load_weights(w, kept + own * FILTERS, lane);

#if ROWS_ARE == 0
  // Six matrices of 8 places by 8 channels for each row of the image, kept for the three rows of results that see it.
  const u32 four = shared_of(image + ((own * SEEN + top) * PITCH + x0 + (lane & 15) + (lane >> 4)) * 8);
  const u32 two = shared_of(image + ((own * SEEN + top) * PITCH + x0 + (lane & 15) + 2) * 8);
  u32 m[3][6];
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    load4(m[i], four + i * PITCH * 16);
    load2(m[i] + 4, two + i * PITCH * 16);
  }
  #pragma unroll
  for (int y = 0; y < OWN; ++y) {
    u32 *a = m[y % 3], *b = m[(y + 1) % 3], *c = m[(y + 2) % 3];
    load4(c, four + (y + 2) * PITCH * 16);
    load2(c + 4, two + (y + 2) * PITCH * 16);
    float d[4] = {0, 0, 0, 0};
    #pragma unroll
    for (int kx = 0; kx < 3; ++kx) multiply(d, a[2 * kx], a[2 * kx + 1], b[2 * kx], b[2 * kx + 1], w[kx], w[3 + kx]);
    multiply(d, c[0], c[1], c[2], c[3], w[6], w[7]);
    multiply(d, c[4], c[5], 0u, 0u, w[8], 0u);
    const int row = top + y;
    const u32 low = pair(d[0], d[1]), high = pair(d[2], d[3]);
#if STORE == 2 && LAST == 0
    turn2(shared_of(results + (own * 8 + (lane & 7)) * OUT_PLANE + row * OUT_PITCH + x0 + (lane >> 3 & 1) * 8), low, high);
#elif STORE == 2
    const int x = x0 + (lane & 15);
    u16* to = results + (x < WIDTH ? (row * WIDTH + x) * OUT_PITCH + own * 8 : BLOCK_ROWS * WIDTH * OUT_PITCH + (lane & 7) * 8);
    put2(shared_of(to), low, high);
#else
    u32* to = (u32*)(out + ((n * HEIGHT + y0 + row) * WIDTH + x0 + g) * CHANNELS + (unit + own) * 8 + 2 * t);
    STORED if (x0 + g < WIDTH) to[0] = low;
    STORED if (x0 + g + 8 < WIDTH) to[4 * CHANNELS] = high;
#endif
  }
#else
  // Four matrices for two rows of the image and 16 columns, for each column of the window; kept for the next two rows.
#if STORE == 1
  const int column = 4 * ((lane & 7) >> 1) + (lane & 1) + 2 * (lane >> 4);
#else
  const int column = (lane & 7) + 8 * (lane >> 4);
#endif
  const u32 base = shared_of(image + ((own * SEEN + top + (lane >> 3 & 1)) * PITCH + x0 + column) * 8);
  u32 m[2][3][4];
  #pragma unroll
  for (int kx = 0; kx < 3; ++kx) load4(m[0][kx], base + kx * 16);
  #pragma unroll
  for (int y = 0; y < OWN; y += 2) {
    u32(*a)[4] = m[y / 2 % 2], (*b)[4] = m[(y / 2 + 1) % 2];
    #pragma unroll
    for (int kx = 0; kx < 3; ++kx) load4(b[kx], base + ((y + 2) * PITCH + kx) * 16);
    float d[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    #pragma unroll
    for (int kx = 0; kx < 3; ++kx)
      #pragma unroll
      for (int o = 0; o < 2; ++o) multiply(d[o], w[kx], 0u, w[3 + kx], w[kx], a[kx][2 * o], a[kx][2 * o + 1]);
    #pragma unroll
    for (int kx = 0; kx < 3; ++kx)
      #pragma unroll
      for (int o = 0; o < 2; ++o) multiply(d[o], w[6 + kx], w[3 + kx], 0u, w[6 + kx], b[kx][2 * o], b[kx][2 * o + 1]);
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = top + y + h;
      const u32 low = pair(d[0][2 * h], d[0][2 * h + 1]), high = pair(d[1][2 * h], d[1][2 * h + 1]);
#if STORE == 2
      u16* to = results + (own * 8 + g) * OUT_PLANE + row * OUT_PITCH + x0 + 2 * t;
      *(u32*)to = low;
      *(u32*)(to + 8) = high;
#else
      u16* to = out + ((n * CHANNELS + (unit + own) * 8 + g) * HEIGHT + y0 + row) * WIDTH;
#if STORE == 1
      STORED if (x0 + 4 * t < WIDTH) *(uint2*)(to + x0 + 4 * t) = make_uint2(low, high);
#else
      STORED if (x0 + 2 * t < WIDTH) *(u32*)(to + x0 + 2 * t) = low;
      STORED if (x0 + 8 + 2 * t < WIDTH) *(u32*)(to + x0 + 8 + 2 * t) = high;
#endif
#endif
    }
  }
#endif

#if STORE == 2
  __syncthreads();
#if LAST
  STORED for (int i = tid; i < UNITS * BLOCK_ROWS * WIDTH; i += THREADS) {
    const int u = i % UNITS, p = i / UNITS;
    *(uint4*)(out + ((n * HEIGHT + y0) * WIDTH + p) * CHANNELS + (unit + u) * 8) = *(uint4*)(results + p * OUT_PITCH + u * 8);
  }
#else
  STORED for (int i = tid; i < UNITS * 8 * BLOCK_ROWS * (WIDTH / 4); i += THREADS) {
    const int f = i / (BLOCK_ROWS * (WIDTH / 4)), q = i % (BLOCK_ROWS * (WIDTH / 4)), y = q / (WIDTH / 4);
    const u16* from = results + f * OUT_PLANE + y * OUT_PITCH + (q - y * (WIDTH / 4)) * 4;
    *(uint2*)(out + ((n * CHANNELS + unit * 8 + f) * HEIGHT + y0) * WIDTH + q * 4) = *(const uint2*)from;
  }
#endif
#endif
}
