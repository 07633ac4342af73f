#include "model/tasks/task.hpp"
#include "base/error.hpp"
#include "model/tasks/class_task.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer {

std::unique_ptr<Task> make_task(const Parameters& parameters, const SlabContext& context, const Loss& loss) {
  if (loss.target == LossTarget::masked_words) return std::make_unique<WordTask>(parameters, context, loss);
  return std::make_unique<ClassTask>(parameters, context, loss);
}

}  // namespace fluxformer
