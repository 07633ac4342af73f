#pragma once

// Variables of the experiment `influence`, in /analysis/influence/<model>, over seeds. Training samples are
// numbered in an order that the training of the model decides, and that differs between seeds; train_index is their
// place in the split. With influence.solver = head, losses, gradients and answers are those of the last linear map after
// its refit, and the only damping is 0: the ridge is part of the objective. What was not computed is not in the file.

#include "io/axes.hpp"
#include "io/variable.hpp"

namespace fluxformer::influence::variables {

inline const io::Variable
    train_sample =
        io::index("train_sample", "training sample, numbered from 0; train_index is its place in the split"),
    test_sample = io::index("test_sample", "index in the test split of a sample whose loss is explained"),
    damping = io::coordinate("damping", "", "damping over the largest eigenvalue of the curvature; 0: none"),
    curvature = io::index("curvature", "number of the curvature, in the order of curvature_names"),
    retrained_sample =
        io::index("retrained_sample", "training sample, numbered as train_sample, that is left out"),
    removed = io::index("removed", "number of training samples that are left out together"),
    score = io::index("score", "number of the score, in the order of score_names"),
    suspect = io::index("suspect", "place among the training samples of the largest self-influence, from 1");

inline const io::Attribute solver{"solver", "head, gram or krylov"},
    removal{"removal", "first or newton: account of change_without (solver head)"},
    influence_parameters{"influence_parameters", "variables of the influence: all, or kinds of blocks"},
    curvature_names{"curvature_names",
                    "curvatures that are compared, one a line; truncated_K: the K largest eigenvalues"},
    score_names{"score_names", "scores by which wrong labels are looked for, one a line"};

// The training samples.
inline const io::Variable train_index{
    "train_index", {"train_sample"}, "", "index of the sample in the training split", true},
    label{"label", {"train_sample"}, "", "label that the sample was trained with", true},
    right_label{"right_label", {"train_sample"}, "", "label before a wrong one was planted", true},
    wrong{"wrong", {"train_sample"}, "", "1 where a wrong label was planted, else 0", true},
    loss{"loss", {"train_sample"}, "nats", "loss of the sample"},
    correct{"correct",
            {"train_sample"},
            "",
            "1 where the model answers with the label of the training, else 0; of words their share"},
    gradient_norm{"gradient_norm", {"train_sample"}, "", "norm of the gradient of its loss"};

// The test samples.
inline const io::Variable test_label{"test_label", {"test_sample"}, "", "label of the sample", true},
    test_loss{"test_loss", {"test_sample"}, "nats", "loss of the sample"};

// Influence.
inline const io::Variable influence{"influence",
                                    {"damping", "test_sample", "train_sample"},
                                    "nats",
                                    "I = -g_t (C + d)^-1 g_i: slope of the loss of the test sample in the "
                                    "weight of the training sample; above 0: it "
                                    "harms"},
    mean_influence{"mean_influence",
                   {"damping", "train_sample"},
                   "nats",
                   "influence on the mean loss of all test samples of samples.count"},
    self_influence{"self_influence",
                   {"damping", "train_sample"},
                   "nats",
                   "g_i (C + d)^-1 g_i: -I of the sample on itself (solvers head and gram)"},
    change_without{"change_without",
                   {"test_sample", "train_sample"},
                   "nats",
                   "change of the loss of the test sample without the training sample, by the account of "
                   "influence.removal (solver "
                   "head)"};

// The point at which it is taken, and the solves.
inline const io::Variable objective_gradient_norm{
    "objective_gradient_norm",
    {},
    "",
    "norm of the gradient of the objective over these samples; 0 at a minimum, where influence is defined"},
    largest_eigenvalue{"largest_eigenvalue",
                       {},
                       "",
                       "largest eigenvalue of the curvature over these variables: the unit of damping"},
    smallest_eigenvalue{"smallest_eigenvalue",
                        {},
                        "",
                        "smallest eigenvalue of the Hessian over these variables, below 0 away from minima "
                        "(solver krylov, curvature hessian)"},
    negative_share{"negative_share",
                   {},
                   "",
                   "share of negative eigenvalues of the Hessian over these variables, estimated by Lanczos "
                   "(solvers gram and krylov)"},
    products{"products",
             {"damping", "test_sample"},
             "",
             "products with the curvature for a solve (solver krylov)",
             true},
    residual{"residual",
             {"damping", "test_sample"},
             "",
             "true residual |g - (C + d) x| / |g| of that solve (solver krylov)"};

// One sample left out, by training again (solver head).
inline const io::Variable retrained{
    "retrained",
    {"test_sample", "retrained_sample"},
    "nats",
    "change of the loss of the test sample by training again without the training sample"},
    change_first{"change_first",
                 {"test_sample", "retrained_sample"},
                 "nats",
                 "the same to first order: -I/N of N training samples"},
    change_newton{"change_newton",
                  {"test_sample", "retrained_sample"},
                  "nats",
                  "the same by one Newton step with the curvature of the sample taken away"},
    first_spearman{"first_spearman", {}, "", "rank correlation of change_first with training again"},
    first_pearson{"first_pearson", {}, "", "correlation of change_first with training again"},
    first_relative_error{
        "first_relative_error", {}, "", "norm of the error of change_first over that of training again"},
    first_top_share{
        "first_top_share", {}, "", "share of the 10 largest changes that are among those of change_first"},
    newton_spearman{"newton_spearman", {}, "", "rank correlation of change_newton with training again"},
    newton_pearson{"newton_pearson", {}, "", "correlation of change_newton with training again"},
    newton_relative_error{
        "newton_relative_error", {}, "", "norm of the error of change_newton over that of training again"},
    newton_top_share{
        "newton_top_share", {}, "", "share of the 10 largest changes that are among those of change_newton"};

// Several samples left out together (solver head).
inline const io::Variable set_first_relative_error{
    "set_first_relative_error",
    {"removed"},
    "",
    "norm of the error of first order over that of training again without so many random samples"},
    set_newton_relative_error{"set_newton_relative_error", {"removed"}, "", "the same of one Newton step"};

// Cheaper curvatures.
inline const io::Variable curvature_relative_error{
    "curvature_relative_error",
    {"curvature"},
    "",
    "norm of the error of influence by this curvature over that of the exact influence (solver head)"},
    curvature_spearman{
        "curvature_spearman",
        {"curvature"},
        "",
        "rank correlation of influence by this curvature, sign turned, with training again (solver head)"},
    damped_relative_error{
        "damped_relative_error",
        {"damping", "curvature"},
        "",
        "norm of the error of influence by this curvature over that of the Gauss-Newton part (solver gram)"},
    damped_spearman{
        "damped_spearman",
        {"damping", "curvature"},
        "",
        "rank correlation of influence by this curvature with that by the Gauss-Newton part (solver gram)"};

// Planted wrong labels. Precision: the share of wrong labels among the samples of the largest score, as many as were planted.
inline const io::Variable planted{"planted", {}, "", "training samples with a planted wrong label", true},
    precision{"precision",
              {"score"},
              "",
              "share of wrong labels among the samples of the largest score, as many as were planted; of "
              "scores with a damping "
              "by the first one"},
    random_precision{
        "random_precision", {}, "", "the same of a random order: the share of samples with a wrong label"},
    self_influence_precision{
        "self_influence_precision", {"damping"}, "", "precision of self-influence by damping"},
    mean_influence_precision{
        "mean_influence_precision", {"damping"}, "", "precision of the mean influence by damping"},
    epoch_loss_precision{"epoch_loss_precision",
                         {"copied_epoch"},
                         "",
                         "precision of the loss after that epoch of the training"},
    fitted_wrong{"fitted_wrong",
                 {},
                 "",
                 "share of the samples with a wrong label that the model answers with that label"},
    fitted_right{"fitted_right",
                 {},
                 "",
                 "share of the other training samples that the model answers with their label"};

// The samples of the largest self-influence.
inline const io::Variable suspect_sample{
    "suspect_sample", {"suspect"}, "", "training sample, numbered as train_sample", true},
    suspect_features{
        "suspect_features", {"suspect", "token", "feature"}, "", "numbers of its tokens in the data"};

}  // namespace fluxformer::influence::variables
