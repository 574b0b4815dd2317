// quantised_product_vnni.h - the way of a product on processors with AVX-VNNI. Stage: matmul.
#pragma once

#include "matmul/quantised_product.h"

namespace pith {

// Columns [first, end).   REQUIRES: has_avx_vnni(), AVX2.
void multiply_columns_avx_vnni(const QuantisedProduct & product, size_t first, size_t end, ProductUnit unit);

}  // namespace pith
