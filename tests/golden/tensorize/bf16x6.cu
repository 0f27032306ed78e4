static __device__ __forceinline__ unsigned int shared_address(const void* p) {
  return (unsigned int)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void ldmatrix_x4(unsigned int* words, unsigned int at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void bf16_split(unsigned int x, unsigned int y, unsigned int& high, unsigned int& middle, unsigned int& low) {
  float a = __int_as_float((int)x), b = __int_as_float((int)y);
  asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(high) : "f"(b), "f"(a));
  a -= __int_as_float((int)(high << 16));
  b -= __int_as_float((int)(high & 0xffff0000u));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(middle) : "f"(b), "f"(a));
  a -= __int_as_float((int)(middle << 16));
  b -= __int_as_float((int)(middle & 0xffff0000u));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(low) : "f"(b), "f"(a));
}

static __device__ __forceinline__ void mma_bfloat16(float* d, const unsigned int* a, const unsigned int* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ void mma_bf16x6(float* high, float* low, const unsigned int* a_high, const unsigned int* a_middle,
                const unsigned int* a_low, const unsigned int* b_high, const unsigned int* b_middle, const unsigned int* b_low) {
  mma_bfloat16(low, a_low, b_high);
  mma_bfloat16(low, a_high, b_low);
  mma_bfloat16(low, a_middle, b_middle);
  mma_bfloat16(low, a_middle, b_high);
  mma_bfloat16(low, a_high, b_middle);
  mma_bfloat16(high, a_high, b_high);
}

static __device__ __forceinline__ void promote(float* d, float* sums) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    d[i] += sums[i];
    sums[i] = 0.0f;
  }
}

static __device__ __forceinline__ void add_low(float* d, const float* low, float loss) {
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float lost = loss > 0.0f ? d[i] * loss : 0.0f;
    d[i] += low[i] != 0.0f && isfinite(low[i]) ? lost + low[i] : 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(64, 1) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C
) {
  const int blockIdx_y = blockIdx.y;
  const int threadIdx_x = threadIdx.x;
  const int threadIdx_y = threadIdx.y;
  __shared__ __align__(16) float B_shared[1152];  // B.shared
  __shared__ __align__(16) float A_shared[1152];  // A.shared
  const int threadIdx_x_div_8 = threadIdx_x / 8;
  const int threadIdx_x_mod_8 = threadIdx_x % 8;
  const int threadIdx_x_div_4 = threadIdx_x / 4;
  const int threadIdx_x_mod_4 = threadIdx_x % 4;
  __align__(16) float D[16];  // D
  #pragma unroll
  for (int D_row_init = 0; D_row_init < 2; ++D_row_init) {
    #pragma unroll
    for (int D_column_init = 0; D_column_init < 2; ++D_column_init) {
      #pragma unroll
      for (int D_half_init = 0; D_half_init < 2; ++D_half_init) {
        #pragma unroll
        for (int D_neighbour_init = 0; D_neighbour_init < 2; ++D_neighbour_init) {
          D[D_row_init * 8 + D_column_init * 4 + D_half_init * 2 + D_neighbour_init] = 0.0f;
        }
      }
    }
  }
  __align__(16) float B_shared_next[16];
  __align__(16) float A_shared_next[16];
  #pragma unroll
  for (int A_shared_round = 0; A_shared_round < 4; ++A_shared_round) {
    *(float4*)(A_shared_next + A_shared_round * 4) = *(const float4*)(A + blockIdx_y * 2048 + A_shared_round * 512 + threadIdx_y * 256 + threadIdx_x_div_8 * 64 + threadIdx_x_mod_8 * 4);
  }
  #pragma unroll
  for (int B_shared_round = 0; B_shared_round < 4; ++B_shared_round) {
    *(float4*)(B_shared_next + B_shared_round * 4) = *(const float4*)(B + B_shared_round * 512 + threadIdx_y * 256 + threadIdx_x_div_8 * 64 + threadIdx_x_mod_8 * 4);
  }
  {
    float low_sums[2][2][4];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      #pragma unroll
      for (int j = 0; j < 2; ++j) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
          low_sums[i][j][r] = 0.0f;
        }
      }
    }
    for (int k_outer = 0; k_outer < 2; ++k_outer) {
      __syncthreads();
      #pragma unroll
      for (int A_shared_round_1 = 0; A_shared_round_1 < 4; ++A_shared_round_1) {
        *(float4*)(A_shared + A_shared_round_1 * 288 + threadIdx_y * 144 + threadIdx_x_div_8 * 36 + threadIdx_x_mod_8 * 4) = *(float4*)(A_shared_next + A_shared_round_1 * 4);
      }
      #pragma unroll
      for (int B_shared_round_1 = 0; B_shared_round_1 < 4; ++B_shared_round_1) {
        *(float4*)(B_shared + B_shared_round_1 * 288 + threadIdx_y * 144 + threadIdx_x_div_8 * 36 + threadIdx_x_mod_8 * 4) = *(float4*)(B_shared_next + B_shared_round_1 * 4);
      }
      if (k_outer < 1) {
        #pragma unroll
        for (int A_shared_round_2 = 0; A_shared_round_2 < 4; ++A_shared_round_2) {
          *(float4*)(A_shared_next + A_shared_round_2 * 4) = *(const float4*)(A + blockIdx_y * 2048 + A_shared_round_2 * 512 + threadIdx_y * 256 + threadIdx_x_div_8 * 64 + k_outer * 32 + threadIdx_x_mod_8 * 4 + 32);
        }
        #pragma unroll
        for (int B_shared_round_2 = 0; B_shared_round_2 < 4; ++B_shared_round_2) {
          *(float4*)(B_shared_next + B_shared_round_2 * 4) = *(const float4*)(B + B_shared_round_2 * 512 + threadIdx_y * 256 + threadIdx_x_div_8 * 64 + k_outer * 32 + threadIdx_x_mod_8 * 4 + 32);
        }
      }
      __syncthreads();
      {
        // 32 x 16 x 32 (rows, columns, depth) by mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
        const int lane_1 = threadIdx_x;
        unsigned int a_fragment[1][2][8];
        unsigned int a_high[2][4];
        unsigned int a_middle[2][4];
        unsigned int a_low[2][4];
        unsigned int b_fragment[1][2][4];
        unsigned int b_high[2][2];
        unsigned int b_middle[2][2];
        unsigned int b_low[2][2];
        const unsigned int a_at = shared_address(A_shared + (lane_1 >> 3 & 1) * 288 + (lane_1 & 7) * 36 + (lane_1 >> 4) * 4);
        const unsigned int a_at_1 = shared_address(A_shared + (lane_1 >> 3 & 1) * 288 + (lane_1 & 7) * 36 + (lane_1 >> 4) * 4 + 8);
        const unsigned int b_at = shared_address(B_shared + threadIdx_y * 576 + (lane_1 & 7) * 36 + (lane_1 >> 3) * 4);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          ldmatrix_x4(a_fragment[0][i], a_at + (i * 2304 + 0 * 64));
          ldmatrix_x4(a_fragment[0][i] + 4, a_at_1 + (i * 2304 + 0 * 64));
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          ldmatrix_x4(b_fragment[0][i], b_at + (i * 1152 + 0 * 64));
        }
        float high[2][2][4];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          #pragma unroll
          for (int j = 0; j < 2; ++j) {
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
              high[i][j][r] = 0.0f;
            }
          }
        }
        #pragma unroll
        for (int step = 0; step < 2; ++step) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
              bf16_split(a_fragment[0][i][r / 2 * 4 + r % 2], a_fragment[0][i][r / 2 * 4 + r % 2 + 2], a_high[i][r], a_middle[i][r], a_low[i][r]);
            }
          }
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
              bf16_split(b_fragment[0][i][r * 2], b_fragment[0][i][r * 2 + 1], b_high[i][r], b_middle[i][r], b_low[i][r]);
            }
          }
          if (step + 1 < 2) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              ldmatrix_x4(a_fragment[0][i], a_at + (i * 2304 + (step + 1) * 64));
              ldmatrix_x4(a_fragment[0][i] + 4, a_at_1 + (i * 2304 + (step + 1) * 64));
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              ldmatrix_x4(b_fragment[0][i], b_at + (i * 1152 + (step + 1) * 64));
            }
          }
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
              mma_bf16x6(high[i][j], low_sums[i][j], a_high[i], a_middle[i], a_low[i], b_high[j], b_middle[j], b_low[j]);
            }
          }
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          #pragma unroll
          for (int j = 0; j < 2; ++j) {
            promote(D + i * 8 + j * 4, high[i][j]);
          }
        }
      }
    }
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      #pragma unroll
      for (int j = 0; j < 2; ++j) {
        add_low(D + i * 8 + j * 4, low_sums[i][j], 6.45e-08f);
      }
    }
  }
  #pragma unroll
  for (int C_row = 0; C_row < 2; ++C_row) {
    #pragma unroll
    for (int C_column = 0; C_column < 2; ++C_column) {
      #pragma unroll
      for (int C_half = 0; C_half < 2; ++C_half) {
        *(float2*)(C + blockIdx_y * 1024 + C_row * 512 + C_half * 256 + threadIdx_x_div_4 * 32 + threadIdx_y * 16 + C_column * 8 + threadIdx_x_mod_4 * 2) = *(float2*)(D + C_row * 8 + C_column * 4 + C_half * 2);
      }
    }
  }
}
