#!/usr/bin/env python3
"""Figures and tables of identifiability: what is measured is drawn, with units and nulls, and tables hold the numbers of the file. Uses
synthetic files.

Status 77 as claim_sample.py says.
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

import identifiability_sample as made_up  # noqa: E402 (its folder is put on the path first; it looks for what is needed)
from identifiability_sample import NOTHING, WORDS, IdentifiabilityTest  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib import pyplot  # noqa: E402

import comparison_sample as sample  # noqa: E402
from python_package import assert_picture, call  # noqa: E402

from fluxformer.identifiability import attribution, effective, freedom, identifiability, identity, measures  # noqa: E402
from fluxformer.statistics import Effect  # noqa: E402

FIGURES = ["freedom-counts", "freedom-maps-transformer", "freedom-maps-independent", "effective-length", "identity-rates", "identity-models",
           "identity-parts", "identity-epochs", "attribution-depth", "attribution-distance", "attribution-agreement", "attribution-map"]


class Figures(IdentifiabilityTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(pyplot.close, "all")

    def comparison(self, path):
        study, = self.opened(path)
        return study.of("identifiability")

    def drawings(self, path, *sections):
        """The drawings by name (default: of all sections)."""
        study, = self.opened(path)
        return {one.name: one for draw in sections or [one.draw for one in identifiability.SECTIONS] for one in draw(study)}

    def of_panel(self, axes):
        """The lines of a panel by label."""
        return {line.get_label(): line for line in axes.lines}

    def stored(self, path, model, name):
        with h5py.File(path) as file:
            return file[f"analysis/identifiability/{model}/{name}"][...]


class WhatIsDrawn(Figures):
    def test_everything_that_was_measured(self):
        """And every axis with numbers has a label, every picture a scale."""
        found = self.drawings(self.written())
        self.assertEqual(list(found), FIGURES)
        for name, drawing in found.items():
            bars = [axes for axes in drawing.figure.axes if axes.get_label() == "<colorbar>"]
            self.assertEqual([bool(axes.get_ylabel()) for axes in bars], [True] * any(axes.images for axes in drawing.figure.axes), name)
            for axes in drawing.figure.axes:
                if axes in bars:
                    continue
                for axis, first in ((axes.xaxis, axes.get_subplotspec().is_last_row()), (axes.yaxis, axes.get_subplotspec().is_first_col())):
                    if first and any(text.get_visible() and text.get_text() for text in axis.get_ticklabels()):
                        self.assertTrue(axis.get_label_text(), f"{name}: {axes.get_title()} {axis.axis_name}")

    def test_what_was_not_measured_is_left_out(self):
        for measure, names in (("weights", FIGURES[:4]), ("identity", FIGURES[4:8]), ("attribution", FIGURES[8:])):
            path = self.written(f"{measure}.h5", measures=(measure,))
            self.assertEqual(list(self.drawings(path)), names)
            tables = [section.table(self.comparison(path)) for section in identifiability.SECTIONS]
            self.assertEqual([bool(rows) for rows in tables], [measure == "weights"] * 2 + [measure == "identity", measure == "attribution"])
        self.assertNotIn("identity-epochs", self.drawings(self.written("few.h5", **NOTHING), identity.draw_identity))

    def test_one_model_alone(self):
        for model in made_up.HEADS:
            names = [name for name in FIGURES if not name.startswith("freedom-maps") or name.endswith(model)]
            self.assertEqual(list(self.drawings(self.written(f"{model}.h5", models=(model,)))), names)

    def test_plot_writes_each_figure(self):
        done = call("plot", self.written("image.h5"), "--output", self.path("drawn"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([os.path.basename(one) for one in done.stdout.split()], [name + ".png" for name in FIGURES])
        for one in FIGURES:
            assert_picture(self, os.path.join(self.path("drawn"), one))

    def test_texts_have_the_figures_of_images(self):
        self.assertEqual(list(self.drawings(self.written("text.h5", words=WORDS))), FIGURES)

    def test_plot_refuses_files_without_measures(self):
        path = self.written("empty.h5", measures=())
        with h5py.File(path, "r+") as file:
            for model in made_up.HEADS:
                del file[f"analysis/identifiability/{model}"]
        self.assert_refused(call("plot", path, "--output", self.path("drawn")), "holds no measures of identifiability")


class Weights(Figures):
    def test_counts_begin_to_rise_at_the_rank_of_the_values(self):
        path = self.written()
        above, other, below, _ = self.drawings(path, freedom.draw_freedom)["freedom-counts"].figure.axes
        for axes, model in ((above, "transformer"), (other, "independent")):
            lines = self.of_panel(axes)
            for label, name in (("linear: any change of a row", "linear"), ("simplex: changes that keep its sum", "simplex")):
                stored = np.nanmean(self.stored(path, model, f"nullity_{name}"), axis=(0, 2, 3))
                np.testing.assert_allclose(lines[label].get_ydata(), stored)
                np.testing.assert_array_equal(lines[label].get_xdata(), made_up.LENGTHS)
            self.assertEqual(lines["n = d_v, the width of the values of a head"].get_xdata()[0], made_up.WIDTH)
        lines = [line.get_ydata() for line in above.lines if line.get_linestyle() == "-."]
        np.testing.assert_allclose(lines[0], [1, 3, 6])  # linear, of epsilon = 0.01 one more than exact
        np.testing.assert_array_equal(self.of_panel(below)["soft-max reachable: changes by another query, keys fixed"].get_ydata(), 0)
        self.assertGreater(above.get_ylim()[1], 5)

    def test_there_is_no_mark_where_no_sample_is_longer(self):
        comparison = self.comparison(self.written(value_width=made_up.TOKENS))
        self.assertIsNone(measures.value_width_of(comparison, "transformer"))

    def test_maps_of_an_image_are_the_rows_of_one_token_on_its_grid(self):
        path = self.written()
        drawing = self.drawings(path, freedom.draw_freedom)["freedom-maps-transformer"]
        panels = [axes for axes in drawing.figure.axes if axes.images]
        raw, effectively, other = (self.stored(path, "transformer", f"map_{name}")[0, 0] for name in ("raw", "effective", "alternative"))
        variation = freedom.variation(raw, other)
        np.testing.assert_allclose(variation, made_up.DISTANCE)
        for axes, values in zip(panels, (raw, effectively, other)):
            np.testing.assert_allclose(axes.images[0].get_array(), made_up.TOKENS * values[0].reshape(3, 3))
        self.assertIn(f"TV {made_up.DISTANCE:.2f}", panels[2].get_title("center"))
        self.assertIn("less than 10⁻¹⁴", drawing.sentence)  # 2e-15

    def test_maps_of_a_text_have_its_words(self):
        drawing = self.drawings(self.written(words=WORDS), freedom.draw_freedom)["freedom-maps-independent"]
        panels = [axes for axes in drawing.figure.axes if axes.images]
        words = [text.get_text() for text in panels[-1].get_xticklabels()]
        self.assertEqual((words[:4], words[4], words[5]), (list(WORDS[:4]), "averyverylo…", "□"))
        self.assertEqual(panels[0].images[0].get_array().shape, (9, 9))

    def test_effective_attention_stands_beside_its_null_in_each_layer(self):
        path = self.written()
        for axes, (model, name) in zip(self.drawings(path, effective.draw_effective)["effective-length"].figure.axes,
                                       [(model, name) for name in ("correlation", "row_sum") for model in made_up.HEADS]):
            lines = self.of_panel(axes)
            dashed = [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
            self.assertEqual(len(dashed), sample.LAYERS)
            for layer in range(sample.LAYERS):
                for line, values in ((lines[f"layer {layer + 1}"], name), (dashed[layer], f"{name}_null")):
                    np.testing.assert_allclose(line.get_ydata(), np.nanmean(self.stored(path, model, values)[:, :, layer], axis=(0, 2)))

    def test_the_tables_hold_the_numbers_of_the_file(self):
        path = self.written(spread=0.0)
        rows = {name: cells for name, *cells in freedom.freedom_table(self.comparison(path))}
        self.assertEqual(rows["Transformer, n = 9"], ["5 ± 0", "4 ± 0", "0 ± 0", "7 ± 0", "0 ± 0", "0 ± 0", "0 ± 0", "0.4000 ± 0"])
        self.assertEqual(rows["PDE, independent, n = 6"], ["2 ± 0", "1 ± 0", "0 ± 0", "–", "0 ± 0", "0 ± 0", "0 ± 0", "–"])
        head, *rows = effective.effective_table(self.comparison(path))
        self.assertNotIn("on frequent words", head)
        cells = dict(zip(head, next(row for row in rows if row[0] == "PDE, independent, n = 9")))
        self.assertEqual((cells["correlation"], cells["row sum"], cells["arg-max moves"]), ("0.8000 ± 0", "0.9000 ± 0", "0.5000 ± 0"))
        kept = next(row for row in rows if row[0] == "PDE, independent, n = 9, sums kept")
        self.assertEqual((kept[1:6]), ("0.9500 ± 0", "0.5000 ± 0", "1 ± 0", "–", "0.9000 ± 0"))

    def test_the_table_of_a_text_has_frequent_words_and_punctuation(self):
        head, *rows = effective.effective_table(self.comparison(self.written(words=WORDS, spread=0.0)))
        self.assertEqual(rows[0][head.index("on frequent words"):], ("0.3000 ± 0", "0.07500 ± 0") * 2)


class Tokens(Figures):
    def test_rates_stand_beside_chance_shuffled_tokens_and_the_untrained_model(self):
        path = self.written()
        panels = self.drawings(path, identity.draw_identity)["identity-rates"].figure.axes
        for axes, (distance, model) in zip(panels, [(distance, model) for distance in ("cosine", "l2") for model in made_up.HEADS], strict=True):
            lines = self.of_panel(axes)
            for label, name in (("the state itself", f"identity_{distance}"), ("linear map", f"linear_{distance}"),
                                ("map with a hidden layer", f"mlp_{distance}"), ("linear map, untrained model", f"linear_{distance}_untrained"),
                                ("the state itself, untrained model", f"identity_{distance}_untrained")):
                np.testing.assert_allclose(lines[label].get_ydata(), self.stored(path, model, f"rate_{name}").mean(axis=0))
            np.testing.assert_allclose(lines["chance, 11 %"].get_ydata(), self.stored(path, model, "chance").mean())
            self.assertEqual("null: tokens shuffled" in lines, distance == "cosine")
        self.assertEqual(panels[0].yaxis.get_major_formatter()(0.5, 0), "50 %")

    def test_a_map_that_was_not_fitted_has_no_line(self):
        found = self.drawings(self.written(**NOTHING), identity.draw_identity)
        for name in ("identity-rates", "identity-models", "identity-parts"):
            for axes in found[name].figure.axes:
                self.assertNotIn("hidden", " ".join([*self.of_panel(axes), axes.get_title("left")]), name)

    def test_models_stand_side_by_side(self):
        path = self.written()
        *panels, nearest = self.drawings(path, identity.draw_identity)["identity-models"].figure.axes
        for axes, name in zip(panels, ("identity", "linear", "mlp"), strict=True):
            for label, model in (("Transformer", "transformer"), ("PDE, independent", "independent")):
                np.testing.assert_allclose(self.of_panel(axes)[label].get_ydata(), self.stored(path, model, f"rate_{name}_cosine").mean(axis=0))
        self.assertEqual(nearest.get_ylabel(), "‖uᵢ − uⱼ‖ / rms ‖u‖")

    def test_epochs_are_drawn_one_by_one(self):
        path = self.written()
        first = self.drawings(path, identity.draw_identity)["identity-epochs"].figure.axes[0]
        for k, epoch in enumerate(sample.EPOCHS):
            np.testing.assert_allclose(self.of_panel(first)[f"epoch {epoch}"].get_ydata(),
                                       self.stored(path, "transformer", "epoch_rate_identity_cosine")[:, k].mean(axis=0))

    def test_the_table_has_rates_at_layer_ends_and_differences_with_intervals(self):
        path = self.written(spread=0.05)
        head, *rows = identity.identity_table(self.comparison(path))
        self.assertEqual(head, ("found  [%]", "by chance", "s = 0", "s = 1", "s = 2", "s = 3"))
        rows = {name: cells for name, *cells in rows}
        mine, theirs = (self.stored(path, model, "rate_linear_cosine") for model in ("independent", "transformer"))
        self.assertEqual(rows["PDE, independent: linear map, angle"][-1], measures.cell(100 * mine[:, -1]))
        difference = Effect(100 * (mine[:, 2] - theirs[:, 1]))
        low, high = difference.interval()
        text = f"{difference.mean:+.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")
        self.assertEqual(rows["PDE, independent − Transformer: linear map, angle"][2], text)
        alone = identity.identity_table(self.comparison(self.written("alone.h5", models=("independent",))))
        self.assertEqual((len(alone[0]), any("−" in name for name, *_ in alone)), (6, False))


class Contributions(Figures):
    def test_shares_by_depth_have_quartiles_and_distance(self):
        path = self.written()
        own, largest, half = self.drawings(path, attribution.draw_attribution)["attribution-depth"].figure.axes
        for axes, name in ((own, "own_share"), (largest, "own_largest"), (half, "half_distance")):
            np.testing.assert_allclose(self.of_panel(axes)["PDE, independent"].get_ydata(), self.stored(path, "independent", name).mean(axis=0))
        edge = own.collections[0].get_paths()[0].vertices[:, 1]
        for name, found in (("lower", edge.min()), ("upper", edge.max())):
            values = self.stored(path, "transformer", f"own_share_{name}").mean(axis=0)
            self.assertAlmostEqual(found, values.min() if name == "lower" else values.max(), 12)

    def test_groups_of_distances_are_named(self):
        path = self.written()
        panels = self.drawings(path, attribution.draw_attribution)["attribution-distance"].figure.axes
        self.assertEqual([text.get_text() for text in panels[-1].get_xticklabels()], ["0", "1", "2", "3", "4–5", "6–10", "11+"])
        for axes, name in ((panels[0], "contribution_by_distance"), (panels[2], "contribution_by_pair")):
            np.testing.assert_allclose(self.of_panel(axes)["s = 3"].get_ydata(), self.stored(path, "transformer", name)[:, -1].mean(axis=0))

    def test_accounts_stand_by_layer_above_the_control(self):
        path = self.written(spread=0.0)
        for axes, factor in zip(self.drawings(path, attribution.draw_attribution)["attribution-agreement"].figure.axes, ("", "_times_moved")):
            shown = axes.images[0].get_array()
            self.assertEqual(shown.shape, (7, sample.LAYERS))  # six accounts and the control
            np.testing.assert_allclose(shown[-2], self.stored(path, "transformer", f"agreement_contributions{factor}")[0])
            np.testing.assert_allclose(shown[-1], 0.5)
            bold = {text.get_text() for text in axes.texts if text.get_fontweight() == "bold"}
            self.assertEqual(bold, {"0.80"})  # more than the control
        few = self.drawings(self.written("few.h5", **NOTHING), attribution.draw_attribution)["attribution-agreement"].figure.axes[0]
        self.assertNotIn("attention flow", [text.get_text() for text in few.get_yticklabels()])
        rows = {name: cells for name, *cells in attribution.attribution_table(self.comparison(path))}
        self.assertEqual(rows["Transformer: Hidden Token Attribution"], ["0.8000 ± 0", "0.8000 ± 0 (layer 1)", "0.8000 ± 0", "0.8000 ± 0"] * 2)
        self.assertEqual(rows[f"Transformer: {attribution.CONTROL}"][2], "0.5000 ± 0")

    def test_the_map_is_of_the_token_that_matters_most(self):
        path = self.written()
        drawing = self.drawings(path, attribution.draw_attribution)["attribution-map"]
        panels = [axes for axes in drawing.figure.axes if axes.images]
        self.assertIn("token 7 (outlined)", drawing.sentence)
        np.testing.assert_allclose(panels[3].images[0].get_array(), self.stored(path, "transformer", "contribution_map")[0, -1, :, 6].reshape(3, 3))
        path = self.written("text.h5", words=WORDS)
        panels = [axes for axes in self.drawings(path, attribution.draw_attribution)["attribution-map"].figure.axes if axes.images]
        self.assertEqual([text.get_text() for text in panels[-1].get_xticklabels()][6], "mat")
        np.testing.assert_allclose(panels[0].images[0].get_array(), self.stored(path, "transformer", "contribution_map")[0, :, :, 6])


if __name__ == "__main__":
    unittest.main()
