/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A matrix product that keeps all of a GPU busy, for who measures what others take from it: c = a * b, of n x n floats,
 * n a multiple of 64; a CTA of 256 threads makes 64 x 64 of them, a thread 4 x 4. `make copy-image` makes product.ptx.
 */
#define TILE 64
#define STEP 16
#define EDGE 4

extern "C" __attribute__((global, launch_bounds(256))) void otte_product(const float *a, const float *b, float *c,
									 unsigned int n)
{
	__attribute__((shared)) static float rows[STEP][TILE], columns[STEP][TILE];
	unsigned int thread = __nvvm_read_ptx_sreg_tid_x(), x = thread % 16 * EDGE, y = thread / 16 * EDGE;
	unsigned int left = __nvvm_read_ptx_sreg_ctaid_x() * TILE, top = __nvvm_read_ptx_sreg_ctaid_y() * TILE;
	float sums[EDGE][EDGE] = {};
	unsigned int at, i, j, k;

	for (at = 0; at < n; at += STEP) {
		for (i = 0; i < EDGE; i++) {
			unsigned int one = thread + 256 * i;

			rows[one % STEP][one / STEP] = a[(unsigned long long)(top + one / STEP) * n + at + one % STEP];
			columns[one / TILE][one % TILE] = b[(unsigned long long)(at + one / TILE) * n + left + one % TILE];
		}
		__syncthreads();
#pragma unroll
		for (k = 0; k < STEP; k++)
#pragma unroll
			for (i = 0; i < EDGE; i++)
#pragma unroll
				for (j = 0; j < EDGE; j++)
					sums[i][j] += rows[k][y + i] * columns[k][x + j];
		__syncthreads();
	}
	for (i = 0; i < EDGE; i++)
		for (j = 0; j < EDGE; j++)
			c[(unsigned long long)(top + y + i) * n + left + x + j] = sums[i][j];
}
