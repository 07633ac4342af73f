#pragma once

// Variables of estimates of mutual information in output files (information.hpp).

#include <vector>

#include "io/axes.hpp"

namespace fluxformer::information::variables {

inline const io::Attribute ceiling{"ceiling", "ln N: no estimate from N samples can show more", "nat"},
    label_entropy{"label_entropy", "H(Y): upper bound of I(T;Y)", "nat"};

/// Estimates of one set of states, in the order in which they are returned: input_* is I(X;T), for kde, ksg
/// and gaussian I(X; T + sigma Z); label_* is I(T;Y), for kde and gaussian I(T + sigma Z; Y).
inline const std::vector<io::Variable>& estimates() {
  const auto nats = [](const char* name, const char* long_name) {
    return io::Variable{name, {"<model>_depth"}, "nat", long_name};
  };
  const auto bounded = [&](std::vector<io::Variable>& list, const io::Variable& of) {
    list.push_back(of);
    list.push_back(io::variant(of, "lower", "lower bound of that estimate"));
    list.push_back(io::variant(of, "upper", "upper bound of that estimate"));
  };
  static const auto all = [&] {
    std::vector<io::Variable> list{nats("input_binning", "I(X;T) by binning of the principal components"),
                                   nats("label_binning", "I(T;Y) by binning of the principal components")};
    bounded(list, nats("input_kde", "I(X; T + sigma Z), middle of the bounds of Kolchinsky and Tracey"));
    bounded(list, nats("label_kde", "I(T + sigma Z; Y), middle of its bounds"));
    list.push_back(nats("input_ksg", "I(X; T + sigma Z) of the principal components, by nearest neighbours"));
    list.push_back(nats("label_ksg", "I(T;Y) of the principal components, by nearest neighbours"));
    list.push_back(nats("input_gaussian", "I(X; T + sigma Z) as if T were Gaussian"));
    bounded(list,
            nats("label_gaussian", "I(T + sigma Z; Y) as if classes were Gaussian, middle of its bounds"));
    list.push_back({"sigma", {"<model>_depth"}, "", "sigma of T + sigma Z"});
    list.push_back({"kept_variance",
                    {"<model>_depth"},
                    "",
                    "fraction of the variance of T in the principal components"});
    return list;
  }();
  return all;
}

}  // namespace fluxformer::information::variables
