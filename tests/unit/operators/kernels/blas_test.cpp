#include "operators/kernels/blas.hpp"

#include <gtest/gtest.h>

#include "operators/kernels/product.hpp"

namespace fluxformer {
namespace {

TEST(Blas, description_names_library_and_version) {
  const std::string text = blas_description();
  EXPECT_NE(text.find_first_of("0123456789"), std::string::npos) << text;
  const auto names = [&](const char* library) { return text.find(library) != std::string::npos; };
  EXPECT_TRUE(names("OpenBLAS ") || names("BLIS ") || names("Eigen ")) << text;
  EXPECT_EQ(names("libxsmm "), has_kernel<double>(1, 1)) << text;
}

TEST(Blas, warns_of_narrow_kernels_that_the_environment_asked_for) {
  const std::string text = openblas_warning("Haswell", "Haswell", true);
  EXPECT_NE(text.find("OPENBLAS_CORETYPE=Haswell"), std::string::npos) << text;
  EXPECT_NE(openblas_warning(nullptr, "Prescott", true).find("set OPENBLAS_CORETYPE=SkylakeX"),
            std::string::npos);
  EXPECT_EQ(openblas_warning(nullptr, "Prescott", false), "");    // it may be the right one
  EXPECT_EQ(openblas_warning(nullptr, "Haswell", true), "");      // chosen by the library
  EXPECT_EQ(openblas_warning("SkylakeX", "SkylakeX", true), "");  // requested, and wide
  EXPECT_EQ(openblas_warning("Haswell", "Haswell", false), "");   // nothing wider available
}

}  // namespace
}  // namespace fluxformer
