#pragma once

// Access to the inside of a model: states at every depth, attention, logits and derivatives. Rows are the edges
// of the depth cells of its training: row 0 is the embedded input, row M the last state.

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/model_pass.hpp"
#include "model/readout.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// Makes the march of a model (borrowed) through some of these depth cells.
using MarchMaker = std::function<std::unique_ptr<DepthMarch>(DepthModel&, const DepthCells&, DepthRange)>;

/// The march by layer maps, with h = 1 the Transformer's forward pass.
std::unique_ptr<DepthMarch> layer_maps(DepthModel& model, const DepthCells& depth, DepthRange cells);

/// A model that is run batch by batch, with all that happens in between. Slabs are [token][sample][channel];
/// samples of weight 0 are fillers. All calls are collective over the token line unless they say otherwise.
class ModelProbe {
 public:
  /// `line` is borrowed; `samples` is the size of every batch; `make` makes the march that `forward` and `adjoint`
  /// take. Throws BadInput for depth cells that the model cannot be marched on (require_marchable).
  ModelProbe(Parameters parameters, const TokenLine& line, int samples, Precision precision,
             MarchMaker make = layer_maps);
  ModelProbe(const ModelProbe&) = delete;
  ModelProbe& operator=(const ModelProbe&) = delete;

  const ModelSpec& spec() const { return parameters_.spec; }
  const Parameters& parameters() const { return parameters_; }
  Precision precision() const { return model_->precision(); }
  const DepthCells& depth() const { return march_->depth(); }
  int cells() const { return depth().cells; }
  int depths() const { return cells() + 1; }
  /// Rows at which layers l = 0 .. S end. Throws BadInput unless cells end where layers do.
  std::vector<int> layer_rows() const { return depth().layer_rows("for a measurement by layer"); }
  /// Row at which layer l = 1 .. S begins. Throws as layer_rows does.
  int entry_of_layer(int l) const { return layer_rows()[static_cast<std::size_t>(l - 1)]; }
  /// Slab context of the last batch, with length 0 for fillers, as accumulators need it.
  const SlabContext& counted() const { return counted_; }
  /// Slab context on which the model runs, as a task of its own needs it (make_task).
  const SlabContext& context() const { return context_; }

  /// Has `embed` and `forward` change the states of rows 0 .. M (ModelPass::set_edit): a source of the
  /// equation at a depth face, or a state of another run put in (activation patching). Empty: nothing.
  void set_edit(RowEdit edit) { pass_.set_edit(std::move(edit)); }
  /// u := the embedded batch. Its lengths hold for all following calls.
  void embed(const Batch& batch, std::vector<double>& u);
  /// Adds the gradient of the parameters of the embedding to `gradient` (flat), from the cotangent of row 0,
  /// which may be changed. `batch` is that of the last `embed`. Not collective.
  void embed_adjoint(const Batch& batch, std::vector<double>& u_bar, std::span<double> gradient);
  /// Marches u from row 0 to row M and returns the logits, [sample][class], valid until the next call. `row`
  /// is called with all rows 0 .. M, each valid during the call. Keep::activations keeps what `adjoint`
  /// needs.
  const std::vector<double>& forward(std::vector<double>& u, Keep keep = Keep::nothing,
                                     const RowVisitor& row = {});
  /// Marches the cotangent of the logits of the last forward(Keep::activations) back to row 0, where it is
  /// left in u_bar. `gradient` (flat, or empty) := gradient of the parameters between embedding and logits.
  /// `row` is called with rows M .. 0 and their cotangents, which it may change: where states were replaced,
  /// it sets them to 0 (DepthMarch::set_edit). May be called again for the same forward.
  void adjoint(const std::vector<double>& logits_bar, std::vector<double>& u_bar,
               std::span<double> gradient = {}, const RowEdit& row = {});

  /// The same from the cotangent u_bar of the last state, which becomes that of row 0; gradient += .
  void pull(std::vector<double>& u_bar, std::span<double> gradient = {}, const RowEdit& row = {});

  /// A march of its own through some of the cells, by the method of the probe, which must outlive it.
  std::unique_ptr<DepthMarch> march(DepthRange cells) { return make_(*model_, depth(), cells); }
  /// v := G(u), the layer map of the cell after row i.
  void map(int row, const double* u, double* v);
  /// The logits of a last state, [sample][class], valid until the next call.
  const std::vector<double>& logits(const double* u);
  /// u_bar := (dz/du)^T logits_bar at the state of the last `logits`. Not collective.
  void pull_logits(const std::vector<double>& logits_bar, double* u_bar);
  /// k := attention weights of the cell after row i at the state u, [sample][head][query][key].
  void attention(int row, const double* u, std::vector<double>& k);
  /// v := state on which the attention of the cell after row i acts (DepthModel::attention).
  void attention_state(int row, const double* u, std::vector<double>& v);
  /// Depth at which the cell after a row reads its weights.
  DepthPoint point(int row) const { return depth().entry(row + 1); }
  /// Length of that cell in layers.
  double step(int row) const { return depth().length(row + 1); }
  /// out := (dG/du) v for the layer map G of the cell after row i, at its state u.
  void tangent(int row, const double* u, const double* v, double* out);
  /// out := (dG/du)^T w for the layer map G of the cell after row i, at its state u. gradient (flat, or empty)
  /// += (dG/dtheta)^T w.
  void transposed(int row, const double* u, const double* w, double* out, std::span<double> gradient = {});

 private:
  Parameters parameters_;
  SlabContext context_, counted_;
  std::unique_ptr<DepthModel> model_;
  MarchMaker make_;
  std::unique_ptr<DepthMarch> march_;
  ModelPass pass_;
  Readout readout_;
  ReadoutTape read_, kept_;  // tapes of the last forward, and of the last that kept activations
  std::vector<double> logits_;
};

}  // namespace fluxformer
