#include "analysis/influence/head_features.hpp"

#include <vector>

#include "analysis/accumulator.hpp"
#include "base/error.hpp"
#include "model/readout.hpp"

namespace fluxformer::influence {

RowMatrix head_features(ModelProbe& probe, const SampleSet& samples) {
  const auto& spec = probe.spec();
  if (spec.classes == 0) throw BadInput("influence.solver = head: the model has no classes to tell apart");
  const Index width = Index{spec.pooled_tokens()} * spec.width;
  const RowStack norm = final_norm_stack(probe.parameters());
  RowStack transform(probe.parameters(), static_cast<int>(width));
  transform.add(spec.head_transform, "head");
  Sums features(samples.size() * width);
  std::vector<double> u, normed, pooled, read;
  accumulate(
      samples,
      [&](const Batch& batch) {
        probe.embed(batch, u);
        probe.forward(u);
        const auto& context = probe.context();
        normed = u;
        RowTape tape;
        if (!norm.empty()) norm.forward(context.rows(), u.data(), normed.data(), tape);
        pool({spec.pooling, spec.pooled_tokens()}, context, normed.data(), pooled);
        read = pooled;
        RowTape of_head;
        if (!transform.empty()) transform.forward(context.samples, pooled.data(), read.data(), of_head);
        for_each_sample(batch, [&](Index b, Index place) {
          std::copy_n(read.begin() + b * width, width, features.local() + place * width);
        });
      },
      features);
  return Eigen::Map<const RowMatrix>(features.total().data(), samples.size(), width);
}

}  // namespace fluxformer::influence
