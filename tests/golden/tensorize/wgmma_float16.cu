template <int to_by = 0, int from_by = 0>
static __device__ __forceinline__ void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;"
      : : "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from), "n"(to_by), "n"(from_by) : "memory");
}

template <int to_by = 0, int from_by = 0>
static __device__ __forceinline__ void copy_16_where(bool runs, void* to, const void* from) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; @p cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16; }"
      : : "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from), "n"(to_by), "n"(from_by), "r"((int)runs) : "memory");
}

static __device__ __forceinline__ void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

static __device__ __forceinline__ unsigned long long wgmma_matrix(const void* p) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(p);
  return 0x4000000000000000ull | 64ull << 32 | at >> 4 & 0x3fff;
}

static __device__ __forceinline__ void wgmma_begin_float32_16(float* d) {
  asm volatile("wgmma.fence.sync.aligned;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : : "memory");
}

static __device__ __forceinline__ void wgmma_float16_16(float* d, unsigned long long a, unsigned long long b) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; "
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b) : "memory");
}

static __device__ __forceinline__ void wgmma_end_float32_16(float* d) {
  asm volatile("wgmma.wait_group.sync.aligned 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : : "memory");
}

static __device__ __forceinline__ float max_float32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float x;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
  return x;
#else
  return a > b || a != a ? a : b;
#endif
}

extern "C" __global__ void __launch_bounds__(256, 1) main_kernel(
    const unsigned short* __restrict__ A,
    const unsigned short* __restrict__ B,
    float* __restrict__ C
) {
  const int threadIdx_x = threadIdx.x;
  const int threadIdx_y = threadIdx.y;
  const int threadIdx_z = threadIdx.z;
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  unsigned short* const B_shared = (unsigned short*)(shared_memory + 0);  // B.shared
  unsigned short* const A_shared = (unsigned short*)(shared_memory + 6144);  // A.shared
  const int threadIdx_x_div_8 = threadIdx_x / 8;
  const int threadIdx_x_div_4 = threadIdx_x / 4;
  const int threadIdx_x_mod_4 = threadIdx_x % 4;
  __align__(16) float D[8];  // D
  #pragma unroll
  for (int D_column_init = 0; D_column_init < 2; ++D_column_init) {
    #pragma unroll
    for (int D_half_init = 0; D_half_init < 2; ++D_half_init) {
      #pragma unroll
      for (int D_neighbour_init = 0; D_neighbour_init < 2; ++D_neighbour_init) {
        D[D_column_init * 4 + D_half_init * 2 + D_neighbour_init] = 0.0f;
      }
    }
  }
  void* const copy_to = A_shared + 0 * 2048 + threadIdx_z * 1024 + ((threadIdx_y * 256 + threadIdx_x * 8) ^ ((((threadIdx_y * 256 + threadIdx_x * 8) >> 6) & 7) << 3));
  const void* const copy_from = A + 0 * 8192 + threadIdx_z * 4096 + threadIdx_y * 1024 + threadIdx_x_div_8 * 192 + threadIdx_x * 8;
  copy_16(copy_to, copy_from);
  copy_16<4096, 16384>(copy_to, copy_from);
  copy_16<8192, 32768>(copy_to, copy_from);
  copy_16<12288, 49152>(copy_to, copy_from);
  const bool runs = threadIdx_z < 1;
  copy_16_where(runs, B_shared + threadIdx_z * 1024 + ((threadIdx_y * 256 + threadIdx_x * 8) ^ ((((threadIdx_y * 256 + threadIdx_x * 8) >> 6) & 7) << 3)), B + threadIdx_z * 4096 + threadIdx_y * 1024 + threadIdx_x_div_8 * 192 + threadIdx_x * 8);
  asm volatile("cp.async.commit_group;" : : : "memory");
  void* const copy_to_1 = A_shared + 0 * 2048 + threadIdx_z * 1024 + 8192 + ((threadIdx_y * 256 + threadIdx_x * 8) ^ ((((threadIdx_y * 256 + threadIdx_x * 8) >> 6) & 7) << 3));
  const void* const copy_from_1 = A + 0 * 8192 + threadIdx_z * 4096 + threadIdx_y * 1024 + threadIdx_x_div_8 * 192 + threadIdx_x * 8 + 64;
  copy_16(copy_to_1, copy_from_1);
  copy_16<4096, 16384>(copy_to_1, copy_from_1);
  copy_16<8192, 32768>(copy_to_1, copy_from_1);
  copy_16<12288, 49152>(copy_to_1, copy_from_1);
  const bool runs_1 = threadIdx_z < 1;
  copy_16_where(runs_1, B_shared + threadIdx_z * 1024 + 1024 + ((threadIdx_y * 256 + threadIdx_x * 8) ^ ((((threadIdx_y * 256 + threadIdx_x * 8) >> 6) & 7) << 3)), B + threadIdx_z * 4096 + threadIdx_y * 1024 + threadIdx_x_div_8 * 192 + threadIdx_x * 8 + 64);
  asm volatile("cp.async.commit_group;" : : : "memory");
  int x_outer_slot[1];
  x_outer_slot[0] = 0;
  for (int x_outer = 0; x_outer < 4; ++x_outer) {
    const int x_outer_slot_1 = x_outer_slot[0];
    asm volatile("cp.async.wait_group 2;" : : : "memory");
    fence_async();
    __syncthreads();
    const bool runs_2 = x_outer < 2;
    void* const copy_to_2 = A_shared + (x_outer_slot_1 < 1 ? x_outer_slot_1 + 2 : x_outer_slot_1 - 1) * 8192 + 0 * 2048 + threadIdx_z * 1024 + ((threadIdx_y * 256 + threadIdx_x * 8) ^ ((((threadIdx_y * 256 + threadIdx_x * 8) >> 6) & 7) << 3));
    const void* const copy_from_2 = A + 0 * 8192 + threadIdx_z * 4096 + threadIdx_y * 1024 + threadIdx_x_div_8 * 192 + x_outer * 64 + threadIdx_x * 8 + 128;
    copy_16_where(runs_2, copy_to_2, copy_from_2);
    copy_16_where<4096, 16384>(runs_2, copy_to_2, copy_from_2);
    copy_16_where<8192, 32768>(runs_2, copy_to_2, copy_from_2);
    copy_16_where<12288, 49152>(runs_2, copy_to_2, copy_from_2);
    const bool runs_3 = x_outer < 2;
    const bool runs_4 = runs_3 && threadIdx_z < 1;
    copy_16_where(runs_4, B_shared + (x_outer_slot_1 < 1 ? x_outer_slot_1 + 2 : x_outer_slot_1 - 1) * 1024 + threadIdx_z * 1024 + ((threadIdx_y * 256 + threadIdx_x * 8) ^ ((((threadIdx_y * 256 + threadIdx_x * 8) >> 6) & 7) << 3)), B + threadIdx_z * 4096 + threadIdx_y * 1024 + threadIdx_x_div_8 * 192 + x_outer * 64 + threadIdx_x * 8 + 128);
    asm volatile("cp.async.commit_group;" : : : "memory");
    asm volatile("cp.async.wait_group 0;" : : : "memory");
    fence_async();
    __syncthreads();
    {
      // 16 x 16 x 64 (rows, columns, depth) for each of four warps by wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
      const unsigned long long a_matrix = wgmma_matrix(A_shared + x_outer_slot_1 * 8192 + threadIdx_z * 4096);
      const unsigned long long b_matrix = wgmma_matrix(B_shared + x_outer_slot_1 * 1024);
      wgmma_begin_float32_16(D);
      wgmma_float16_16(D, a_matrix, b_matrix);
      wgmma_float16_16(D, a_matrix + 2, b_matrix + 2);
      wgmma_float16_16(D, a_matrix + 4, b_matrix + 4);
      wgmma_float16_16(D, a_matrix + 6, b_matrix + 6);
      asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
      wgmma_end_float32_16(D);
    }
    x_outer_slot[0] = x_outer_slot_1 < 2 ? x_outer_slot_1 + 1 : 0;
  }
  #pragma unroll
  for (int C_column = 0; C_column < 2; ++C_column) {
    #pragma unroll
    for (int C_half = 0; C_half < 2; ++C_half) {
      const float2 D_vector = *(float2*)(D + C_column * 4 + C_half * 2);
      *(float2*)(C + threadIdx_z * 1024 + threadIdx_y * 256 + C_half * 128 + threadIdx_x_div_4 * 16 + C_column * 8 + threadIdx_x_mod_4 * 2) = make_float2(max_float32(D_vector.x, -1000.0f), max_float32(D_vector.y, -1000.0f));
    }
  }
}
