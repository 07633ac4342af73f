#include "solvers/saddle/minimise_together.hpp"

#include <array>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer::saddle {
namespace {

/// What the first rank tells the others: the next x, or that there is none.
class Orders {
 public:
  explicit Orders(MPI_Comm comm) : comm_(comm) {}

  /// The first rank passes x, the others get it. False if it is the end.
  bool next(std::vector<double>& x, int goes_on = 1) const {
    check_mpi(MPI_Bcast(&goes_on, 1, MPI_INT, 0, comm_));
    if (goes_on == 1) share(x.data(), x.size());
    return goes_on == 1;
  }
  void end() const {
    std::vector<double> none;
    next(none, 0);
  }
  void share(double* numbers, std::size_t count) const {
    check_mpi(MPI_Bcast(numbers, static_cast<int>(count), MPI_DOUBLE, 0, comm_));
  }

 private:
  MPI_Comm comm_;
};

/// The first rank: minimises, and says which x comes next.
Minimum lead(MPI_Comm comm, const Orders& orders, const Function& f, std::vector<double> start,
             const MinimumRequest& request) {
  bool inside = false;
  const auto asked = [&](const std::vector<double>& x, std::vector<double>& gradient) {
    auto told = x;
    orders.next(told);
    inside = true;
    const double value = f(x, gradient);
    inside = false;
    return value;
  };
  Minimum least;
  std::exception_ptr failed;
  try {
    least = minimise(asked, std::move(start), request);
  } catch (...) {
    failed = std::current_exception();
  }
  if (failed && inside) std::rethrow_exception(failed);  // f has thrown on all ranks
  orders.end();
  collectively(comm, [&] {
    if (failed) std::rethrow_exception(failed);
  });
  return least;
}

/// Any other rank.
Minimum follow(MPI_Comm comm, const Orders& orders, const Function& f, std::vector<double> start) {
  Minimum least{.x = std::move(start)};
  std::vector<double> gradient(least.x.size());
  while (orders.next(least.x)) f(least.x, gradient);
  collectively(comm, [] {});
  return least;
}

}  // namespace

Minimum minimise_together(MPI_Comm comm, const Function& f, std::vector<double> start,
                          const MinimumRequest& request) {
  const int ranks = mpi::size(comm);
  const bool root = mpi::is_root(comm);
  if (ranks == 1) return minimise(f, std::move(start), request);
  const Orders orders(comm);
  auto least =
      root ? lead(comm, orders, f, std::move(start), request) : follow(comm, orders, f, std::move(start));
  orders.share(least.x.data(), least.x.size());
  std::array<double, 5> numbers{least.value, least.gradient, static_cast<double>(least.iterations),
                                static_cast<double>(least.evaluations), least.converged ? 1.0 : 0.0};
  orders.share(numbers.data(), numbers.size());
  least.value = numbers[0];
  least.gradient = numbers[1];
  least.iterations = static_cast<int>(numbers[2]);
  least.evaluations = static_cast<int>(numbers[3]);
  least.converged = numbers[4] == 1;
  return least;
}

}  // namespace fluxformer::saddle
