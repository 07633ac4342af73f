// main of every test executable: GoogleTest under MPI. A test fails if it fails on any rank; ranks above 0
// only print failures. A filter that selects nothing is a failure.

#include <gtest/gtest.h>
#include <mpi.h>

#include "base/session.hpp"
#include "io/hdf5/checker.hpp"
#include "tests/support/reached.hpp"

int main(int argc, char** argv) {
  if (const auto code = fluxformer::io::serve_as_checker(argc, argv)) return *code;
  testing::InitGoogleTest(&argc, argv);
  fluxformer::Session session(argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    class FailuresOnly : public testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (!result.failed()) return;
        int me = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &me);
        std::cerr << "rank " << me << ": " << result.file_name() << ':' << result.line_number() << ": "
                  << result.message() << '\n';
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) failed = 1;
  if (rank == 0) fluxformer::test::print_reached();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return failed;
}
