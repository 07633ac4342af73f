// The weights in the files of a training: rank 0 writes what it gets from the stages.

#include <exception>

#include "base/error.hpp"
#include "drivers/train/train_record.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"
#include "model/model_variables.hpp"

namespace fluxformer {

void TrainRecord::describe(io::ArchiveWriter& archive) const {
  for (const auto& [name, value] : header().run) archive.attribute(name, value);
  write_model_attributes(archive, problem_.parameters.spec);
  const auto words = words_of_model(*problem_.train, problem_.masked);
  if (!words.empty()) archive.words(model_file::embedding_vocabulary, words, model_file::vocabulary_meaning);
}

void TrainRecord::write_weights(const std::string& what) const {
  const auto& trainer = problem_.trainer;
  collectively(context_.comm, [&] {
    // Rank 0 writes; if it fails, the stages still send what it does not want any more.
    std::unique_ptr<io::ArchiveWriter> archive;
    std::exception_ptr failure;
    const auto on_root = [&](const auto& work) {
      if (!root_ || failure != nullptr) return;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    };
    on_root([&] {
      archive = std::make_unique<io::ArchiveWriter>(
          MPI_COMM_SELF, io::weights_path(settings_.word("output.file"), what), true);
      describe(*archive);
    });
    trainer.stages().for_each_stage(problem_.parameters, [&](const auto& views, const double* values) {
      on_root([&] { write_model_arrays(*archive, views, values); });
    });
    const auto optimiser = trainer.optimiser(
        settings_.flag("output.preconditioner") ? Preconditioner::kept : Preconditioner::left_out);
    on_root([&] {
      write_optimiser(*archive, optimiser);
      archive->finish(names::done);
    });
    if (failure != nullptr) std::rethrow_exception(failure);
  });
}

}  // namespace fluxformer
