extern "C" __global__ void __launch_bounds__(1) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ B
) {
  const int blockIdx_x = blockIdx.x;
  B[blockIdx_x] = 0.0f;
  for (int k = 0; k < 16415; ++k) {
    B[blockIdx_x] = B[blockIdx_x] + (16384 <= k || blockIdx_x - k < 0 || 32 <= blockIdx_x - k ? 0.0f : A[k] * W[blockIdx_x - k]);
  }
}
