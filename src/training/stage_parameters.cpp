#include "training/stage_parameters.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
namespace {

constexpr int share_tag = 3;

/// The layouts of all stages. Collective over the depth.
std::vector<ParameterLayout> all_layouts(MPI_Comm depth, const ModelSpec& spec, const ParameterShare& mine) {
  const int own[] = {mine.first_knot, mine.last_knot, mine.embedding ? 1 : 0, mine.head ? 1 : 0,
                     mine.words ? 1 : 0};
  constexpr int numbers = 5;
  std::vector<int> all(numbers * mpi::size(depth));
  check_mpi(MPI_Allgather(own, numbers, MPI_INT, all.data(), numbers, MPI_INT, depth));
  std::vector<ParameterLayout> layouts;
  for (Index at = 0; at < std::ssize(all); at += numbers)
    layouts.emplace_back(
        spec, ParameterShare{all[at], all[at + 1], all[at + 2] != 0, all[at + 3] != 0, all[at + 4] != 0});
  return layouts;
}

}  // namespace

StageParameters::StageParameters(const TrainingRanks& ranks, const Parameters& parameters)
    : ranks_(ranks),
      stage_(mpi::rank(ranks.depth)),
      layouts_(all_layouts(ranks.depth, parameters.spec, parameters.layout.share())) {
  collectively(ranks.all, [&] {
    if (!mpi::is_root(ranks.all) || stages() == 1) return;
    for (const auto& layout : layouts_) received_.resize(std::max(std::ssize(received_), layout.size()));
  });
  // The stages that hold each array of the model, by its place.
  std::map<Index, std::vector<int>> holders;
  for (int stage = 0; stage < stages(); ++stage)
    for (const auto& view : layout_of(stage).views()) holders[view.place].push_back(stage);
  // An array belongs to the first stage that holds it.
  for (const auto& [place, who] : holders) owner_.push_back(who.front());
  const bool writes = mpi::is_root(ranks.stage);
  // held_: where this rank's arrays stand in the model; owned_: those of them that belong to its stage.
  held_.size = written_.size = parameters.layout.size_of_model();
  io::FlatPart own;
  for (const auto& view : parameters.layout.views()) {
    const io::FlatPart::Piece piece{view.offset_in_model, view.size(), view.offset};
    held_.add(piece);
    if (owner_[view.place] == stage_) own.add(piece);
  }
  owned_ = own.pieces;
  if (writes) written_.pieces = owned_;
  // One communicator for each set of stages that hold arrays together, in an order that is the same on all.
  std::map<std::vector<int>, std::vector<Index>> sets;
  for (const auto& [place, who] : holders)
    if (who.size() > 1) sets[who].push_back(place);
  for (const auto& [who, places] : sets) {
    const bool mine = std::ranges::find(who, stage_) != who.end();
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(ranks.depth, mine ? 0 : MPI_UNDEFINED, stage_, &made));
    if (!mine) continue;
    Shared shared;
    shared.holders = Communicator(made);
    for (const auto& view : parameters.layout.views())
      if (std::ranges::binary_search(places, view.place))
        shared.part.add({view.offset_in_model, view.size(), view.offset});
    shared_.push_back(std::move(shared));
  }
}

void StageParameters::sum(std::span<double> gradient) const {
  for (const auto& shared : shared_) {
    // Packed into one message: the arrays of a set of stages do not lie together.
    buffer_.resize(shared.part.count());
    auto to = buffer_.begin();
    for (const auto& piece : shared.part.pieces)
      to = std::copy_n(gradient.begin() + piece.at, piece.count, to);
    sum_over_ranks(buffer_, shared.holders);
    auto from = buffer_.begin();
    for (const auto& piece : shared.part.pieces) {
      std::copy_n(from, piece.count, gradient.begin() + piece.at);
      from += piece.count;
    }
  }
}

double StageParameters::total(double of_stage) const {
  if (stages() > 1) sum_over_ranks({&of_stage, 1}, ranks_.depth);
  return of_stage;
}

int StageParameters::first_pair() const {
  // The stage below adds the pairs up to its last knot, which may be the first one here.
  const int first = layout_of(stage_).first_knot();
  return stage_ == 0 ? first : std::max(first, layout_of(stage_ - 1).last_knot());
}

const double* StageParameters::of_stage(int stage, std::span<const double> mine) const {
  const bool root = mpi::is_root(ranks_.all);
  if (stage == 0) return root ? mine.data() : nullptr;
  // One rank of each stage sends: all ranks of a stage hold the same.
  if (stage == stage_ && mpi::is_root(ranks_.stage)) send_numbers(mine, 0, share_tag, ranks_.depth);
  if (!root) return nullptr;
  receive_numbers(std::span(received_).first(layout_of(stage).size()), stage, share_tag, ranks_.depth);
  return received_.data();
}

void StageParameters::for_each_stage(const Parameters& mine, const Visit& visit) const {
  for (int stage = 0; stage < stages(); ++stage) {
    std::vector<ParameterView> views;
    for (const auto& view : layout_of(stage).views())
      if (owner_[view.place] == stage) views.push_back(view);
    visit(views, of_stage(stage, mine.values));
  }
}

std::vector<double> StageParameters::gathered(std::span<const double> mine) const {
  std::vector<double> whole;
  collectively(ranks_.all, [&] {
    if (mpi::is_root(ranks_.all)) whole.resize(held_.size);
  });
  for (int stage = 0; stage < stages(); ++stage) {
    const double* const from = of_stage(stage, mine);
    if (from == nullptr) continue;
    // Stages that share an array hold the same numbers: it does not matter which of them is copied last.
    for (const auto& view : layout_of(stage).views())
      std::copy_n(from + view.offset, view.size(), whole.begin() + view.offset_in_model);
  }
  return whole;
}

}  // namespace fluxformer
