#pragma once

// Variables of layers left out of models in output files (removal.hpp).

#include "io/axes.hpp"

namespace fluxformer::depth::removal_variables {

inline const io::Variable rule = io::index("rule", "number of the rule, in the order of rule_names"),
                          layer{"<model>_layer",
                                {"<model>_layer"},
                                "",
                                "layer, or depth cell of a PDE model, counted from the input",
                                true},
                          kept_layers{"<model>_kept", {"<model>_kept"}, "", "number of layers kept", true};
inline const io::Attribute rule_names{"rule_names", "rules in words, one a line"},
    calibration{"calibration", "samples of the scores; 0: those of the losses"};

inline const io::Variable score{
    "score",
    {"rule", "<model>_layer"},
    "",
    "score by which layers are left out, the least first; NaN: the rule has none"},
    removal_order{"removal_order",
                  {"rule", "<model>_layer"},
                  "",
                  "place of the layer in the order in which layers go, from 1; NaN: no single order"},
    loss{"loss",
         {"rule", "<model>_kept"},
         "",
         "mean loss with so many layers kept; of random, the mean over orders"},
    accuracy{"accuracy",
             {"rule", "<model>_kept"},
             "",
             "fraction of the samples classified, or of the words guessed, correctly"},
    regret{
        "regret",
        {"rule"},
        "",
        "loss above that of the best subset, mean over 1 to S - 1 layers kept; NaN: subsets were not tried"},
    best_loss{"best_loss", {"<model>_kept"}, "", "mean loss of the best subset of so many layers"},
    best_accuracy{"best_accuracy", {"<model>_kept"}, "", "accuracy of that subset"},
    best_layers{"best_layers",
                {"<model>_kept", "<model>_layer"},
                "",
                "1 if the best subset of so many layers has this layer, else 0"};

}  // namespace fluxformer::depth::removal_variables
