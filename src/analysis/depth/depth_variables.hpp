#pragma once

// Variables of models on finer and finer depth cells in output files (refinement.hpp).

#include "io/axes.hpp"

namespace fluxformer::depth::variables {

inline const io::Variable multiple = io::coordinate("multiple", "", "depth cells over those of the model"),
                          goal = io::coordinate("goal", "", "the goal: 1 loss, 2 logit, 3 margin, 4 norm");
inline const io::Variable cell{
    "<model>_cell", {"<model>_cell"}, "", "depth cell, counted from the input", true},
    edge{"<model>_edge", {"<model>_edge"}, "", "edge of the cells placed anew, counted from the input", true};
inline const io::Attribute goal_names{"goal_names", "goals in words, one a line"},
    weights{"weights", "derivatives in the indicators: coarse, mean or exact"},
    adapt{"adapt", "how cells are placed anew: none, bisect or equidistribute"},
    method{"method", "march of the model, as adjoint.method of its training; 1fe: by layer maps"};

inline const io::Variable goal_value{"goal_value", {"goal", "multiple"}, "", "goal, mean over samples"},
    accuracy{"accuracy", {"multiple"}, "", "fraction of the samples classified correctly"},
    state_distance{
        "state_distance",
        {"multiple"},
        "",
        "distance of the last state from that on the model's cells, over what these do to the state; "
        "mean over samples"},
    logit_distance{
        "logit_distance",
        {"multiple"},
        "",
        "distance of the logits from those on the model's cells, over their size; mean over samples"},
    order{"order",
          {"goal"},
          "",
          "order of convergence of the goal observed on the last three meshes; NaN: none"},
    asymptotic{"asymptotic", {"goal"}, "", "1 if that is the order of the method within a quarter, else 0"},
    limit{"limit", {"goal"}, "", "goal in the limit of fine cells; NaN if not asymptotic"},
    distance{"distance",
             {"goal"},
             "",
             "largest change of the goal from the model's cells to finer ones and to the limit; if not "
             "asymptotic, with an estimate of what may still come: the rest of a geometric series with the "
             "ratio of the last two differences, at most ten times the last"},
    within_tolerance{
        "within_tolerance",
        {"goal"},
        "",
        "1 if that distance is below refinement.tolerance; 0 if a change that was seen is not; NaN "
        "if that depends on the estimate"},
    indicator{"indicator",
              {"goal", "<model>_cell"},
              "",
              "contribution of a cell to the change of the goal from half its length, mean over samples"},
    indicator_abs{
        "indicator_abs", {"goal", "<model>_cell"}, "", "size of that contribution, mean over samples"},
    estimate{"estimate",
             {"goal"},
             "",
             "estimate of the error of the goal on the model's cells: the sum of the indicators times "
             "2^p / (2^p - 1), p the order of the method"},
    effectivity{
        "effectivity", {"goal"}, "", "that estimate over the error, goal - limit; NaN if not asymptotic"},
    change_effectivity{"change_effectivity",
                       {"goal"},
                       "",
                       "sum of the indicators over the change of the goal from half the length"},
    gain{
        "gain",
        {"goal"},
        "",
        "factor by which cells placed best lower the sum of the sizes of the indicators, at the same number"},
    curvature{
        "curvature",
        {},
        "",
        "change of the step of the states from cell to cell over its size, between 0 (a line) and 1; mean"},
    cosine{"cosine", {}, "", "cosine of consecutive steps of the states, mean"},
    straightness{"straightness", {}, "", "distance of the last state from the first over the path; mean"},
    adapted_value{"adapted_value",
                  {"goal", "multiple"},
                  "",
                  "goal on as many cells placed anew; NaN beyond refinement.target"},
    adapted_accuracy{
        "adapted_accuracy", {"multiple"}, "", "fraction of the samples classified correctly there"},
    edges{"edges", {"<model>_edge"}, "layers", "edges of the most cells placed anew"},
    goal_by_sample = io::by_sample(goal_value, {"goal", "multiple"}, "goal of each sample"),
    indicator_by_sample = io::by_sample(indicator, {"goal", "<model>_cell"},
                                        "contribution of a cell for each sample: its sum over the cells "
                                        "estimates the change of goal_value_by_sample");

}  // namespace fluxformer::depth::variables
