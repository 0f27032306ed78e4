extern "C" __global__ void __launch_bounds__(1) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ B
) {
  const int blockIdx_x = blockIdx.x;
  B[blockIdx_x] = 0.0f;
  for (int r = 0; r < 32; ++r) {
    B[blockIdx_x] = B[blockIdx_x] + (0 <= blockIdx_x - r && blockIdx_x - r < 16384 ? A[blockIdx_x - r] : 0.0f) * W[r];
  }
}
