static __device__ __forceinline__ unsigned short float16_bits(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

static __device__ __forceinline__ unsigned int shared_address(const void* p) {
  return (unsigned int)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void ldmatrix_x4(unsigned int* words, unsigned int at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void mma_float16_float16(unsigned short* d, const unsigned int* a, const unsigned int* b) {
  unsigned int* words = (unsigned int*)d;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(words[0]), "+r"(words[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(64, 1) main_kernel(
    const unsigned short* __restrict__ A,
    const unsigned short* __restrict__ B,
    unsigned short* __restrict__ C
) {
  const int blockIdx_y = blockIdx.y;
  const int threadIdx_x = threadIdx.x;
  const int threadIdx_y = threadIdx.y;
  __shared__ __align__(16) unsigned short B_shared[1280];  // B.shared
  __shared__ __align__(16) unsigned short A_shared[1280];  // A.shared
  const int threadIdx_x_div_4 = threadIdx_x / 4;
  const int threadIdx_x_mod_4 = threadIdx_x % 4;
  __align__(16) unsigned short D[16];  // D
  #pragma unroll
  for (int D_row_init = 0; D_row_init < 2; ++D_row_init) {
    #pragma unroll
    for (int D_column_init = 0; D_column_init < 2; ++D_column_init) {
      #pragma unroll
      for (int D_half_init = 0; D_half_init < 2; ++D_half_init) {
        #pragma unroll
        for (int D_neighbour_init = 0; D_neighbour_init < 2; ++D_neighbour_init) {
          D[D_row_init * 8 + D_column_init * 4 + D_half_init * 2 + D_neighbour_init] = float16_bits(0.0f);
        }
      }
    }
  }
  __align__(16) unsigned short B_shared_next[16];
  __align__(16) unsigned short A_shared_next[16];
  #pragma unroll
  for (int A_shared_round = 0; A_shared_round < 2; ++A_shared_round) {
    *(uint4*)(A_shared_next + A_shared_round * 8) = *(const uint4*)(A + blockIdx_y * 2048 + A_shared_round * 1024 + threadIdx_y * 512 + threadIdx_x_div_4 * 64 + threadIdx_x_mod_4 * 8);
  }
  #pragma unroll
  for (int B_shared_round = 0; B_shared_round < 2; ++B_shared_round) {
    *(uint4*)(B_shared_next + B_shared_round * 8) = *(const uint4*)(B + B_shared_round * 1024 + threadIdx_y * 512 + threadIdx_x_div_4 * 64 + threadIdx_x_mod_4 * 8);
  }
  for (int k_outer = 0; k_outer < 2; ++k_outer) {
    __syncthreads();
    #pragma unroll
    for (int A_shared_round_1 = 0; A_shared_round_1 < 2; ++A_shared_round_1) {
      *(uint4*)(A_shared + A_shared_round_1 * 640 + threadIdx_y * 320 + threadIdx_x_div_4 * 40 + threadIdx_x_mod_4 * 8) = *(uint4*)(A_shared_next + A_shared_round_1 * 8);
    }
    #pragma unroll
    for (int B_shared_round_1 = 0; B_shared_round_1 < 2; ++B_shared_round_1) {
      *(uint4*)(B_shared + B_shared_round_1 * 640 + threadIdx_y * 320 + threadIdx_x_div_4 * 40 + threadIdx_x_mod_4 * 8) = *(uint4*)(B_shared_next + B_shared_round_1 * 8);
    }
    if (k_outer < 1) {
      #pragma unroll
      for (int A_shared_round_2 = 0; A_shared_round_2 < 2; ++A_shared_round_2) {
        *(uint4*)(A_shared_next + A_shared_round_2 * 8) = *(const uint4*)(A + blockIdx_y * 2048 + A_shared_round_2 * 1024 + threadIdx_y * 512 + threadIdx_x_div_4 * 64 + k_outer * 32 + threadIdx_x_mod_4 * 8 + 32);
      }
      #pragma unroll
      for (int B_shared_round_2 = 0; B_shared_round_2 < 2; ++B_shared_round_2) {
        *(uint4*)(B_shared_next + B_shared_round_2 * 8) = *(const uint4*)(B + B_shared_round_2 * 1024 + threadIdx_y * 512 + threadIdx_x_div_4 * 64 + k_outer * 32 + threadIdx_x_mod_4 * 8 + 32);
      }
    }
    __syncthreads();
    {
      // 32 x 16 x 32 (rows, columns, depth) by mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16
      const int lane = threadIdx_x;
      unsigned int a_fragment[2][2][4];
      unsigned int b_fragment[2][2][2];
      const unsigned int a_at = shared_address(A_shared + (lane >> 3 & 1) * 320 + (lane & 7) * 40 + (lane >> 4) * 8);
      const unsigned int b_at = shared_address(B_shared + threadIdx_y * 640 + (lane >> 4) * 320 + (lane & 7) * 40 + (lane >> 3 & 1) * 8);
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        ldmatrix_x4(a_fragment[0][i], a_at + (i * 1280 + 0 * 32));
      }
      #pragma unroll
      for (int i = 0; i < 1; ++i) {
        ldmatrix_x4(b_fragment[0][2 * i], b_at + (0 * 32));
      }
      #pragma unroll
      for (int step = 0; step < 2; ++step) {
        if (step + 1 < 2) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            ldmatrix_x4(a_fragment[(step + 1) % 2][i], a_at + (i * 1280 + (step + 1) * 32));
          }
          #pragma unroll
          for (int i = 0; i < 1; ++i) {
            ldmatrix_x4(b_fragment[(step + 1) % 2][2 * i], b_at + ((step + 1) * 32));
          }
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          #pragma unroll
          for (int j = 0; j < 2; ++j) {
            mma_float16_float16(D + i * 8 + j * 4, a_fragment[step % 2][i], b_fragment[step % 2][j]);
          }
        }
      }
    }
  }
  #pragma unroll
  for (int C_row = 0; C_row < 2; ++C_row) {
    #pragma unroll
    for (int C_column = 0; C_column < 2; ++C_column) {
      #pragma unroll
      for (int C_half = 0; C_half < 2; ++C_half) {
        *(unsigned int*)(C + blockIdx_y * 1024 + C_row * 512 + C_half * 256 + threadIdx_x_div_4 * 32 + threadIdx_y * 16 + C_column * 8 + threadIdx_x_mod_4 * 2) = *(unsigned int*)(D + C_row * 8 + C_column * 4 + C_half * 2);
      }
    }
  }
}
