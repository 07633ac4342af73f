#pragma once

// What pruning stores: /analysis/paths/network/... over seeds.

#include "io/axes.hpp"

namespace fluxformer::paths::variables {

inline const io::Variable silenced = io::index("silenced", "heads that are silenced, without training again"),
                          pruning_order = io::index("pruning_order",
                                                    "order in which heads are silenced, by `pruning_orders`"),
                          pruning_rule = io::index(
                              "pruning_rule", "rule that tells what a head is worth, by `pruning_rules`");

inline const io::Variable pruned_accuracy{
    "pruned_accuracy",
    {"pruning_order", "silenced"},
    "",
    "share of test examples that are right; NaN: no head left in a layer"},
    rule_score{"rule_score",
               {"pruning_rule", "layer", "head"},
               "",
               "score of each head over the largest in absolute value; NaN beyond a layer's heads"};

/// Means over one, two, ... silenced heads, up to half of all, where neither order has emptied a layer; NaN: nowhere.
inline const io::Variable loss_by_theory{
    "loss_by_theory", {}, "", "accuracy lost by silencing heads in the rising order of the theory's scores"},
    gain_over_random{
        "gain_over_random", {}, "", "what random orders lose, in the mean, less what the theory's loses"},
    gain_over_falling{
        "gain_over_falling", {}, "", "what the falling order loses, less what the rising one loses"},
    gain_over_entropy{
        "gain_over_entropy", {}, "", "what the order by entropy loses, less what the theory's loses"},
    gain_over_first_order{"gain_over_first_order",
                          {},
                          "",
                          "what the order by first-order sensitivity loses, less what the theory's loses"};

inline const io::Attribute pruning_orders{"pruning_orders", "names of the orders, a line each"},
    pruning_rules{"pruning_rules", "names of the rules, a line each"},
    pruning_width{"pruning_width", "width N of the theory whose scores are used"},
    pruning_temperature{"pruning_temperature", "its temperature T"};

}  // namespace fluxformer::paths::variables
